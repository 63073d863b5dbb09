//! How much anybody may be sent: at the door, before the model is asked, and when a mail is queued.

use super::{MINUTE, count, from, model_calls, receive, word, yes};
use crate::app::db;
use crate::app::rows;
use crate::app::{PROVEN, TestApp, Workspace, letter, note};
use attache::domain::Address;
use serde_json::{Value, json};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const DISPOSITIONS: &str = "SELECT group_concat(disposition, ' ') FROM
    (SELECT disposition FROM messages WHERE direction = 'outbound' ORDER BY seq) listed";

fn with_limits(limits: &Value) -> Workspace {
    let workspace = Workspace::new(&yes());
    workspace.set("configs/gateway.json", "/limits", limits.clone());
    workspace
}

async fn dispositions(app: &TestApp) -> String {
    let mut rows = app.workspace.rows().await;
    db::query(DISPOSITIONS)
        .fetch_one(&mut rows)
        .await
        .expect("rows")
        .get::<Option<String>>(0)
        .unwrap_or_default()
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_peer_without_marks_gets_six_answers_an_hour_twenty_a_day() {
    let app = TestApp::start(yes()).await;
    let mut sent = Vec::new();
    let mut number = 0;
    // A letter every five minutes for two days and a half, each an answer to nothing.
    for _hour in 0..60 {
        for _letter in 0..12 {
            number += 1;
            receive(
                &app,
                &note(
                    &format!("{number}@guest.example"),
                    "",
                    &format!("Letter {number}."),
                ),
            )
            .await;
            app.drain().await;
            app.workspace
                .clock
                .advance(MINUTE * 5 - Duration::from_millis(10));
        }
        sent.push(app.sent().len());
    }
    let in_hour = |hour: usize| sent[hour] - if hour == 0 { 0 } else { sent[hour - 1] };
    assert_eq!(sent[0], 6);
    assert!((0..60).all(|hour| in_hour(hour) <= 6), "{sent:?}");
    assert!(
        (24..60).all(|hour| sent[hour] - sent[hour - 24] <= 20),
        "{sent:?}"
    );
    assert_eq!((sent[3], sent[23]), (20, 20), "{sent:?}");
    assert!(sent[59] >= 40, "answers go on the next day: {sent:?}");
    assert_eq!(
        model_calls(&app).await as usize,
        sent[59],
        "the model is not asked for what is not sent"
    );
    let held = "SELECT count(*) FROM messages WHERE disposition = 'filed:rate_limited'";
    assert_eq!(
        count(&app.workspace, held).await as usize,
        number - sent[59]
    );
    // What no bound asks for any more is gone.
    assert!(
        count(
            &app.workspace,
            "SELECT count(*) FROM correspondence WHERE counterparty NOT LIKE '%thread:%'"
        )
        .await
            <= 21 * 2
    );
    app.check().await;
}

#[tokio::test]
async fn a_correspondent_is_counted_once_whatever_the_tag_and_case() {
    let app = TestApp::start(yes()).await;
    for number in 0..20 {
        let letter = note(
            &format!("{number}@guest.example"),
            "",
            &format!("Ticket {number}."),
        );
        let sender = [
            format!("Bob+{number}@"),
            "BOB@".to_owned(),
            format!("bob+{number}+x@"),
        ];
        assert!(letter.contains("bob@guest.example"), "{letter}");
        receive(&app, &letter.replace("bob@", &sender[number % 3])).await;
        app.drain().await;
        app.workspace.clock.advance(MINUTE);
    }
    assert_eq!(app.sent().len(), 6);
    assert_eq!(
        model_calls(&app).await,
        6,
        "the model is not asked for what is not sent"
    );
    app.check().await;
}

#[tokio::test]
async fn one_who_is_over_the_bound_costs_nobody_else_an_answer() {
    let app = with_limits(&json!({ "replies_per_hour_max": 1 }))
        .start()
        .await;
    assert_eq!(
        receive(&app, &from("bob@guest.example", "b1@g.example", "")).await,
        "run"
    );
    app.drain().await;
    assert_eq!(
        receive(&app, &from("Bob <BOB@guest.example>", "b2@g.example", "")).await,
        "filed:rate_limited"
    );
    assert_eq!(
        receive(&app, &from("carl@guest.example", "c1@g.example", "")).await,
        "run"
    );
    app.drain().await;
    app.workspace.clock.advance(HOUR);
    assert_eq!(
        receive(&app, &from("bob@guest.example", "b3@g.example", "")).await,
        "filed:rate_limited"
    );
    app.workspace.clock.advance(MINUTE);
    assert_eq!(
        receive(&app, &from("bob@guest.example", "b4@g.example", "")).await,
        "run"
    );
    app.drain().await;
    assert_eq!(app.sent().len(), 3);
    app.check().await;
}

#[tokio::test]
async fn letters_queued_together_ask_the_model_only_up_to_the_bound() {
    let workspace = Workspace::new(&yes());
    // Of two runs at once both may ask for the last mail, and one is withheld then (below).
    let one = json!({ "runs_per_persona_max": 1 });
    workspace.set("configs/inference.json", "/concurrency", one);
    let app = workspace.start().await;
    let mut runs = Vec::new();
    for n in 0..9 {
        runs.push(
            app.run_of(&note(
                &format!("{n}@guest.example"),
                "",
                &format!("Letter {n}."),
            ))
            .await,
        );
    }
    app.drain().await;
    assert_eq!((app.sent().len(), model_calls(&app).await), (6, 6));
    let unasked: Vec<_> = {
        let mut ends = Vec::new();
        for run in &runs {
            ends.push(app.outcome(run).await);
        }
        ends.into_iter()
            .filter(|(state, ..)| state == "cancelled")
            .collect()
    };
    assert_eq!(
        unasked,
        vec![
            (
                "cancelled".to_owned(),
                Some("rate_limited".to_owned()),
                None
            );
            3
        ]
    );
    let held = "SELECT count(*) FROM messages WHERE disposition = 'filed:rate_limited'";
    assert_eq!(count(&app.workspace, held).await, 3);
    let written =
        "SELECT count(*) FROM audit_log WHERE decision = 'filed' AND rule = 'rate_limited'";
    assert_eq!(count(&app.workspace, written).await, 3);
    app.check().await;
}

#[tokio::test]
async fn of_runs_racing_for_the_last_mail_one_is_withheld_when_queued() {
    let workspace = with_limits(&json!({ "replies_per_hour_max": 1 }));
    workspace.write_json(
        "configs/script.json",
        &json!({ "rules": [{ "say": "Yes." }] }),
    );
    let app = workspace.start().await;
    let first = app.run_of(&note("1@guest.example", "", "One.")).await;
    let second = app.run_of(&note("2@guest.example", "", "Two.")).await;
    // Both are claimed, and asked, at once.
    app.drain().await;
    let states = [app.outcome(&first).await.0, app.outcome(&second).await.0];
    assert!(states.contains(&"succeeded".to_owned()), "{states:?}");
    assert_eq!(app.sent().len(), 1);
    let said = dispositions(&app).await;
    assert_eq!(said.matches("sent").count(), 1, "{said}");
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_thread_is_answered_five_times_in_a_day() {
    let app = with_limits(&json!({ "replies_per_hour_max": 1000, "replies_per_day_max": 1000 }))
        .start()
        .await;
    let mut said = Vec::new();
    for n in 1..=7 {
        let more = format!("References: <{}@guest.example>\n", n - 1);
        said.push(
            receive(
                &app,
                &note(
                    &format!("{n}@guest.example"),
                    &more,
                    &format!("Letter {n}."),
                ),
            )
            .await,
        );
        app.drain().await;
    }
    let (answered, held) = (vec!["run"; 5], vec!["filed:alternations"; 2]);
    assert_eq!(said, [answered, held].concat());
    // Another thread of the same person is another matter.
    assert_eq!(
        receive(&app, &note("other@guest.example", "", "Something else.")).await,
        "run"
    );
    app.drain().await;
    // The next day it goes on.
    app.workspace.clock.advance(24 * HOUR + MINUTE);
    let more = "References: <7@guest.example>\n";
    assert_eq!(
        receive(&app, &note("8@guest.example", more, "Letter 8.")).await,
        "run"
    );
    app.drain().await;
    assert_eq!(app.sent().len(), 7);
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_owners_word_restarts_a_threads_count_a_machines_does_not() {
    let app = with_limits(&json!({ "replies_per_hour_max": 1000, "replies_per_day_max": 1000 }))
        .start()
        .await;
    let guest = async |n: usize| {
        let more = format!("References: <{}@guest.example>\n", n - 1);
        let became = receive(
            &app,
            &note(
                &format!("{n}@guest.example"),
                &more,
                &format!("Letter {n}."),
            ),
        )
        .await;
        app.drain().await;
        became
    };
    let olga = async |id: &str, mark: &str, is_proven: bool| {
        let more = format!("References: <1@guest.example>\n{mark}");
        let mut letter = letter(&from("olga@home.test", id, &more));
        letter.envelope.arrival.submitted_by =
            is_proven.then(|| Address::parse("olga@home.test").expect("an address"));
        let accepted = app.engine.intake().accept(letter).await.expect("taken");
        app.drain().await;
        word(&accepted.copies[0].outcome)
    };
    assert_eq!(guest(1).await, "run");
    // Somebody has copied her in: what a guest who proves nothing writes into Cc does not.
    rows::participant(&mut app.workspace.rows().await, None, "olga@home.test").await;
    for n in 2..=5 {
        assert_eq!(guest(n).await, "run", "letter {n}");
    }
    assert_eq!(guest(6).await, "filed:alternations");
    assert_eq!(
        olga("away@home.test", "Auto-Submitted: auto-replied\n", true).await,
        "filed:auto_submitted"
    );
    assert_eq!(
        olga("alleged@home.test", "", false).await,
        "run",
        "a thread of its own: nobody proved her name"
    );
    assert_eq!(
        guest(7).await,
        "filed:alternations",
        "nobody has looked at it"
    );
    assert_eq!(olga("word@home.test", "", true).await, "run");
    assert_eq!(guest(8).await, "run");
    app.check().await;
}

#[tokio::test]
async fn send_email_tells_the_model_that_somebody_has_had_enough() {
    let mail = |n: usize| json!({ "tool": "send_email", "args": { "to": "bob@guest.example", "subject": format!("Mail {n}"), "body": "Hello.", "reply": false } });
    let workspace = Workspace::new(&json!({ "turns": [
        { "call": [mail(1), mail(2), mail(3)] },
        { "say": "That is all." },
    ] }));
    workspace.set(
        "configs/gateway.json",
        "/limits",
        json!({ "replies_per_hour_max": 2 }),
    );
    workspace.set(
        "configs/inference.json",
        "/budget",
        json!({ "mails_max": 10 }),
    );
    let app = workspace.start().await;
    let run = app
        .run_of(&note("1@guest.example", PROVEN, "Write to me often."))
        .await;
    app.drain().await;
    assert_eq!(
        app.trace(&run).await[3..],
        [
            "ok send_email",
            "call send_email",
            "rate_limited send_email"
        ]
    );
    assert_eq!(app.sent().len(), 2);
    assert_eq!(
        dispositions(&app).await,
        "sent sent withheld:rate_limited notice",
        "the owner hears of the limit"
    );
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn only_an_owner_makes_a_persona_write_its_owner_without_bound() {
    let call = json!([{ "tool": "send_email", "args": { "to": "olga@home.test", "subject": "Psst", "body": "Hello.", "reply": false } }]);
    let workspace = Workspace::new(&json!({ "rules": [
        { "when": { "turn": 0 }, "call": call }, { "when": { "turn": 1 }, "say": "Done." },
    ] }));
    workspace.set(
        "configs/gateway.json",
        "/limits",
        json!({ "replies_per_hour_max": 2 }),
    );
    let app = workspace.start().await;
    for n in 0..4 {
        receive(
            &app,
            &from(
                &format!("guest{n}@guest.example"),
                &format!("{n}@guest.example"),
                PROVEN,
            ),
        )
        .await;
        app.drain().await;
    }
    let to_owner = app
        .sent()
        .iter()
        .filter(|mail| mail.to[0].spec == "olga@home.test")
        .count();
    assert_eq!(to_owner, 2);
    app.check().await;
}
