//! Bounds of an answer to another agent: as many items or characters as there is room for. What is left is asked for with a cursor.

use serde_json::Value;

/// Most bytes of one answer.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Bytes that stay free for what stands around the items.
const ENVELOPE_BYTES: usize = 4 * 1024;
/// Blanks before a line of an item, and its comma and line end.
const INDENT_BYTES: usize = 8;

/// Room of an answer that is made of items.
#[derive(Debug, Default)]
pub struct AnswerRoom {
    taken: usize,
}

impl AnswerRoom {
    /// Takes room for an item; `false`: there is none left. The first item always has room, so whoever makes items bounds them.
    pub fn take(&mut self, item: &Value) -> bool {
        // A value always has a JSON form.
        let text = serde_json::to_string_pretty(item).unwrap_or_default();
        let bytes = text.len() + (text.matches('\n').count() + 1) * INDENT_BYTES;
        if self.taken > 0 && self.taken + bytes > ANSWER_BYTES_MAX - ENVELOPE_BYTES {
            return false;
        }
        self.taken += bytes;
        true
    }
}

/// Returns as much of a text from a byte on as one answer holds, and the byte behind it if more follows.
///
/// `None`: no character of the text begins there.
pub fn piece_from(text: &str, begin: usize) -> Option<(&str, Option<usize>)> {
    let rest = text.get(begin..)?;
    let mut room = ANSWER_BYTES_MAX - ENVELOPE_BYTES;
    for (at, c) in rest.char_indices() {
        let bytes = escaped_len(c);
        if bytes > room {
            return Some((&rest[..at], Some(begin + at)));
        }
        room -= bytes;
    }
    Some((rest, None))
}

/// Returns the bytes of a character in a JSON string.
fn escaped_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if u32::from(c) < 0x20 => 6,
        c => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_pieces_is_whole_and_each_fits() {
        let text = "\u{1}\"ä\n<letter>🦀".repeat(20_000);
        let (mut whole, mut at) = (String::new(), Some(0));
        while let Some(begin) = at {
            let (piece, next) = piece_from(&text, begin).expect("a piece");
            let json = serde_json::to_string(piece).expect("JSON");
            assert!(json.len() < ANSWER_BYTES_MAX, "{}", json.len());
            whole.push_str(piece);
            at = next;
        }
        assert_eq!(whole, text);
        assert_eq!(piece_from("ä", 1), None);
        assert_eq!(piece_from("a", 2), None);
        assert_eq!(piece_from("", 0), Some(("", None)));
    }

    #[test]
    fn a_room_ends_before_the_bound() {
        let item = Value::from("x".repeat(10_000));
        let mut room = AnswerRoom::default();
        let taken = (0..20).take_while(|_| room.take(&item)).count();
        assert_eq!(taken, 6);
        let large = Value::from("x".repeat(63 * 1024));
        assert!(AnswerRoom::default().take(&large), "the first");
        assert!(!room.take(&large));
    }
}
