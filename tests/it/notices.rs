//! What goes wrong is told to the owners, to nobody else, once, and not too often.

mod commands;
mod deliveries;
mod filed;
mod privacy;
mod telling;

use crate::app::db;
use crate::app::{TestApp, Workspace, note};
use attache::domain::{NoticeId, NoticeKind, NoticeSubject, PersonaId};
use attache::store::NewNotice;
use serde_json::{Value, json};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Every run fails for good, as with a key that may not use the model (one that is refused rests its provider); a letter that says so is answered.
fn failing() -> Value {
    json!({ "rules": [
        { "when": { "contains": "what went wrong" }, "say": "The key has expired." },
        { "error": { "class": "permission", "message": "403: you sent `the secret of the letter`" } },
    ] })
}

async fn failing_app() -> TestApp {
    Workspace::new(&failing()).start().await
}

/// Lets `count` more runs fail.
async fn fail(app: &TestApp, count: usize, round: &str) {
    for n in 0..count {
        let id = format!("{round}-{n}@guest.example");
        app.receive(&note(&id, "", "The secret of the letter."))
            .await
            .expect("taken");
    }
    app.drain().await;
}

/// A fact that the engine itself has to tell.
pub fn refused_login(id: &str, since: &str) -> NewNotice {
    NewNotice {
        id: NoticeId::new(id),
        persona: None,
        kind: NoticeKind::TransportRefused,
        detail: "relay.example".to_owned(),
        subject: NoticeSubject::Transport,
        subject_id: "relay.example".to_owned(),
        occurrence: since.to_owned(),
        summary: format!(
            "the mail server `relay.example` answers our login with 535 since {since}"
        ),
        hint: "correct the password in `.secrets` and start the engine again".to_owned(),
    }
}

/// Facts by cause: how many, and how many of them are told.
async fn facts(app: &TestApp) -> Vec<(String, i64, i64)> {
    let mut rows = app.workspace.rows().await;
    let sql =
        "SELECT cause, count(*), count(notified_at) FROM notices GROUP BY cause ORDER BY cause";
    let found = db::query(sql).fetch_all(&mut rows).await.expect("facts");
    found
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect()
}

/// Notice mails that were stored, whether or not they arrived: envelope sender, recipients, thread, state.
async fn mails(app: &TestApp) -> Vec<(String, String, String, String)> {
    let mut rows = app.workspace.rows().await;
    let sql =
        "SELECT d.envelope_from, (SELECT group_concat(recipient, ' ') FROM (SELECT recipient FROM
          delivery_recipients WHERE delivery_id = d.id ORDER BY recipient) listed), m.thread_id, d.state
        FROM deliveries d JOIN messages m ON m.id = d.message_id
        WHERE d.kind = 'notice' AND m.disposition = 'notice' ORDER BY d.seq";
    let found = db::query(sql).fetch_all(&mut rows).await.expect("mails");
    found
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)))
        .collect()
}

fn ada() -> PersonaId {
    PersonaId::parse("ada").expect("an id")
}
