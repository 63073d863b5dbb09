//! `read_file`: a piece of one text file in the persona's folder.

use crate::mime;
use crate::tools::contract::arguments::{count, read_args};
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

/// Shortest piece in bytes, so that every piece holds at least one whole character.
const PIECE_BYTES_MIN: usize = 4;

/// Text that the model reads.
const DESCRIPTION: &str = "Reads a text file in your own folder. A long file comes in pieces: when `truncated` is true, call again \
         with `offset` set to `next_offset`.";

pub struct ReadFile;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFileArgs {
    /// Relative to your own folder, e.g. `knowledge/rooms.md`.
    path: String,
    /// First byte to read. Default: 0.
    #[schemars(with = "Option<i64>")]
    offset: Option<f64>,
    /// Longest piece to return.
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
    let piece = (count(args.offset, 0), piece_bytes_max.max(PIECE_BYTES_MIN));
    Ok(fitting_piece(
        &path,
        &text.text,
        piece,
        limits.result_bytes_max,
    ))
}

/// Returns the longest whole characters from `offset` on whose answer fits; escaping can make JSON
/// six times as long as the text.
fn fitting_piece(
    path: &str,
    text: &str,
    (offset, mut length): (usize, usize),
    result_bytes_max: usize,
) -> Value {
    let offset = text.floor_char_boundary(offset);
    loop {
        let next = text.floor_char_boundary(offset.saturating_add(length));
        let is_whole = next == text.len();
        let answer = json!({
            "path": path,
            "size_bytes": text.len(),
            "offset": offset,
            "content": &text[offset..next],
            "truncated": !is_whole,
            "next_offset": (!is_whole).then_some(next),
        });
        if length <= PIECE_BYTES_MIN || answer.to_string().len() <= result_bytes_max {
            return answer;
        }
        length = (length / 2).max(PIECE_BYTES_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_between_characters_and_join_to_the_whole() {
        let text = "für 10 € \u{1}\u{1}\u{1} – 🙂🙂".repeat(9);
        for bytes_max in 4..40 {
            let (mut offset, mut joined) = (0, String::new());
            loop {
                let piece = fitting_piece("a", &text, (offset, bytes_max), 160);
                joined.push_str(piece["content"].as_str().unwrap_or_default());
                match piece["next_offset"].as_u64() {
                    Some(next) => offset = next as usize,
                    None => break,
                }
            }
            assert_eq!(joined, text, "{bytes_max}");
        }
    }
}
