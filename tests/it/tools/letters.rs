//! `read_email`: opens what a search found, shows each caller only what they may see, and marks what it read.

use super::search::{as_owner, connection, run_deps, searched};
use crate::app::db;
use crate::app::rows;
use attache::domain::{MessageId, Readers, ThreadId, Trust};
use serde_json::json;

#[tokio::test]
async fn a_letter_that_was_found_is_opened_whole() {
    let mut run_deps = run_deps().await;
    as_owner(&mut run_deps);
    let found = searched(&run_deps, json!({"query": "four"})).await;
    let id = &found["messages"][0]["id"];
    let opened = run_deps.call("read_email", json!({ "id": id })).await;
    let opened = opened.expect("the letter");
    let expected = json!({
        "scope": "all mail", "id": "m1", "thread": "t-carol", "direction": "inbound",
        "date": "2026-11-01T12:00:00.000Z", "from": "Carol Kern <carol@partner.test>", "to": "ada@engine.test",
        "cc": "", "subject": "Late supper", "attachments": [], "attachment_count": 0, "size_bytes": 30,
        "offset": 0, "content": "May we eat at ten? We are four.", "truncated": false, "next_offset": null,
        "trust": "contact",
    });
    let mut expected = expected;
    expected["size_bytes"] = json!("May we eat at ten? We are four.".len());
    assert_eq!(opened.result, expected);
    let people = ["ada@engine.test", "carol@partner.test"].map(str::to_owned);
    assert_eq!(opened.label.lowest, Some(Trust::Contact));
    assert_eq!(opened.label.readers, Readers::Only(people.into()));
}

#[tokio::test]
async fn others_open_only_what_everybody_there_may_read() {
    let mut run_deps = run_deps().await;
    for id in ["m1", "m2"] {
        let opened = run_deps.result("read_email", json!({ "id": id })).await;
        assert_eq!(opened["scope"], "what the people of this thread may see");
    }
    // A withheld answer, the owner's letter, a prompt, another persona's letter, nothing at all.
    for id in ["m3", "m4", "m5", "m6", "no such mail"] {
        let (code, message) = run_deps.failure("read_email", json!({ "id": id })).await;
        assert_eq!(code, "message_not_found");
        assert!(
            message.contains(id) && message.contains("search_email"),
            "{message}"
        );
    }
    run_deps.mail.answers.as_mut().expect("a letter").sender = None;
    let (code, _) = run_deps.failure("read_email", json!({ "id": "m1" })).await;
    assert_eq!(code, "search_not_allowed");
    // The control: the owner alone opens them, but for the prompt and the other persona's.
    as_owner(&mut run_deps);
    for (id, is_open) in [("m3", true), ("m4", true), ("m5", false), ("m6", false)] {
        let opened = run_deps.call("read_email", json!({ "id": id })).await;
        assert_eq!(opened.is_ok(), is_open, "{id}");
    }
}

#[tokio::test]
async fn without_an_id_it_is_the_letter_that_is_answered() {
    let mut run_deps = run_deps().await;
    let (code, message) = run_deps.failure("read_email", json!({})).await;
    assert_eq!(code, "message_not_found");
    assert!(message.contains("answers no letter"), "{message}");
    run_deps.trigger = MessageId::new("m1");
    run_deps.thread = ThreadId::new("t-carol");
    let opened = run_deps
        .call("read_email", json!({}))
        .await
        .expect("opened");
    assert_eq!(opened.result["id"], "m1");
    // It is what the run was written: it limits no recipient.
    assert_eq!(opened.label.readers, Readers::Everyone);
    assert_eq!(opened.label.lowest, None);
}

#[tokio::test]
async fn a_long_letter_comes_in_pieces_and_its_attachments_are_named() {
    let mut run_deps = run_deps().await;
    as_owner(&mut run_deps);
    let mut conn = connection(&run_deps).await;
    let body = "Zwölf Gäste \u{1F37D}\n".repeat(1_000);
    db::query("UPDATE messages SET text_body = $1 WHERE id = 'm1'")
        .bind(&body)
        .execute(&mut conn)
        .await
        .expect("a long letter");
    rows::attachment(
        &mut conn,
        ("a1", "m1", "ada"),
        ("menu.pdf", "application/pdf"),
        b"%PDF",
    )
    .await;
    let (mut offset, mut joined) = (0, String::new());
    loop {
        let piece = run_deps
            .result("read_email", json!({ "id": "m1", "offset": offset }))
            .await;
        assert!(piece.to_string().len() <= run_deps.limits.result_bytes_max);
        assert_eq!(
            piece["attachments"],
            json!([{ "name": "menu.pdf", "type": "application/pdf", "size_bytes": 4 }])
        );
        joined.push_str(piece["content"].as_str().expect("a text"));
        match piece["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(joined, body);
}
