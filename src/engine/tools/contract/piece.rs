//! Pieces of a long text: as much of it as one answer may hold.

use serde_json::Value;

/// Shortest piece in bytes, so that every piece holds at least one whole character.
const PIECE_BYTES_MIN: usize = 4;

/// Whole characters of a text.
#[derive(Debug, Clone, Copy)]
pub struct TextPiece<'t> {
    pub content: &'t str,
    /// First byte of `content` in the text.
    pub offset: usize,
    /// First byte behind it; `None`: the text ends here.
    pub next_offset: Option<usize>,
    /// Bytes of the whole text.
    pub size_bytes: usize,
}

/// Returns the answer with the longest piece from `offset` on that fits, at most `length` bytes; escaping can make JSON six
/// times as long as the text.
pub fn fitting_piece(
    text: &str,
    offset: usize,
    length: usize,
    result_bytes_max: usize,
    answer: impl Fn(TextPiece<'_>) -> Value,
) -> Value {
    let offset = text.floor_char_boundary(offset);
    let mut length = length.max(PIECE_BYTES_MIN);
    loop {
        let next = text.floor_char_boundary(offset.saturating_add(length));
        let piece = TextPiece {
            content: &text[offset..next],
            offset,
            next_offset: (next < text.len()).then_some(next),
            size_bytes: text.len(),
        };
        let answer = answer(piece);
        if length <= PIECE_BYTES_MIN || answer.to_string().len() <= result_bytes_max {
            return answer;
        }
        length = (length / 2).max(PIECE_BYTES_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pieces_end_between_characters_and_join_to_the_whole() {
        let text = "für 10 € \u{1}\u{1}\u{1} – 🙂🙂".repeat(9);
        let answer =
            |piece: TextPiece<'_>| json!({ "content": piece.content, "next": piece.next_offset });
        for bytes_max in 4..40 {
            let (mut offset, mut joined) = (0, String::new());
            loop {
                let piece = fitting_piece(&text, offset, bytes_max, 160, answer);
                joined.push_str(piece["content"].as_str().unwrap_or_default());
                match piece["next"].as_u64() {
                    Some(next) => offset = next as usize,
                    None => break,
                }
            }
            assert_eq!(joined, text, "{bytes_max}");
        }
    }
}
