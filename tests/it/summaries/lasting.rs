//! A summary survives what happens to the engine, and a long thread stays small.

use super::{correspond, count, entry, letter, small_house};
use crate::app::TestApp;
use crate::app::rows::{self, Message};
use crate::contexts::report;
use attache::store::PowerCut;
use serde_json::json;
use std::time::Instant;

#[tokio::test]
#[ignore = "second tier"]
async fn an_engine_dying_at_any_commit_makes_each_summary_once() {
    let mut deaths = 0;
    for after in [false, true] {
        // Every third commit; all of them, once, took four minutes beside other builds and passed.
        for at in (1..60).step_by(3) {
            let app = small_house(&json!({ "say": "{{text}}" })).start().await;
            correspond(&app, 0, 3).await;
            let summaries = "SELECT count(*) FROM thread_memory";
            assert_eq!(count(&app, summaries).await, 0, "history fits so far");
            app.receive(&letter(3, &"The weir is quiet at dusk. ".repeat(20)))
                .await
                .expect("taken");
            app.receive(&letter(4, &"The weir is loud at dawn. ".repeat(20)))
                .await
                .expect("taken");
            app.engine.store.cut_power(match after {
                true => PowerCut::AfterCommit(at),
                false => PowerCut::BeforeCommit(at),
            });
            app.workspace
                .clock
                .advance(std::time::Duration::from_millis(10));
            let died = app.engine.drain().await.is_err();
            let app = app.restart().await;
            app.drain().await;
            let doubled = "SELECT count(*) FROM (SELECT 1 FROM thread_memory GROUP BY upto_seq HAVING count(*) > 1) listed";
            assert_eq!(count(&app, doubled).await, 0, "cut {at}, after: {after}");
            assert!(count(&app, summaries).await > 0, "cut {at}, after: {after}");
            let open = "SELECT count(*) FROM runs WHERE state NOT IN ('succeeded', 'failed')";
            assert_eq!(count(&app, open).await, 0, "cut {at}");
            assert_eq!(app.sent().len(), 5, "cut {at}, after: {after}");
            app.check().await;
            if !died {
                break;
            }
            deaths += 1;
        }
    }
    println!("deaths: {deaths}");
    assert!(deaths > 10, "{deaths}");
}

/// Stores a thousand letters of one thread.
async fn thousand_letters(app: &TestApp, thread: &str) {
    let mut conn = app.workspace.rows().await;
    for n in 0..1000 {
        let id = format!("m{n}");
        rows::message(
            &mut conn,
            Message {
                id: &id,
                persona: "ada",
                thread,
                direction: "inbound",
                message_id: &id,
                sender: "Bob <bob@guest.example>",
                recipients_json: r#"{"to":["ada@engine.test"]}"#,
                subject: "Breakfast",
                body: &"we saw the otters at dusk, and the path along the weir was dry again. "
                    .repeat(4),
                received_at: "2026-11-20T09:00:00.000Z",
                trust: "contact",
                disposition: "run",
            },
        )
        .await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_thread_of_a_thousand_letters_has_a_bounded_prompt() {
    let workspace =
        small_house(&json!({ "say": "The writers of these letters talk about the weir." }));
    let app = workspace.start().await;
    let first = app.run_of(&letter(0, "The weir again.")).await;
    app.drain().await;
    let thread = app
        .row("SELECT thread_id FROM runs WHERE id = $1", &first)
        .await[0]
        .clone()
        .expect("a thread");
    thousand_letters(&app, &thread).await;
    let began = Instant::now();
    let run = app.run_of(&letter(1, "And today?")).await;
    app.drain().await;
    let took = began.elapsed();
    let made = count(&app, "SELECT count(*) FROM runs WHERE trigger = 'summary'").await;
    let upto = count(
        &app,
        "SELECT coalesce(max(upto_seq), 0) FROM thread_memory WHERE state = 'usable'",
    )
    .await;
    let last = app.run_of(&letter(2, "And tomorrow?")).await;
    let began = Instant::now();
    app.drain().await;
    let later = began.elapsed();
    let size =
        |prompts: Vec<serde_json::Value>| serde_json::to_string(&prompts).expect("json").len();
    let (before, behind) = (
        size(app.prompts(&run).await),
        size(app.prompts(&last).await),
    );
    println!(
        "1,000 letters: {made} runs summarised up to {upto} in {took:?}; prompts of {before} and {behind} bytes; the next letter in {later:?}"
    );
    assert!(upto > 990, "{upto}");
    assert!(made < 60, "{made}");
    assert!(behind <= before && behind < 20_000, "{before} {behind}");
    let report = report(&app, &last).await;
    assert!(
        entry(&report, "thread-summary")["source"]
            .as_str()
            .is_some_and(|source| source.contains("messages up to")),
        "{report}"
    );
    let largest = count(&app, "SELECT max(length(text)) FROM thread_memory").await;
    assert!(largest < 6_000);
}
