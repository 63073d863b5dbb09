//! What stands below a mail, when it leaves, and who calls it back: `signature`, `quote`, `undo` and `at`.

use crate::app::{TestApp, Workspace, proven_note as note};
use attache::domain::{Email, Timestamp, Trigger};
use attache::mime::{fresh_text, html_to_text};
use attache::runs::approvals::edit::{NewText, edit};
use attache::store::{ApprovalVerdict, Delivery, DeliveryFilter, DeliveryState, NewDecision};
use serde_json::{Value, json};
use std::time::Duration;

const PERSONA: &str = "personas/ada/persona.json";
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A persona with these members of her file, whose model says this, turn by turn.
fn place(turns: &Value, members: &Value) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": turns }));
    for (key, value) in members.as_object().expect("an object") {
        workspace.set(PERSONA, &format!("/{key}"), value.clone());
    }
    workspace
}

async fn started(turns: Value, members: Value) -> TestApp {
    place(&turns, &members).start().await
}

/// Has the persona answer a letter of Bob's.
async fn writes(app: &TestApp, id: &str, more: &str, body: &str) -> String {
    let run = app
        .run_of(&note(&format!("{id}@guest.example"), more, body))
        .await;
    app.drain().await;
    run
}

fn only(app: &TestApp) -> Email {
    let mut sent = app.sent();
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}

async fn deliveries(app: &TestApp) -> Vec<Delivery> {
    let filter = DeliveryFilter {
        limit: 10,
        ..DeliveryFilter::default()
    };
    let found = app.engine.store.list_deliveries(&filter).await;
    found.expect("deliveries")
}

const SIGNED: &str = "Ada, *Guest House*\n[the house](https://house.test)";
const PLAIN: &str = "-- \nAda, Guest House\nthe house (https://house.test)";

#[tokio::test]
async fn the_signature_stands_below_every_mail_and_in_no_prompt() {
    let turns = json!([
        { "call": [{ "tool": "send_email", "args": { "to": "bob@guest.example", "subject": "Menu", "body": "See you.", "reply": false } }] },
        // What the model invents gives way.
        { "say": "From seven.\n\n-- \nYour AI\nhttps://nowhere.test" },
    ]);
    let app = started(turns, json!({ "signature": SIGNED })).await;
    writes(&app, "a", "", "When is breakfast?").await;
    let reply = "In-Reply-To: <a@guest.example>\nReferences: <a@guest.example>\n";
    let run = writes(&app, "b", reply, "And until when?").await;
    let mut sent: Vec<Email> = app.sent();
    sent.sort_by_key(|mail| mail.text.clone());
    let texts: Vec<&str> = sent.iter().map(|mail| mail.text.trim_end()).collect();
    assert_eq!(
        texts,
        ["From seven.", "From seven.", "See you.", "See you."]
            .map(|text| format!("{text}\n\n{PLAIN}"))
    );
    for mail in &sent {
        let html = mail.html.as_deref().expect("an HTML part");
        assert!(html.contains("-- <br>"), "{html}");
        assert!(html.contains("<em>Guest House</em>"), "{html}");
        assert!(html.contains("href=\"https://house.test\""), "{html}");
        assert!(!html.contains("Your AI"), "{html}");
    }
    let prompts = app.prompts(&run).await;
    assert!(
        !prompts[0].to_string().contains("Guest House"),
        "{prompts:#?}"
    );
    app.check().await;
}

/// An answer for a program is what the program expects.
#[tokio::test]
async fn nothing_stands_below_an_answer_that_is_data() {
    let schema = r#"{ "type": "object", "required": ["rooms"], "properties": { "rooms": { "type": "integer" } } }"#;
    let members =
        json!({ "signature": SIGNED, "quote": "last", "output_schema": "schemas/quote.json" });
    let workspace = place(&json!([{ "say": "{\"rooms\": 2}" }]), &members);
    workspace.write("personas/ada/schemas/quote.json", schema);
    let app = workspace.start().await;
    writes(&app, "a", "", "How many?").await;
    let mail = only(&app);
    assert!(mail.text.contains("\"rooms\""), "{}", mail.text);
    assert!(!mail.text.contains("-- "), "{}", mail.text);
    assert!(!mail.text.contains("wrote:"), "{}", mail.text);
    app.check().await;
}

