//! Decisions on the numbered entries of a digest: `yes 1 3`, `no 2, because …`, `edit 4: text`, each a line. Pure.
//!
//! A letter is understood whole or not at all: a line that could mean something else makes all of it mean nothing.

use super::words::{
    is_own, is_quoted, is_word_of_edit, is_word_of_no, is_word_of_yes, is_yes, own_lines, plain,
    takes_back,
};
use crate::domain::Email;
use crate::mime::{fresh_text, html_to_text};
use crate::store::MemoryAct;
use crate::text::{one_line, visible};

/// Most numbers of one letter.
const PLACES_MAX: usize = 100;

/// What an owner says of some entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadEntries {
    /// Numbers in the digest; empty: all that wait.
    pub places: Vec<u32>,
    pub act: MemoryAct,
}

/// Reads the decisions of a letter. `None`: it holds none, or its text and its HTML do not say the same.
pub fn read_entries(email: &Email) -> Option<Vec<ReadEntries>> {
    let read = read_own(&email.text, &email.fresh_text)?;
    if let Some(html) = email.html.as_deref() {
        // What its writer saw while writing is the HTML, where there is one.
        let shown = html_to_text(html);
        let also = read_own(&shown, &fresh_text(&shown, &email.subject))?;
        if also != read {
            return None;
        }
    }
    Some(read)
}

fn read_own(text: &str, fresh: &str) -> Option<Vec<ReadEntries>> {
    if !is_own(text, fresh) {
        return None;
    }
    let mut found: Vec<ReadEntries> = Vec::new();
    let (mut is_closed, mut is_adjacent) = (false, false);
    for line in own_lines(fresh)? {
        if plain(line).is_empty() {
            is_adjacent = false;
        } else if let Some(read) = read_line(line) {
            if is_closed {
                return None;
            }
            is_adjacent = true;
            found.push(read);
        } else if is_quoted(line) {
            is_closed = true;
        } else if takes_back(line) || is_yes(line) {
            return None;
        } else if is_adjacent {
            // Mail programs break long lines.
            let Some(MemoryAct::Edit { text }) = found.last_mut().map(|read| &mut read.act) else {
                return None;
            };
            *text = format!("{text} {}", cleaned(line));
        } else {
            is_closed = true;
        }
    }
    let places: Vec<u32> = found.iter().flat_map(|read| read.places.clone()).collect();
    let is_unique = places
        .iter()
        .enumerate()
        .all(|(at, place)| !places[..at].contains(place));
    let has_all = found.iter().any(|read| read.places.is_empty());
    let is_one = !has_all || found.len() == 1;
    (!found.is_empty() && is_unique && is_one && places.len() <= PLACES_MAX).then_some(found)
}

/// Reads one line. `None`: it is no decision.
fn read_line(line: &str) -> Option<ReadEntries> {
    let Some(at) = line.find(|c: char| c.is_ascii_digit()) else {
        let words = plain(line);
        let word = words.strip_suffix(" all")?;
        let act = match (is_word_of_yes(word), is_word_of_no(word)) {
            (true, _) => approve(),
            (_, true) => reject(""),
            _ => return None,
        };
        return Some(ReadEntries {
            places: Vec::new(),
            act,
        });
    };
    let (word, rest) = line.split_at(at);
    let word = plain(word);
    let (places, rest) = numbers(rest)?;
    let act = if is_word_of_yes(&word) && rest.trim_matches(['.', '!', ' ', '*']).is_empty() {
        approve()
    } else if is_word_of_no(&word) {
        reject(reason(rest)?)
    } else if is_word_of_edit(&word) && places.len() == 1 {
        let text = rest.trim_start().strip_prefix([':', '：'])?;
        MemoryAct::Edit {
            text: cleaned(text),
        }
    } else {
        return None;
    };
    Some(ReadEntries { places, act })
}

fn approve() -> MemoryAct {
    MemoryAct::Approve {
        for_everybody: false,
    }
}

fn reject(why: &str) -> MemoryAct {
    MemoryAct::Reject { why: cleaned(why) }
}

fn cleaned(text: &str) -> String {
    visible(&one_line(text))
}

/// Returns the reason behind the numbers of a no; `None`: something else stands there.
fn reason(rest: &str) -> Option<&str> {
    let rest = rest.trim();
    if rest.is_empty() {
        return Some("");
    }
    let marks: &[char] = &[',', ':', ';', '.', '!', '–', '—', '-'];
    rest.starts_with(marks)
        .then(|| rest.trim_start_matches(|c: char| !c.is_alphanumeric()))
}

/// Reads numbers at the beginning of a text, such as `1 3`, `1, 3` and `1-3`; returns them with what follows.
fn numbers(text: &str) -> Option<(Vec<u32>, &str)> {
    let (mut found, mut rest) = (Vec::new(), text);
    loop {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number: u32 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let is_range_end = rest.strip_prefix('-').filter(|to| begins_with_digit(to));
        if let Some(to) = is_range_end {
            let end = to.find(|c: char| !c.is_ascii_digit()).unwrap_or(to.len());
            let last: u32 = to[..end].parse().ok()?;
            if last < number || (last - number) as usize > PLACES_MAX {
                return None;
            }
            found.extend(number..=last);
            rest = &to[end..];
        } else {
            found.push(number);
        }
        let next = rest.trim_start_matches([' ', ',', '&', '\t']);
        if !begins_with_digit(next) || next.len() == rest.len() {
            return Some((found, rest));
        }
        rest = next;
    }
}

fn begins_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<(Vec<u32>, MemoryAct)>> {
        let read = read_own(text, text)?.into_iter();
        Some(read.map(|read| (read.places, read.act)).collect())
    }

    fn edit(text: &str) -> MemoryAct {
        MemoryAct::Edit {
            text: text.to_owned(),
        }
    }

    #[test]
    fn lines_decide_on_the_numbers_that_they_name() {
        let text = "Yes 1, 3\nno 2, because she has moved\nedit 4: Carol takes the late train,\nnot on Mondays.\n\nBest,\nOlga";
        assert_eq!(
            read(text),
            Some(vec![
                (vec![1, 3], approve()),
                (vec![2], reject("because she has moved")),
                (vec![4], edit("Carol takes the late train, not on Mondays.")),
            ])
        );
        assert_eq!(read("ja 1-3"), Some(vec![(vec![1, 2, 3], approve())]));
        assert_eq!(read("no all"), Some(vec![(vec![], reject(""))]));
        assert_eq!(read("*OK 7.*"), Some(vec![(vec![7], approve())]));
    }

    #[test]
    fn what_could_mean_something_else_means_nothing() {
        for text in [
            "",
            "yes",
            "yes 1\nbut not 2",
            "yes 1\nno 1",
            "yes 1 maybe",
            "yes 1?",
            "yes 1\nsee you on Tuesday",
            "See you.\n\nyes 1",
            "yes all\nno 2",
            "no 2 and the rest",
            "edit 4",
            "edit 1 2: both",
            "yes 1\n\nno, wait",
            "yes 1-9999999",
            "yes 99999999999999999999",
            "room 12",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
