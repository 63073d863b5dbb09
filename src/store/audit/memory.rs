//! Checks of memory: what is in use rests on a letter that says so, and what was erased is gone.

use super::{AuditCheck, Holds};
use crate::store::db::Sql;

pub(super) static CHECKS: &[AuditCheck] = &[
    AuditCheck {
        group: "AU15",
        name: "memory-without-source",
        says: "an entry of memory in use rests on no letter of its persona, or on words that are not in it",
        hint: "`attache memory reject` takes it out of use; if you have not changed the database, report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT 'entry ' || m.id FROM memory m WHERE m.status = 'active' AND (
              NOT EXISTS (SELECT 1 FROM memory_sources s WHERE s.memory_id = m.id)
              OR EXISTS (SELECT 1 FROM memory_sources s LEFT JOIN messages g ON g.id = s.message_id AND g.persona_id = m.persona_id
                WHERE s.memory_id = m.id AND (s.quote = '' OR s.quote IS DISTINCT FROM substr(
                  CASE s.part WHEN 'fresh' THEN g.fresh_text ELSE g.text_body END, s.quote_start + 1, s.quote_end - s.quote_start))))"),
    },
    AuditCheck {
        group: "AU15",
        name: "erased-and-there",
        says: "an entry of memory is said to be erased and has a text, a quote or a reason",
        hint: "`attache memory forget` erases it again; if it stays, report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT 'entry ' || m.id FROM memory m WHERE m.erased_at IS NOT NULL AND (m.text <> '' OR m.status <> 'forgotten'
              OR EXISTS (SELECT 1 FROM memory_sources s WHERE s.memory_id = m.id AND s.quote <> '')
              OR EXISTS (SELECT 1 FROM memory_events e WHERE e.memory_id = m.id AND e.why <> ''))"),
    },
    AuditCheck {
        group: "AU15",
        name: "memory-over-its-limit",
        says: "a correspondent, a thread or a persona has more open entries than it may",
        hint: "report it, with the output of this command",
        holds: Holds::Always,
        sql: Sql::same("SELECT scope || ' ' || scope_key || ' ' || count(*) FROM memory WHERE status IN ('proposed', 'active') AND (status = 'active' OR proposes IS NULL)
            GROUP BY persona_id, scope, scope_key HAVING count(*) > CASE scope WHEN 'thread' THEN 50 ELSE 100 END"),
    },
];
