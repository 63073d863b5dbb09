//! The audit: every check is broken once, on a copy of a house that has lived, and then exactly that check complains.

use super::workspace::{attache, copy_database, lived};
use crate::app::db;
use attache::store::audit::{Audit, AuditScope, Holds, LOG_BYTES_MAX, checks};
use std::collections::BTreeSet;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

const EVERYTHING: AuditScope = AuditScope {
    bytes: true,
    at_rest: true,
};
const ALWAYS: AuditScope = AuditScope {
    bytes: true,
    at_rest: false,
};
/// The run of the first letter, which has steps and a mail.
const RUN: &str = "(SELECT min(seq) FROM runs)";

/// The check and what breaks it, and nothing else. `{run}` is [`RUN`].
const CONTROLS: &[(&str, &str)] = &[
    ("broken-references", "INSERT INTO thread_budgets (thread_id) VALUES ('nowhere')"),
    ("search-index-differs", "DELETE FROM letter_words_docsize WHERE id = (SELECT max(seq) FROM messages)"),
    ("pruned-and-there", "UPDATE raw_letters SET pruned_at = '2026-11-20T09:00:00.000Z'"),
    ("reservations-differ", "UPDATE budget_accounts SET reserved_tokens = 7 WHERE scope = 'engine'"),
    (
        "reservation-without-call",
        "INSERT INTO budget_reservations SELECT id, 0, 1, '[]', '2026-11-20', 1, 1 FROM runs WHERE seq = {run}",
    ),
    (
        "account-below-books",
        "UPDATE usage_ledger SET output_tokens = 1000000000;
         UPDATE usage_days SET output_tokens = 1000000000 * lines",
    ),
    (
        "grants-above-bound",
        "INSERT INTO budget_accounts (scope, owner, period, granted_micros, grant_bound_micros)
         VALUES ('engine', '0', '2026-11', 600, 1000), ('engine', '1', '2026-11', 401, 1000), ('engine', '2', '2026-11', 0, 1000)",
    ),
    ("usage-sums-differ", "UPDATE usage_days SET cost_micros = coalesce(cost_micros, 0) + 1"),
    ("usage-sums-differ", "DELETE FROM usage_days"),
    (
        "account-below-books",
        "INSERT INTO embedding_calls (id, persona_id, purpose, provider, model, texts, tokens, estimated, state, cost_source, accounts_json,
            day, created_at)
         VALUES ('e1', 'ada', 'letters', 'p', 'm', 1, 1000000000, 0, 'open', 'unknown', '[]', '2026-11-20', '2026-11-20T09:00:00.000Z');
         UPDATE embedding_calls SET state = 'answered'",
    ),
    (
        "reservations-differ",
        "INSERT INTO embedding_calls (id, persona_id, purpose, provider, model, texts, tokens, estimated, state, cost_source, held_micros, accounts_json,
            day, created_at)
         VALUES ('e1', 'ada', 'letters', 'p', 'm', 1, 1000000000, 0, 'open', 'unknown', 1, '[{\"scope\": \"engine\", \"owner\": \"\", \"period\": \"2026-11-20\"}]', '2026-11-20', '2026-11-20T09:00:00.000Z')",
    ),
    (
        "personas-mixed",
        "INSERT INTO letter_vectors (seq, model, persona_id, text_sha256, vector) VALUES (1, 'p/m', 'eve', '', x'00000000')",
    ),
    ("run-differs-from-turns", "UPDATE runs SET input_tokens = input_tokens + 1 WHERE seq = {run}"),
    ("run-differs-from-turns", "DELETE FROM run_turns WHERE run_id = (SELECT id FROM runs WHERE seq = {run})"),
    ("text-missing", "DELETE FROM contents WHERE rowid = (SELECT min(rowid) FROM contents)"),
    ("personas-mixed", "UPDATE raw_letters SET persona_id = 'eve'"),
    ("personas-mixed", "UPDATE attachments SET persona_id = 'eve'"),
    ("personas-mixed", "UPDATE threads SET persona_id = 'eve'"),
    ("personas-mixed", "UPDATE run_turns SET persona_id = 'eve'"),
    ("personas-mixed", "UPDATE thread_tool_events SET persona_id = 'eve'"),
    ("personas-mixed", "UPDATE deliveries SET persona_id = 'eve'"),
    ("personas-mixed", "UPDATE message_links SET persona_id = 'eve'"),
    (
        "memory-without-source",
        "INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust, readers_json, audience_json, said_by,
           said_at, created_at, created_by, confirmed_at)
         SELECT 'm1', 'ada', 'contact', 'bob@x.test', 1, 'fact', 'x', 'x', 'active', 'contact', '\"everyone\"', '[]', 'bob@x.test',
           '2026-11-20T09:00:00.000Z', '2026-11-20T09:00:00.000Z', 'owner', '2026-11-20T09:00:00.000Z'",
    ),
    (
        "erased-and-there",
        "INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust, readers_json, audience_json, said_by,
           said_at, created_at, created_by, confirmed_at, erased_at)
         SELECT 'm1', 'ada', 'contact', 'bob@x.test', 1, 'fact', 'x', 'x', 'superseded', 'contact', '\"everyone\"', '[]', 'bob@x.test',
           '2026-11-20T09:00:00.000Z', '2026-11-20T09:00:00.000Z', 'owner', '2026-11-20T09:00:00.000Z', '2026-11-20T09:00:00.000Z'",
    ),
    (
        "memory-over-its-limit",
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 101)
         INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust, readers_json, audience_json, said_by,
           said_at, created_at, created_by, confirmed_at)
         SELECT 'm' || i, 'ada', 'contact', 'bob@x.test', i, 'fact', 'x', 'x', 'proposed', 'contact', '\"everyone\"', '[]', 'bob@x.test',
           '2026-11-20T09:00:00.000Z', '2026-11-20T09:00:00.000Z', 'owner', '2026-11-20T09:00:00.000Z' FROM n",
    ),
    ("letter-without-run", "UPDATE messages SET disposition = 'run' WHERE disposition LIKE 'filed:%'"),
    ("unknown-disposition", "UPDATE messages SET disposition = 'lost' WHERE disposition LIKE 'filed:%'"),
    ("unknown-disposition", "UPDATE messages SET disposition = 'lost' WHERE disposition LIKE 'withheld:%'"),
    ("letter-without-bytes", "UPDATE messages SET raw_id = NULL WHERE direction = 'inbound' AND id NOT IN (SELECT message_id FROM attachments)"),
    (
        "held-letter-at-work",
        "UPDATE runs SET state = 'queued' WHERE seq = {run};
         UPDATE messages SET disposition = 'filed:list'
         WHERE id = (SELECT trigger_message_id FROM runs WHERE seq = {run})",
    ),
    (
        "run-for-a-return",
        "UPDATE messages SET disposition = 'filed:bounce'
         WHERE id = (SELECT trigger_message_id FROM runs WHERE seq = {run})",
    ),
    ("delivery-without-recipients", "DELETE FROM delivery_recipients"),
    ("verdict-without-reply", "UPDATE delivery_recipients SET last_reply = NULL"),
    ("delivery-differs-from-recipients", "UPDATE deliveries SET state = 'failed'"),
    ("delivery-without-time", "UPDATE deliveries SET finished_at = NULL"),
    ("returned-and-not-failed", "UPDATE delivery_recipients SET bounced_at = '2026-11-20T09:00:00.000Z'"),
    (
        "report-without-token",
        "INSERT INTO delivery_reports (delivery_id, persona_id, message_id, recipient, kind, action, reason,
           diagnostic, is_hard, believed, changed, created_at)
         SELECT d.id, d.persona_id, m.id, 'x', 'delivery_status', 'failed', 'x', '', 1, 0, 1, d.created_at
         FROM deliveries d, messages m WHERE m.disposition LIKE 'filed:%' LIMIT 1",
    ),
    (
        "sent-without-delivery",
        "DELETE FROM delivery_recipients; DELETE FROM deliveries",
    ),
    ("delivery-of-no-mail", "UPDATE deliveries SET run_id = NULL"),
    (
        "delivery-without-step",
        "UPDATE runs SET state = 'queued' WHERE seq = {run};
         DELETE FROM thread_tool_events WHERE run_id = (SELECT id FROM runs WHERE seq = {run})",
    ),
    (
        "two-deliveries-of-one-mail",
        "INSERT INTO deliveries (id, persona_id, message_id, run_id, envelope_from, bytes, size_bytes, state, created_at, finished_at)
         SELECT 'twin', persona_id, message_id, run_id, envelope_from, bytes, size_bytes, state, created_at, finished_at
         FROM deliveries LIMIT 1;
         INSERT INTO delivery_recipients (delivery_id, recipient, state, last_reply)
         VALUES ('twin', 'bob@guest.example', 'delivered', '250')",
    ),
    (
        "recipient-not-in-thread",
        "UPDATE delivery_recipients SET recipient = 'eve@guest.example';
         UPDATE messages SET recipients_json = '{\"to\": [\"eve@guest.example\"]}' WHERE disposition = 'sent'",
    ),
    (
        "recipient-not-in-header",
        "UPDATE delivery_recipients SET recipient = 'eve@guest.example';
         INSERT INTO thread_participants (thread_id, address) SELECT id, 'eve@guest.example' FROM threads",
    ),
    (
        "delivery-of-a-gone-engine",
        "UPDATE deliveries SET state = 'sending', epoch = 0 WHERE seq = (SELECT min(seq) FROM deliveries)",
    ),
    ("delivery-of-a-gone-engine", "UPDATE deliveries SET state = 'committing', epoch = 99"),
    ("run-without-end", "UPDATE runs SET finished_at = NULL WHERE seq = {run}"),
    ("run-without-end", "UPDATE runs SET state = 'failed' WHERE seq = {run}"),
    ("run-without-next-step", "UPDATE runs SET state = 'waiting_retry' WHERE seq = {run}"),
    ("run-without-next-step", "UPDATE runs SET state = 'waiting_approval' WHERE seq = {run}"),
    (
        "thread-that-cannot-go-on",
        "UPDATE runs SET state = 'queued' WHERE seq = {run}; UPDATE runs SET behind = 1 WHERE seq = {run}",
    ),
    (
        "two-runs-at-once",
        "UPDATE runs SET state = 'running' WHERE thread_id = (SELECT thread_id FROM runs WHERE seq = {run})",
    ),
    (
        "summary-without-progress",
        "INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, stop_reason, created_at, finished_at)
         SELECT 'again', persona_id, thread_id, 'summary', trigger_message_id, profile, 'succeeded', 'answered', created_at, created_at
         FROM runs WHERE seq = {run};
         INSERT INTO thread_memory (id, persona_id, thread_id, run_id, model, state, problems_json, text, text_sha256, from_seq,
           upto_seq, upto_message_id, inputs_json, generation, messages, label_json, readers_json, created_at)
         SELECT 's1', persona_id, thread_id, id, '', 'usable', '[]', '', '', 1, (SELECT max(seq) FROM messages), trigger_message_id, '[]', 1, 1, '{}', '[]', created_at
         FROM runs WHERE id = 'again'",
    ),
    (
        "summary-without-progress",
        "INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, stop_reason, created_at, finished_at)
         SELECT 'again', persona_id, thread_id, 'summary', trigger_message_id, profile, 'succeeded', 'answered', created_at, created_at
         FROM runs WHERE seq = {run};
         INSERT INTO thread_memory (id, persona_id, thread_id, run_id, model, state, problems_json, text, text_sha256, from_seq,
           upto_seq, upto_message_id, inputs_json, generation, messages, label_json, readers_json, created_at)
         SELECT 's1', persona_id, thread_id, id, '', 'usable', '[]', '', '', 1, -1, trigger_message_id, '[]', 1, 1, '{}', '[]', created_at
         FROM runs WHERE id = 'again';
         INSERT INTO thread_memory (id, persona_id, thread_id, run_id, model, state, problems_json, text, text_sha256, from_seq,
           upto_seq, upto_message_id, inputs_json, generation, messages, label_json, readers_json, created_at)
         SELECT 's2', persona_id, thread_id, id, '', 'usable', '[]', '', '', 1, -1, trigger_message_id, '[]', 1, 1, '{}', '[]', created_at
         FROM runs WHERE id = 'again'",
    ),
    (
        "gap-in-steps",
        "UPDATE thread_tool_events SET step_index = 1000
         WHERE step_index = (SELECT max(step_index) FROM thread_tool_events)",
    ),
    (
        "gap-in-turns",
        "UPDATE run_turns SET turn_index = 50 WHERE turn_index = (SELECT max(turn_index) FROM run_turns)",
    ),
    ("turn-without-answer", "UPDATE run_turns SET response_json = NULL"),
    (
        "call-without-one-result",
        "DELETE FROM thread_tool_events WHERE step_index = (SELECT max(step_index) FROM thread_tool_events)",
    ),
    (
        "result-without-call",
        "INSERT INTO thread_tool_events (id, thread_id, persona_id, parent_message_id, run_id, step_index,
           event_type, tool_name, tool_call_id, payload_json, created_at)
         SELECT 'stray', thread_id, persona_id, parent_message_id, run_id, step_index + 1, event_type, tool_name,
           'c9_9', payload_json, created_at
         FROM thread_tool_events ORDER BY step_index DESC LIMIT 1",
    ),
    ("slot-without-one-run", "UPDATE responsibility_slots SET run_id = NULL"),
    (
        "slot-without-one-run",
        "UPDATE responsibility_slots SET state = 'missed', missed_count = 1, missed_until = slot_at",
    ),
    (
        "slot-that-waits-for-nothing",
        "UPDATE responsibility_slots SET state = 'waiting', run_id = NULL; UPDATE responsibilities SET enabled = 0",
    ),
    (
        "slot-that-waits-for-nothing",
        "UPDATE responsibility_slots SET state = 'waiting', run_id = NULL, revision = revision - 1",
    ),
    ("slots-without-a-count", "UPDATE responsibility_slots SET missed_count = 3"),
    ("late-place-that-is-lost", "UPDATE responsibility_slots SET catching_up = 1"),
    ("pause-without-a-word", "UPDATE responsibilities SET paused_at = '2026-11-20T09:00:00.000Z'"),
    (
        "run-in-a-thread-unknown",
        "UPDATE runs SET state = 'queued' WHERE trigger = 'schedule';
         UPDATE responsibilities SET thread_id = NULL, own_thread_id = NULL",
    ),
    ("cursor-before-slot", "UPDATE responsibilities SET cursor_at = '2026-01-01T00:00:00.000Z'"),
    ("run-of-a-gone-engine", "UPDATE runs SET state = 'running', epoch = 0 WHERE seq = {run}"),
    ("run-of-a-gone-engine", "UPDATE runs SET state = 'running', epoch = 99 WHERE seq = {run}"),
    (
        "letter-hash",
        "UPDATE raw_letters SET bytes = CAST(bytes || x'00' AS BLOB)
         WHERE id NOT IN (SELECT m.raw_id FROM messages m JOIN attachments a ON a.message_id = m.id)",
    ),
    ("attachment-hash", "UPDATE attachments SET bytes = x'6c616b66', encoding = NULL"),
    ("request-hash", "UPDATE run_turns SET packed = CAST(packed || ' ' AS BLOB) WHERE turn_index = 1"),
    (
        "content-hash",
        "UPDATE contents SET bytes = CAST(bytes || x'00' AS BLOB)
         WHERE sha256 NOT IN (SELECT packed_with FROM run_turns WHERE packed_with IS NOT NULL)",
    ),
    ("prompt-hash", "UPDATE responsibilities SET prompt = 'Look away.'"),
];

