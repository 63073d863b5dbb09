//! `read_file`: a piece of one text file in the persona's folder.

use crate::domain::sha256_hex;
use crate::mime;
use crate::tools::contract::*;
use crate::tools::files::folder::{cannot_use, label_of, on_disk, open_for, shown};
use cap_std::fs_utf8::Dir;
use std::io::Read;

/// Reads a text file in your folder. If `truncated` is true, call again with `offset` = `next_offset`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFile {
    /// Such as `knowledge/rooms.md`.
    path: String,
    #[schemars(with = "Option<i64>")]
    offset: Option<f64>,
    #[schemars(with = "Option<i64>")]
    max_bytes: Option<f64>,
}

impl TypedTool for ReadFile {
    const NAME: &str = "read_file";
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(files);

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let (limits, reader) = (call.limits.clone(), call.reader);
        let (result, label) = on_disk(call.env.files()?, move |folder| {
            let piece = read_piece(folder, &self, &limits, reader)?;
            let text = piece["content"].as_str().unwrap_or_default();
            let label = label_of(folder, &self.path, text);
            Ok((piece, label))
        })
        .await?;
        Ok(ToolOutcome::labelled(result, label))
    }
}

/// Reads a piece of a file's text. The whole is read for it: a piece alone does not show that it is
/// no text.
fn read_piece(
    folder: &Dir,
    args: &ReadFile,
    limits: &ToolLimits,
    reader: Reader,
) -> Result<Value, ToolError> {
    let path = shown(&args.path);
    let (file, size) = open_for(folder, &args.path, reader)?;
    let bytes_max = limits.file_bytes_max as u64;
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    let read = file
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes);
    read.map_err(cannot_use(&args.path))?;
    if size > bytes_max || bytes.len() as u64 > bytes_max {
        let size = size.max(bytes.len() as u64);
        return refuse(
            "file_too_large",
            format!("`{path}` has {size} bytes; files up to {bytes_max} bytes can be read"),
        );
    }
    let text = mime::file_text(&bytes).map_err(|not_text| {
        ToolError::mendable(
            "binary_file",
            format!("`{path}` cannot be read here: {not_text}; send_email can attach it as it is"),
        )
    })?;
    let piece_bytes_max =
        count(args.max_bytes, limits.result_bytes_max).min(limits.result_bytes_max);
    let offset = count(args.offset, 0);
    let sha256 = sha256_hex(&[bytes.as_slice()]);
    Ok(fitting_piece(
        &text.text,
        offset,
        piece_bytes_max,
        limits.result_bytes_max,
        |piece| {
            json!({
                "path": path,
                "size_bytes": piece.size_bytes,
                "sha256": sha256,
                "offset": piece.offset,
                "content": piece.content,
                "truncated": piece.next_offset.is_some(),
                "next_offset": piece.next_offset,
            })
        },
    ))
}
