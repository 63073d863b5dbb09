//! Checks of mail: a received letter has a run or a rule, a delivery has its commit, its recipients
//! and their verdicts.

use super::{AuditCheck, Holds};
use crate::store::db::Sql;

static REPORT: &str = "report it, with the output of `attache doctor --audit --json`";

pub(super) static CHECKS: &[AuditCheck] = &[
    AuditCheck {
        group: "AU1",
        name: "letter-without-run",
        says: "a letter was taken, and there is neither a run nor a rule that holds it",
        hint: "`attache runs answer MESSAGE` queues a run for it",
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM messages m WHERE direction = 'inbound' AND disposition = 'run' AND NOT EXISTS
            (SELECT 1 FROM runs r WHERE r.trigger_message_id = m.id)"),
    },
    AuditCheck {
        group: "AU1",
        name: "unknown-disposition",
        says: "a message is in a state that does not exist",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM messages WHERE NOT CASE direction
            WHEN 'inbound' THEN disposition = 'run' OR disposition LIKE 'filed:_%'
            WHEN 'outbound' THEN disposition IN ('sent', 'notice') OR disposition LIKE 'withheld:_%'
              OR disposition LIKE 'filed:_%'
            ELSE disposition = 'run' END"),
    },
    AuditCheck {
        group: "AU1",
        name: "letter-without-bytes",
        says: "a letter has no raw bytes",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM messages WHERE direction = 'inbound' AND raw_id IS NULL"),
    },
    AuditCheck {
        group: "AU1",
        name: "held-letter-at-work",
        says: "a rule holds a letter, and a run is open for it",
        hint: "`attache runs cancel RUN` ends the run",
        holds: Holds::Always,
        sql: Sql::same("SELECT m.id FROM runs r JOIN messages m ON m.id = r.trigger_message_id
            WHERE r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry')
              AND m.disposition LIKE 'filed:%'"),
    },
    AuditCheck {
        group: "AU1",
        name: "run-for-a-return",
        says: "a run exists for a letter that came back",
        hint: "it could answer a bounce: `attache runs cancel RUN`, and report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT r.id FROM runs r JOIN messages m ON m.id = r.trigger_message_id
            WHERE m.disposition LIKE 'filed:bounce%'
              OR EXISTS (SELECT 1 FROM delivery_reports d WHERE d.message_id = m.id)"),
    },
    AuditCheck {
        group: "AU5",
        name: "delivery-without-recipients",
        says: "a mail has nobody to go to",
        hint: "`attache outbox cancel DELIVERY`, and report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM deliveries d WHERE NOT EXISTS
            (SELECT 1 FROM delivery_recipients r WHERE r.delivery_id = d.id)"),
    },
    AuditCheck {
        group: "AU5",
        name: "verdict-without-reply",
        says: "a recipient has the mail, and there is no reply of a server that says so",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT delivery_id || ' ' || recipient FROM delivery_recipients
            WHERE state = 'delivered' AND coalesce(last_reply, '') = ''"),
    },
    AuditCheck {
        group: "AU5",
        name: "delivery-differs-from-recipients",
        says: "the state of a mail does not follow from those of its recipients",
        hint: "`attache outbox show DELIVERY`; `attache outbox retry` sends to those who are open",
        holds: Holds::Always,
        sql: Sql::same("SELECT d.id FROM deliveries d JOIN delivery_recipients r ON r.delivery_id = d.id GROUP BY d.id, d.state
            HAVING NOT CASE d.state
              WHEN 'queued' THEN sum(r.state IN ('queued', 'deferred')) > 0
              WHEN 'held' THEN sum(r.state IN ('queued', 'deferred')) > 0
              WHEN 'done' THEN sum(r.state <> 'delivered') = 0
              WHEN 'failed' THEN sum(r.state IN ('queued', 'deferred')) = 0 AND sum(r.state = 'failed') > 0
              WHEN 'cancelled' THEN sum(r.state IN ('queued', 'deferred')) = 0
              ELSE 1 = 1 END"),
    },
    AuditCheck {
        group: "AU5",
        name: "delivery-without-time",
        says: "a queued mail has no time to be sent at, or one that has ended does not say when",
        hint: "`attache outbox retry DELIVERY` gives it one",
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM deliveries WHERE (state = 'queued' AND next_attempt_at IS NULL)
            OR (state IN ('done', 'failed', 'cancelled') AND finished_at IS NULL)"),
    },
    AuditCheck {
        group: "AU5",
        name: "returned-and-not-failed",
        says: "a mail came back from a recipient who has not failed",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT delivery_id || ' ' || recipient FROM delivery_recipients
            WHERE bounced_at IS NOT NULL AND state <> 'failed'"),
    },
    AuditCheck {
        group: "AU5",
        name: "report-without-token",
        says: "a report changed a mail without the token that only its recipients' systems know",
        hint: "somebody forged a bounce; report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT message_id FROM delivery_reports WHERE changed = 1 AND believed = 0"),
    },
    AuditCheck {
        group: "AU6",
        name: "sent-without-delivery",
        says: "a message is said to be sent and nothing was queued",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM messages m WHERE direction = 'outbound' AND disposition IN ('sent', 'notice')
            AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.message_id = m.id)"),
    },
    AuditCheck {
        group: "AU6",
        name: "delivery-of-no-mail",
        says: "a mail is queued for a message that is not to be sent, or not by that run",
        hint: "`attache outbox hold DELIVERY`, and report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT d.id FROM deliveries d JOIN messages m ON m.id = d.message_id
            WHERE m.direction <> 'outbound'
              OR (d.run_id IS DISTINCT FROM m.run_id AND NOT EXISTS (SELECT 1 FROM forks f WHERE f.id = d.run_id))
              OR m.disposition <> CASE d.kind WHEN 'notice' THEN 'notice' ELSE 'sent' END"),
    },
    AuditCheck {
        group: "AU6",
        name: "delivery-without-step",
        says: "a mail is queued for a run that has neither ended nor recorded the step that sent it",
        hint: "`attache outbox hold DELIVERY`, and report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT d.id FROM deliveries d LEFT JOIN runs r ON r.id = d.run_id
            WHERE d.run_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM forks f WHERE f.id = d.run_id) AND (r.id IS NULL
              OR (r.state NOT IN ('succeeded', 'failed', 'cancelled') AND NOT EXISTS
                (SELECT 1 FROM thread_tool_events e WHERE e.run_id = r.id AND e.event_type = 'tool_result')
                AND NOT EXISTS (SELECT 1 FROM audit_log l WHERE l.subject_id = r.id AND l.decision = 'retry')))"),
    },
    AuditCheck {
        group: "AU6",
        name: "two-deliveries-of-one-mail",
        says: "one mail is queued twice",
        hint: "`attache outbox cancel DELIVERY` takes back the younger one while it waits",
        holds: Holds::Always,
        sql: Sql::same("SELECT message_id FROM deliveries GROUP BY message_id HAVING count(*) > 1"),
    },
    AuditCheck {
        group: "AU8",
        name: "recipient-not-in-thread",
        says: "a mail goes to somebody who is not in its thread, and whom no call of its run names",
        hint: "`attache outbox hold DELIVERY`, and report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT r.delivery_id || ' ' || r.recipient FROM delivery_recipients r
            JOIN deliveries d ON d.id = r.delivery_id JOIN messages m ON m.id = d.message_id
            WHERE d.kind = 'mail' AND NOT EXISTS (SELECT 1 FROM thread_participants p WHERE p.thread_id = m.thread_id
              AND p.address IN (lower(r.recipient), 'unverified:' || lower(r.recipient)))
              AND NOT EXISTS (SELECT 1 FROM thread_tool_events e WHERE e.run_id = d.run_id
                AND e.event_type = 'tool_call' AND instr(lower(e.payload_json), replace(lower(r.recipient), '\"', '\\\"')) > 0)"),
    },
    AuditCheck {
        group: "AU8",
        name: "recipient-not-in-header",
        says: "a mail goes to somebody whom neither its header nor a call of its run names",
        hint: "`attache outbox hold DELIVERY`, and report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT r.delivery_id || ' ' || r.recipient FROM delivery_recipients r
            JOIN deliveries d ON d.id = r.delivery_id JOIN messages m ON m.id = d.message_id
            WHERE d.kind = 'mail' AND instr(lower(m.recipients_json), replace(lower(r.recipient), '\"', '\\\"')) = 0
              AND NOT EXISTS (SELECT 1 FROM thread_tool_events e WHERE e.run_id = d.run_id
                AND e.event_type = 'tool_call' AND instr(lower(e.payload_json), replace(lower(r.recipient), '\"', '\\\"')) > 0)"),
    },
    AuditCheck {
        group: "AU9",
        name: "delivery-of-a-gone-engine",
        says: "a mail is in the hands of an engine that is gone, though another one has sent since",
        hint: "restart the engine: it takes such mail back; if it stays, report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM deliveries WHERE state IN ('sending', 'committing') AND (
              epoch > (SELECT epoch FROM engine)
              OR (epoch NOT IN (SELECT epoch FROM nodes)
                AND EXISTS (SELECT 1 FROM deliveries o WHERE o.epoch IN (SELECT epoch FROM nodes))))"),
    },
    AuditCheck {
        group: "AU9",
        name: "delivery-on-the-road-at-rest",
        says: "a mail is on its way and nobody works",
        hint: "start the engine: it takes such mail back",
        holds: Holds::AtRest,
        sql: Sql::same("SELECT id FROM deliveries WHERE state IN ('sending', 'committing')"),
    },
];