/// As [`CONTROLS`], for what holds only at rest: what complains then, and what breaks it.
const AT_REST: &[(&[&str], &str)] = &[
    (&["run-on-the-road-at-rest"], "UPDATE runs SET state = 'queued' WHERE seq = {run}"),
    (
        &["delivery-on-the-road-at-rest"],
        "UPDATE deliveries SET state = 'sending' WHERE seq = (SELECT min(seq) FROM deliveries)",
    ),
    (
        &["money-reserved-at-rest", "run-on-the-road-at-rest"],
        "UPDATE runs SET state = 'running' WHERE seq = {run};
         UPDATE run_turns SET state = 'started' WHERE turn_index = 0;
         INSERT INTO budget_reservations SELECT id, 0, 1, '[]', '2026-11-20', 1, 1 FROM runs WHERE seq = {run}",
    ),
];

async fn break_it(database: &Path, sql: &str) {
    let mut rows = db::Connection::file(database).await;
    let unchecked = "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON";
    rows.execute(unchecked).await.expect("no checks");
    let sql = sqlx::AssertSqlSafe(sql.replace("{run}", RUN));
    db::raw_sql(sql).execute(&mut rows).await.expect("a change");
    let changes = db::query_scalar::<i64>("SELECT total_changes()");
    assert!(
        changes.fetch_one(&mut rows).await.expect("a count") > 0,
        "the control changes nothing"
    );
    rows.close().await.expect("closed");
}

