//! Every letter of `tests/fixtures/automatic`: filed by its rule, or answered because it only looks like one of those.

use super::{model_calls, word, yes};
use crate::app::{TestApp, Workspace};
use crate::corpora::files;
use attache::domain::{Address, Arrival, Envelope, Letter, Via};
use attache::gateway::intake_contract::Refusal;
use attache::store::ThreadFilter;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Every rule of the judge, with what else may become of a letter.
const WORDS: [&str; 22] = [
    "answered",
    "auto_response_suppress",
    "auto_submitted",
    "autoreply_header",
    "autoreply_subject",
    "calendar_answer",
    "delivered_twice",
    "list",
    "malformed",
    "not_addressed",
    "null_sender",
    "own_persona",
    "precedence",
    "reaction",
    "refused",
    "report",
    "robot_sender",
    "unauthenticated",
    "unreadable",
    // Only mail that personas really sent can meet these: see `personas.rs`.
    "own_mail",
    "hop_limit",
    // Only a signed letter can: see `identity/attacks.rs`.
    "stale",
];

struct Case {
    name: String,
    expected: String,
    letter: Letter,
}

/// The first line of a file is the envelope, the second what is expected, the rest the letter.
fn case(path: &Path) -> Case {
    let name = path
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let text = std::fs::read_to_string(path).expect("a letter");
    let (envelope, rest) = text.split_once('\n').expect("an envelope");
    let (expected, letter) = rest.split_once('\n').expect("an expectation");
    let envelope = envelope
        .strip_prefix("Envelope: <")
        .and_then(|line| line.split_once("> -> "));
    let (mail_from, rcpt_to) = envelope.unwrap_or_else(|| panic!("{name}: no envelope"));
    let expected = expected
        .strip_prefix("Expect: ")
        .expect("an expectation")
        .to_owned();
    assert!(name.starts_with(&expected), "{name} expects {expected}");
    let address = |text: &str| Address::parse(text).expect("an address");
    let envelope = Envelope {
        mail_from: (!mail_from.is_empty()).then(|| address(mail_from)),
        rcpt_to: vec![address(rcpt_to)],
        helo: "client.example".into(),
        peer: None,
        via: Via::File,
        arrival: Arrival::default(),
    };
    let bytes = letter.replace('\n', "\r\n").into_bytes();
    Case {
        name,
        expected,
        letter: Letter { envelope, bytes },
    }
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/automatic");
    files(&folder, "eml")
        .iter()
        .map(|path| case(path))
        .collect()
}

async fn engine() -> TestApp {
    let workspace = Workspace::new(&yes());
    workspace.persona("ben", "Ben");
    workspace.set(
        "configs/gateway.json",
        "/limits",
        json!({ "received_headers_max": 50 }),
    );
    workspace.set("personas/ada/persona.json", "/aliases", json!(["desk"]));
    let allow = json!(["*@guest.example", "*@*.guest.example"]);
    workspace.write_json(
        "configs/security.json",
        &json!({ "access": { "allow": allow } }),
    );
    workspace.start().await
}

