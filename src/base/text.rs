//! Text for people: bounded, on one line, counted. Pure, and the only place that shortens a text. `likeness`: texts
//! compared; `line_diff`: by lines; `redact`: keys masked in texts; `stem`, `word_parts`, `rare_words`: words as
//! a search compares them.

pub mod likeness;
pub mod line_diff;
pub mod quotations;
pub mod redact;
pub mod stop_words;
pub mod stem;
pub mod word_parts;
pub mod rare_words;

use std::error::Error;
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

/// Writes out characters that hide or reorder others: control characters but line ends and tabs, those that set the
/// direction of text, and those without width, as `⟨U+202E⟩`.
pub fn visible(text: &str) -> String {
    let is_hidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
                | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
                | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}'
                | '\u{E0000}'..='\u{E0FFF}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => shown.push_str(&format!("⟨U+{:04X}⟩", u32::from(c))),
            false => shown.push(c),
        }
    }
    shown
}

/// Matches `*` (any run of bytes) and `?` (any one byte); worst-case time is proportional to the
/// product of the lengths.
pub fn glob_matches(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    let (mut g, mut t) = (0, 0);
    // Offset after the last star, and the end of the text that the star matches.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some(b'*') => {
                retry = Some((g + 1, t));
                g += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                g += 1;
                t += 1;
            }
            _ => match retry {
                None => return false,
                Some((behind, swallowed)) => {
                    retry = Some((behind, swallowed + 1));
                    (g, t) = (behind, swallowed + 1);
                }
            },
        }
    }
    glob[g..].iter().all(|&c| c == b'*')
}

/// Returns what stands between two quotation marks of one kind; `None`: the text does not begin and end with them.
pub fn inside_quotes(text: &str) -> Option<&str> {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\''))
}

/// Formats an error with its causes, on one line; a cause whose words are there already is left out.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = inner.source();
    }
    text
}

/// Returns the words of the innermost cause: those of a client for HTTP only repeat the URL before it.
pub fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
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
    fn no_character_hides_another() {
        assert_eq!(
            visible("a\u{202e}b\u{200b}c\r\n\td"),
            "a⟨U+202E⟩b⟨U+200B⟩c⟨U+000D⟩\n\td"
        );
        assert_eq!(visible("Grüße 🙂"), "Grüße 🙂");
    }

    #[test]
    fn one_is_singular() {
        let counts = [plural(0, "run"), plural(1_u8, "run"), plural(2_i64, "run")];
        assert_eq!(counts, ["0 runs", "1 run", "2 runs"]);
    }
}
