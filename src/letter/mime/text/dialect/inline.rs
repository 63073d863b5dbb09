//! What is marked within a text: emphasis, code, links, addresses.

use crate::mime::text::links::{hidden_place, is_between_words, named_place};
use std::collections::HashMap;

/// One step through a text. Every opening has its closing; no kind is within itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inline {
    Text(String),
    Code(String),
    Open(Style),
    Close(Style),
    Link(Link),
    LinkEnd(Link),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Strong,
    Emphasis,
    Struck,
}

/// Where words lead: `http`, `https` and `mailto` only, so that no text of a model runs anything in a reader's mail program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub target: String,
    /// What a reader sees behind words that name another place.
    pub hidden: Option<String>,
    /// The words are the address.
    pub is_bare: bool,
}

const TARGET_BYTES_MAX: usize = 2000;
/// Bytes of targets read in one text before links are no longer looked for.
const TARGETS_BYTES_MAX: usize = 500_000;
/// Bytes of one word in stars that may be a password.
const PASSWORD_BYTES_MAX: usize = 100;
const UNDERLINED_BYTES_MAX: usize = 300;
/// Of either half.
const ADDRESS_CHARS_MAX: usize = 254;

/// A mark in a text.
#[derive(Debug, Clone, Copy)]
struct InlineMark {
    at: usize,
    /// Bytes.
    length: usize,
    what: MarkKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkKind {
    Delimiter {
        style: Style,
        opens: bool,
        closes: bool,
    },
    /// Bytes of the backticks on either side.
    Code(usize),
    Address,
    Break,
    Link,
    /// `](target)`: where the target begins and ends.
    LinkEnd(usize, usize),
}

pub(super) fn read(text: &str) -> Vec<Inline> {
    let mut found = Vec::new();
    // Where links begin that are open; `None`: its words only.
    let mut links: Vec<Option<usize>> = Vec::new();
    let mut styles: Vec<Style> = Vec::new();
    let mut written = 0;
    for mark in paired(text, marks(text)) {
        let is_linked = links.iter().any(Option::is_some);
        push_text(&mut found, &text[written..mark.at], is_linked);
        written = mark.at + mark.length;
        match mark.what {
            MarkKind::Delimiter { style, opens, .. } => {
                // Bold within bold is bold.
                let others = styles.iter().filter(|open| **open == style).count();
                match opens {
                    true => styles.push(style),
                    false => {
                        styles
                            .truncate(styles.iter().rposition(|open| *open == style).unwrap_or(0));
                    }
                }
                match (opens, others) {
                    (true, 0) => found.push(Inline::Open(style)),
                    (false, 1) => found.push(Inline::Close(style)),
                    _ => {}
                }
            }
            MarkKind::Code(ticks) => {
                let words = &text[mark.at + ticks..written - ticks];
                let inner = words
                    .strip_prefix(' ')
                    .and_then(|words| words.strip_suffix(' '));
                let inner = inner.filter(|words| !words.trim().is_empty());
                found.push(Inline::Code(inner.unwrap_or(words).replace('\n', " ")));
            }
            MarkKind::Break => found.push(Inline::Text("\n".to_owned())),
            MarkKind::Address => push_link(&mut found, &text[mark.at..written], is_linked),
            MarkKind::Link => {
                links.push((!is_linked).then_some(found.len()));
                if !is_linked {
                    found.push(Inline::Text(String::new()));
                }
            }
            MarkKind::LinkEnd(from, to) => {
                if let Some(start) = links.pop().flatten() {
                    end_link(&mut found, start, &text[from..to]);
                }
            }
        }
    }
    push_text(&mut found, &text[written..], false);
    found
}

/// Makes a link of everything since its start. One without visible words would hide where it leads, while programs that scan links
/// follow it all the same.
fn end_link(found: &mut Vec<Inline>, start: usize, target: &str) {
    let words = found[start..].iter().map(|part| match part {
        Inline::Text(text) | Inline::Code(text) => text.as_str(),
        _ => "",
    });
    let words: String = words.collect();
    if words.trim().is_empty() || !is_allowed(target) {
        return;
    }
    let bare = |text: &str| {
        let text = text.trim().trim_end_matches('/').to_lowercase();
        let scheme = ["https://", "http://", "mailto:"]
            .iter()
            .find(|scheme| text.starts_with(**scheme));
        text[scheme.map_or(0, |scheme| scheme.len())..].to_owned()
    };
    let link = Link {
        target: target.to_owned(),
        hidden: hidden_place(&words, target),
        is_bare: bare(&words) == bare(target),
    };
    found[start] = Inline::Link(link.clone());
    found.push(Inline::LinkEnd(link));
}

fn is_allowed(target: &str) -> bool {
    let lower = target.to_ascii_lowercase();
    ["http://", "https://", "mailto:"]
        .iter()
        .any(|scheme| lower.starts_with(scheme))
}

fn push_link(found: &mut Vec<Inline>, address: &str, is_linked: bool) {
    let link = Link {
        target: match is_allowed(address) {
            true => address.to_owned(),
            false => format!("mailto:{address}"),
        },
        hidden: None,
        is_bare: true,
    };
    let text = Inline::Text(address.to_owned());
    match is_linked {
        true => found.push(text),
        false => found.extend([Inline::Link(link.clone()), text, Inline::LinkEnd(link)]),
    }
}

/// Adds text, in which mail addresses become links.
fn push_text(found: &mut Vec<Inline>, text: &str, is_linked: bool) {
    let mut written = 0;
    let is_between =
        |c: char| is_between_words(c) || matches!(c, '@' | '[' | ']' | '|' | ';' | '“' | '”' | '„');
    for (sign, _) in text.match_indices('@') {
        if sign < written {
            continue;
        }
        let before = text[written..sign]
            .char_indices()
            .rev()
            .take(ADDRESS_CHARS_MAX);
        let start = before.take_while(|(_, c)| !is_between(*c)).last();
        let start = start.map_or(sign, |(at, _)| written + at);
        let after = text[sign + 1..].char_indices().take(ADDRESS_CHARS_MAX);
        let end = after.take_while(|(_, c)| !is_between(*c)).last();
        let end = sign + 1 + end.map_or(0, |(at, c)| at + c.len_utf8());
        let word = text[start..end].trim_end_matches(['.', ':', '!', '?', '*', '_', '~']);
        let word = word.trim_start_matches("mailto:");
        if named_place(word).is_none_or(|place| !place.contains('@')) {
            continue;
        }
        let end = text[start..end]
            .find(word)
            .map_or(end, |at| start + at + word.len());
        let begin = end - word.len();
        if begin > written {
            found.push(Inline::Text(text[written..begin].to_owned()));
        }
        push_link(found, word, is_linked);
        written = end;
    }
    if written < text.len() {
        found.push(Inline::Text(text[written..].to_owned()));
    }
}

/// Finds what may be a mark, in order.
fn marks(text: &str) -> Vec<InlineMark> {
    let mut code = code_spans(text).into_iter().peekable();
    let mut found = Vec::new();
    let mut brackets = Vec::new();
    let mut searched = 0;
    let mut at = 0;
    let mut before: Option<char> = None;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let mut length = c.len_utf8();
        match c {
            '`' => {
                if let Some(span) = code.next_if(|span| span.at == at) {
                    length = span.length;
                    found.push(span);
                } else {
                    length = rest.len() - rest.trim_start_matches('`').len();
                }
            }
            '*' | '_' | '~' => {
                length = rest.len() - rest.trim_start_matches(c).len();
                let after = rest[length..].chars().next();
                delimiters(&mut found, at, c, length, before, after);
            }
            '<' => {
                let tag = ["<br>", "<br/>", "<br />"].iter().find(|tag| {
                    rest.get(..tag.len())
                        .is_some_and(|start| start.eq_ignore_ascii_case(tag))
                });
                if let Some(tag) = tag {
                    length = tag.len();
                    found.push(InlineMark {
                        at,
                        length,
                        what: MarkKind::Break,
                    });
                }
            }
            '!' if rest.starts_with("![") => {
                length = 2;
                brackets.push((at, length));
            }
            '[' => brackets.push((at, length)),
            ']' => {
                if let Some((start, opening)) = brackets.pop()
                    && searched < TARGETS_BYTES_MAX
                    && rest[1..].starts_with('(')
                {
                    let (target, read) = target(&rest[2..]);
                    searched += read;
                    if let Some((from, to)) = target {
                        length = 2 + read;
                        found.push(InlineMark {
                            at: start,
                            length: opening,
                            what: MarkKind::Link,
                        });
                        let what = MarkKind::LinkEnd(at + 2 + from, at + 2 + to);
                        found.push(InlineMark { at, length, what });
                    }
                }
            }
            'h' | 'H' if before.is_none_or(|before| !before.is_alphanumeric()) => {
                if let Some(address) = address(rest) {
                    length = address;
                    found.push(InlineMark {
                        at,
                        length,
                        what: MarkKind::Address,
                    });
                }
            }
            _ => {}
        }
        before = text[at..at + length].chars().next_back();
        at += length;
    }
    found.sort_by_key(|mark| mark.at);
    found
}