#[tokio::test]
async fn a_signature_may_be_a_file_and_a_run_keeps_the_one_it_began_with() {
    let workspace = place(
        &json!([{ "say": "Yes." }]),
        &json!({ "signature": "signature.md" }),
    );
    workspace.write("personas/ada/signature.md", "Ada\nHarbour Road 1\n");
    let app = workspace.start().await;
    writes(&app, "a", "", "When?").await;
    assert_eq!(
        only(&app).text.trim_end(),
        "Yes.\n\n-- \nAda\nHarbour Road 1"
    );
    app.check().await;
}

#[test]
fn keys_that_cannot_be_used_are_named() {
    let long = "x".repeat(2001);
    let of_place = "x".repeat(10);
    for (key, value, words) in [
        ("signature", json!(" \n"), "the signature is empty"),
        ("signature", json!(long), "longer than 2000 characters"),
        ("signature", json!("Ada\n-- \nx"), "a line `--`"),
        ("signature", json!("Ada\u{7}"), "control characters"),
        ("signature", json!("none.md"), "`none.md` cannot be read"),
        ("signature", json!("../other/signature.md"), "no path below"),
        ("signature", json!("/etc/motd.txt"), "no path below"),
        ("undo", json!("25h"), "`25h` is longer than `1d`"),
        ("undo", json!(of_place), "duration"),
        ("reply_to", json!("everybody"), "everybody"),
        ("quote", json!("all"), "all"),
    ] {
        let workspace = place(&json!([]), &json!({ key: value }));
        let names = attache::cli::name_catalog();
        let told = match attache::config::load(workspace.path(), &names) {
            Ok(config) => {
                let out = config.personas.out_of_service().first();
                let problems = out.map(|out| out.problems.iter().map(ToString::to_string));
                problems.into_iter().flatten().collect::<String>()
            }
            Err(errors) => errors.to_string(),
        };
        assert!(told.contains(words), "{key} {value}: {told}");
    }
}

#[tokio::test]
async fn a_draft_shows_what_stands_below_and_keeps_it_when_it_is_edited() {
    let members = json!({ "signature": "Ada\nGuest House", "quote": "last", "reply": "draft" });
    let app = started(json!([{ "say": "From seven." }]), members).await;
    writes(&app, "a", "", "When is breakfast?").await;
    let store = &app.engine.store;
    let view = store
        .drafts(None, None, 10)
        .await
        .expect("drafts")
        .remove(0);
    assert!(
        view.view.contains("From seven.\n\n-- \nAda\nGuest House"),
        "{}",
        view.view
    );
    assert!(
        view.view.contains("wrote:\n> [the letter, 1 line]"),
        "{}",
        view.view
    );
    sends(&app, &view.id, "From eight.", None).await;
    app.drain().await;
    let mail = only(&app);
    assert!(
        mail.text
            .starts_with("From eight.\n\n-- \nAda\nGuest House\n\nOn Fri, 20 Nov 2026"),
        "{}",
        mail.text
    );
    assert!(
        mail.text.contains("\n> When is breakfast?"),
        "{}",
        mail.text
    );
    app.check().await;

    // A signature of the model's own makes place for it, and its owner sees that.
    let members = json!({ "signature": "Ada\nGuest House", "reply": "draft" });
    let app = started(json!([{ "say": "From seven.\n\n-- \nYour Ada" }]), members).await;
    writes(&app, "b", "", "When is breakfast?").await;
    let drafts = app.engine.store.drafts(None, None, 10).await;
    let view = drafts.expect("drafts").remove(0).view;
    assert!(
        view.contains("From seven.\n\n-- \nAda\nGuest House") && !view.contains("Your Ada"),
        "{view}"
    );
    app.check().await;
}

/// Edits a draft, and sends it; `at`: then.
async fn sends(app: &TestApp, id: &str, text: &str, at: Option<Timestamp>) {
    let store = &app.engine.store;
    let names = attache::cli::name_catalog();
    let config = attache::config::load(app.workspace.path(), &names).expect("a configuration");
    let record = store.draft(id).await.expect("a draft");
    let new = NewText {
        subject: &record.mail.content.subject,
        text,
        at,
    };
    let edit = edit(
        &config,
        store,
        &record,
        Trigger::Email,
        &new,
        "uid 0".to_owned(),
        "cli",
    )
    .expect("an edit");
    store.edit_draft(id, edit).await.expect("edited");
    let decision = NewDecision {
        verdict: ApprovalVerdict::Approve,
        by: "uid 0".to_owned(),
        via: "cli",
        words: String::new(),
        evidence_json: "{}".to_owned(),
        sha256: None,
    };
    let decided = store.decide_approval(id, decision).await;
    decided.expect("decided");
}

