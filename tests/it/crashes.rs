//! The power goes at every commit of a letter's road, on either side of it; the state after a restart is the one of
//! the road that was not interrupted.

use crate::app::db;
use crate::app::{TestApp, Workspace, proven_note as note, without_marks};
use attache::store::PowerCut;
use serde_json::{Value, json};

/// Reads, fails, recovers, notes, mails, and says something last: every kind of entry a journal has.
fn script() -> Value {
    json!({ "turns": [
        { "call": [{ "tool": "read_file", "args": { "path": "nope.md" } }, { "tool": "list_files", "args": {} }] },
        { "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } },
                   { "tool": "update_memory", "args": { "content": "Bob asks about breakfast." } },
                   { "tool": "remember", "args":
                     { "text": "Bob has breakfast with us.", "kind": "event", "source_quote": "When is breakfast?" } }] },
        { "call": [{ "tool": "send_email", "args":
            { "to": ["bob@guest.example"], "subject": "x", "body": "From seven to ten." } }] },
        { "say": "Done." },
    ] })
}

/// What a person would call the result: rows without ids, times and counters.
async fn state(app: &TestApp) -> Vec<String> {
    let mut rows = app.workspace.rows().await;
    let mut lines = Vec::new();
    for sql in [
        "SELECT 'message', direction, subject, text_body, disposition FROM messages ORDER BY seq",
        "SELECT 'run', state, stop_reason, error_class, '' FROM runs ORDER BY seq",
        "SELECT 'step', event_type, tool_name, tool_call_id, json_remove(payload_json, '$.begun') FROM thread_tool_events ORDER BY step_index",
        "SELECT 'turn', turn_index, state, provider, response_json ->> '$.blocks' FROM run_turns
         WHERE state = 'answered' ORDER BY turn_index",
        "SELECT 'entry', text, status, number, (SELECT count(*) FROM memory_events) FROM memory ORDER BY number",
        "SELECT 'recipient', recipient, state, '', '' FROM delivery_recipients ORDER BY recipient",
        "SELECT 'threads', count(*), '', '', '' FROM threads",
    ] {
        for row in db::query(sql).fetch_all(&mut rows).await.expect("rows") {
            let cells = (0..row.len()).map(|i| {
                row.try_get::<Option<String>>(i)
                    .unwrap_or_else(|_| Some(row.get::<i64>(i).to_string()))
            });
            let line = cells
                .map(Option::unwrap_or_default)
                .collect::<Vec<_>>()
                .join(" | ");
            lines.push(line);
        }
    }
    for mail in app.sent() {
        lines.push(format!(
            "mail | {} | {:?} | {}",
            mail.subject, mail.in_reply_to, mail.text
        ));
    }
    let memory = std::fs::read_to_string(app.workspace.path().join("personas/ada/active.md"))
        .expect("memory");
    lines.push(format!("memory | {}", without_marks(&memory)));
    lines
}

async fn straight() -> Vec<String> {
    let app = TestApp::start(script()).await;
    app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    app.check().await;
    state(&app).await
}

/// Sends the letter until it is taken, with the power going at the given commit, then works it off. Gives the state
/// and whether the power went at all.
async fn interrupted(cut: PowerCut) -> (Vec<String>, bool) {
    let mut app = Workspace::new(&script()).start().await;
    app.engine.store.cut_power(cut);
    let letter = note("q1@guest.example", "", "When is breakfast?");
    let mut struck = false;
    if app.receive(&letter).await.is_err() {
        struck = true;
        app = app.restart().await;
        // A client that saw no yes sends the letter again.
        app.receive(&letter).await.expect("taken");
    }
    app.workspace
        .clock
        .advance(std::time::Duration::from_millis(10));
    if app.engine.drain().await.is_err() {
        struck = true;
    }
    let mut app = app.restart().await;
    for _ in 0..3 {
        // What was parked by the dying engine is due again after its wait.
        app.workspace
            .clock
            .advance(std::time::Duration::from_secs(600));
        app.drain().await;
    }
    app = app.restart().await;
    app.drain().await;
    app.check().await;
    (state(&app).await, struck)
}

