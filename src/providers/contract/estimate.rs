//! Token estimates for adapters whose vendor does not count them, or counts them too late. Pure.

use crate::providers::contract::content::IMAGE_TOKENS;
use crate::providers::contract::message::{Block, ToolArgs};
use serde_json::Value;

/// Returns an estimate that is rather too high: 3.5 ASCII characters a token, and a token for every
/// other character, because most scripts but Latin are split into pieces that small.
pub fn tokens(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = text.chars().count() as u64 - ascii;
    (ascii * 2).div_ceil(7) + others
}

/// Bytes of base64 of a page of a PDF file, as scanners make it: about 150 kB.
const PAGE_BASE64_BYTES: usize = 200_000;

/// Estimates the input tokens of an encoded request of any vendor. An image counts as one, and not
/// as the text that its base64 is; a PDF file as an image for each of its pages, by its size.
pub fn request(encoded: &str) -> u64 {
    const MARKS: [&str; 3] = [r#""data":""#, ";base64,", r#""images":[""#];
    // Both begin a PDF file: `%PDF-`, as every vendor but OpenAI is sent it, and its data URL.
    const PDF: [&str; 2] = ["JVBERi", "data:application/pdf;base64,"];
    let text = tokens(encoded);
    if !MARKS.iter().any(|mark| encoded.contains(mark)) {
        return text;
    }
    let body: Value = serde_json::from_str(encoded).unwrap_or_default();
    let mut images = Vec::new();
    collect_images(&body, &mut images);
    let base64: u64 = images.iter().map(|data| tokens(data)).sum();
    let pictures = |data: &&str| match PDF.iter().any(|begin| data.starts_with(begin)) {
        true => data.len().div_ceil(PAGE_BASE64_BYTES),
        false => 1,
    };
    let count = images.iter().map(pictures).sum::<usize>();
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    text.saturating_sub(base64)
        .saturating_add(count.saturating_mul(u64::from(IMAGE_TOKENS)))
}

/// Collects the base64 texts of a body: `source` of Anthropic, `image_url` of OpenAI,
/// `file_data` of its files, `inlineData` of Gemini, `images` of Ollama.
fn collect_images<'a>(value: &'a Value, images: &mut Vec<&'a str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_images(item, images)),
        Value::Object(members) => {
            for (name, member) in members {
                let text = |key: &str| member.get(key).and_then(Value::as_str);
                match (name.as_str(), member) {
                    ("source" | "inlineData", _) => images.extend(text("data")),
                    // The Responses API has the URL itself there.
                    ("image_url" | "file_data", Value::String(url)) => images.push(url),
                    ("image_url", _) => images.extend(text("url")),
                    ("images", Value::Array(items)) => {
                        images.extend(items.iter().filter_map(Value::as_str));
                    }
                    _ => collect_images(member, images),
                }
            }
        }
        _ => {}
    }
}

/// Estimates the output tokens of an answer.
pub fn answer(blocks: &[Block]) -> u64 {
    let of_block = |block: &Block| match block {
        Block::Text { text } | Block::Thinking { text, .. } => tokens(text),
        Block::ToolCall {
            name,
            args: ToolArgs::Object(map),
            ..
        } => {
            tokens(name)
                + map
                    .iter()
                    .map(|(key, value)| tokens(key) + tokens(&value.to_string()))
                    .sum::<u64>()
        }
        Block::ToolCall {
            name,
            args: ToolArgs::Malformed { raw, .. },
            ..
        } => tokens(name) + tokens(raw),
        Block::ToolResult { content, .. } => tokens(content),
        Block::Image(_) => u64::from(IMAGE_TOKENS),
        Block::Pdf(pdf) => u64::from(pdf.tokens),
        Block::FileReference(file) => tokens(&file.name) + tokens(&file.media_type),
    };
    blocks.iter().map(of_block).sum()
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn estimates_round_up_and_count_other_scripts_by_the_character() {
        assert_eq!(
            (
                tokens(""),
                tokens("a"),
                tokens("sevenseven, fourteen"),
                tokens("日本語")
            ),
            (0, 1, 6, 3)
        );
    }
}