/// Both parts quote as common programs do, and our own reader of quotations cuts it again.
#[tokio::test]
#[ignore = "second tier"]
async fn the_letter_is_quoted_below_and_cut_again_when_the_person_answers() {
    let members = json!({ "signature": "Ada", "quote": "last", "timezone": "Europe/Berlin" });
    let letters = [
        "When is breakfast?",
        "Two things:\n\n1. a room\n2. *breakfast* <b>early</b>\n\nBob",
        "> Until when may we come?\n\nUntil ten.\n\nBob",
        "Grüße aus Köln\n\n-- \nBob\n+49 221 1234",
        "On Monday the 3rd we can come.\n15:30 is fine.",
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n```\ncode\n```",
        "",
    ];
    let turns: Vec<Value> = letters
        .iter()
        .map(|_| json!({ "say": "From **seven**." }))
        .collect();
    let workspace = place(&json!(turns), &members).talkative();
    let app = workspace.start().await;
    for (number, letter) in letters.iter().enumerate() {
        writes(&app, &format!("l{number}"), "", letter).await;
        let id = format!("l{number}@guest.example");
        let sent = app.sent();
        let mail = sent.iter().find(|mail| mail.in_reply_to == [id.as_str()]);
        let mail = mail.expect("an answer");
        let own = "From seven.\n\n-- \nAda";
        if letter.is_empty() {
            assert_eq!(mail.text.trim_end(), own);
            continue;
        }
        let head = "On Fri, 20 Nov 2026 at 10:00, Bob <bob@guest.example> wrote:\n> ";
        assert!(
            mail.text.starts_with(&format!("{own}\n\n{head}"))
                || letter.starts_with('>') && mail.text.contains(head.trim_end()),
            "{}",
            mail.text
        );
        let words = letter
            .lines()
            .find(|line| line.contains(' '))
            .expect("words");
        assert!(mail.text.contains(words), "{}", mail.text);
        assert_eq!(fresh_text(&mail.text, &mail.subject), own, "{}", mail.text);
        let html = mail.html.as_deref().expect("an HTML part");
        assert!(html.contains("<blockquote type=\"cite\""), "{html}");
        assert!(!html.contains("<b>early"), "{html}");
        let of_html = fresh_text(&html_to_text(html), &mail.subject);
        assert!(
            of_html.starts_with("From seven.") && !of_html.contains("wrote"),
            "{of_html}"
        );
        assert!(!of_html.contains(words), "{of_html}");
        // The person's program quotes all of it once more.
        let quoted: String = mail
            .text
            .lines()
            .map(|line| format!("> {line}\n"))
            .collect();
        let answer = format!(
            "Thanks!\n\nOn Fri, 20 Nov 2026 at 11:00, Ada <ada@engine.test> wrote:\n\n{quoted}"
        );
        assert_eq!(fresh_text(&answer, &mail.subject), "Thanks!", "{answer}");
    }
    app.check().await;
}

#[tokio::test]
async fn what_is_quoted_is_bounded_and_without_older_letters() {
    let members = json!({ "quote": "last", "signature": "Ada\nGuest House" });
    let app = started(json!([{ "say": "Yes." }, { "say": "Yes." }]), members).await;
    let long = "A line of a very long letter.\n".repeat(4000);
    writes(&app, "a", "", &long).await;
    let mail = only(&app);
    assert!(
        (10_000..40_000).contains(&mail.text.len()),
        "{}",
        mail.text.len()
    );
    assert!(mail.text.trim_end().ends_with("> […]"));
    let reply = "In-Reply-To: <a@guest.example>\nReferences: <a@guest.example>\n";
    let body = "And now?\n\nOn Fri, 20 Nov 2026 at 10:00, Ada <ada@engine.test> wrote:\n\n> Yes.\n>\n> --\n> Ada\n> Guest House\n>\n>> And then?\n";
    writes(&app, "b", reply, body).await;
    let mail = app
        .sent()
        .into_iter()
        .find(|mail| mail.in_reply_to == ["b@guest.example"]);
    let text = mail.expect("an answer").text;
    assert!(text.contains("> And now?"), "{text}");
    assert!(!text.contains("> Yes."), "{text}");
    assert!(!text.contains(">>") && !text.contains("> >"), "{text}");
    app.check().await;
}

