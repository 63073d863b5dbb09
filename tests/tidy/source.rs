//! A Rust file, with comments, strings and test modules told apart from code.

/// A string literal of the code outside test modules.
pub struct Literal {
    /// Counted from 1.
    pub line: usize,
    pub text: String,
}

pub struct File {
    /// Below the repository, with slashes.
    pub path: String,
    pub text: String,
    /// The text with comments and the insides of literals blanked; same lines, same columns.
    pub code: String,
    /// `code` without items under `#[cfg(test)]`.
    pub live: String,
    pub literals: Vec<Literal>,
}

impl File {
    pub fn new(path: &str, text: &str) -> Self {
        let (code, literals) = blank(text);
        let live = without_tests(&code);
        let untested = |literal: &(usize, String)| live.as_bytes().get(literal.0) == Some(&b'"');
        let place = |(at, text): (usize, String)| Literal {
            line: line_of(&code, at),
            text,
        };
        let literals = literals.into_iter().filter(untested).map(place).collect();
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            live,
            literals,
        }
    }
}

/// Folders of `src` that are crates of rooms and no rooms themselves, and those that are both.
const CRATES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("letter", &[]),
    ("settings", &[]),
    ("engine", &[]),
    ("faces", &[]),
    ("gateway", &["scheduler", "webhooks", "telemetry"]),
];

/// The path of a file's module in its crate: `src/base/a/b.rs` and `src/base/a/b/mod.rs` are `a::b`; a `lib.rs` has none.
pub fn module_of(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let inner = inner.trim_end_matches("/mod");
    let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
    let of_rooms = CRATES.iter().find(|(folder, _)| *folder == parts[0]);
    let is_below = |rooms: &[&str]| {
        parts
            .get(1)
            .is_some_and(|room| rooms.is_empty() || rooms.contains(&room.as_str()))
    };
    if of_rooms.is_some_and(|(_, rooms)| is_below(rooms)) {
        parts.remove(0);
    }
    if parts.last().is_some_and(|last| last == "lib") {
        return Vec::new();
    }
    parts
}

/// The line of a byte offset, counted from 1.
pub fn line_of(code: &str, at: usize) -> usize {
    code.as_bytes()[..at]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Offsets at which `needle` stands in `code`, not as the tail of a longer word.
pub fn occurrences<'a>(code: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    let joined = move |at: usize| at > 0 && is_word(bytes[at - 1]) && is_word(needle.as_bytes()[0]);
    code.match_indices(needle)
        .map(|(at, _)| at)
        .filter(move |at| !joined(*at))
}

/// The offset after the bracket that closes the one at `open`; the end of the code if none does.
pub fn after_closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// What begins at an offset of the text.
enum Piece {
    Code,
    Comment,
    /// A string whose content is `[from, to)`; its opening quote is at `from - 1`.
    Text {
        from: usize,
        to: usize,
    },
    Char,
}

/// Blanks comments and the insides of literals, and gives the strings with the offset of their opening quote.
fn blank(text: &str) -> (String, Vec<(usize, String)>) {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut literals = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (piece, end) = piece(bytes, at);
        let (from, to) = match piece {
            Piece::Code => (end, end),
            Piece::Comment | Piece::Char => (at, end),
            Piece::Text { from, to } => {
                literals.push((from - 1, text[from..to].to_owned()));
                (from, to)
            }
        };
        code[from..to]
            .iter_mut()
            .filter(|byte| **byte != b'\n')
            .for_each(|byte| *byte = b' ');
        at = end;
    }
    (
        String::from_utf8(code).expect("only whole literals are blanked"),
        literals,
    )
}

