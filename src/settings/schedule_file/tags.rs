//! Checks the code in a template before minijinja parses it. minijinja bounds instructions, but
//! neither the size of values that one instruction builds nor, for chains of operators, the stack
//! of its own parser; so a prompt gets no operation that grows a value, and only tags of a length
//! that cannot nest deeply.

use super::nearest::did_you_mean;
use super::prompt_error::PromptError;

/// Maximum bytes of a tag; an operator needs a frame of the parser's stack, and 1,500 of them fit
/// in a thread's.
const TAG_BYTES_MAX: usize = 500;
const TAGS_MAX: usize = 500;
/// The statements that a prompt may use.
const STATEMENTS: &[&str] = &[
    "if", "elif", "else", "endif", "for", "endfor", "raw", "endraw",
];
/// The filters that a prompt may use.
pub const FILTERS: &[&str] = &["upper", "lower", "trim", "default", "length"];
/// The tests that a prompt may use.
pub const TESTS: &[&str] = &["none"];

/// The content of a `{{ }}` or a `{% %}`.
#[derive(Debug, Clone, Copy)]
pub struct Tag<'a> {
    /// Code without whitespace-control marks (`-`).
    pub code: &'a str,
    /// Line of the body at which the tag begins, counted from 1.
    pub line: usize,
    /// Bytes of the content, including those marks.
    bytes: usize,
    is_statement: bool,
    /// `true`: an end was found, even if it is another tag's.
    is_closed: bool,
}

/// A piece of code; the content of string literals is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplateToken<'a> {
    Word(&'a str),
    Text,
    Sign(char),
}

/// All tags of a body. Comments and raw text are not code.
pub fn tags(body: &str) -> Vec<Tag<'_>> {
    let (mut tags, mut at) = (Vec::new(), 0);
    while let Some(open) = body[at..].find('{') {
        at += open + 1;
        let end = match body.as_bytes().get(at) {
            Some(b'#') => {
                at = body[at + 1..]
                    .find("#}")
                    .map_or(body.len(), |end| at + 1 + end + 2);
                continue;
            }
            Some(b'{') => "}}",
            Some(b'%') => "%}",
            _ => continue,
        };
        let begin = at + 1;
        let length = end_of(&body[begin..], end);
        let code = body[begin..begin + length].trim_matches(['-', '+', ' ', '\t', '\r', '\n']);
        let line = body[..begin].matches('\n').count() + 1;
        let is_closed = begin + length < body.len();
        tags.push(Tag {
            code,
            line,
            bytes: length,
            is_statement: end == "%}",
            is_closed,
        });
        at = (begin + length + end.len()).min(body.len());
        if end == "%}" && code == "raw" {
            at = body[at..]
                .find("endraw")
                .map_or(body.len(), |found| at + found);
        }
    }
    tags
}

/// Offset of a tag's end mark outside of string literals.
fn end_of(code: &str, end: &str) -> usize {
    let mut open = None;
    let mut chars = code.char_indices();
    while let Some((at, c)) = chars.next() {
        match (open, c) {
            (None, _) if code[at..].starts_with(end) => return at,
            (None, '"' | '\'') => open = Some(c),
            (Some(_), '\\') => drop(chars.next()),
            (Some(mark), c) if mark == c => open = None,
            _ => {}
        }
    }
    code.len()
}

/// Refuses unsupported code. Errors: with the line of the tag.
pub fn check(body: &str) -> Result<(), PromptError> {
    let tags = tags(body);
    if tags.len() > TAGS_MAX {
        let problem = format!(
            "the prompt has {} tags, and at most {TAGS_MAX} are allowed",
            tags.len()
        );
        return Err(PromptError {
            line: None,
            problem,
        });
    }
    tags.iter().try_for_each(|tag| {
        check_tag(tag).map_err(|problem| PromptError {
            line: Some(tag.line),
            problem,
        })
    })
}

