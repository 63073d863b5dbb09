//! Checks of runs: each has a legal next step, its journal has no gap, every call one result, every
//! slot one run.

use super::{AuditCheck, Holds};
use crate::store::db::Sql;

static REPORT: &str = "report it, with the output of `attache doctor --audit --json`";

pub(super) static CHECKS: &[AuditCheck] = &[
    AuditCheck {
        group: "AU2",
        name: "run-without-end",
        says: "a run has ended and does not say when or why",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM runs WHERE state IN ('succeeded', 'failed', 'cancelled')
            AND (finished_at IS NULL OR stop_reason IS NULL OR (state = 'failed' AND error_class IS NULL))"),
    },
    AuditCheck {
        group: "AU2",
        name: "run-without-next-step",
        says: "a run waits and nothing will ever wake it",
        hint: "`attache runs retry RUN` queues it",
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM runs r WHERE (state = 'waiting_retry' AND error_class IS NULL)
            OR (state = 'waiting_approval' AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.run_id = r.id))"),
    },
    AuditCheck {
        group: "AU2",
        name: "thread-that-cannot-go-on",
        says: "every open run of a thread waits for another one of it",
        hint: "restart the engine: it lines them up anew; if it stays, report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT thread_id FROM runs
            WHERE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') GROUP BY thread_id
            HAVING min(behind) = 1 AND sum(state IN ('running', 'waiting_approval')) = 0"),
    },
    AuditCheck {
        group: "AU2",
        name: "two-runs-at-once",
        says: "two runs of one thread are worked on at once",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT thread_id FROM runs WHERE state = 'running' GROUP BY thread_id HAVING count(*) > 1"),
    },
    AuditCheck {
        group: "AU2",
        name: "summary-without-progress",
        says: "a thread was summarised again for the same message without getting further, or beyond that message",
        hint: "`attache runs list` shows whether it goes on; `attache halt` stops it; report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT s.id FROM thread_memory s JOIN runs r ON r.id = s.run_id
            JOIN messages own ON own.id = r.trigger_message_id
            WHERE s.state = 'usable' AND (s.upto_seq >= own.seq OR EXISTS (
              SELECT 1 FROM thread_memory e JOIN runs f ON f.id = e.run_id
              WHERE e.thread_id = s.thread_id AND e.state = 'usable' AND e.seq < s.seq AND e.upto_seq >= s.upto_seq
                AND e.readers_json = s.readers_json AND f.trigger_message_id = r.trigger_message_id))"),
    },
    AuditCheck {
        group: "AU3",
        name: "gap-in-steps",
        says: "a step of a run is missing",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT run_id FROM thread_tool_events GROUP BY run_id
            HAVING min(step_index) <> 0 OR max(step_index) <> count(*) - 1"),
    },
    AuditCheck {
        group: "AU3",
        name: "gap-in-turns",
        says: "a call of a run's provider is missing",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT run_id FROM run_turns GROUP BY run_id
            HAVING min(turn_index) <> 0 OR max(turn_index) <> count(DISTINCT turn_index) - 1"),
    },
    AuditCheck {
        group: "AU3",
        name: "turn-without-answer",
        says: "a call was answered or failed, and what it said is missing",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT run_id || ' turn ' || turn_index FROM run_turns
            WHERE (state = 'answered' AND response_json IS NULL AND pruned_at IS NULL)
              OR (state = 'failed' AND error_class IS NULL) OR (state <> 'started' AND finished_at IS NULL)"),
    },
    AuditCheck {
        group: "AU4",
        name: "call-without-one-result",
        says: "a call of a tool has no result, or two, and its run is over or waits for somebody else",
        hint: REPORT,
        holds: Holds::Always,
        sql:
            Sql::same("SELECT c.run_id || ' ' || c.tool_call_id FROM thread_tool_events c JOIN runs o ON o.id = c.run_id
            WHERE c.event_type = 'tool_call' AND o.state NOT IN ('queued', 'running', 'waiting_retry')
              AND NOT (o.state = 'waiting_approval' AND EXISTS (SELECT 1 FROM approvals a WHERE a.run_id = c.run_id
                AND a.call_id = c.tool_call_id AND a.state = 'open'))
              AND (SELECT count(*) FROM thread_tool_events r WHERE r.run_id = c.run_id
                AND r.tool_call_id = c.tool_call_id AND r.event_type = 'tool_result'
                AND r.step_index > c.step_index) <> 1"),
    },
    AuditCheck {
        group: "AU4",
        name: "result-without-call",
        says: "a result belongs to no call",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT r.run_id || ' ' || r.tool_call_id FROM thread_tool_events r
            WHERE r.event_type = 'tool_result' AND NOT EXISTS (SELECT 1 FROM thread_tool_events c
              WHERE c.run_id = r.run_id AND c.tool_call_id = r.tool_call_id AND c.event_type = 'tool_call'
                AND c.step_index < r.step_index)"),
    },
    AuditCheck {
        group: "AU7",
        name: "slot-without-one-run",
        says: "a slot fired without a run, has one though it did not fire, or shares one",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT s.responsibility_id || ' ' || s.slot_at FROM responsibility_slots s
            LEFT JOIN runs r ON r.id = s.run_id
            WHERE (s.state = 'fired') <> (s.run_id IS NOT NULL) OR (s.run_id IS NOT NULL AND r.id IS NULL)
              OR r.persona_id <> s.persona_id
            UNION ALL SELECT run_id FROM responsibility_slots WHERE run_id IS NOT NULL
              GROUP BY run_id HAVING count(*) > 1"),
    },
    AuditCheck {
        group: "AU7",
        name: "cursor-before-slot",
        says: "a responsibility would fire a slot once more",
        hint: "its slot's row keeps it from doing so; report it",
        holds: Holds::Always,
        // Within a revision the cursor only grows. An edit sets it to its own time, which may be
        // earlier when the clock was set back.
        sql: Sql::same("SELECT s.responsibility_id || ' ' || s.slot_at FROM responsibility_slots s
            JOIN responsibilities r ON r.id = s.responsibility_id
            WHERE s.kind = 'scheduled' AND s.state IN ('fired', 'waiting') AND s.slot_at > r.cursor_at
              AND s.revision = r.revision"),
    },
    AuditCheck {
        group: "AU7",
        name: "slot-that-waits-for-nothing",
        says: "a slot waits and will never begin: its responsibility is gone, paused or another one by now",
        hint: "edit the responsibility's file: that ends what waits; report it",
        holds: Holds::Always,
        sql:
            Sql::same("SELECT s.responsibility_id || ' ' || s.slot_at FROM responsibility_slots s
            LEFT JOIN responsibilities r ON r.id = s.responsibility_id
            WHERE s.state = 'waiting' AND (s.kind <> 'scheduled' OR r.id IS NULL OR r.removed_at IS NOT NULL
              OR r.error IS NOT NULL OR r.enabled = 0 OR r.paused_at IS NOT NULL OR r.revision <> s.revision)"),
    },
    AuditCheck {
        group: "AU7",
        name: "slots-without-a-count",
        says: "a row of slots that did not fire does not say which they are, or one that fired says so",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT responsibility_id || ' ' || slot_at FROM responsibility_slots
            WHERE (state IN ('missed', 'paused')) <> (missed_count > 0)
              OR (state IN ('missed', 'paused') AND coalesce(missed_until, '') < slot_at)"),
    },
    AuditCheck {
        group: "AU7",
        name: "late-place-that-is-lost",
        says: "a slot counts as being caught up with though its run is over or parked: others wait for its place",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT s.responsibility_id || ' ' || s.slot_at FROM responsibility_slots s
            LEFT JOIN runs r ON r.id = s.run_id
            WHERE s.catching_up = 1 AND coalesce(r.state NOT IN ('queued', 'running'), 1 = 1)"),
    },
    AuditCheck {
        group: "AU7",
        name: "pause-without-a-word",
        says: "a responsibility is paused and does not say by whom, or the other way round",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM responsibilities WHERE (paused_at IS NULL) <> (paused_by IS NULL)"),
    },
    AuditCheck {
        group: "AU7",
        name: "run-in-a-thread-unknown",
        says: "an open run of a responsibility stands where its next slot does not look for it",
        hint: REPORT,
        holds: Holds::Always,
        sql: Sql::same("SELECT s.responsibility_id || ' ' || s.slot_at FROM responsibility_slots s
            JOIN runs r ON r.id = s.run_id JOIN responsibilities d ON d.id = s.responsibility_id
            WHERE r.state IN ('queued', 'running') AND s.kind = 'scheduled' AND s.revision = d.revision
              AND r.thread_id IS DISTINCT FROM d.thread_id AND r.thread_id IS DISTINCT FROM d.own_thread_id"),
    },
    AuditCheck {
        group: "AU9",
        name: "run-of-a-gone-engine",
        says: "a run is in the hands of an engine that is gone, though another one has worked since",
        hint: "restart the engine: it takes such runs back; if it stays, report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT id FROM runs WHERE state = 'running' AND (epoch > (SELECT epoch FROM engine)
              OR (epoch NOT IN (SELECT epoch FROM nodes)
                AND EXISTS (SELECT 1 FROM runs o WHERE o.epoch IN (SELECT epoch FROM nodes))))"),
    },
    AuditCheck {
        group: "AU9",
        name: "run-on-the-road-at-rest",
        says: "a run is queued or worked on, and nobody works",
        hint: "start the engine: it goes on with them",
        holds: Holds::AtRest,
        sql: Sql::same("SELECT id FROM runs WHERE state IN ('queued', 'running')"),
    },
];
