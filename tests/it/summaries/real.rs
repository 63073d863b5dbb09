//! Threads of a real archive, summarised by a rule: every line with a fact that no line before has. What the check says of it is
//! printed, to be read beside the letters.

use crate::app::parse;
use crate::archives::mbox;
use crate::corpora::{corpus, files};
use attache::context::resolvers::summary::facts::facts_of;
use attache::context::resolvers::summary::request::{SUMMARY_CHARS_MAX, problems};
use std::collections::{BTreeMap, HashSet};

/// Characters of a letter that are summarised.
const CHARS_MAX: usize = 4_000;

/// Keeps the lines of the letters in which a fact stands for the first time, as far as there is room.
fn extract(letters: &str) -> String {
    let (mut known, mut kept) = (HashSet::new(), String::new());
    for line in letters.lines().filter(|line| !line.starts_with("===")) {
        let facts = facts_of(line);
        let before = known.len();
        known.extend(facts.into_iter().map(|fact| fact.shown));
        if known.len() > before && kept.len() + line.len() < SUMMARY_CHARS_MAX {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[test]
#[ignore = "second tier"]
fn an_extract_of_real_threads_invents_nothing() {
    let Some(folder) = corpus("threads-ponymail/pass") else {
        return;
    };
    let mut threads: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files(&folder, "mbox") {
        for bytes in mbox(&file) {
            let email = parse(&bytes);
            let subject = email
                .subject
                .split("] ")
                .last()
                .unwrap_or_default()
                .to_owned();
            let text: String = email.text.chars().take(CHARS_MAX).collect();
            let sender = email
                .from
                .first()
                .map(|from| from.spec.clone())
                .unwrap_or_default();
            let letter = format!(
                "=== Letter of Wed, 1 Jun 2016 from {sender}, subject: {subject}\n{}\n\n",
                text.trim()
            );
            threads.entry(subject).or_default().push(letter);
        }
    }
    let mut threads: Vec<_> = threads.into_iter().collect();
    threads.sort_by_key(|(_, letters)| std::cmp::Reverse(letters.len()));
    for (subject, letters) in threads.iter().take(10) {
        let letters: String = letters.iter().take(8).map(String::as_str).collect();
        let summary = extract(&letters);
        let found = problems(&letters, &summary);
        let invented = found
            .iter()
            .filter(|problem| problem.starts_with("says"))
            .count();
        println!(
            "##### {subject}\n{letters}\n##### facts: {}, summary of {} characters, problems: {found:?}\n{summary}",
            facts_of(&letters).len(),
            summary.len()
        );
        assert_eq!(invented, 0, "{found:?}");
    }
}
