//! Messages for a text that is not JSON: the mistake, its position, and the correct form.
//!
//! Absent on purpose: a second parser. serde_json tells the position at which it stopped; the text
//! there and the constructs open there identify the mistake.

use super::problem::Problem;
use serde_json::error::Category;

/// Quotation marks that word processors and chat programs put in place of `"`.
const CURLY: &[char] = &[
    '\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}', '\u{ab}', '\u{bb}',
];
/// Maximum characters of a wrong word that a message repeats.
const WORD_CHARS_MAX: usize = 30;

/// A mistake: position, message, hint.
struct Mistake {
    offset: usize,
    what: String,
    hint: String,
}

impl Mistake {
    fn new(offset: usize, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            offset,
            what: what.into(),
            hint: hint.into(),
        }
    }
}

/// Builds the problem of a file whose text is not JSON.
pub fn problem(file: &str, text: &str, error: &serde_json::Error) -> Problem {
    if text.trim().is_empty() {
        return Problem::in_file(file, "the file is empty").hint("write at least `{}`");
    }
    let mistake = recognised(text, error).unwrap_or_else(|| {
        let said = error.to_string();
        let what = said.split(" at line ").next().unwrap_or_default();
        let hint = "`attache config schema` shows what the file may hold";
        Mistake::new(offset_of(text, error), what, hint)
    });
    let (line, column) = line_and_column(text, mistake.offset);
    let mut problem =
        Problem::in_file(file, format!("is not JSON: {}", mistake.what)).hint(mistake.hint);
    (problem.line, problem.column) = (Some(line), Some(column));
    problem
}

/// Line and column of a byte offset, from 1; columns count characters.
pub fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

fn recognised(text: &str, error: &serde_json::Error) -> Option<Mistake> {
    let at = offset_of(text, error);
    let open = still_open(text, at);
    if error.classify() == Category::Eof {
        return unclosed(open);
    }
    let said = error.to_string();
    if said.starts_with("control character") {
        // Nearly always the closing quotation mark is missing, not the escape of a line break.
        let OpenBracket { text_at, .. } = open;
        let hint =
            "end a text on its own line; `\\n` stands for a line break in it, `\\t` for a tab";
        return text_at
            .map(|start| Mistake::new(start, "a text is not closed by `\"` on its line", hint));
    }
    if said.starts_with("invalid escape") {
        return Some(Mistake::new(
            at,
            "a backslash begins no escape here",
            "write `\\\\` for a backslash",
        ));
    }
    let rest = &text[at..];
    foreign(at, rest)
        .or_else(|| punctuation(text, at, &said))
        .or_else(|| {
            said.starts_with("trailing characters")
                .then(|| behind_the_end(at))
        })
        .or_else(|| word(text, at))
}

/// Syntax of other languages that JSON lacks.
fn foreign(at: usize, rest: &str) -> Option<Mistake> {
    if ["//", "/*", "#"].iter().any(|mark| rest.starts_with(mark)) {
        return Some(Mistake::new(
            at,
            "JSON has no comments",
            "take the comment out",
        ));
    }
    if rest.starts_with('\'') || rest.starts_with(CURLY) {
        let first = rest.chars().next().unwrap_or_default();
        let what = format!("`{first}` is no quotation mark of JSON");
        return Some(Mistake::new(
            at,
            what,
            "write texts and keys between `\"` and `\"`",
        ));
    }
    rest.starts_with('=').then(|| {
        Mistake::new(
            at,
            "`=` stands where `:` is wanted",
            "write `\"key\": value`",
        )
    })
}

/// Missing or superfluous commas and colons.
fn punctuation(text: &str, at: usize, said: &str) -> Option<Mistake> {
    let before = text[..at].trim_end();
    let end = before.len();
    let is_closing = text[at..].starts_with(['}', ']']);
    let last = end.saturating_sub(1);
    if is_closing && before.ends_with(',') {
        return Some(Mistake::new(
            last,
            "a comma stands before the closing bracket",
            "take the comma out",
        ));
    }
    if is_closing && before.ends_with(':') || text[at..].starts_with(',') && before.ends_with(':') {
        return Some(Mistake::new(
            last,
            "nothing stands behind the `:`",
            "write a value, or take the key out",
        ));
    }
    if text[at..].starts_with(',') {
        return Some(Mistake::new(
            at,
            "a comma too many",
            "one comma stands between two members",
        ));
    }
    let is_glued = before.len() == at && before.ends_with(|c: char| c.is_ascii_digit());
    if is_glued && text[at..].starts_with(|c: char| c.is_alphanumeric() || c == '_') {
        return word(text, at);
    }
    if said.starts_with("expected `,`") {
        if is_closing || text[at..].starts_with(':') {
            let found = text[at..].chars().next().unwrap_or_default();
            let hint =
                "`{` is closed by `}`, `[` by `]`, and `:` stands only behind a key of `{…}`";
            return Some(Mistake::new(
                at,
                format!("`{found}` does not fit here"),
                hint,
            ));
        }
        return Some(Mistake::new(
            end,
            "a comma is missing here",
            "put `,` between two members",
        ));
    }
    if said.starts_with("expected `:`") {
        return Some(Mistake::new(
            end,
            "a `:` is missing behind this key",
            "write `\"key\": value`",
        ));
    }
    None
}