#[tokio::test]
#[ignore = "second tier"]
async fn automatic_letters_are_filed_by_rule_and_near_misses_answered() {
    let app = engine().await;
    let mut wrong = Vec::new();
    let mut filed = BTreeMap::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for Case {
        name,
        expected,
        letter,
    } in cases()
    {
        *seen.entry(expected.clone()).or_default() += 1;
        let found = match app.engine.intake().accept(letter).await {
            Err(Refusal::Hostile(_)) => "refused".to_owned(),
            Err(other) => panic!("{name}: {other}"),
            Ok(accepted) => {
                let copy = &accepted.copies[0];
                let found = word(&copy.outcome);
                filed.extend(
                    found
                        .strip_prefix("filed:")
                        .map(|_| (copy.message.to_string(), found.clone())),
                );
                found
                    .trim_start_matches("filed:")
                    .replace("run", "answered")
            }
        };
        if found != expected {
            wrong.push(format!("{name}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let machines: usize = seen
        .iter()
        .filter(|(word, _)| *word != "answered")
        .map(|(_, n)| n)
        .sum();
    assert!(
        machines >= 72 && seen["answered"] >= 30,
        "{machines} machines, {} people",
        seen["answered"]
    );
    let known: BTreeSet<&str> = WORDS[..19].iter().copied().collect();
    assert_eq!(
        seen.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        known
    );

    app.drain().await;
    assert_eq!(app.sent().len(), seen["answered"]);
    assert_eq!(model_calls(&app).await as usize, seen["answered"]);
    each_lies_with_its_rule(&app, filed).await;
    app.check().await;
}

/// Each is where its owner looks, with its rule.
async fn each_lies_with_its_rule(app: &TestApp, mut filed: BTreeMap<String, String>) {
    let all = ThreadFilter {
        limit: 1000,
        ..ThreadFilter::default()
    };
    let threads = app.engine.store.list_threads(&all).await.expect("threads");
    assert_eq!(
        threads
            .iter()
            .filter(|thread| thread.held.is_some())
            .count(),
        filed.len()
    );
    for thread in &threads {
        let store = app.engine.store.persona(&thread.persona);
        let messages = store
            .thread_messages(&thread.id, 10)
            .await
            .expect("messages");
        for shown in messages
            .iter()
            .filter(|shown| shown.message.direction == "inbound")
        {
            let expected = filed.remove(shown.message.id.as_str());
            assert_eq!(thread.held, expected, "{}", shown.message.sender);
            assert_eq!(
                shown.message.disposition,
                expected.unwrap_or("run".to_owned())
            );
        }
    }
    assert!(filed.is_empty(), "in no thread: {filed:?}");
}

/// An out-of-office in answer to a mail of ours that began the thread, which its subject alone tells, and what people write.
#[tokio::test]
async fn a_subject_of_machines_counts_in_a_thread_of_ours_until_somebody_has_written() {
    let app = TestApp::start(json!({ "rules": [
        { "when": { "turn": 0, "contains": "ask Olga" },
          "call": [{ "tool": "send_email", "args":
            { "to": ["olga@home.test"], "subject": "Key", "body": "Bob asks for the blue key." } }] },
        { "say": "Noted." },
    ] }))
    .await;
    app.run_of(&crate::app::proven_note(
        "q1@guest.example",
        "",
        "Please ask Olga for the key.",
    ))
    .await;
    app.drain().await;
    let asked = app.sent().into_iter().find(|mail| mail.subject == "Key");
    let ours = asked
        .and_then(|mail| mail.message_id)
        .expect("a mail to Olga");
    let ours = ours.as_str();
    let number = std::cell::Cell::new(0);
    let letter = |subject: &str, answers: &str| {
        number.set(number.get() + 1);
        format!(
            "From: Olga <olga@home.test>\nTo: ada@engine.test\nSubject: {subject}\nMessage-ID: <o{}@home.test>\n\
             In-Reply-To: <{answers}>\n\nI am away until Monday.\n",
            number.get()
        )
    };
    let filed = "filed:autoreply_subject";
    for (subject, answers, expected) in [
        ("Out of Office: Key", ours, filed),
        ("Automatic reply: Key", ours, filed),
        ("Automatic reply: Key?", ours, filed),
        ("Undeliverable: Key", ours, filed),
        // In no thread of ours a person may begin so.
        ("Out of Office: who takes over?", "other@home.test", "run"),
        ("Vacation planner", ours, "run"),
        // Now somebody has written, and is answered whatever the subject.
        ("Out of Office: Key", ours, "run"),
        ("Automatic reply: Key", ours, "run"),
    ] {
        assert_eq!(
            super::receive(&app, &letter(subject, answers)).await,
            expected,
            "{subject}"
        );
    }
    app.drain().await;
    app.check().await;
}

#[tokio::test]
async fn a_letter_to_two_personas_is_answered_by_the_one_it_names() {
    let app = engine().await;
    let mut letter = crate::app::letter(&super::from("carl@guest.example", "c@guest.example", ""));
    letter
        .envelope
        .rcpt_to
        .push(Address::parse("ben@engine.test").expect("an address"));
    let accepted = app.engine.intake().accept(letter).await.expect("taken");
    let became: Vec<(&str, String)> = accepted
        .copies
        .iter()
        .map(|copy| (copy.persona.as_str(), word(&copy.outcome)))
        .collect();
    assert_eq!(
        became,
        [
            ("ada", "run".to_owned()),
            ("ben", "filed:not_addressed".to_owned())
        ]
    );
    app.drain().await;
    assert_eq!(app.sent().len(), 1);
    app.check().await;
}
