//! 74 real bounces, judged by another program (Sisimai 5.1): ours must say the same, as far as both can know.

use crate::corpora::corpus;
use attache::domain::Report;
use attache::mime::{ParseLimits, read_report};
use serde_json::Value;
use std::collections::BTreeMap;

/// What another parser says of one letter.
struct Expected {
    file: String,
    bounces: Vec<Value>,
}

fn expected(folder: &std::path::Path) -> Vec<Expected> {
    let lines =
        std::fs::read_to_string(folder.join("expected.jsonl")).expect("the oracle's answers");
    let read = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("json");
        let file = value["file"]
            .as_str()
            .expect("a file")
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        Expected {
            file,
            bounces: value["bounces"].as_array().expect("bounces").clone(),
        }
    };
    lines.lines().map(read).collect()
}

/// Whether a report says of every expected recipient what `says` asks for.
fn all(
    expected: &Expected,
    report: &Report,
    says: impl Fn(&Value, &attache::domain::ReportedRecipient) -> bool,
) -> bool {
    expected.bounces.iter().all(|bounce| {
        let address = bounce["recipient"].as_str().unwrap_or_default();
        let is_it = |address: &str, found: &str| found.eq_ignore_ascii_case(address);
        let named = report
            .recipients
            .iter()
            .find(|r| is_it(address, &r.address));
        // An oracle that misspells the address still has an opinion about the letter.
        named
            .or(report.recipients.first())
            .is_some_and(|recipient| says(bounce, recipient))
    })
}

#[test]
fn real_bounces_are_read_as_another_parser_reads_them() {
    let Some(folder) = corpus("bounces-sisimai") else {
        return;
    };
    let (mut reasons, mut recipients, mut hard, mut read) = (0, 0, 0, 0);
    let mut classes: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let letters = expected(&folder);
    for letter in &letters {
        let bytes = std::fs::read(folder.join(&letter.file)).expect("a letter");
        let class = letter.bounces[0]["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let class = classes.entry(class).or_default();
        class.1 += 1;
        let Some(report) = read_report(&bytes, &ParseLimits::default()) else {
            eprintln!("{}: not read as a report", letter.file);
            continue;
        };
        read += 1;
        let reason = all(letter, &report, |b, r| b["reason"] == r.reason.as_str());
        let named = |b: &Value| {
            let address = b["recipient"].as_str().unwrap_or_default();
            report
                .recipients
                .iter()
                .any(|r| r.address.eq_ignore_ascii_case(address))
        };
        let recipient =
            letter.bounces.len() == report.recipients.len() && letter.bounces.iter().all(named);
        let is_hard = all(letter, &report, |b, r| (b["hardbounce"] == 1) == r.is_hard);
        class.0 += u32::from(reason);
        reasons += u32::from(reason);
        recipients += u32::from(recipient);
        hard += u32::from(is_hard);
        if !(reason && recipient && is_hard) {
            let ours: Vec<String> = report.recipients.iter().map(|r| format!("{r:?}")).collect();
            let theirs: Vec<String> = letter
                .bounces
                .iter()
                .map(|b| {
                    format!(
                        "{} {} hard {}",
                        b["reason"], b["recipient"], b["hardbounce"]
                    )
                })
                .collect();
            eprintln!("{}: theirs {theirs:?}, ours {ours:?}", letter.file);
        }
    }
    eprintln!(
        "bounces: {read} read, {reasons} reasons, {recipients} recipients, {hard} hard or soft of {}",
        letters.len()
    );
    for (class, (right, of)) in classes {
        eprintln!("  {class}: {right} of {of}");
    }
    assert_eq!((letters.len(), read), (74, 74));
    assert!(reasons >= 71, "only {reasons} of 74 reasons");
    assert!(recipients >= 73, "only {recipients} of 74 recipients");
    assert!(hard >= 71, "only {hard} of 74 hard or soft");
}
