//! `read_file`: a piece of one text file in the persona's folder.

use crate::domain::sha256_hex;
use crate::mime;
use crate::tools::contract::arguments::{count, read_args};
use crate::tools::contract::piece::fitting_piece;
use crate::tools::files::folder::{label_of, on_disk, open_for, path_error, shown};
use crate::tools::{
    Effects, Reader, ResultWords, Tool, ToolCall, ToolCapabilities, ToolClass, ToolDeclaration,
    ToolError, ToolLimits, ToolOutcome, arguments_schema,
};
use cap_std::fs_utf8::Dir;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Read;

/// Text that the model reads.
const DESCRIPTION: &str = "Reads a text file in your folder. If `truncated` is true, call again with `offset` = \
         `next_offset`.";

pub struct ReadFile;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFileArgs {
    /// Such as `knowledge/rooms.md`.
    path: String,
    #[schemars(with = "Option<i64>")]
    offset: Option<f64>,
    #[schemars(with = "Option<i64>")]
    max_bytes: Option<f64>,
}

impl Tool for ReadFile {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: "read_file".to_owned(),
            description: DESCRIPTION.to_owned(),
            input_schema: arguments_schema::<ReadFileArgs>(),
            class: ToolClass::Repeatable,
            effects: Effects::NONE,
            result_words: ResultWords::Engine,
            capabilities: ToolCapabilities {
                files: true,
                ..ToolCapabilities::NONE
            },
        }
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let args: ReadFileArgs = read_args(call.args)?;
            let (limits, reader) = (call.limits.clone(), call.reader);
            let (result, label) = on_disk(call.env.files()?, move |folder| {
                let piece = read_piece(folder, &args, &limits, reader)?;
                let text = piece["content"].as_str().unwrap_or_default();
                let label = label_of(folder, &args.path, text);
                Ok((piece, label))
            })
            .await?;
            Ok(ToolOutcome {
                result,
                label,
                ..ToolOutcome::default()
            })
        })
    }
}

/// Reads a piece of a file's text. The whole is read for it: a piece alone does not show that it is
/// no text.
fn read_piece(
    folder: &Dir,
    args: &ReadFileArgs,
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
    read.map_err(|error| path_error(&args.path, &error))?;
    if size > bytes_max || bytes.len() as u64 > bytes_max {
        let size = size.max(bytes.len() as u64);
        let hint = format!("`{path}` has {size} bytes; files up to {bytes_max} bytes can be read");
        return Err(ToolError::mendable("file_too_large", hint));
    }
    let text = mime::file_text(&bytes).map_err(|not_text| {
        let hint =
            format!("`{path}` cannot be read here: {not_text}; send_email can attach it as it is");
        ToolError::mendable("binary_file", hint)
    })?;
    let piece_bytes_max =
        count(args.max_bytes, limits.result_bytes_max).min(limits.result_bytes_max);
    let piece = (count(args.offset, 0), piece_bytes_max);
    let sha256 = sha256_hex(&[bytes.as_slice()]);
    Ok(fitting_piece(
        &text.text,
        piece,
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
