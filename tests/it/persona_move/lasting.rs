//! What lasts: replays have the verdicts that they had, both audits are clean, money is counted once, and mail goes on where it was.

use super::cells::{Rows, closed, count, lived, moved, other};
use crate::app::audited::examined;
use crate::app::{Workspace, db, letter, proven_note};
use attache::domain::{Address, Arrival, Envelope, Letter, Via};
use attache::gateway::intake_contract::CopyOutcome;
use attache::store::audit::AuditScope;

/// What replays of ada's runs find.
async fn verdicts(workspace: &Workspace) -> Vec<String> {
    let mut rows = workspace.rows().await;
    let ids = "SELECT id FROM runs WHERE persona_id = 'ada'";
    let ids: Vec<String> = db::query_scalar(ids)
        .fetch_all(&mut rows)
        .await
        .expect("runs");
    let verified = workspace.verified().await;
    let mut found: Vec<String> = verified.iter().map(|run| format!("{run:?}")).collect();
    found.retain(|run| ids.iter().any(|id| run.contains(id)));
    found.sort_unstable();
    assert!(found.len() > 6, "{found:#?}");
    found
}

const SPENT_BY_ENGINE: &str = "SELECT CAST(coalesce(sum(spent_tokens), 0) AS BIGINT) FROM budget_accounts WHERE scope = 'engine'";
const SPENT_BY_ADA: &str =
    "SELECT CAST(coalesce(sum(spent_tokens), 0) AS BIGINT) FROM budget_accounts
    WHERE scope = 'persona' AND owner = 'ada'";

/// Events of a cell that a persona has left tell what was, so that only the rows are audited.
async fn audited(workspace: &Workspace) {
    let everything = AuditScope {
        bytes: true,
        at_rest: false,
    };
    let findings = examined(&mut workspace.rows().await, everything).await;
    assert!(findings.broken.is_empty(), "{:#?}", findings.broken);
}

/// Moves ada, and checks what both cells say afterwards.
async fn goes(from: &Workspace, to: &Workspace) {
    let before = verdicts(from).await;
    let spent = count(from, SPENT_BY_ADA).await;
    assert!(spent > 0);
    let (here, there) = (
        count(from, SPENT_BY_ENGINE).await,
        count(to, SPENT_BY_ENGINE).await,
    );
    moved(from, to).await.expect("a move");
    assert_eq!(verdicts(to).await, before);
    audited(from).await;
    audited(to).await;
    assert_eq!(count(from, SPENT_BY_ENGINE).await, here - spent);
    assert_eq!(count(to, SPENT_BY_ENGINE).await, there + spent);
    assert_eq!(count(to, SPENT_BY_ADA).await, spent);
    let untouched = "SELECT count(*) FROM messages WHERE persona_id <> 'ada'";
    assert!(count(to, untouched).await > 0 || count(from, untouched).await > 0);
}

/// A reply to the first letter, a letter that came before, and a bounce of the first answer arrive where ada is now.
async fn goes_on(workspace: Workspace, number: usize) -> Workspace {
    let waits = count(
        &workspace,
        "SELECT count(*) FROM approvals WHERE state = 'open'",
    )
    .await;
    assert_eq!(waits, 1, "the question to the owner came along");
    let app = workspace.start().await;
    app.engine.scheduler().sync().await.expect("looked at");
    app.drain().await;
    let queued =
        "SELECT count(*) FROM runs WHERE persona_id = 'ada' AND state IN ('queued', 'running')";
    assert_eq!(
        count(&app.workspace, queued).await,
        0,
        "the queued run has ended"
    );
    let reply = "In-Reply-To: <0@guest.example>\n";
    app.run_of(&proven_note(
        &format!("more{number}"),
        reply,
        "One more, kind-plain.",
    ))
    .await;
    app.drain().await;
    let in_thread = "SELECT count(*) FROM messages m JOIN messages o ON o.thread_id = m.thread_id
        WHERE m.message_id = '0@guest.example' AND o.direction = 'outbound' AND o.disposition = 'sent'";
    let answers = count(&app.workspace, in_thread).await;
    assert!(
        answers > 1 + i64::try_from(number).expect("few"),
        "{answers}"
    );
    let again = app.receive(&crate::verify::kinds::letter(1, "tools")).await;
    let again = &again.expect("taken").copies[0].outcome;
    assert!(matches!(again, CopyOutcome::Duplicate), "{again:?}");
    bounces(&app).await;
    app.check().await;
    closed(app).await
}

/// The mail system of a recipient gives the oldest answer back.
async fn bounces(app: &crate::app::TestApp) {
    let sql = "SELECT d.envelope_from, m.message_id, d.id FROM deliveries d JOIN messages m ON m.id = d.message_id
        WHERE d.persona_id = $1 AND d.state = 'done' AND d.kind = 'mail' AND NOT EXISTS (SELECT 1 FROM delivery_reports r
          WHERE r.delivery_id = d.id) ORDER BY d.seq LIMIT 1";
    let row = app.row(sql, "ada").await;
    let text = |at: usize| row[at].clone().expect("a column");
    let folder =
        std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bounces");
    let shape = std::fs::read_to_string(folder.join("postfix_user_unknown.eml")).expect("a shape");
    let eml = shape
        .replace("{{return}}", &text(0))
        .replace("{{id}}", &text(1));
    let envelope = Envelope {
        mail_from: None,
        rcpt_to: vec![Address::parse(&text(0)).expect("an address")],
        helo: "relay.example".to_owned(),
        peer: None,
        via: Via::Smtp,
        arrival: Arrival::default(),
    };
    let bytes = eml.replace('\n', "\r\n").into_bytes();
    let taken = app.engine.intake().accept(Letter { envelope, bytes }).await;
    taken.expect("the bounce is taken");
    let found = app
        .row(
            "SELECT CAST(count(*) AS TEXT) FROM delivery_reports WHERE delivery_id = $1",
            &text(2),
        )
        .await;
    assert_eq!(found[0].as_deref(), Some("1"), "it finds its mail");
}

async fn there_and_back(here: Rows, there: Rows) {
    let Some(first) = lived(here).await else {
        return;
    };
    let Some(second) = other(there, "eva", &first).await else {
        return;
    };
    goes(&first, &second).await;
    let second = goes_on(second, 0).await;
    goes_back(&second, &first).await;
    // She is known there as before.
    let first = first.start().await;
    let reply = "In-Reply-To: <more0>\n";
    let taken = first.engine.intake();
    let eml = proven_note("home@guest.example", reply, "Home again, kind-plain.");
    taken.accept(letter(&eml)).await.expect("taken");
    first.drain().await;
    audited(&first.workspace).await;
    assert!(verdicts(&first.workspace).await.len() > 8);
}

async fn goes_back(from: &Workspace, to: &Workspace) {
    let before = verdicts(from).await;
    moved(from, to).await.expect("a move back");
    assert_eq!(verdicts(to).await, before);
    audited(from).await;
    audited(to).await;
}

#[tokio::test]
async fn from_a_file_to_a_file_and_back() {
    there_and_back(Rows::File, Rows::File).await;
}

#[tokio::test]
async fn from_a_file_to_a_server_and_back() {
    there_and_back(Rows::File, Rows::Server).await;
}

#[tokio::test]
async fn from_a_server_to_a_server_and_back() {
    there_and_back(Rows::Server, Rows::Server).await;
}