/// The bytes of a web address at the beginning of a text, without the sentence around it.
fn address(text: &str) -> Option<usize> {
    let scheme = ["https://", "http://"].iter().find(|scheme| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })?;
    let is_end = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '<' | '>' | '"' | '`' | '[' | ']' | '|' | '“' | '”' | '»')
    };
    let end = text
        .find(is_end)
        .unwrap_or(text.len())
        .min(TARGET_BYTES_MAX);
    let mut address = text.get(..end)?;
    loop {
        let trimmed = address.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_', '~', '\'']);
        let is_open = trimmed.matches('(').count() < trimmed.matches(')').count();
        let trimmed = trimmed
            .strip_suffix(')')
            .filter(|_| is_open)
            .unwrap_or(trimmed);
        if trimmed == address {
            break;
        }
        address = trimmed;
    }
    (address.len() > scheme.len()).then_some(address.len())
}

/// Reads `target)` or `target "title")`. Gives where the target begins and ends, when it is one, and how many bytes were read.
fn target(text: &str) -> (Option<(usize, usize)>, usize) {
    let mut depth = 0;
    let mut end = None;
    let mut quote = None;
    for (at, c) in text.char_indices().take(TARGET_BYTES_MAX) {
        match (c, end) {
            ('\n', _) => return (None, at),
            (_, Some(_)) if quote == Some(c) => quote = None,
            (_, Some(_)) if quote.is_some() => {}
            ('"' | '\'', Some(_)) => quote = Some(c),
            ('(', None) => depth += 1,
            (')', None) if depth > 0 => depth -= 1,
            (')', _) => {
                let inner = &text[..end.unwrap_or(at)];
                let bare = inner.trim_matches(['<', '>']);
                let from = inner.find(bare).unwrap_or_default();
                // Without a scheme it is no place on the web, and perhaps words in brackets.
                let scheme = bare.split_once(':').map(|(scheme, _)| scheme);
                let is_scheme = |scheme: &str| {
                    !scheme.is_empty()
                        && scheme
                            .bytes()
                            .all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
                };
                let is_target = scheme.is_some_and(is_scheme);
                return (is_target.then_some((from, from + bare.len())), at + 1);
            }
            (c, None) if c.is_whitespace() => end = Some(at),
            (c, Some(_)) if !c.is_whitespace() => return (None, at),
            _ => {}
        }
    }
    (None, text.len().min(TARGET_BYTES_MAX))
}

