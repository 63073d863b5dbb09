//! Odd letters and what becomes of them: in the database, in the prompt, in the answer.

use crate::app::db;
use crate::app::{TestApp, Workspace, proven_note as note};
use crate::identity::world::{USUAL, World};
use attache::gateway::intake_contract::{CopyOutcome, Refusal};
use serde_json::json;

fn yes() -> serde_json::Value {
    json!({ "rules": [{ "say": "Yes." }] })
}

/// Bob's letter with these header lines instead of `note`'s.
fn letter(head: &str, body: &str) -> String {
    format!(
        "From: Bob <bob@guest.example>\n{head}Date: Fri, 20 Nov 2026 08:59:00 +0000\n\n{body}\n"
    )
}

async fn threads(app: &TestApp) -> i64 {
    let mut rows = app.workspace.rows().await;
    db::query_scalar("SELECT count(*) FROM threads")
        .fetch_one(&mut rows)
        .await
        .expect("a count")
}

#[tokio::test]
async fn a_tagged_alias_in_capitals_is_answered_from_the_main_address() {
    let workspace = Workspace::new(&yes());
    workspace.set("personas/ada/persona.json", "/aliases", json!(["desk"]));
    let app = workspace.start().await;
    let to = "To: DESK+Rooms@Engine.TEST\nSubject: Room\nMessage-ID: <a@guest.example>\n";
    app.run_of(&letter(to, "Is there a room?")).await;
    for nobody in [
        "desk@elsewhere.test",
        "dess@engine.test",
        "desk@sub.engine.test",
    ] {
        let refused = app
            .receive(&letter(
                &format!("To: {nobody}\nMessage-ID: <b@guest.example>\n"),
                "?",
            ))
            .await;
        assert!(
            matches!(refused, Err(Refusal::NobodyAddressed)),
            "{nobody}: {refused:?}"
        );
    }
    assert_eq!(app.drain().await.runs, 1);
    assert_eq!(app.sent()[0].from[0].spec, "ada@engine.test");
    app.check().await;
}

#[tokio::test]
async fn a_letter_without_message_id_is_answered_without_naming_one() {
    let app = TestApp::start(yes()).await;
    app.run_of(&letter(
        "To: ada@engine.test\nSubject: Room\n",
        "Is there a room?",
    ))
    .await;
    app.drain().await;
    let answer = app.sent().remove(0);
    assert_eq!(
        (
            answer.subject.as_str(),
            answer.in_reply_to.len(),
            answer.references.len()
        ),
        ("Re: Room", 0, 0)
    );
    let id = answer.message_id.expect("an id");
    let next = letter(
        &format!("To: ada@engine.test\nSubject: Re: Room\nIn-Reply-To: <{id}>\n"),
        "For two.",
    );
    let run = app.run_of(&next).await;
    app.drain().await;
    assert!(
        app.prompts(&run).await[0]
            .to_string()
            .contains("Is there a room?")
    );
    assert_eq!(threads(&app).await, 1);
    app.check().await;
}

#[tokio::test]
async fn an_id_for_a_letter_without_one_is_the_same_in_every_engine() {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let app = TestApp::start(yes()).await;
        let run = app
            .run_of(&letter(
                "To: ada@engine.test\nSubject: Room\n",
                "Is there a room?",
            ))
            .await;
        let sql = "SELECT m.message_id FROM messages m JOIN runs r ON r.trigger_message_id = m.id WHERE r.id = $1";
        ids.push(app.row(sql, &run).await.remove(0).expect("an id"));
    }
    assert_eq!(ids[0], ids[1]);
    assert!(
        ids[0].starts_with("generated.") && ids[0].ends_with("@engine.test"),
        "{}",
        ids[0]
    );
}

