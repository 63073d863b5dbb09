//! Where the answer of a run goes.

use super::{ready, saying, work};
use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use attache::domain::{Email, Mailbox};
use serde_json::{Value, json};

/// Whom a mail is addressed to.
fn to(mail: &Email) -> Vec<String> {
    mail.to
        .iter()
        .filter_map(Mailbox::address)
        .map(|address| address.to_string())
        .collect()
}

/// Disposition and thread of what a run wrote.
async fn written(app: &TestApp, run: &str) -> (String, String) {
    let sql = "SELECT disposition, thread_id FROM messages WHERE run_id = $1";
    let row = app.row(sql, run).await;
    (
        row[0].clone().unwrap_or_default(),
        row[1].clone().unwrap_or_default(),
    )
}

#[tokio::test]
async fn an_answer_goes_to_the_people_it_names_and_to_nobody_else() {
    let people = json!({ "deliver_to": { "people": ["ann@home.test", "olga@home.test"] } });
    let place = saying(&["Three lines."]);
    place.set(
        "configs/security.json",
        "/send_allow",
        json!(["ann@home.test"]),
    );
    let app = ready(place, &people).await;
    let run = work(&app).await;
    let [mail] = app.sent().try_into().expect("one mail");
    assert_eq!(to(&mail), ["ann@home.test", "olga@home.test"]);
    assert_eq!(written(&app, &run).await.0, "sent");
    app.check().await;
}

#[tokio::test]
async fn nobody_is_mailed_whom_the_configuration_no_longer_allows() {
    let people = json!({ "deliver_to": { "people": ["ann@home.test", "olga@home.test"] } });
    let app = ready(saying(&["Three lines."]), &people).await;
    let run = work(&app).await;
    assert_eq!(
        (app.sent().len(), written(&app, &run).await.0.as_str()),
        (0, "withheld:not_allowed")
    );
    assert_eq!(
        app.outcome(&run).await,
        (
            "failed".into(),
            Some("answered".into()),
            Some("config".into())
        )
    );
    assert_eq!(app.notices().len(), 1, "whoever wanted it is told");
    app.check().await;
}

#[tokio::test]
async fn an_answer_only_stored_is_stored_whole_and_mailed_to_nobody() {
    for (options, disposition, mails) in [
        (json!({ "deliver_to": "store" }), "withheld:store_only", 0),
        (json!({}), "sent", 1),
    ] {
        let app = ready(saying(&["Three lines.", "Four lines."]), &options).await;
        let run = work(&app).await;
        assert_eq!(
            app.outcome(&run).await,
            ("succeeded".into(), Some("answered".into()), None)
        );
        assert_eq!(
            (written(&app, &run).await.0.as_str(), app.sent().len()),
            (disposition, mails)
        );
        let text = app
            .row("SELECT text_body FROM messages WHERE run_id = $1", &run)
            .await;
        assert_eq!(text[0].as_deref(), Some("Three lines."));
        let held = app
            .engine
            .store
            .list_threads(&Default::default())
            .await
            .expect("threads");
        assert!(
            held.iter().all(|thread| thread.held.is_none()),
            "nothing waits for the owner"
        );
        let again = work(&app).await;
        assert_eq!(
            written(&app, &again).await.1,
            written(&app, &run).await.1,
            "one thread"
        );
        app.check().await;
    }
}

#[tokio::test]
async fn an_answer_that_is_only_stored_needs_no_way_out() {
    let place = saying(&["Three lines."]);
    place.set("configs/gateway.json", "/outbound", Value::Null);
    let app = ready(place, &json!({ "deliver_to": "store" })).await;
    let run = work(&app).await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
}

/// A thread with Bob, who asked and was answered; the responsibility delivers into it. Gives that thread.
async fn thread_with_bob(place: Workspace, letter: &str) -> (TestApp, String) {
    let app = ready(place, &json!({})).await;
    app.receive(letter).await.expect("taken");
    app.drain().await;
    let thread = app
        .row(
            "SELECT thread_id FROM messages WHERE direction = $1",
            "inbound",
        )
        .await;
    let thread = thread[0].clone().expect("a thread");
    super::set_terms(&app, &json!({ "deliver_to": { "thread": thread } })).await;
    (app, thread)
}

