//! Names in the field's words: private words that stay away, type names that mean one thing, first words of comments.

use crate::source::{File, line_of};
use std::collections::{BTreeMap, BTreeSet};

/// Words that no identifier of `src` may hold, and the field's word for each.
const PRIVATE: &[(&[&str], &str)] = &[
    (&["purse", "purses"], "budget account"),
    (&["desk", "bench"], "dependencies or context of that thing"),
    (
        &["workshop", "hands", "tape"],
        "environment: live, fork, recorded",
    ),
    (
        &["circumstances", "standing", "standings"],
        "provider health, circuit breaker",
    ),
    (&["hindrance"], "blocked by"),
    (&["roster"], "status"),
    (&["spares"], "lazy providers"),
    (&["suspects", "innocents"], "poison runs, probation"),
    (&["gate"], "tool policy, breaker state"),
    (&["meter", "farewell"], "counters, final turn"),
    (
        &["house", "lobby", "visitors", "reception"],
        "server context, connection limiter",
    ),
    (&["door", "doorstep"], "intake, in-flight marker"),
    (
        &["obey", "converse", "talk", "hear"],
        "handle, serve, run, append",
    ),
    (
        &["vouching", "vouched", "sealers"],
        "authentication, authenticated, ARC signers",
    ),
    (&["patience"], "timeouts, retry policy, grace period"),
    (&["aside"], "quarantine, reserve"),
    (&["parcel", "parcels"], "bundle"),
    (&["scribe", "steer"], "journal writer, run control"),
    (&["shelf", "blame"], "config source, problem at"),
    (&["untold", "told"], "pending, notified, recorded"),
    (&["duty", "duties", "dues", "owed"], "schedule, due"),
    (&["offer", "vocabulary"], "catalogue of names, extensions"),
    (
        &["sheet", "culprit", "foresee", "foreseen", "fate"],
        "view, cause, expected effects, outcome",
    ),
    (&["trouble", "news"], "failure, event"),
    (&["upkeep", "thrown"], "maintenance, pruned"),
    (&["spelled", "spelling"], "formatted"),
    (&["careless"], "unsafe_sync"),
];

/// Identifiers that hold such a word in the field's own meaning.
const FIELD: &[(&str, &str)] = &[(
    "SheetVisible",
    "a type of calamine, for sheets of a workbook",
)];

/// Private words in the identifiers of a file, tests in it included.
pub fn private_words(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    for (at, identifier) in identifiers(&file.code) {
        if FIELD.iter().any(|(allowed, _)| *allowed == identifier) {
            continue;
        }
        let parts = words(identifier);
        for (away, instead) in PRIVATE {
            if let Some(word) = parts.iter().find(|part| away.contains(&part.as_str())) {
                let line = line_of(&file.code, at);
                complaints.push(format!(
                    "{}:{line}: `{identifier}` says `{word}`, which nobody would search for: write {instead}",
                    file.path
                ));
            }
        }
    }
    complaints.dedup();
    complaints
}

fn identifiers(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter_map(move |piece| {
            let at = from;
            from += piece.len() + 1;
            piece
                .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                .then_some((at, piece))
        })
}

/// `SendEmailError` and `send_email_error` alike: `send`, `email`, `error`.
fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut last_is_lower = false;
    for c in identifier.chars() {
        if c == '_' || (c.is_ascii_uppercase() && last_is_lower) {
            words.push(String::new());
        }
        last_is_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        if c != '_' {
            words
                .last_mut()
                .expect("one at least")
                .push(c.to_ascii_lowercase());
        }
    }
    words
}

/// How many type names may be given to several types.
pub const SHARED_NAMES_MAX: usize = 0;

/// Names of types that several files give, with the files.
pub fn shared_names(files: &[File]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut named: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        let mut before = "";
        for (_, identifier) in identifiers(&file.live) {
            let is_type = identifier.starts_with(char::is_uppercase); // Not so: `$name` of a macro.
            if is_type && ["struct", "enum", "trait"].contains(&before) {
                named.entry(identifier).or_default().insert(&file.path);
            }
            before = identifier;
        }
    }
    named.retain(|_, paths| paths.len() > 1);
    named
}