/// An answer to others does not hand the letter on.
#[tokio::test]
async fn a_letter_is_quoted_only_to_those_who_have_had_it() {
    let mail = |to: &str, cc: &str| json!({ "tool": "send_email", "args": { "to": to, "cc": cc, "body": "Yes.", "reply": true } });
    let turns = json!([
        { "call": [mail("carol@partner.test", "")] },
        { "call": [mail("bob@guest.example", "carol@partner.test")] },
        { "call": [mail("bob@guest.example", "")] },
        { "say": "" },
    ]);
    let workspace = place(&turns, &json!({ "quote": "last" }));
    workspace.set(
        "configs/security.json",
        "/send_allow",
        json!(["*@partner.test"]),
    );
    let app = workspace.start().await;
    writes(&app, "a", "", "The code is ZEBRA.").await;
    let sent = app.sent();
    assert_eq!(sent.len(), 3, "{sent:#?}");
    for mail in &sent {
        let everybody = mail.to.iter().chain(&mail.cc);
        let is_ours = everybody
            .into_iter()
            .all(|one| one.spec == "bob@guest.example");
        assert_eq!(mail.text.contains("ZEBRA"), is_ours, "{mail:#?}");
    }
    app.check().await;
}

#[tokio::test]
async fn a_mail_waits_for_its_window_and_then_leaves() {
    let app = started(json!([{ "say": "Yes." }]), json!({ "undo": "2m" })).await;
    writes(&app, "a", "", "When?").await;
    assert!(app.sent().is_empty());
    let waiting = deliveries(&app).await.remove(0);
    assert_eq!(waiting.state, DeliveryState::Queued);
    app.workspace.clock.advance(MINUTE);
    app.drain().await;
    assert!(app.sent().is_empty());
    app.workspace.clock.advance(MINUTE);
    app.drain().await;
    assert_eq!(only(&app).text.trim(), "Yes.");
    // Once it has left there is nothing to call back.
    let gone = app.engine.store.cancel_delivery(&waiting.id).await;
    assert!(gone.is_err());
    app.check().await;
}

#[tokio::test]
async fn a_mail_that_was_called_back_reaches_nobody_and_the_thread_knows() {
    let turns = json!([{ "say": "We have no room." }]);
    let app = started(turns, json!({ "undo": "2m" })).await;
    writes(&app, "a", "", "A room?").await;
    let waiting = deliveries(&app).await.remove(0);
    app.engine
        .store
        .cancel_delivery(&waiting.id)
        .await
        .expect("it waits");
    app.workspace.clock.advance(MINUTE * 10);
    app.drain().await;
    assert!(app.sent().is_empty());
    let reply = "In-Reply-To: <a@guest.example>\nReferences: <a@guest.example>\n";
    let run = writes(&app, "b", reply, "Hello?").await;
    let prompts = app.prompts(&run).await;
    let past = prompts[0]["messages"].to_string();
    assert!(past.contains("We have no room."), "{past}");
    assert!(
        past.contains("bob@guest.example") && past.contains("did not"),
        "{past}"
    );
    app.workspace.clock.advance(MINUTE * 10);
    app.drain().await;
    assert_eq!(only(&app).in_reply_to, ["b@guest.example"]);
    app.check().await;
}

/// The window of a draft begins with the owner's word.
#[tokio::test]
async fn a_draft_that_was_sent_waits_too() {
    let members = json!({ "undo": "2m", "reply": "draft" });
    let app = started(json!([{ "say": "Yes." }]), members).await;
    writes(&app, "a", "", "When?").await;
    app.workspace.clock.advance(MINUTE * 5);
    let draft = app
        .engine
        .store
        .drafts(None, None, 10)
        .await
        .expect("drafts")
        .remove(0);
    sends(&app, &draft.id, "No.", None).await;
    app.drain().await;
    assert!(app.sent().is_empty());
    app.workspace.clock.advance(MINUTE * 2);
    app.drain().await;
    assert_eq!(only(&app).text.trim(), "No.");
    app.check().await;
}