fn behind_the_end(at: usize) -> Mistake {
    Mistake::new(
        at,
        "something follows the end of the object",
        "one file holds one `{…}`",
    )
}

/// A word or a number that is not JSON.
fn word(text: &str, at: usize) -> Option<Mistake> {
    // serde_json stops inside a word that begins like one of its own.
    let is_part = |c: char| c.is_alphanumeric() || "_-.+$".contains(c);
    let start = text[..at].rfind(|c| !is_part(c)).map_or(0, |found| {
        found + text[found..].chars().next().map_or(1, char::len_utf8)
    });
    let word: String = text[start..]
        .chars()
        .take_while(|c| is_part(*c))
        .take(WORD_CHARS_MAX)
        .collect();
    if word.is_empty() {
        return None;
    }
    let follows = text[start + word.len()..].trim_start();
    let known = match word.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some("true"),
        "false" | "no" | "off" => Some("false"),
        "none" | "nil" | "null" | "undefined" => Some("null"),
        _ => None,
    };
    Some(if follows.starts_with(':') || follows.starts_with('=') {
        Mistake::new(
            start,
            format!("the key `{word}` stands without quotation marks"),
            format!("write `\"{word}\"`"),
        )
    } else if let Some(known) = known {
        Mistake::new(
            start,
            format!("`{word}` is no word of JSON"),
            format!("write `{known}`"),
        )
    } else if word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        let hint = "write digits, such as `10` or `0.5`; anything else, such as `\"30s\"`, between quotation marks";
        Mistake::new(start, format!("`{word}` is no number of JSON"), hint)
    } else {
        let what = format!("the text `{word}` stands without quotation marks");
        Mistake::new(start, what, format!("write `\"{word}\"`"))
    })
}

/// Constructs that a text leaves open.
#[derive(Default)]
struct OpenBracket {
    /// Offsets of unclosed brackets, the innermost last.
    brackets: Vec<(usize, char)>,
    /// Offset of an unclosed string.
    text_at: Option<usize>,
}

fn still_open(text: &str, end: usize) -> OpenBracket {
    let mut open = OpenBracket::default();
    let mut chars = text[..end].char_indices();
    while let Some((at, c)) = chars.next() {
        match (open.text_at, c) {
            (Some(_), '\\') => drop(chars.next()),
            (Some(_), '"') => open.text_at = None,
            (Some(_), _) => {}
            (None, '"') => open.text_at = Some(at),
            (None, '{' | '[') => open.brackets.push((at, c)),
            (None, '}' | ']') => drop(open.brackets.pop()),
            (None, _) => {}
        }
    }
    open
}

fn unclosed(open: OpenBracket) -> Option<Mistake> {
    if let Some(start) = open.text_at {
        return Some(Mistake::new(
            start,
            "a text is not closed before the file ends",
            "write `\"` at its end",
        ));
    }
    let (at, bracket) = open.brackets.last().copied()?;
    let closing = if bracket == '{' { '}' } else { ']' };
    let what = format!("the `{bracket}` that stands here is not closed before the file ends");
    Some(Mistake::new(
        at,
        what,
        format!("write `{closing}` where it ends"),
    ))
}

