//! What a person would call the result of a workload: rows, files and mails without ids, times and counters, nor what is
//! made of ids: the marks of the memory, and the digests of it that were expected.

use crate::app::db;
use crate::app::{parse, without_marks};
use crate::outbound::server::Mail;
use std::collections::BTreeMap;
use std::path::Path;

pub async fn open(folder: &Path) -> db::Connection {
    db::Connection::open(folder).await
}

/// What must be the same however often the engine died. Not in it, and so allowed to differ: attempts, requests of the
/// model (bounded elsewhere), whether memory was found written already, flags of possible duplicates, tokens that a lost
/// call may have cost.
const QUERIES: &[&str] = &[
    "SELECT 'message', t.subject, m.direction, m.sender, m.recipients_json, m.subject, m.text_body, m.disposition,
       (SELECT p.direction || ' ' || p.subject FROM messages p WHERE p.message_id = m.in_reply_to)
     FROM messages m JOIN threads t ON t.id = m.thread_id",
    "SELECT 'run', r.trigger, m.subject, r.state, r.stop_reason, r.error_class
     FROM runs r JOIN messages m ON m.id = r.trigger_message_id",
    "SELECT 'step', m.subject, e.step_index, e.event_type, e.tool_name, e.tool_call_id,
       CASE e.tool_name WHEN 'send_email' THEN coalesce(e.payload_json ->> '$.ok', e.payload_json)
         ELSE replace(json_remove(e.payload_json, '$.begun'), '\"changed\":false', '\"changed\":true') END
     FROM thread_tool_events e JOIN messages m ON m.id = e.parent_message_id",
    "SELECT 'answer', m.subject, u.turn_index, u.response_json ->> '$.blocks'
     FROM run_turns u JOIN runs r ON r.id = u.run_id JOIN messages m ON m.id = r.trigger_message_id
     WHERE u.state = 'answered'",
    "SELECT 'delivery', m.subject, d.kind, d.state, r.recipient, r.state
     FROM deliveries d JOIN messages m ON m.id = d.message_id JOIN delivery_recipients r ON r.delivery_id = d.id",
    "SELECT 'slot', r.name, s.kind, s.state, s.missed_count, s.run_id IS NOT NULL
     FROM responsibility_slots s JOIN responsibilities r ON r.id = s.responsibility_id",
    "SELECT 'duty', name, paused_by, failures, cursor_at < next_slot_at, (SELECT count(*) FROM notices n
       WHERE n.subject_id = r.id AND n.kind = 'responsibility_paused') FROM responsibilities r",
    "SELECT 'books', sum(input_tokens + cache_read_tokens + cache_write_tokens + output_tokens), sum(cost_micros)
     FROM usage_ledger WHERE state = 'answered'",
    "SELECT 'account', scope, sum(spent_tokens) FROM budget_accounts WHERE length(period) = 10 AND scope IN ('engine', 'persona')
     AND NOT EXISTS (SELECT 1 FROM usage_ledger WHERE state = 'lost') GROUP BY scope",
];

/// The rows and the memory file, one line each, sorted.
pub async fn projection(folder: &Path, rows: &mut db::Connection) -> Vec<String> {
    let mut lines = Vec::new();
    for sql in QUERIES {
        for row in db::query(*sql).fetch_all(&mut *rows).await.expect("rows") {
            let cells = (0..row.len()).map(|i| {
                row.try_get::<Option<String>>(i)
                    .unwrap_or_else(|_| row.get::<Option<i64>>(i).map(|number| number.to_string()))
            });
            lines.push(
                cells
                    .map(Option::unwrap_or_default)
                    .collect::<Vec<_>>()
                    .join(" | "),
            );
        }
    }
    let memory =
        std::fs::read_to_string(folder.join("personas/ada/active.md")).expect("the memory");
    lines.push(format!("memory | {}", without_marks(&memory)));
    lines.sort();
    lines
}

/// What reached people: each recipient's mails, whatever transaction brought them, once however often they came.
pub fn received(mails: &[Mail]) -> Vec<String> {
    let mut lines = Vec::new();
    for ((id, recipient), copies) in copies(mails) {
        assert!(
            copies.iter().all(|copy| *copy == copies[0]),
            "{id} came to {recipient} with other bytes"
        );
        let mail = parse(&copies[0]);
        lines.push(format!(
            "received | {recipient} | {} | {}",
            mail.subject, mail.text
        ));
    }
    lines.sort();
    lines
}

/// The copies of every mail, by Message-ID and recipient.
pub fn copies(mails: &[Mail]) -> BTreeMap<(String, String), Vec<Vec<u8>>> {
    let mut copies: BTreeMap<(String, String), Vec<Vec<u8>>> = BTreeMap::new();
    for mail in mails.iter().filter(|mail| mail.accepted) {
        let id = parse(&mail.bytes()).message_id.expect("a Message-ID");
        for recipient in &mail.to {
            copies
                .entry((id.to_string(), recipient.clone()))
                .or_default()
                .push(mail.bytes());
        }
    }
    copies
}

/// Message-IDs whose delivery says that a copy too many may exist.
pub async fn flagged(rows: &mut db::Connection) -> Vec<String> {
    let sql = "SELECT m.message_id FROM deliveries d JOIN messages m ON m.id = d.message_id
        WHERE d.possible_duplicate = 1";
    db::query_scalar(sql).fetch_all(rows).await.expect("flags")
}