#[tokio::test]
async fn a_tool_sends_later_with_the_date_of_that_day() {
    // The engine begins on 20 November 2026 at nine.
    let mail = |at: &str| {
        json!({ "call": [{ "tool": "send_email", "args":
            { "to": "bob@guest.example", "subject": "x", "body": "Happy birthday!", "reply": false, "at": at } }] })
    };
    let turns = json!([
        mail("2026-12-19T10:00:00+01:00"),
        mail("2026-11-20T08:00:00Z"),
        mail("2026-12-24T10:00:00+01:00"),
        mail("tomorrow"),
        { "say": "Done." },
    ]);
    let workspace = place(&turns, &json!({}));
    workspace.set("configs/inference.json", "/max_tool_turns", json!(8));
    let app = workspace.start().await;
    let run = writes(&app, "a", "", "Congratulate me.").await;
    assert_eq!(
        app.trace(&run).await,
        [
            "call send_email",
            "ok send_email",
            "call send_email",
            "bad_time send_email",
            "call send_email",
            "bad_time send_email",
            "call send_email",
            "bad_time send_email",
        ]
    );
    assert_eq!(only(&app).text.trim(), "Done.");
    app.workspace.clock.advance(DAY * 28);
    app.drain().await;
    assert_eq!(app.sent().len(), 1);
    app.workspace.clock.advance(DAY * 2);
    app.drain().await;
    let sent = app.sent();
    let later = sent.iter().find(|mail| mail.text.contains("birthday"));
    let date = later.expect("it has left").date;
    assert_eq!(date, Timestamp::parse("2026-12-19T09:00:00Z"));
    app.check().await;
}

/// A mail that waits for weeks is not given up for its age, nor reported as late.
#[tokio::test]
async fn the_age_of_a_mail_counts_from_the_day_on_which_it_may_leave() {
    let members = json!({ "reply": "draft" });
    let app = started(json!([{ "say": "Yes." }]), members).await;
    writes(&app, "a", "", "When?").await;
    let store = &app.engine.store;
    let draft = store
        .drafts(None, None, 10)
        .await
        .expect("drafts")
        .remove(0);
    let at = Timestamp::parse("2026-12-15T09:00:00Z");
    sends(&app, &draft.id, "In December.", at).await;
    let view = store.approval(&draft.id).await.expect("it is there").view;
    assert!(view.contains("Leaves: 2026-12-15T09:00:00"), "{view}");
    app.workspace.clock.advance(DAY * 10);
    app.drain().await;
    let expired = store.expire_deliveries(DAY * 5).await.expect("a look");
    assert_eq!(expired, 0);
    let late = store.emit_delays(DAY).await.expect("a look");
    assert_eq!(late, 0);
    assert!(app.sent().is_empty());
    app.workspace.clock.advance(DAY * 16);
    app.drain().await;
    let mail = only(&app);
    assert_eq!((mail.text.trim(), mail.date), ("In December.", at));
    app.check().await;
}

/// A start makes mails due that wait for longer than a retry may: the clock may have been wrong. Not this one.
#[tokio::test]
async fn neither_a_restart_nor_a_step_of_the_clock_has_a_mail_leave_early() {
    let at = "2026-12-01T09:00:00Z";
    let turns = json!([
        { "call": [{ "tool": "send_email", "args":
            { "to": "bob@guest.example", "subject": "x", "body": "In December.", "reply": false, "at": at } }] },
        { "say": "Done." },
    ]);
    let app = started(turns, json!({})).await;
    writes(&app, "a", "", "Later, please.").await;
    assert_eq!(only(&app).text.trim(), "Done.");
    let app = app.restart().await;
    app.drain().await;
    app.engine
        .store
        .bring_forward(DAY * 12)
        .await
        .expect("moved");
    app.drain().await;
    assert_eq!(app.sent().len(), 1);
    let waiting = deliveries(&app).await;
    let waiting = waiting
        .iter()
        .find(|one| one.state == DeliveryState::Queued);
    let next = waiting.expect("it waits").next_attempt_at;
    assert_eq!(next, Timestamp::parse(at));
    app.workspace.clock.advance(DAY * 11);
    app.drain().await;
    assert_eq!(app.sent().len(), 2);
    app.check().await;
}