#[tokio::test]
async fn an_answer_into_a_thread_is_a_reply_to_its_newest_letter() {
    let words = ["At seven.", "At eight.", "Still at eight."];
    let (app, thread) =
        thread_with_bob(saying(&words), &note("q1@guest.example", "", "When?")).await;
    let second = note(
        "q2@guest.example",
        "In-Reply-To: <q1@guest.example>\nReferences: <q1@guest.example>\n",
        "And now?",
    );
    app.receive(&second).await.expect("taken");
    app.drain().await;
    let run = work(&app).await;
    let mail = app.sent().pop().expect("a mail");
    assert_eq!(
        (to(&mail), mail.subject.as_str()),
        (vec!["bob@guest.example".to_owned()], "Re: Breakfast")
    );
    assert_eq!(mail.in_reply_to, ["q2@guest.example"]);
    assert_eq!(mail.references, ["q1@guest.example", "q2@guest.example"]);
    assert_eq!(
        mail.automatic.auto_submitted.as_deref(),
        Some("auto-generated"),
        "nobody asked just now"
    );
    assert_eq!(written(&app, &run).await, ("sent".to_owned(), thread));
    app.check().await;
}

#[tokio::test]
async fn an_answer_into_a_thread_without_letters_is_a_new_mail_in_it() {
    let (app, thread) = thread_with_bob(
        saying(&["At seven.", "At eight."]),
        &note("q@guest.example", "", "When?"),
    )
    .await;
    let mut rows = app.workspace.rows().await;
    // A rule held the only letter that there is.
    let held =
        "UPDATE messages SET disposition = 'filed:auto_submitted' WHERE direction = 'inbound'";
    db::query(held).execute(&mut rows).await.expect("held");
    let run = work(&app).await;
    let mail = app.sent().pop().expect("a mail");
    assert_eq!(
        (to(&mail), mail.subject.as_str()),
        (vec!["bob@guest.example".to_owned()], "Report")
    );
    assert!(
        mail.in_reply_to.is_empty() && mail.references.is_empty(),
        "{mail:?}"
    );
    assert_eq!(
        written(&app, &run).await,
        ("sent".to_owned(), thread.clone())
    );
    // Who answers it comes back into the thread.
    let id = mail.message_id.clone().expect("an id");
    let answer = note(
        "a@guest.example",
        &format!("In-Reply-To: <{id}>\n"),
        "Thanks.",
    );
    let answer = app.run_of(&answer).await;
    let stands = app
        .row("SELECT thread_id FROM runs WHERE id = $1", &answer)
        .await;
    assert_eq!(stands[0].as_deref(), Some(thread.as_str()));
}

#[tokio::test]
async fn answers_into_a_thread_are_bound_as_replies_are() {
    let words = ["At seven.", "One.", "Two.", "Three."];
    let place = saying(&words);
    place.set(
        "configs/gateway.json",
        "/limits",
        json!({ "replies_per_hour_max": 2 }),
    );
    let (app, _) = thread_with_bob(place, &note("q@guest.example", "", "When?")).await;
    // The answer to Bob's letter, who proved nothing, is counted apart.
    let (first, second, third) = (work(&app).await, work(&app).await, work(&app).await);
    assert_eq!(written(&app, &first).await.0, "sent");
    assert_eq!(written(&app, &second).await.0, "sent");
    assert_eq!(written(&app, &third).await.0, "withheld:rate_limited");
    assert_eq!(app.sent().len(), 3);
    app.check().await;
}

#[tokio::test]
async fn a_letter_between_personas_is_not_answered_past_its_limit() {
    for (hops, disposition) in [(2, "sent"), (4, "withheld:hop_limit")] {
        let (app, _) = thread_with_bob(
            saying(&["At seven.", "One."]),
            &note("q@guest.example", "", "When?"),
        )
        .await;
        let mut rows = app.workspace.rows().await;
        let set = db::query("UPDATE messages SET hops = $1 WHERE direction = 'inbound'").bind(hops);
        set.execute(&mut rows).await.expect("hops");
        let run = work(&app).await;
        assert_eq!(written(&app, &run).await.0, disposition);
    }
}
