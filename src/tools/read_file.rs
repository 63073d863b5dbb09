//! `read_file`: a piece of one text file in the persona's folder.

use super::arguments::{count, read_args};
use super::folder::{on_disk, open_regular, path_error, shown};
use super::{Tool, ToolCall, ToolClass, ToolError, ToolLimits, ToolOutcome};
use cap_std::fs_utf8::Dir;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{Read, Seek, SeekFrom};

/// A piece is never shorter, so that every piece holds at least one whole character.
const PIECE_BYTES_MIN: usize = 4;

pub struct ReadFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    path: String,
    offset: Option<f64>,
    max_bytes: Option<f64>,
}

impl Tool for ReadFile {
    fn name(&self) -> &'static str {
        "read_file"
    }

    fn description(&self) -> &'static str {
        "Reads a text file in your own folder. A long file comes in pieces: when `truncated` is true, call again \
         with `offset` set to `next_offset`."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "Relative to your own folder, e.g. `knowledge/rooms.md`."
                },
                "offset": { "type": "integer", "description": "First byte to read. Default: 0." },
                "max_bytes": { "type": "integer", "description": "Longest piece to return." }
            },
            "required": ["path"],
            "additionalProperties": false
        })
    }

    fn class(&self) -> ToolClass {
        ToolClass::Repeatable
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let args: Args = read_args(call.args)?;
            let limits = call.limits.clone();
            let result = on_disk(call.folder, move |folder| read_piece(folder, &args, &limits)).await?;
            Ok(ToolOutcome { result, mail: None })
        })
    }
}

fn read_piece(folder: &Dir, args: &Args, limits: &ToolLimits) -> Result<Value, ToolError> {
    let path = shown(&args.path);
    let (mut file, size) = open_regular(folder, &args.path)?;
    if size > limits.file_bytes_max as u64 {
        let hint =
            format!("`{path}` has {size} bytes; files up to {} bytes can be read", limits.file_bytes_max);
        return Err(ToolError::mendable("file_too_large", hint));
    }
    let offset = count(args.offset, 0).min(limits.file_bytes_max);
    let bytes_max = count(args.max_bytes, limits.result_bytes_max).min(limits.result_bytes_max);
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(offset as u64)).and_then(|_| {
        let piece_bytes = bytes_max.max(PIECE_BYTES_MIN) as u64;
        file.take(piece_bytes).read_to_end(&mut bytes)
    });
    read.map_err(|error| path_error(&args.path, &error))?;
    if bytes.contains(&0) {
        let hint = format!("`{path}` is not a text file; send_email can attach it");
        return Err(ToolError::mendable("binary_file", hint));
    }
    Ok(fitting_piece(&path, size, offset, &bytes, limits.result_bytes_max))
}

/// The longest whole characters of `bytes` whose answer fits; escaping can make JSON six times as long as the text.
fn fitting_piece(path: &str, size: u64, offset: usize, bytes: &[u8], result_bytes_max: usize) -> Value {
    let mut length = bytes.len();
    loop {
        let end = offset as u64 + length as u64;
        let whole = if end < size { whole_characters(&bytes[..length]) } else { length };
        let next = offset + whole;
        let truncated = (next as u64) < size;
        let answer = json!({
            "path": path,
            "size_bytes": size,
            "offset": offset,
            "content": String::from_utf8_lossy(&bytes[..whole]),
            "truncated": truncated,
            "next_offset": truncated.then_some(next),
        });
        if length <= PIECE_BYTES_MIN || answer.to_string().len() <= result_bytes_max {
            return answer;
        }
        length = (length / 2).max(PIECE_BYTES_MIN);
    }
}

/// How many bytes remain when a character that is cut at the end is left for the next piece.
fn whole_characters(bytes: &[u8]) -> usize {
    let cut = bytes
        .iter()
        .rev()
        .take(3)
        .position(|byte| *byte >= 0xC0)
        .map_or(bytes.len(), |i| bytes.len() - 1 - i);
    match std::str::from_utf8(&bytes[cut..]) {
        // `error_len` is `None` exactly when more bytes could complete the character.
        Err(error) if error.error_len().is_none() && cut > 0 => cut,
        _ => bytes.len(),
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
                let end = text.len().min(offset + bytes_max);
                let piece = fitting_piece("a", text.len() as u64, offset, &text.as_bytes()[offset..end], 160);
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
