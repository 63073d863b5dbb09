//! What came in of late, as the prompts of responsibilities may ask for it.

use super::saying;
use crate::app::{START, TestApp, note};
use attache::domain::{PersonaId, Timestamp};
use attache::store::{INBOX_MAX, InboxItem};
use std::time::Duration;

async fn inbox(app: &TestApp, since: &str, limit: usize) -> Vec<InboxItem> {
    let store = app.engine.store.persona(&PersonaId::parse("ada").expect("an id"));
    let since = Timestamp::parse(since).expect("an instant");
    store.inbox_since(since, limit).await.expect("letters")
}

fn ids(items: &[InboxItem]) -> Vec<&str> {
    items.iter().map(|item| item.excerpt.trim()).collect()
}

#[tokio::test]
async fn letters_come_newest_first_and_only_those_since_then() {
    let app = saying(&["Seven."; 4]).start().await;
    for text in ["One.", "Two.", "Three."] {
        app.receive(&note(&format!("{text}@guest.example"), "", text)).await.expect("taken");
        app.workspace.clock.advance(Duration::from_secs(60));
    }
    app.drain().await;
    assert_eq!(ids(&inbox(&app, START, 10).await), ["Three.", "Two.", "One."]);
    assert_eq!(ids(&inbox(&app, START, 2).await), ["Three.", "Two."]);
    let second = "2026-11-20T09:01:00.000Z";
    let found = inbox(&app, second, 10).await;
    assert_eq!(ids(&found), ["Three.", "Two."], "what came at that very moment is among them");
    assert_eq!(found[1].received_at.to_string(), second);
    assert_eq!(
        (found[1].sender.as_str(), found[1].subject.as_str()),
        ("Bob <bob@guest.example>", "Breakfast")
    );
    assert_eq!(ids(&inbox(&app, "2026-11-20T09:01:00.001Z", 10).await), ["Three."]);
}

#[tokio::test]
async fn what_a_rule_held_what_was_sent_and_what_is_another_personas_is_not_in_it() {
    let place = saying(&["Seven."; 4]);
    place.persona("eve", "Eve");
    let app = place.start().await;
    app.receive(&note("a@guest.example", "", "For Ada.")).await.expect("taken");
    app.receive(&note("b@guest.example", "Auto-Submitted: auto-replied\n", "Out of office."))
        .await
        .expect("taken");
    let to_eve = note("c@guest.example", "", "For Eve.").replace("To: ada@", "To: eve@");
    app.receive(&to_eve).await.expect("taken");
    app.drain().await;
    assert_eq!(app.sent().len(), 2, "both were answered");
    assert_eq!(ids(&inbox(&app, START, 10).await), ["For Ada."]);
}

#[tokio::test]
async fn a_letter_is_given_as_far_as_it_begins_and_without_what_it_quotes() {
    let app = saying(&["Seven."; 4]).start().await;
    let long = "ä".repeat(700);
    app.receive(&note("a@guest.example", "Content-Type: text/plain; charset=utf-8\n", &long))
        .await
        .expect("taken");
    let quoting =
        "Yes.\n\nOn Fri, 20 Nov 2026 at 09:00, Ada <ada@engine.test> wrote:\n> At seven?\n> Or at eight?";
    app.receive(&note("b@guest.example", "", quoting)).await.expect("taken");
    let found = inbox(&app, START, 10).await;
    assert_eq!(found[0].excerpt.trim(), "Yes.");
    assert_eq!(found[1].excerpt, "ä".repeat(500));
    app.drain().await;
}

#[tokio::test]
async fn however_many_there_are_no_more_than_so_many_are_given() {
    let app = saying(&["Seven."]).start().await;
    app.receive(&note("a@guest.example", "", "The first.")).await.expect("taken");
    app.drain().await;
    let mut rows = app.workspace.rows().await;
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
        INSERT INTO messages (id, thread_id, persona_id, direction, message_id, sender, subject, text_body, received_at, trust)
        SELECT substr(m.id, 1, 19) || printf('9000-%012x', i), m.thread_id, m.persona_id, 'inbound', 'm' || i, m.sender,
          m.subject, 'Letter ' || i, m.received_at, m.trust FROM n, messages m WHERE m.direction = 'inbound'";
    sqlx::query(many).execute(&mut rows).await.expect("ten thousand letters");
    let found = inbox(&app, START, usize::MAX).await;
    assert_eq!((found.len(), ids(&found)[0]), (INBOX_MAX, "Letter 10000"));
}