async fn complaints(database: &Path, wanted: AuditScope) -> BTreeSet<String> {
    let mut audit = Audit::open(database).await.expect("a database of ours");
    let findings = audit.examine(wanted).await.expect("an audit");
    findings
        .broken
        .iter()
        .map(|broken| broken.name.to_owned())
        .collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_breaks_one_check_makes_exactly_that_check_complain() {
    let app = lived().await;
    // Its letters are too few to have their words by themselves.
    let indexed = app.engine.store.clone().index_open_letters();
    indexed.await.expect("words");
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, copy) = (
        folder.path().join("whole.db"),
        folder.path().join("copy.db"),
    );
    copy_database(&app, &whole).await;
    assert_eq!(complaints(&whole, EVERYTHING).await, set(&[]));
    let mut wrong = Vec::new();
    let always = CONTROLS
        .iter()
        .map(|(name, sql)| (vec![*name], sql, ALWAYS));
    let at_rest = AT_REST
        .iter()
        .map(|(names, sql)| (names.to_vec(), sql, EVERYTHING));
    for (names, sql, wanted) in always.chain(at_rest) {
        std::fs::copy(&whole, &copy).expect("a copy");
        break_it(&copy, sql).await;
        let found = complaints(&copy, wanted).await;
        if found != set(&names) {
            wrong.push(format!(
                "{sql}\n  breaks {found:?}\n  and should break {names:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn every_check_has_a_control() {
    // A page is no row: its control is the test below.
    let controlled: BTreeSet<&str> = CONTROLS
        .iter()
        .map(|(name, _)| *name)
        .chain(["damaged-pages"])
        .collect();
    let at_rest: BTreeSet<&str> = AT_REST
        .iter()
        .flat_map(|(names, _)| names.iter().copied())
        .collect();
    let mut names = BTreeSet::new();
    for check in checks() {
        assert!(
            names.insert(check.name),
            "two checks are called {}",
            check.name
        );
        let controls = if check.holds == Holds::AtRest {
            &at_rest
        } else {
            &controlled
        };
        assert!(
            controls.contains(check.name),
            "{} has no control",
            check.name
        );
    }
    assert!(names.len() > 40, "only {} checks", names.len());
}

#[tokio::test]
async fn an_overwritten_page_is_found_by_exactly_the_check_of_pages() {
    let app = lived().await;
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("whole.db");
    copy_database(&app, &database).await;
    let mut rows = db::Connection::file(&database).await;
    let page: i64 = db::query_scalar("PRAGMA page_size")
        .fetch_one(&mut rows)
        .await
        .expect("a size");
    // No other check asks this table.
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'policy_uses'";
    let root: i64 = db::query_scalar(root)
        .fetch_one(&mut rows)
        .await
        .expect("a page");
    rows.close().await.expect("closed");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(&database)
        .expect("the file");
    file.seek(SeekFrom::Start(
        (root - 1).unsigned_abs() * page.unsigned_abs(),
    ))
    .expect("a page");
    file.write_all(b"\x07flipped").expect("damage");
    file.sync_all().expect("on disk");
    assert_eq!(complaints(&database, ALWAYS).await, set(&["damaged-pages"]));
    assert_eq!(
        complaints(
            &database,
            AuditScope {
                bytes: false,
                ..ALWAYS
            }
        )
        .await,
        set(&[]),
        "quick reads no pages"
    );
}

#[tokio::test]
async fn a_log_that_grew_too_long_is_found_and_the_file_is_left_alone() {
    let app = lived().await;
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("whole.db");
    copy_database(&app, &database).await;
    let before = std::fs::read(&database).expect("its bytes");
    assert_eq!(complaints(&database, ALWAYS).await, set(&[]));
    let log = std::fs::File::create(folder.path().join("whole.db-wal")).expect("a log");
    log.set_len(LOG_BYTES_MAX + 1).expect("a long one");
    assert_eq!(complaints(&database, ALWAYS).await, set(&["log-too-long"]));
    assert_eq!(std::fs::read(&database).expect("its bytes"), before);
}

/// A run that waits for its next attempt has calls without results, as one that works: it goes on with them.
#[tokio::test]
async fn a_call_without_a_result_is_a_fault_only_where_its_run_does_not_go_on_with_it() {
    let app = lived().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, copy) = (
        folder.path().join("whole.db"),
        folder.path().join("copy.db"),
    );
    copy_database(&app, &whole).await;
    for (state, is_fault) in [
        ("queued", false),
        ("running", false),
        ("waiting_retry", false),
        ("waiting_approval", true),
        ("succeeded", true),
        ("failed", true),
        ("cancelled", true),
    ] {
        std::fs::copy(&whole, &copy).expect("a copy");
        let sql = format!(
            "DELETE FROM thread_tool_events WHERE step_index = (SELECT max(step_index) FROM thread_tool_events);
             UPDATE runs SET state = '{state}', error_class = 'store'"
        );
        break_it(&copy, &sql).await;
        let found = complaints(&copy, ALWAYS).await;
        assert_eq!(
            found.contains("call-without-one-result"),
            is_fault,
            "{state}: {found:?}"
        );
    }
}

/// More rows of slots than a quick look reads of one table; the first of them does not say which slots it stands for.
const MANY_SLOTS: &str = "
    INSERT INTO responsibility_slots (responsibility_id, slot_at, persona_id, kind, state, missed_count, missed_until, created_at)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
    SELECT (SELECT min(id) FROM responsibilities), printf('2000-%08d', i), 'ada', 'manual', 'missed', i > 1, '2020', '2026-11-20T09:00:00.000Z'
    FROM n";

#[tokio::test]
async fn a_quick_look_ends_however_large_the_database_is_and_tells_of_what_it_did_not_read() {
    let app = lived().await;
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("whole.db");
    copy_database(&app, &database).await;
    let look = async || {
        let audit = Audit::open(&database).await.expect("a database of ours");
        let mut audit = audit.at_a_glance().await.expect("bounded");
        audit.examine(ALWAYS).await.expect("an audit")
    };
    let small = look().await;
    assert!(
        small.broken.is_empty() && small.unfinished.is_empty(),
        "{small:?}"
    );
    break_it(&database, MANY_SLOTS).await;
    let large = look().await;
    let found: Vec<&str> = large.broken.iter().map(|broken| broken.name).collect();
    assert_eq!(
        found,
        ["slots-without-a-count"],
        "what it comes across is told"
    );
    assert!(
        large.unfinished.contains(&"slots-without-a-count"),
        "{large:?}"
    );
    assert_eq!(large.made + large.unfinished.len(), small.made);
    assert!(
        large.made > large.unfinished.len(),
        "the rest is looked at: {large:?}"
    );
    assert_eq!(
        complaints(&database, ALWAYS).await,
        set(&["slots-without-a-count"])
    );
}

#[tokio::test]
async fn doctor_looks_quickly_and_says_when_everything_was_audited() {
    let app = lived().await;
    let workspace = app.workspace.path();
    let said = async |args: &[&str]| attache(workspace, args).await.1;
    let quick = "this was a quick look at a large database";
    assert!(
        !said(&["doctor"]).await.contains(quick),
        "a small one is read whole"
    );
    let many = sqlx::AssertSqlSafe(MANY_SLOTS);
    let rows = db::raw_sql(many)
        .execute(&mut app.workspace.rows().await)
        .await;
    rows.expect("rows");
    let never = said(&["doctor"]).await;
    assert!(
        never.contains(quick) && never.contains("no audit of everything has ended here yet"),
        "{never}"
    );
    assert!(
        said(&["doctor", "--audit", "--quick"])
            .await
            .contains("1 of them broken")
    );
    assert_eq!(
        said(&["doctor"]).await,
        never,
        "without the bytes it is none of everything"
    );
    assert!(
        said(&["doctor", "--audit"])
            .await
            .contains("1 of them broken")
    );
    let since = said(&["doctor"]).await;
    assert!(
        since.contains("the last audit of everything was at 20")
            && since.contains(", with 1 broken check"),
        "{since}"
    );
}