/// Finds `code`. A backtick within a word is an apostrophe.
fn code_spans(text: &str) -> Vec<InlineMark> {
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        let length = text[start..].len() - text[start..].trim_start_matches('`').len();
        at = start + length;
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let opens = !is_word(text[..start].chars().next_back());
        let closes = !is_word(text[at..].chars().next());
        runs.push((start, length, opens, closes));
    }
    // The next run that closes one of its length, from the last to the first.
    let mut closing = vec![None; runs.len()];
    let mut nearest = HashMap::new();
    for (index, (_, length, _, closes)) in runs.iter().enumerate().rev() {
        closing[index] = nearest.get(length).copied();
        if *closes {
            nearest.insert(length, index);
        }
    }
    let mut spans = Vec::new();
    let mut index = 0;
    while let Some((start, ticks, opens, _)) = runs.get(index).copied() {
        let end = closing[index].filter(|_| opens);
        if let Some(end) = end {
            let length = runs[end].0 + ticks - start;
            spans.push(InlineMark {
                at: start,
                length,
                what: MarkKind::Code(ticks),
            });
            index = end;
        }
        index += 1;
    }
    spans
}

/// Adds what a run of stars, underlines or tildes may be by the letters around it.
fn delimiters(
    found: &mut Vec<InlineMark>,
    at: usize,
    c: char,
    length: usize,
    before: Option<char>,
    after: Option<char>,
) {
    let is_joined = |c: char| c.is_alphanumeric() && !is_without_blanks(c);
    let opens = before
        .is_none_or(|c| !is_joined(c) && !matches!(c, '/' | '\\' | '.' | ')' | ']' | '}' | '%'))
        && after.is_some_and(|c| {
            !c.is_whitespace()
                && !matches!(
                    c,
                    '.' | ',' | ';' | ':' | '!' | '?' | ')' | ']' | '}' | '/' | '\\'
                )
        });
    let ends =
        before.is_some_and(|c| !c.is_whitespace() && !matches!(c, '(' | '[' | '{' | '\\' | '/'));
    let closes = ends && after.is_none_or(|c| !is_joined(c));
    let mut push = |at, length, style, closes| {
        if opens || closes {
            let what = MarkKind::Delimiter {
                style,
                opens,
                closes,
            };
            found.push(InlineMark { at, length, what });
        }
    };
    match (c, length) {
        ('*', 1) | ('_', 1) => push(at, 1, Style::Emphasis, closes),
        // `**Price:**12`
        ('*', 2) => push(at, 2, Style::Strong, ends),
        ('*', 3) if opens => {
            push(at, 2, Style::Strong, closes);
            push(at + 2, 1, Style::Emphasis, closes);
        }
        ('*', 3) => {
            push(at, 1, Style::Emphasis, closes);
            push(at + 1, 2, Style::Strong, closes);
        }
        ('~', 2) => push(at, 2, Style::Struck, closes),
        _ => {}
    }
}

