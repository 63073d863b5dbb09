//! Text that is safe on a terminal: no escape sequences, no control characters.

use serde::Serialize;

/// Formats one JSON value as pretty text that is safe on a terminal: control characters that JSON
/// permits are escaped.
pub fn json_text(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(escaped(&serde_json::to_string_pretty(value)?))
}

/// Formats one JSON value on one line, as [`json_text`] does.
pub fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(escaped(&serde_json::to_string(value)?))
}

/// Escapes the characters of JSON text that could drive a terminal.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        // Such characters occur only inside strings, where an escape is equivalent.
        if c != '\n' && is_hostile(c) {
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Removes everything that drives a terminal: escape sequences, control characters but line end and
/// tab, and the direction overrides that reorder text.
pub fn printable(text: &str) -> String {
    let stripped = anstream::adapter::strip_str(text).to_string();
    stripped
        .chars()
        .filter(|c| matches!(c, '\n' | '\t') || !is_hostile(*c))
        .collect()
}

/// Returns [`printable`] text on one line, for a cell of a table.
pub fn one_line(text: &str) -> String {
    printable(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns text on one line in which every character that drives a terminal is shown instead: control characters by their
/// pictures (`␛`), what reorders text by its number.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match u32::from(c) {
            // U+2400 and what follows are pictures of the first 32 characters.
            code @ 0..0x20 => shown.extend(char::from_u32(0x2400 + code)),
            0x7f => shown.push('\u{2421}'),
            code if is_hostile(c) => shown.push_str(&format!("\\u{{{code:x}}}")),
            _ => shown.push(c),
        }
    }
    shown
}

fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}
/// Quotes a word of a shell command if it needs quotes.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_cannot_drive_the_terminal() {
        let subject = "Hi\u{1b}[2J\u{1b}]0;owned\u{7} \u{9b}31m\u{202e}gpj.exe\r\nnext";
        assert_eq!(one_line(subject), "Hi 31mgpj.exe next");
        assert_eq!(printable("a\tb\nc\u{8}\u{7f}"), "a\tb\nc");
    }

    #[test]
    fn control_characters_can_be_seen() {
        let subject = "Hi\u{1b}[2J\r\n\u{7f}\u{9b}31m\u{202e}gpj.exe";
        let shown = visible(subject);
        assert_eq!(shown, "Hi␛[2J␍␊␡\\u{9b}31m\\u{202e}gpj.exe");
        assert_eq!(printable(&shown), shown);
    }

    #[test]
    fn json_escapes_what_json_lets_through() {
        let text = json_text(&["\u{9b}31m\u{1b}[2J"]).expect("a list of strings is JSON");
        assert!(
            !text.chars().any(|c| c != '\n' && c.is_control()),
            "{text:?}"
        );
        let back: Vec<String> = serde_json::from_str(&text).expect("it is still JSON");
        assert_eq!(back, ["\u{9b}31m\u{1b}[2J"]);
    }
}