fn check_tag(tag: &Tag<'_>) -> Result<(), String> {
    if tag.bytes > TAG_BYTES_MAX {
        return Err(format!(
            "a tag of the prompt is longer than {TAG_BYTES_MAX} bytes"
        ));
    }
    let tokens = tokens(tag.code);
    if !tag.is_closed || runs_on(&tokens) {
        let (begin, end) = if tag.is_statement {
            ("{%", "%}")
        } else {
            ("{{", "}}")
        };
        return Err(format!(
            "`{begin}` is not closed by `{end}`; write it behind the name, or behind the condition"
        ));
    }
    if tag.is_statement {
        let word = match tokens.first() {
            Some(TemplateToken::Word(word)) => *word,
            _ => "",
        };
        if !STATEMENTS.contains(&word) {
            let offered = STATEMENTS.join(", ");
            return Err(format!(
                "statement `{word}` is not offered in a prompt; there are: {offered}"
            ));
        }
    }
    let mut brackets = 0_u32;
    let mut rest = tokens.as_slice();
    while let Some((token, after)) = rest.split_first() {
        match token {
            TemplateToken::Sign('[') => brackets += 1,
            TemplateToken::Sign(']') => brackets = brackets.saturating_sub(1),
            TemplateToken::Sign(',') if brackets == 0 => return Err(not_offered(",")),
            TemplateToken::Sign(':') if brackets == 0 => return Err(not_offered(":")),
            TemplateToken::Sign(sign @ ('*' | '+' | '~' | '{' | '}')) => {
                return Err(not_offered(&sign.to_string()));
            }
            TemplateToken::Sign('|') => known(after, FILTERS, "filter")?,
            TemplateToken::Word("recursive") => return Err(not_offered("recursive")),
            TemplateToken::Word("is") => {
                known(
                    after
                        .strip_prefix(&[TemplateToken::Word("not")])
                        .unwrap_or(after),
                    TESTS,
                    "test",
                )?;
            }
            // A list of names could be doubled with each loop.
            TemplateToken::Word(word)
                if brackets > 0 && !word.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                return Err(format!(
                    "`{word}` stands in brackets; in a prompt they hold numbers and texts only"
                ));
            }
            TemplateToken::Sign('(') if brackets > 0 => return Err(not_offered("(")),
            _ => {}
        }
        rest = after;
    }
    Ok(())
}

/// Reports whether a tag's content holds half of its end mark, or the beginning of another tag: its
/// end is missing.
fn runs_on(tokens: &[TemplateToken<'_>]) -> bool {
    let first = tokens
        .iter()
        .position(|token| matches!(token, TemplateToken::Sign('{' | '}')));
    let Some(rest) = first.map(|at| &tokens[at..]) else {
        return false;
    };
    matches!(
        rest,
        [TemplateToken::Sign('}'), ..]
            | [TemplateToken::Sign('{'), TemplateToken::Sign('{' | '%'), ..]
    )
}

fn not_offered(what: &str) -> String {
    format!("`{what}` is not offered in the code of a prompt, where nothing may grow")
}

fn known(
    after: &[TemplateToken<'_>],
    offered: &'static [&'static str],
    kind: &str,
) -> Result<(), String> {
    match after.first() {
        Some(TemplateToken::Word(word)) if !offered.contains(word) => {
            let hint = did_you_mean(word, offered.iter().copied());
            Err(format!(
                "no {kind} `{word}` in a prompt; there are: {}{hint}",
                offered.join(", ")
            ))
        }
        _ => Ok(()),
    }
}

fn tokens(code: &str) -> Vec<TemplateToken<'_>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut tokens, mut rest) = (Vec::new(), code);
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '"' | '\'' => {
                tokens.push(TemplateToken::Text);
                let mut escaped = false;
                let inside = &rest[1..];
                let end = inside.char_indices().find(|(_, inner)| {
                    let ends = *inner == c && !escaped;
                    escaped = *inner == '\\' && !escaped;
                    ends
                });
                end.map_or(rest.len(), |(at, _)| 1 + at + 1)
            }
            c if is_word(c) => {
                let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                tokens.push(TemplateToken::Word(&rest[..end]));
                end
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(TemplateToken::Sign(c));
                }
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    tokens
}
