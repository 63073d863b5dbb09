//! Cases beside the repository: what must be read of a letter, and whether it may be answered.

use crate::app::{TestApp, Workspace};
use crate::corpora::cases;
use attache::domain::{Address, Arrival, Email, Envelope, Letter, Via};
use attache::gateway::intake_contract::CopyOutcome;
use attache::mime::{ParseLimits, parse};
use serde_json::{Value, json};

fn texts<'v>(expect: &'v Value, key: &str) -> Vec<&'v str> {
    let list = expect[key].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

/// What is not as expected of what is read.
fn misread(expect: &Value, email: &Email) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, text) in [("fresh", &email.fresh_text), ("text", &email.text)] {
        for wanted in texts(expect, &format!("{key}_has")) {
            if !text.contains(wanted) {
                wrong.push(format!("{key} lacks {wanted:?}: {text:?}"));
            }
        }
        for unwanted in texts(expect, &format!("{key}_lacks")) {
            if text.contains(unwanted) {
                wrong.push(format!("{key} has {unwanted:?}: {text:?}"));
            }
        }
    }
    let names: Vec<&str> = email
        .attachments
        .iter()
        .map(|a| a.filename.as_str())
        .collect();
    for wanted in texts(expect, "attachment_names_have") {
        if !names.contains(&wanted) {
            wrong.push(format!("no file {wanted:?}: {names:?}"));
        }
    }
    if let Some(subject) = expect["subject"]
        .as_str()
        .filter(|subject| *subject != email.subject)
    {
        wrong.push(format!(
            "the subject is {:?}, not {subject:?}",
            email.subject
        ));
    }
    wrong
}

/// What becomes of a letter of somebody whom `access.allow` names.
async fn disposition(app: &TestApp, bytes: Vec<u8>, email: &Email) -> String {
    let address = |text: &str| Address::parse(text).expect("an address");
    let letter = Letter {
        envelope: Envelope {
            mail_from: email
                .sender()
                .or_else(|| Some(address("anna@guest.example"))),
            rcpt_to: vec![address("ada@engine.test")],
            helo: String::new(),
            peer: None,
            via: Via::File,
            arrival: Arrival::default(),
        },
        bytes,
    };
    let accepted = app
        .engine
        .intake()
        .accept(letter)
        .await
        .expect("it is taken");
    match &accepted.copies[0].outcome {
        CopyOutcome::Run(_) => "run".to_owned(),
        CopyOutcome::Filed(rule) => format!("filed:{rule}"),
        other => format!("{other:?}"),
    }
}

/// Replaces the address of the cases by that of the only persona.
fn addressed_to_ada(mut letter: Vec<u8>) -> Vec<u8> {
    const THEIRS: &[u8] = b"bot@persona.test";
    let place = |letter: &[u8]| {
        letter
            .windows(THEIRS.len())
            .position(|window| window == THEIRS)
    };
    while let Some(at) = place(&letter) {
        letter.splice(at..at + THEIRS.len(), *b"ada@engine.test");
    }
    letter
}

#[tokio::test]
async fn every_case_is_read_and_judged_as_it_says() {
    let Some(folder) = cases("letters") else {
        return;
    };
    let listed = std::fs::read_to_string(folder.join("expected.json")).expect("expected.json");
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let app = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }))
        .talkative()
        .start()
        .await;
    let (mut wrong, mut held) = (Vec::new(), 0);
    for case in listed["cases"].as_array().expect("cases") {
        let (file, expect) = (case["file"].as_str().expect("a file"), &case["expect"]);
        let letter = std::fs::read(folder.join(file)).expect("a letter");
        let letter = addressed_to_ada(letter);
        let email = parse(&letter, &ParseLimits::default()).expect("an email");
        let mut found = misread(expect, &email);
        if expect["disposition"].is_string() || expect["disposition_not"].is_string() {
            let disposition = disposition(&app, letter, &email).await;
            if expect["disposition"]
                .as_str()
                .is_some_and(|wanted| wanted != disposition)
                || expect["disposition_not"].as_str() == Some(disposition.as_str())
            {
                found.push(format!("it is {disposition}"));
            }
        }
        match found.is_empty() {
            true => held += 1,
            false => wrong.push(format!("{file}: {found:?}")),
        }
    }
    eprintln!("cases of letters: {held} as expected");
    assert!(wrong.is_empty() && held > 0, "{wrong:#?}");
}