/// Offset of the byte at which serde_json stopped.
fn offset_of(text: &str, error: &serde_json::Error) -> usize {
    let line_start = match error.line() {
        0 | 1 => 0,
        line => text
            .match_indices('\n')
            .nth(line - 2)
            .map_or(text.len(), |(at, _)| at + 1),
    };
    // serde_json counts bytes from 1, and reports column 0 after a line end.
    let mut offset = (line_start + error.column().saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Pairs of a text and the expected message.
    const SLIPS: &[(&str, &str)] = &[
        (
            "{\n  // door\n  \"a\": 1\n}",
            "x:2:3: is not JSON: JSON has no comments; take the comment out",
        ),
        (
            "{\"a\": 1} # end",
            "x:1:10: is not JSON: JSON has no comments; take the comment out",
        ),
        (
            "{'a': 1}",
            "x:1:2: is not JSON: `'` is no quotation mark of JSON; write texts and keys between `\"` and `\"`",
        ),
        (
            "{\"a\": “b”}",
            "x:1:7: is not JSON: `“` is no quotation mark of JSON; write texts and keys between `\"` and `\"`",
        ),
        (
            "{\n \"a\": 1\n \"b\": 2\n}",
            "x:2:8: is not JSON: a comma is missing here; put `,` between two members",
        ),
        (
            "[\"a\" \"b\"]",
            "x:1:5: is not JSON: a comma is missing here; put `,` between two members",
        ),
        (
            "{\"a\": 1,}",
            "x:1:8: is not JSON: a comma stands before the closing bracket; take the comma out",
        ),
        (
            "{\"a\": [1,\n]}",
            "x:1:9: is not JSON: a comma stands before the closing bracket; take the comma out",
        ),
        (
            "{\"a\": 1,, \"b\": 2}",
            "x:1:9: is not JSON: a comma too many; one comma stands between two members",
        ),
        (
            "{\"a\": }",
            "x:1:5: is not JSON: nothing stands behind the `:`; write a value, or take the key out",
        ),
        (
            "{\"a\" 1}",
            "x:1:5: is not JSON: a `:` is missing behind this key; write `\"key\": value`",
        ),
        (
            "{\"a\" = 1}",
            "x:1:6: is not JSON: `=` stands where `:` is wanted; write `\"key\": value`",
        ),
        (
            "{a: 1}",
            "x:1:2: is not JSON: the key `a` stands without quotation marks; write `\"a\"`",
        ),
        (
            "{\"a\": True}",
            "x:1:7: is not JSON: `True` is no word of JSON; write `true`",
        ),
        (
            "{\"a\": tru}",
            "x:1:7: is not JSON: the text `tru` stands without quotation marks; write `\"tru\"`",
        ),
        (
            "{\"a\": no}",
            "x:1:7: is not JSON: `no` is no word of JSON; write `false`",
        ),
        (
            "{\"a\": 5m}",
            "x:1:7: is not JSON: `5m` is no number of JSON; write digits, such as `10` or `0.5`; anything else, such as `\"30s\"`, between quotation marks",
        ),
        (
            "{\"a\": 12ab, \"b\": 1}",
            "x:1:7: is not JSON: `12ab` is no number of JSON; write digits, such as `10` or `0.5`; anything else, such as `\"30s\"`, between quotation marks",
        ),
        (
            "{\"a\": .5}",
            "x:1:7: is not JSON: `.5` is no number of JSON; write digits, such as `10` or `0.5`; anything else, such as `\"30s\"`, between quotation marks",
        ),
        (
            "{\"a\": \"b,\n \"c\": 1}",
            "x:1:7: is not JSON: a text is not closed by `\"` on its line; end a text on its own line; `\\n` stands for a line break in it, `\\t` for a tab",
        ),
        (
            "{\"a\": \"C:\\data\"}",
            "x:1:11: is not JSON: a backslash begins no escape here; write `\\\\` for a backslash",
        ),
        (
            "{\"a\": [1, 2}",
            "x:1:12: is not JSON: `}` does not fit here; `{` is closed by `}`, `[` by `]`, and `:` stands only behind a key of `{…}`",
        ),
        (
            "{\n \"a\": {\"b\": 1\n}\n",
            "x:1:1: is not JSON: the `{` that stands here is not closed before the file ends; write `}` where it ends",
        ),
        (
            "{\"a\": \"b",
            "x:1:7: is not JSON: a text is not closed before the file ends; write `\"` at its end",
        ),
        (
            "{} {}",
            "x:1:4: is not JSON: something follows the end of the object; one file holds one `{…}`",
        ),
        (" \n", "x: the file is empty; write at least `{}`"),
    ];

    #[test]
    fn every_slip_is_recognised_at_its_place() {
        for &(text, expected) in SLIPS {
            let error = serde_json::from_str::<Value>(text).expect_err(text);
            assert_eq!(problem("x", text, &error).to_string(), expected, "{text}");
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        let whole = "{\"ä\": [1, \"ü\\n\", {\"b\": tru, 'c': “d”}], // é\n \"e\": 5m,,}";
        for end in whole.char_indices().map(|(at, _)| at) {
            for text in [&whole[..end], &whole[end..]] {
                let Err(error) = serde_json::from_str::<Value>(text) else {
                    continue;
                };
                assert!(!problem("x", text, &error).message.is_empty());
            }
        }
    }
}
