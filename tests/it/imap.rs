//! IMAP mailboxes, against a server that fails on demand. `tests/peers/dovecot.sh` has one that nobody here wrote.

mod login;
pub mod server;
mod sweeps;
mod failure;
mod unread;
mod waiting;

use crate::app::db;
use crate::app::{TestApp, note};
use attache::config::{AfterStored, ImapMailbox, MailTls, MailboxLogin};
use attache::gateway::ingress::imap::{ImapSweepReport, ImapTimeouts, MailboxError, MailboxWatch};
use secrecy::SecretString;
use serde_json::json;
use server::{PASSWORD, Server, USER};
use std::time::Duration;

fn mailbox(server: &Server) -> ImapMailbox {
    ImapMailbox {
        name: "desk".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: server.port,
        tls: MailTls::None,
        ca_file: None,
        user: USER.to_owned(),
        login: MailboxLogin::Password(SecretString::from(PASSWORD)),
        folder: "INBOX".to_owned(),
        after: AfterStored::Flag("\\Seen".to_owned()),
        mark_unanswered: false,
        from_now_on: false,
        fallback: None,
        poll: Duration::from_secs(300),
        authserv_id: None,
    }
}

/// Short enough for a test, long enough for a busy machine.
fn timeouts() -> ImapTimeouts {
    ImapTimeouts {
        silence_max: Duration::from_secs(20),
        pause_min: Duration::from_millis(1),
        pause_max: Duration::from_millis(1),
        ..ImapTimeouts::default()
    }
}

fn watch(app: &TestApp, mailbox: ImapMailbox) -> MailboxWatch {
    app.engine.mailbox_watch(mailbox).with_timeouts(timeouts())
}

async fn app() -> TestApp {
    app_with(json!({ "domain_runs_per_day_max": 1_000_000 })).await
}

/// As [`app`], with an engine whose limits are what a test needs.
async fn app_with(limits: serde_json::Value) -> TestApp {
    let workspace = crate::app::Workspace::new(&json!([]));
    workspace.set("configs/gateway.json", "/limits", limits);
    workspace.start().await
}

async fn sweep(app: &TestApp, server: &Server) -> Result<ImapSweepReport, MailboxError> {
    watch(app, mailbox(server)).sweep_once().await
}

/// A letter to Ada that names itself.
fn numbered(number: usize) -> String {
    note(
        &format!("n{number}@guest.example"),
        "",
        &format!("This is letter {number}."),
    )
}

fn deliver_some(server: &Server, numbers: std::ops::Range<usize>) {
    for number in numbers {
        server.deliver(&numbered(number));
    }
}

async fn count(app: &TestApp, sql: &'static str) -> i64 {
    let mut rows = app.workspace.rows().await;
    db::query_scalar(sql)
        .fetch_one(&mut rows)
        .await
        .expect("a number")
}

async fn runs(app: &TestApp) -> i64 {
    count(app, "SELECT count(*) FROM runs").await
}