/// Scripts that write words without blanks between them.
fn is_without_blanks(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

/// Keeps the delimiters of which one opens and one closes; none of a link's words pairs with one outside.
fn paired(text: &str, marks: Vec<InlineMark>) -> Vec<InlineMark> {
    let mut kept: Vec<Option<InlineMark>> = Vec::with_capacity(marks.len());
    // Places of openings that wait, of each link that is open; and how many of each style wait.
    let mut levels: Vec<(Vec<usize>, [usize; 3])> = vec![Default::default()];
    for mark in marks {
        let Some((open, waiting)) = levels.last_mut() else {
            break;
        };
        let MarkKind::Delimiter {
            style,
            opens,
            closes,
        } = mark.what
        else {
            kept.push(Some(mark));
            match mark.what {
                MarkKind::Link => levels.push(Default::default()),
                MarkKind::LinkEnd(..) => {
                    let (left, _) = levels.pop().unwrap_or_default();
                    left.into_iter().for_each(|index| kept[index] = None);
                }
                _ => {}
            }
            continue;
        };
        if closes && waiting[style as usize] > 0 {
            while let Some(index) = open.pop() {
                let Some(InlineMark {
                    at,
                    length,
                    what: MarkKind::Delimiter { style: opened, .. },
                }) = kept[index]
                else {
                    continue;
                };
                waiting[opened as usize] -= 1;
                let inner = &text[at + length..mark.at];
                let is_same = text[at..at + 1] == text[mark.at..mark.at + 1];
                if opened == style && is_same && is_marked(text.as_bytes()[at], style, inner) {
                    let role = |opens| MarkKind::Delimiter {
                        style,
                        opens,
                        closes: !opens,
                    };
                    kept[index] = Some(InlineMark {
                        at,
                        length,
                        what: role(true),
                    });
                    kept.push(Some(InlineMark {
                        what: role(false),
                        ..mark
                    }));
                    break;
                }
                kept[index] = None;
                if opened == style {
                    break;
                }
            }
        } else if opens {
            waiting[style as usize] += 1;
            open.push(kept.len());
            kept.push(Some(mark));
        }
    }
    for (left, _) in levels {
        left.into_iter().for_each(|index| kept[index] = None);
    }
    kept.into_iter().flatten().collect()
}

/// Whether words between two marks are meant to be emphasised: `*Haus2024*` may be a password, `_id_` a name.
fn is_marked(mark: u8, style: Style, inner: &str) -> bool {
    match (mark, style) {
        (b'_', _) => {
            inner.len() <= UNDERLINED_BYTES_MAX
                && !inner.contains('_')
                && inner.starts_with(char::is_alphabetic)
                && !inner.ends_with(char::is_whitespace)
        }
        (_, Style::Emphasis) if inner.len() <= PASSWORD_BYTES_MAX => {
            !inner.is_empty()
                && (inner.contains(char::is_whitespace)
                    || !inner.contains(|c: char| c.is_numeric()))
        }
        _ => !inner.is_empty(),
    }
}
