//! Conversations over real archives: the partition must be the one of union-find over Message-IDs, in whatever order
//! the letters come.

use crate::app::db;
use crate::app::{TestApp, Workspace};
use crate::corpora::{corpus, files};
use attache::domain::{Address, Arrival, Envelope, Letter, Via};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// The letters of an mbox file, in its order (RFC 4155; `From ` lines separate).
pub fn mbox(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).expect("an mbox");
    let mut letters: Vec<Vec<u8>> = Vec::new();
    let mut after_blank = true;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if after_blank && text.starts_with(b"From ") {
            letters.push(Vec::new());
        } else if let Some(letter) = letters.last_mut() {
            letter.extend_from_slice(
                text.strip_prefix(b">")
                    .filter(|t| t.starts_with(b"From "))
                    .unwrap_or(text),
            );
            letter.extend_from_slice(b"\r\n");
        }
        after_blank = text.is_empty();
    }
    letters
}

/// The ids between angle brackets of one header field, by a reader that shares no code with the engine.
fn ids(letter: &[u8], field: &str) -> Vec<String> {
    let head = String::from_utf8_lossy(letter);
    let head = head
        .split("\r\n\r\n")
        .next()
        .unwrap_or_default()
        .replace("\r\n ", " ")
        .replace("\r\n\t", " ");
    let value = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(field).then(|| value.to_owned())
    });
    let value = value.unwrap_or_default();
    let tokens = value
        .split('<')
        .skip(1)
        .filter_map(|rest| rest.split_once('>'));
    tokens
        .map(|(id, _)| id.split_whitespace().collect::<String>())
        .filter(|id| !id.is_empty())
        .collect()
}

/// Union-find over every id that a letter bears or mentions: letter -> root.
fn oracle(letters: &[Vec<u8>]) -> Vec<usize> {
    fn root(parents: &mut [usize], mut i: usize) -> usize {
        while parents[i] != i {
            parents[i] = parents[parents[i]];
            i = parents[i];
        }
        i
    }
    let mut parents: Vec<usize> = (0..letters.len()).collect();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (i, letter) in letters.iter().enumerate() {
        let mentioned = ["Message-ID", "References", "In-Reply-To"]
            .iter()
            .flat_map(|field| ids(letter, field));
        for id in mentioned.collect::<Vec<_>>() {
            let other = *seen.entry(id).or_insert(i);
            let (a, b) = (root(&mut parents, i), root(&mut parents, other));
            parents[a] = b;
        }
    }
    (0..letters.len()).map(|i| root(&mut parents, i)).collect()
}

/// Pairwise F1 of two partitions of the same letters.
fn f1(found: &[String], wanted: &[usize]) -> f64 {
    let (mut both, mut ours, mut theirs) = (0_u64, 0_u64, 0_u64);
    for i in 0..found.len() {
        for j in 0..i {
            let (a, b) = (found[i] == found[j], wanted[i] == wanted[j]);
            both += u64::from(a && b);
            ours += u64::from(a);
            theirs += u64::from(b);
        }
    }
    if ours + theirs == 0 {
        1.0
    } else {
        2.0 * both as f64 / (ours + theirs) as f64
    }
}

async fn partition(letters: &[Vec<u8>], order: &[usize]) -> Vec<String> {
    let app: TestApp = Workspace::new(&json!({ "rules": [{ "say": "x" }] }))
        .start()
        .await;
    let rcpt_to = vec![Address::parse("ada@engine.test").expect("an address")];
    let mut conversations = BTreeMap::new();
    let mut ids = Vec::new();
    for &i in order {
        let envelope = Envelope {
            mail_from: None,
            rcpt_to: rcpt_to.clone(),
            helo: String::new(),
            peer: None,
            via: Via::File,
            arrival: Arrival::default(),
        };
        let accepted = app
            .engine
            .intake()
            .accept(Letter {
                envelope,
                bytes: letters[i].clone(),
            })
            .await;
        ids.push((i, accepted.expect("taken").copies[0].message.to_string()));
    }
    let mut rows = app.workspace.rows().await;
    let sql = "SELECT m.id, t.conversation_id FROM messages m JOIN threads t ON t.id = m.thread_id";
    for row in db::query(sql).fetch_all(&mut rows).await.expect("rows") {
        conversations.insert(row.get::<String>(0), row.get::<String>(1));
    }
    ids.sort();
    ids.into_iter()
        .map(|(_, message)| conversations[&message].clone())
        .collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn archives_fall_into_conversations_of_union_find_in_any_order() {
    let mut archives: Vec<PathBuf> = Vec::new();
    for folder in ["threads-imaptest", "threads-ponymail/pass"] {
        let Some(folder) = corpus(folder) else { return };
        archives.extend(files(&folder, "mbox"));
    }
    assert!(!archives.is_empty(), "no archive in the corpora");
    for file in archives {
        let letters = mbox(&file);
        assert!(!letters.is_empty(), "{} has no letters", file.display());
        let wanted = oracle(&letters);
        let dated: Vec<usize> = (0..letters.len()).collect();
        let reversed: Vec<usize> = dated.iter().rev().copied().collect();
        // A permutation without chance: every position once, far from its neighbours.
        let step = (1..=letters.len())
            .rev()
            .find(|s| gcd(*s, letters.len()) == 1 && *s * 3 < letters.len() * 2);
        let shuffled: Vec<usize> = dated
            .iter()
            .map(|i| i * step.unwrap_or(1) % letters.len())
            .collect();
        for (name, order) in [
            ("date", dated),
            ("reverse", reversed),
            ("shuffled", shuffled),
        ] {
            let found = partition(&letters, &order).await;
            let score = f1(&found, &wanted);
            let file = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            eprintln!(
                "{file}, {name} order, {} letters: pairwise F1 {score:.3}",
                letters.len()
            );
            assert!(
                (score - 1.0).abs() < f64::EPSILON,
                "{file} in {name} order: {score}"
            );
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
