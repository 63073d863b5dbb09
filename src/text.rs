//! Text for people: bounded, on one line, counted. Pure, and the only place that shortens a text.

use std::fmt::Display;

/// Returns the first `chars_max` characters.
pub fn truncated(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

/// Returns the first `chars_max` characters, and `…` in place of the others.
pub fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Replaces control characters and runs of blanks by one blank, and trims the ends.
pub fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Formats a count: `1 run`, `2 runs`.
pub fn plural(count: impl TryInto<u64> + Copy + Display, noun: &str) -> String {
    let is_one = count.try_into().is_ok_and(|count| count == 1);
    format!("{count} {noun}{}", if is_one { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(truncated("añb", 2), "añ");
        assert_eq!(truncated("añ", 2), "añ");
        assert_eq!(shortened("añb", 2), "añ…");
        assert_eq!(shortened("añ", 2), "añ");
        assert_eq!(shortened("", 0), "");
    }

    #[test]
    fn a_line_has_neither_line_ends_nor_control_characters() {
        assert_eq!(one_line(" a\r\n\tb\u{7}c \u{85}d\u{a0}e "), "a b c d e");
    }

    #[test]
    fn one_is_singular() {
        let counts = [plural(0, "run"), plural(1_u8, "run"), plural(2_i64, "run")];
        assert_eq!(counts, ["0 runs", "1 run", "2 runs"]);
    }
}