fn piece(bytes: &[u8], at: usize) -> (Piece, usize) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return (
            Piece::Comment,
            at + rest
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap_or(rest.len()),
        );
    }
    if rest.starts_with(b"/*") {
        return (Piece::Comment, at + block_comment(rest));
    }
    let starts_word = at == 0 || !is_word(bytes[at - 1]);
    if starts_word && let Some((from, to, end)) = raw_string(rest) {
        return (
            Piece::Text {
                from: at + from,
                to: at + to,
            },
            at + end,
        );
    }
    match rest[0] {
        b'"' => {
            let end = quoted(rest, b'"');
            (
                Piece::Text {
                    from: at + 1,
                    to: (at + end - 1).max(at + 1),
                },
                at + end,
            )
        }
        // A lifetime has no closing quote; a character has it after one character or an escape.
        b'\'' if rest.get(1) == Some(&b'\\') => (Piece::Char, at + quoted(rest, b'\'')),
        b'\'' => match rest.iter().take(6).skip(2).position(|byte| *byte == b'\'') {
            Some(more) if one_char(&rest[1..more + 2]) => (Piece::Char, at + more + 3),
            _ => (Piece::Code, at + 1),
        },
        _ => (Piece::Code, at + 1),
    }
}

fn one_char(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().count() == 1)
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// `r"…"`, `r#"…"#`, `br#"…"#`: where the content begins and ends, and where the literal ends.
fn raw_string(rest: &[u8]) -> Option<(usize, usize, usize)> {
    let prefix = [&b"r"[..], b"br", b"cr"]
        .into_iter()
        .find(|prefix| rest.starts_with(prefix))?
        .len();
    let hashes = rest[prefix..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let from = prefix + hashes + 1;
    if rest.get(from - 1) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let length = rest[from..]
        .windows(close.len())
        .position(|window| window == close)?;
    Some((from, from + length, from + length + close.len()))
}

/// The length of an escaped literal, both quotes included.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Blanks every item under `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let mut live = code.as_bytes().to_vec();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test"] {
        for at in occurrences(code, attribute) {
            let mut from = after_closing(code, at + 1);
            while code[from..].trim_start().starts_with("#[") {
                from = after_closing(code, from + code[from..].find('[').unwrap_or(0));
            }
            let body = code[from..]
                .find(['{', ';'])
                .map_or(code.len(), |offset| from + offset);
            let end = if code.as_bytes().get(body) == Some(&b'{') {
                after_closing(code, body)
            } else {
                body
            };
            live[at..end]
                .iter_mut()
                .filter(|byte| **byte != b'\n')
                .for_each(|byte| *byte = b' ');
        }
    }
    String::from_utf8(live).expect("code is blanked from bracket to bracket")
}

#[test]
fn the_lexer_survives_strings_comments_lifetimes_and_tests() {
    let text = r##"//! Head { not code
fn a<'x>(s: &'x str) -> char { /* { /* nested */ " */ let q = "}\" // no"; '{' }
const RAW: &str = r#"he said "}" /* "#; // "open
fn b() -> [char; 3] { ['\'', '"', 'é'] }
#[cfg(test)]
#[expect(dead_code)]
mod tests { fn c() { let hidden = "SELECT"; } }
fn d() {}
"##;
    let file = File::new("src/x.rs", text);
    assert_eq!(file.code.lines().count(), text.lines().count());
    assert_eq!(file.code.len(), text.len());
    for gone in ["Head", "nested", "he said", "no\"", "'{'", "hidden\""] {
        assert!(!file.code.contains(gone), "{gone} in {}", file.code);
    }
    assert!(file.code.contains("<'x>(s: &'x str)") && file.code.contains("hidden"));
    assert!(!file.live.contains("hidden") && file.live.contains("fn d() {}"));
    let texts: Vec<_> = file
        .literals
        .iter()
        .map(|literal| (literal.line, literal.text.as_str()))
        .collect();
    assert_eq!(texts, [(2, "}\\\" // no"), (3, "he said \"}\" /* ")]);
    let opened = file.code.matches('{').count();
    assert_eq!(opened, file.code.matches('}').count());
}
