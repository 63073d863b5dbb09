//! Agreement with what two of three independent parsers say (Python `email`, npm `mailparser`, Perl `Email::MIME`).

use crate::corpora::corpus;
use attache::domain::{Attachment, Mailbox, sha256_hex};
use attache::mime::{ParseLimits, ParsedLetter, parse_letter};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Per field: cases that agree, all cases, names of those that do not.
type Scores = BTreeMap<&'static str, (usize, usize, Vec<String>)>;

const HEADERS_AND_BODIES: [&str; 9] = [
    "message_id",
    "subject",
    "from",
    "to",
    "cc",
    "in_reply_to",
    "references",
    "text",
    "html",
];
const ATTACHMENTS: [&str; 3] = ["att_count", "att_sizes", "att_sha"];

#[test]
fn parsing_agrees_with_the_consensus_of_three_parsers() {
    let mut scores = Scores::new();
    for set in ["parse-ruby-mail", "parse-mimekit"] {
        let Some(folder) = corpus(set) else { return };
        let oracle = std::fs::read_to_string(folder.join("consensus.jsonl")).expect("oracle");
        for line in oracle.lines() {
            let case: Value = serde_json::from_str(line).expect("one JSON object per line");
            let file = case["file"].as_str().expect("file name");
            let letter = std::fs::read(folder.join(file)).expect("letter");
            compare(
                &mut scores,
                &format!("{set}/{file}"),
                &letter,
                &case["expect"],
            );
        }
    }
    for (field, (agreed, all, odd)) in &scores {
        eprintln!(
            "consensus {field}: {agreed}/{all} = {:.3} {odd:?}",
            *agreed as f64 / *all as f64
        );
    }
    let share = |field: &str| {
        scores
            .get(field)
            .map_or(0.0, |(agreed, all, _)| *agreed as f64 / *all as f64)
    };
    for field in HEADERS_AND_BODIES {
        assert!(
            share(field) >= 0.97,
            "{field} agrees in {:.3}",
            share(field)
        );
    }
    for field in ATTACHMENTS {
        assert!(
            share(field) >= 0.95,
            "{field} agrees in {:.3}",
            share(field)
        );
    }
}

fn compare(scores: &mut Scores, name: &str, letter: &[u8], expected: &Value) {
    let parsed = parse_letter(letter, &ParseLimits::default());
    let said = parsed.as_ref().map_or_else(|_| json!({}), said);
    for field in HEADERS_AND_BODIES.into_iter().chain(ATTACHMENTS) {
        // A field without consensus is absent.
        let Some(wanted) = expected.get(field) else {
            continue;
        };
        let score = scores.entry(field).or_default();
        score.1 += 1;
        // None of the three joins the lines of a flowed text (RFC 3676), where blanks and marks of quotation go.
        let is_flowed = || {
            letter
                .windows(7)
                .any(|seven| seven.eq_ignore_ascii_case(b"=flowed"))
        };
        let bare = |text: Option<&Value>| {
            let text = text.and_then(Value::as_str).unwrap_or_default();
            text.replace([' ', '>'], "")
        };
        let is_same = said.get(field) == Some(wanted)
            || (field == "text" && is_flowed() && bare(said.get(field)) == bare(Some(wanted)));
        if is_same {
            score.0 += 1;
        } else {
            if std::env::var_os("MIME_DIFF").is_some() {
                eprintln!(
                    "DIFF {name} {field}\n  want {wanted}\n  said {}",
                    said.get(field).unwrap_or(&Value::Null)
                );
            }
            score.2.push(name.to_owned());
        }
    }
}

/// What we say, in the oracle's form: addresses lower case, sorted and once each, bodies with every run of blanks as one, HTML cut at 4,000 characters, `message/*`
/// parts as attachments of no bytes and no hash (the oracle's libraries hold them as objects).
fn said(parsed: &ParsedLetter) -> Value {
    let email = &parsed.email;
    let is_object = |a: &Attachment| {
        a.content_type.starts_with("message/") && !a.content_type.ends_with("-notification")
    };
    let mut attachments: Vec<(usize, String)> = email.attachments[..parsed.own_attachments]
        .iter()
        .map(|a| {
            if is_object(a) {
                (0, String::new())
            } else {
                (a.bytes.len(), sha256_hex(&[&a.bytes]))
            }
        })
        .collect();
    attachments.sort();
    let sizes: Vec<usize> = attachments.iter().map(|(size, _)| *size).collect();
    let mut hashes: Vec<String> = attachments.into_iter().map(|(_, hash)| hash).collect();
    hashes.sort();
    json!({
        "message_id": email.message_id,
        "subject": blanks(&email.subject),
        "from": addresses(&email.from),
        "to": addresses(&email.to),
        "cc": addresses(&email.cc),
        "in_reply_to": email.in_reply_to,
        "references": email.references,
        "text": blanks(&parsed.plain),
        "html": blanks(email.html.as_deref().unwrap_or_default()).chars().take(4000).collect::<String>(),
        "att_count": sizes.len(),
        "att_sizes": sizes,
        "att_sha": hashes,
    })
}

fn addresses(mailboxes: &[Mailbox]) -> Vec<String> {
    let mut specs: Vec<String> = mailboxes.iter().map(|m| m.spec.to_lowercase()).collect();
    specs.sort();
    specs.dedup();
    specs
}

fn blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