/// Cuts the power at the first commit, then at the second, until a road ends before its cut.
async fn cut_everywhere(side: fn(u64) -> PowerCut) {
    let wanted = straight().await;
    assert!(
        wanted.iter().any(|line| line.starts_with("mail | ")),
        "{wanted:#?}"
    );
    let mut struck_at = 0;
    for commit in 1..100 {
        let (found, struck) = interrupted(side(commit)).await;
        let other: Vec<_> = found.iter().zip(&wanted).filter(|(a, b)| a != b).collect();
        assert_eq!(
            found.len(),
            wanted.len(),
            "after a power cut at {:?}: {found:#?}",
            side(commit)
        );
        assert!(
            other.is_empty(),
            "after a power cut at {:?}: {other:#?}",
            side(commit)
        );
        if !struck {
            break;
        }
        struck_at = commit;
    }
    assert!(
        (8..99).contains(&struck_at),
        "only {struck_at} commits were tried"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_power_cut_before_any_commit_ends_in_the_same_state() {
    cut_everywhere(PowerCut::BeforeCommit).await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_power_cut_after_any_commit_ends_in_the_same_state() {
    cut_everywhere(PowerCut::AfterCommit).await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_clean_stop_in_the_middle_of_a_run_goes_on_from_its_journal() {
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "read_file", "args": { "path": "knowledge/house.md" } }] },
        { "when": { "turn": 1 }, "hang": true },
    ] });
    let workspace = Workspace::new(&script);
    workspace.set(
        "configs/gateway.json",
        "/limits",
        json!({ "drain_max": "0s" }),
    );
    let app = workspace.start().await;
    let run = app
        .run_of(&note("q1@guest.example", "", "When is breakfast?"))
        .await;
    let TestApp { workspace, engine } = app;
    let (stop, store) = (
        tokio_util::sync::CancellationToken::new(),
        engine.store.clone(),
    );
    let serving = tokio::spawn(engine.serve(Vec::new(), stop.clone()));
    let mut rows = workspace.rows().await;
    let turns =
        "SELECT count(*) FROM run_turns WHERE run_id = $1 AND state = 'started' AND turn_index = 1";
    let waiting = async {
        while db::query_scalar::<i64>(turns)
            .bind(&run)
            .fetch_one(&mut rows)
            .await
            .expect("turns")
            == 0
        {
            crate::app::glance().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), waiting)
        .await
        .expect("the second turn begins");
    drop(store);
    stop.cancel();
    serving.await.expect("no panic").expect("a clean stop");
    workspace.write(
        "configs/script.json",
        &json!({ "turns": [{ "say": "not asked again" }, { "say": "From seven to ten." }] })
            .to_string(),
    );
    let app = workspace.start().await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert_eq!(app.trace(&run).await, ["call read_file", "ok read_file"]);
    assert_eq!(app.sent().len(), 1);
    app.check().await;
}

/// Stands for a disk that is full while the second run waits, and has room again afterwards.
async fn fill_disk(rows: &mut db::Connection) {
    let when = "EXISTS (SELECT 1 FROM runs WHERE state = 'queued')";
    rows.refuse("no_room_for_turns", "INSERT ON run_turns", when)
        .await;
    let when = "new.state = 'waiting_retry'
        AND EXISTS (SELECT 1 FROM runs WHERE id <> new.id AND state IN ('queued', 'running'))";
    rows.refuse("no_room_for_failures", "UPDATE ON runs", when)
        .await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_failure_not_stored_is_stored_later_and_its_run_tried_again() {
    let workspace = Workspace::new(&json!({ "turns": [{ "say": "From seven to ten." }] }));
    workspace.set(
        "configs/inference.json",
        "/concurrency",
        json!({ "runs_max": 1 }),
    );
    let app = workspace.start().await;
    for id in ["first@guest.example", "second@guest.example"] {
        app.receive(&note(id, "", "When is breakfast?"))
            .await
            .expect("taken");
    }
    fill_disk(&mut app.workspace.rows().await).await;
    app.engine.drain().await.expect("drained");
    let states = "SELECT group_concat(state) FROM (SELECT state FROM runs ORDER BY seq) listed";
    let mut rows = app.workspace.rows().await;
    let found: String = db::query_scalar(states)
        .fetch_one(&mut rows)
        .await
        .expect("states");
    assert_eq!(found, "waiting_retry,succeeded");
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(600));
    app.drain().await;
    app.check().await;
    assert_eq!(app.sent().len(), 2);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_commit_that_fails_is_answered_with_451_and_never_with_250() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let app = TestApp::start(script()).await;
    let mut listeners = app.engine.bind().await.expect("a port");
    let address = listeners[0].tcp_address().expect("an address");
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = attache::gateway::ingress::smtp::serve(
        listeners.remove(0),
        app.engine.intake(),
        stop.clone(),
    );
    let serving = tokio::spawn(serving);
    app.engine.store.cut_power(PowerCut::BeforeCommit(1));
    let letter = note("q1@guest.example", "", "When is breakfast?").replace('\n', "\r\n");
    let dialog = format!(
        "EHLO guest.example\r\nMAIL FROM:<bob@guest.example>\r\nRCPT TO:<ada@engine.test>\r\nDATA\r\n{letter}.\r\nQUIT\r\n"
    );
    let mut client = tokio::net::TcpStream::connect(address)
        .await
        .expect("connected");
    client.write_all(dialog.as_bytes()).await.expect("sent");
    let mut said = String::new();
    client.read_to_string(&mut said).await.expect("replies");
    let codes: Vec<&str> = said
        .lines()
        .filter(|line| !line.contains("250-"))
        .map(|line| &line[..3])
        .collect();
    assert_eq!(
        codes,
        ["220", "250", "250", "250", "354", "451", "221"],
        "{said}"
    );
    stop.cancel();
    serving.await.expect("served");
    let app = app.restart().await;
    assert_eq!(app.drain().await.runs, 0);
    let stored = app
        .row(
            "SELECT CAST(count(*) AS TEXT) FROM messages WHERE $1 = $1",
            "",
        )
        .await;
    assert_eq!(stored[0].as_deref(), Some("0"));
    app.check().await;
}