/// Names of types that several files give, unless there are few of them.
pub fn shared_type_names(files: &[File], names_max: usize) -> Vec<String> {
    let shared = shared_names(files);
    if shared.len() <= names_max {
        return Vec::new();
    }
    let told = shared.iter().map(|(name, paths)| {
        format!(
            "`{name}`: {}",
            paths.iter().copied().collect::<Vec<_>>().join(", ")
        )
    });
    let head = format!(
        "{} type names mean several things, and {names_max} may: rename the newest",
        shared.len()
    );
    std::iter::once(head).chain(told).collect()
}

/// First words that make a reader guess what kind of thing is documented.
const QUESTIONS: &[&str] = &[
    "What", "Whether", "Who", "Where", "How", "Why", "Whoever", "Whose",
];
/// Share of doc comments that may begin so, in thousandths.
pub const QUESTIONS_PER_MILLE_MAX: usize = 30;

/// The number of doc comments, and those that begin with a question word.
pub fn questions(files: &[File]) -> (usize, Vec<String>) {
    let (mut all, mut found) = (0, Vec::new());
    for file in files {
        let mut is_inside = false;
        for (number, line) in file.text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("///") else {
                is_inside = false;
                continue;
            };
            if !std::mem::replace(&mut is_inside, true) {
                all += 1;
                let first = comment
                    .trim_start()
                    .split(|c: char| !c.is_alphanumeric())
                    .next()
                    .unwrap_or_default();
                if QUESTIONS.contains(&first) {
                    found.push(format!("{}:{}: {}", file.path, number + 1, comment.trim()));
                }
            }
        }
    }
    (all, found)
}

/// Doc comments that begin with a question word, when they are too many.
pub fn question_words(files: &[File], per_mille_max: usize) -> Vec<String> {
    let (all, found) = questions(files);
    if found.len() * 1000 <= all * per_mille_max {
        return Vec::new();
    }
    let head = format!(
        "{} of {all} doc comments begin with a question word: begin with a verb in the third person or with a noun",
        found.len()
    );
    std::iter::once(head).chain(found).collect()
}

#[test]
fn a_private_word_is_found_in_every_kind_of_identifier() {
    for bad in [
        "struct EmptyPurse;",
        "fn f(desk: u8) {}",
        "const LAST_FATE: u8 = 1;",
        "mod tests { fn is_told() {} }",
    ] {
        assert_eq!(private_words(&File::new("src/x.rs", bad)).len(), 1, "{bad}");
    }
    for good in [
        "fn f(gateway: u8) {}",
        "// the purse\nfn g() {}",
        "const S: &str = \"purse\";",
        "struct Propeller;",
    ] {
        assert_eq!(
            private_words(&File::new("src/x.rs", good)),
            Vec::<String>::new(),
            "{good}"
        );
    }
}

#[test]
fn a_type_name_with_two_meanings_is_found() {
    let files = |second: &str| {
        [
            File::new("src/a.rs", "pub struct Place;"),
            File::new("src/b.rs", second),
        ]
    };
    assert_eq!(shared_of(&files("enum Place { A }")), 1);
    assert_eq!(shared_of(&files("fn f(place: Place) {}\nstruct Other;")), 0);
    assert_eq!(
        shared_of(&files("#[cfg(test)]\nmod tests { struct Place; }")),
        0
    );
}

#[cfg(test)]
fn shared_of(files: &[File]) -> usize {
    shared_type_names(files, 0).len().saturating_sub(1)
}

#[test]
fn a_doc_comment_that_begins_with_a_question_word_is_found() {
    let file = |doc: &str| [File::new("src/x.rs", &format!("{doc}\nfn f() {{}}"))];
    assert!(!question_words(&file("/// What it gives."), 30).is_empty());
    assert!(
        question_words(
            &file("/// Bytes of a letter.\n/// What is left out: none."),
            0
        )
        .is_empty()
    );
}