#[tokio::test]
async fn message_ids_keep_their_case_and_length_in_the_answer() {
    let long = format!("{}@Guest.Example", "aB".repeat(193));
    for id in ["MiXed.Case@Guest.EXAMPLE", &long] {
        let app = TestApp::start(yes()).await;
        app.run_of(&note(id, "References: <RooT@x.Example>\n", "Hello?"))
            .await;
        app.drain().await;
        let answer = app.sent().remove(0);
        assert_eq!(answer.in_reply_to, [id]);
        assert_eq!(answer.references, ["RooT@x.Example", id]);
        app.check().await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn subjects_get_one_prefix_also_with_none_or_no_subject() {
    for (subject, wanted) in [
        ("", "Re:"),
        ("RE: Room", "RE: Room"),
        ("Re: Re: Room", "Re: Re: Room"),
        ("AW: Zimmer", "AW: Zimmer"),
    ] {
        let app = TestApp::start(yes()).await;
        let head =
            format!("To: ada@engine.test\nSubject: {subject}\nMessage-ID: <a@guest.example>\n");
        app.run_of(&letter(&head, "Hello?")).await;
        app.drain().await;
        assert_eq!(app.sent()[0].subject, wanted, "{subject:?}");
    }
}

#[tokio::test]
async fn html_without_text_is_read_as_text_and_kept_as_html() {
    let app = TestApp::start(yes()).await;
    let head = "To: ada@engine.test\nSubject: Room\nMessage-ID: <a@guest.example>\nMIME-Version: 1.0\n\
                Content-Type: text/html; charset=utf-8\n";
    let html =
        "<p>Is there a <b>quiet</b> room?</p><style>p{color:red}</style><ul><li>for two</li></ul>";
    let run = app.run_of(&letter(head, html)).await;
    app.drain().await;
    let sql =
        "SELECT m.text_body, m.html_body FROM messages m JOIN runs r ON r.trigger_message_id = m.id
        WHERE r.id = $1";
    let row = app.row(sql, &run).await;
    let text = row[0].clone().expect("text");
    assert!(text.contains("quiet") && text.contains("for two"), "{text}");
    assert!(!text.contains('<') && !text.contains("color"), "{text}");
    assert_eq!(row[1].as_deref().map(str::trim), Some(html));
    let prompt = app.prompts(&run).await[0].to_string();
    assert!(
        prompt.contains("for two") && !prompt.contains("color:red"),
        "{prompt}"
    );
}

#[tokio::test]
async fn attachments_of_one_name_are_two_files_both_in_the_prompt() {
    let app = TestApp::start(yes()).await;
    let head = "To: ada@engine.test\nReply-To: Bob at work <bob@office.example>\nSubject: Plans\n\
                Message-ID: <a@guest.example>\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n";
    let part = |text: &str| {
        format!(
            "--b\nContent-Type: text/csv\nContent-Disposition: attachment; filename=\"../plan.csv\"\n\n{text}\n"
        )
    };
    let body = format!(
        "--b\nContent-Type: text/plain\n\nTwo plans.\n{}{}--b--",
        part("one"),
        part("two")
    );
    let run = app.run_of(&letter(head, &body)).await;
    app.drain().await;
    let sql = "SELECT filename, sha256, id, declared_name FROM attachments ORDER BY id";
    let files = db::query(sql)
        .fetch_all(&mut app.workspace.rows().await)
        .await
        .expect("attachments");
    let names: Vec<&str> = files.iter().map(|row| row.get(0)).collect();
    assert_eq!(names.len(), 2);
    assert!(
        names[0] != names[1] && names.iter().all(|name| !name.contains('/')),
        "{names:?}"
    );
    let persona = attache::domain::PersonaId::parse("ada").expect("a persona");
    for row in &files {
        let store = app.engine.store.persona(&persona);
        let bytes = store.attachment_bytes(row.get(2)).await.expect("read");
        let digest = attache::domain::sha256_hex(&[&bytes.expect("a file")]);
        assert_eq!(row.get::<&str>(1), digest);
        assert_eq!(row.get::<&str>(3), "../plan.csv");
    }
    let prompt = app.prompts(&run).await[0].to_string();
    let told = [
        names[0],
        names[1],
        "text/csv",
        "subject: Plans",
        "from: Bob <bob@guest.example>",
        "bob@office.example",
        "date: Fri, 20 Nov 2026",
    ];
    for shown in told {
        assert!(prompt.contains(shown), "{shown} is missing in {prompt}");
    }
    app.check().await;
}

/// Carol of `partner.test`, whose domain signs; `send_allow` names a house.
async fn house() -> World {
    let workspace = Workspace::new(&yes());
    workspace.set(
        "configs/security.json",
        "/send_allow",
        json!(["*@house.example", "desk@partner.test"]),
    );
    World::in_workspace(workspace, json!({})).await
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_answer_goes_to_reply_to_only_when_own_or_allowed() {
    let own = "carol+inbox@partner.test";
    let (deps, carol) = ("desk@house.example", "carol@partner.test");
    let (signed, uncovered, unproven) = (Some(true), Some(false), None);
    let cases = [
        (signed, own, own),
        (signed, deps, deps),
        (signed, "victim@bank.example", carol),
        (signed, "olga@home.test", carol),
        (signed, "carol@partner.test.evil.example", carol),
        (signed, "carol+a@partner.test, carol+b@partner.test", carol),
        // A field that the signature does not cover may be anybody's; so may all of a letter without one.
        (uncovered, deps, carol),
        (uncovered, own, own),
        (unproven, deps, carol),
        (unproven, own, own),
    ];
    for (covers, reply_to, wanted) in cases {
        let world = house().await;
        let letter = world.plain(carol, "a", &format!("Reply-To: {reply_to}\r\n"));
        let fields: Vec<&str> = USUAL
            .into_iter()
            .chain(covers.filter(|yes| *yes).map(|_| "Reply-To"))
            .collect();
        let letter = match covers {
            Some(_) => world.signed_with("partner.test", &letter, &fields, |signer| signer),
            None => letter,
        };
        world.hand_over(&letter, None).await.expect("taken");
        world.app.drain().await;
        let sent = world.app.sent();
        assert_eq!(sent.len(), 1, "{covers:?} {reply_to}");
        let to: Vec<&str> = sent[0]
            .to
            .iter()
            .map(|mailbox| mailbox.spec.as_str())
            .collect();
        assert_eq!(to, [wanted], "{covers:?} {reply_to}");
        assert_eq!(sent[0].in_reply_to, ["a@x.test"]);
        world.app.check().await;
    }
}

#[tokio::test]
async fn a_persona_keeps_its_thread_when_an_allowed_reply_to_answers() {
    let world = house().await;
    let fields: Vec<&str> = USUAL.into_iter().chain(["Reply-To"]).collect();
    let letter = world.plain("carol@partner.test", "a", "Reply-To: desk@partner.test\r\n");
    let letter = world.signed_with("partner.test", &letter, &fields, |signer| signer);
    world.hand_over(&letter, None).await.expect("taken");
    world.app.drain().await;
    let id = world.app.sent().remove(0).message_id.expect("an id");
    let fields: Vec<&str> = USUAL.into_iter().chain(["In-Reply-To"]).collect();
    let answer = world.plain(
        "desk@partner.test",
        "d",
        &format!("In-Reply-To: <{id}>\r\n"),
    );
    let answer = world.signed_with("partner.test", &answer, &fields, |signer| signer);
    let run = world.app.run_of(&answer).await;
    world.app.drain().await;
    let prompt = world.app.prompts(&run).await[0].to_string();
    assert!(
        prompt.contains("Yes."),
        "the desk got this answer: {prompt}"
    );
    assert!(
        !prompt.contains("Hello, a."),
        "Carol wrote this to the persona alone: {prompt}"
    );
    assert_eq!(threads(&world.app).await, 1);
}

#[tokio::test]
async fn automatic_mail_is_stored_and_not_answered() {
    let app = TestApp::start(yes()).await;
    let marks = [
        "Auto-Submitted: auto-replied\n",
        "List-Id: <l.guest.example>\n",
        "Precedence: bulk\n",
    ];
    for (n, mark) in marks.iter().enumerate() {
        let taken = app
            .receive(&note(&format!("m{n}@guest.example"), mark, "I am away."))
            .await
            .expect("taken");
        assert!(
            matches!(taken.copies[0].outcome, CopyOutcome::Filed(_)),
            "{mark}: {taken:?}"
        );
    }
    let mut bounce = crate::app::letter(&note("b@guest.example", "", "It came back."));
    bounce.envelope.mail_from = None;
    let taken = app.engine.intake().accept(bounce).await.expect("taken");
    assert_eq!(
        taken.copies[0].outcome,
        CopyOutcome::Filed("null_sender".to_owned())
    );
    assert_eq!(app.drain().await, attache::app::Drained::default());
    let kept = app
        .row(
            "SELECT CAST(count(*) AS TEXT) FROM raw_letters WHERE $1 = $1",
            "",
        )
        .await;
    assert_eq!(kept[0].as_deref(), Some("4"));
    app.check().await;
}

#[tokio::test]
async fn nothing_of_a_denied_letter_is_stored() {
    let workspace = Workspace::new(&yes());
    let access =
        json!({ "default_decision": "deny", "allow": ["*@guest.example"], "deny": ["mallory@*"] });
    workspace.write_json("configs/security.json", &json!({ "access": access }));
    let app = workspace.start().await;
    let from =
        |sender: &str| note("a@x.example", "", "Hello?").replace("bob@guest.example", sender);
    for sender in ["eve@evil.example", "mallory@guest.example"] {
        let refused = app.receive(&from(sender)).await;
        assert!(
            matches!(refused, Err(Refusal::Denied)),
            "{sender}: {refused:?}"
        );
    }
    let stored = "SELECT CAST((SELECT count(*) FROM messages) + (SELECT count(*) FROM raw_letters) +
        (SELECT count(*) FROM message_links) + (SELECT count(*) FROM conversations) AS TEXT) WHERE $1 = $1";
    assert_eq!(app.row(stored, "").await[0].as_deref(), Some("0"));
    app.run_of(&from("bob@guest.example")).await;
    app.drain().await;
}

#[tokio::test]
async fn a_mail_to_a_third_party_converses_and_hides_blind_recipients() {
    let app = TestApp::start(json!({ "rules": [
        { "when": { "turn": 0, "contains": "ask Olga" }, "call": [{ "tool": "send_email", "args": { "to": "olga@home.test",
          "bcc": ["bob@guest.example"], "subject": "Key", "body": "The blue key?", "reply": false } }] },
        { "when": { "turn": 1 }, "say": "I have asked her." },
        { "say": "You are welcome." },
    ] }))
    .await;
    let run = app
        .run_of(&note(
            "q1@guest.example",
            "References: <q0@guest.example>\n",
            "Please ask Olga.",
        ))
        .await;
    app.drain().await;
    let sent = app.sent();
    let asked = sent
        .iter()
        .find(|mail| mail.to[0].spec == "olga@home.test")
        .expect("a mail to Olga");
    assert_eq!(
        (
            asked.subject.as_str(),
            asked.in_reply_to.len(),
            asked.references.len()
        ),
        ("Key", 0, 0)
    );
    let sql = "SELECT group_concat(r.recipient, ' '), max(d.bytes)
        FROM deliveries d JOIN delivery_recipients r ON r.delivery_id = d.id JOIN messages m ON m.id = d.message_id
        WHERE d.run_id = $1 AND m.subject = 'Key'";
    let row = app.row(sql, &run).await;
    let mut envelope: Vec<&str> = row[0].as_deref().expect("recipients").split(' ').collect();
    envelope.sort_unstable();
    assert_eq!(envelope, ["bob@guest.example", "olga@home.test"]);
    let mail = row[1].as_deref().expect("a mail");
    assert!(mail.contains("olga@home.test"), "{mail}");
    assert!(!mail.contains("bob@guest"), "{mail}");

    // The closing words went to Bob by mail, so they belong to the history of his thread.
    let answer = sent
        .iter()
        .find(|mail| mail.to[0].spec == "bob@guest.example")
        .expect("a mail to Bob");
    assert!(answer.text.contains("I have asked her."), "{}", answer.text);
    let id = answer.message_id.clone().expect("an id");
    let next = app
        .run_of(&note(
            "q2@guest.example",
            &format!("In-Reply-To: <{id}>\n"),
            "Thank you.",
        ))
        .await;
    app.drain().await;
    let prompt = app.prompts(&next).await[0].to_string();
    assert_eq!(prompt.matches("I have asked her.").count(), 1, "{prompt}");
    app.check().await;
}

#[tokio::test]
async fn a_reply_that_the_tool_refused_first_is_in_history_as_mailed() {
    let app = TestApp::start(json!({ "rules": [
        { "when": { "turn": 0, "contains": "tell Carol" },
          "call": [{ "tool": "send_email", "args": { "to": "ada@engine.test", "subject": "Hi", "body": "Hi" } }] },
        { "when": { "turn": 1 }, "say": "I may not write to Carol." },
        { "say": "Sorry." },
    ] }))
    .await;
    app.run_of(&note("q1@guest.example", "", "Please tell Carol."))
        .await;
    app.drain().await;
    let next = app
        .run_of(&note(
            "q2@guest.example",
            "In-Reply-To: <q1@guest.example>\n",
            "Why?",
        ))
        .await;
    app.drain().await;
    let prompt = app.prompts(&next).await[0].to_string();
    assert_eq!(
        prompt.matches("I may not write to Carol.").count(),
        1,
        "{prompt}"
    );
}
