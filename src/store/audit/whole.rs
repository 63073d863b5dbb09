//! Checks of the whole file: SQLite's own checks, the search index, the money, and the isolation of
//! personas.

use super::{AuditCheck, Holds};
use crate::store::db::Sql;

/// Checks of what SQLite does: a server checks its own references and pages.
pub(super) static OF_SQLITE: &[&str] = &[PAGES, "broken-references"];

/// The check that reads every page.
pub(super) static PAGES: &str = "damaged-pages";

static DAMAGED: &str = "stop the engine, keep a copy of `data`, and restore the newest good backup; \
    `sqlite3 data/attache.db .recover` saves what can be read";

/// FTS5 keeps the list of an index's segments and looks whether it is still the one in the file when a search begins, and
/// not when SQLite checks the index: a connection that has searched before a merge by another one would miss
/// segments that are rightly gone. So each index is searched first, in the same statement and so in the same snapshot.
const FRESH_PAGES: &str = "
    WITH fresh (hits) AS MATERIALIZED (
      SELECT (SELECT count(*) FROM (SELECT 1 FROM letter_words WHERE letter_words MATCH 'a' LIMIT 1))
        + (SELECT count(*) FROM (SELECT 1 FROM knowledge_fts WHERE knowledge_fts MATCH 'a' LIMIT 1))
        + (SELECT count(*) FROM (SELECT 1 FROM letter_parts WHERE letter_parts MATCH 'a' LIMIT 1)))
    SELECT quick_check FROM fresh CROSS JOIN pragma_quick_check WHERE quick_check <> 'ok' AND hits >= 0";

pub(super) static CHECKS: &[AuditCheck] = &[
    AuditCheck {
        group: "AU11",
        name: PAGES,
        says: "SQLite finds pages, rows or indexes that are damaged",
        hint: DAMAGED,
        holds: Holds::Always,
        sql: Sql::same(FRESH_PAGES),
    },
    AuditCheck {
        group: "AU11",
        name: "broken-references",
        says: "rows refer to rows that do not exist",
        hint: DAMAGED,
        holds: Holds::Always,
        sql: Sql::same("SELECT \"table\" || ' ' || coalesce(rowid, '') || ' -> ' || parent FROM pragma_foreign_key_check"),
    },
    AuditCheck {
        group: "AU11",
        name: "search-index-differs",
        says: "the search index knows other messages, or other knowledge, than there are",
        hint: "stop the engine and build the index anew: `INSERT INTO letter_words(letter_words) VALUES ('rebuild')`",
        holds: Holds::Always,
        sql: Sql::pair("SELECT 'message ' || id FROM messages
              WHERE seq <= (SELECT seq FROM letter_words_through) AND seq NOT IN (SELECT id FROM letter_words_docsize)
            UNION ALL SELECT 'message ' || id FROM letter_words_docsize
              WHERE id > (SELECT seq FROM letter_words_through) OR id NOT IN (SELECT seq FROM messages)
            UNION ALL SELECT 'message ' || seq FROM letter_part_texts
              WHERE seq NOT IN (SELECT id FROM letter_parts_docsize) OR seq NOT IN (SELECT seq FROM messages)
            UNION ALL SELECT 'message ' || id FROM letter_parts_docsize WHERE id NOT IN (SELECT seq FROM letter_part_texts)
            UNION ALL SELECT 'message ' || seq FROM letter_parts_pending
            UNION ALL SELECT 'knowledge ' || path FROM knowledge_chunks
              WHERE seq NOT IN (SELECT id FROM knowledge_fts_docsize)
            UNION ALL SELECT 'knowledge ' || id FROM knowledge_fts_docsize
              WHERE id NOT IN (SELECT seq FROM knowledge_chunks)", "SELECT 'message ' || id FROM messages WHERE seq NOT IN (SELECT seq FROM letter_words WHERE words IS NOT NULL)
            UNION ALL SELECT 'message ' || seq FROM letter_words WHERE seq NOT IN (SELECT seq FROM messages)
            UNION ALL SELECT 'message ' || seq FROM letter_part_texts
              WHERE seq NOT IN (SELECT seq FROM letter_parts) OR seq NOT IN (SELECT seq FROM messages)
            UNION ALL SELECT 'message ' || seq FROM letter_parts WHERE seq NOT IN (SELECT seq FROM letter_part_texts)
            UNION ALL SELECT 'message ' || seq FROM letter_parts_pending
            UNION ALL SELECT 'knowledge ' || path FROM knowledge_chunks
              WHERE seq NOT IN (SELECT seq FROM knowledge_fts WHERE words IS NOT NULL)
            UNION ALL SELECT 'knowledge ' || seq FROM knowledge_fts WHERE seq NOT IN (SELECT seq FROM knowledge_chunks)"),
    },
    AuditCheck {
        group: "AU10",
        name: "pruned-and-there",
        says: "bytes are said to be pruned and are there",
        hint: "`attache gc` throws them away; if it stays, report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT 'letter ' || id FROM raw_letters WHERE pruned_at IS NOT NULL AND length(bytes) > 0
            UNION ALL SELECT 'attachment ' || id FROM attachments WHERE pruned_at IS NOT NULL AND (length(bytes) > 0 OR encoding IS NOT NULL)
            UNION ALL SELECT 'delivery ' || id FROM deliveries WHERE pruned_at IS NOT NULL AND length(bytes) > 0
            UNION ALL SELECT 'turn of ' || run_id FROM run_turns WHERE pruned_at IS NOT NULL
              AND (length(request_json) > 0 OR response_json IS NOT NULL OR context_json IS NOT NULL OR packed IS NOT NULL)"),
    },
    AuditCheck {
        group: "AU10",
        name: "text-missing",
        says: "a text that a run was told is not there, and was not pruned",
        hint: "the run cannot be verified or forked; if other checks fail too, restore the newest backup",
        holds: Holds::Always,
        sql: Sql::same("SELECT DISTINCT 'text ' || t.sha256 || ' of run ' || t.run_id FROM turn_texts t
            WHERE t.pruned_at IS NULL AND NOT EXISTS (SELECT 1 FROM contents c WHERE c.sha256 = t.sha256)
            UNION SELECT 'text ' || t.packed_with || ' of run ' || t.run_id FROM run_turns t
            WHERE t.packed_with IS NOT NULL AND NOT EXISTS (SELECT 1 FROM contents c WHERE c.sha256 = t.packed_with)"),
    },
    AuditCheck {
        group: "AU13",
        name: "reservations-differ",
        says: "a budget account has reserved something else than its open calls say",
        hint: "restart the engine: it settles every open call; if it stays, report it",
        holds: Holds::Always,
        sql: Sql::same("WITH held AS (SELECT w.value ->> 'scope' AS scope, w.value ->> 'owner' AS owner,
                w.value ->> 'period' AS period, sum(h.micros) AS micros, sum(h.tokens) AS tokens
              FROM (SELECT accounts_json, micros, tokens FROM budget_reservations
                UNION ALL SELECT accounts_json, held_micros, tokens FROM embedding_calls WHERE state = 'open') h,
                json_each(h.accounts_json) w GROUP BY 1, 2, 3)
            SELECT p.scope || ' ' || p.owner || ' ' || p.period FROM budget_accounts p LEFT JOIN held h
              ON h.scope = p.scope AND h.owner = p.owner AND h.period = p.period
            WHERE p.reserved_micros <> coalesce(h.micros, 0) OR p.reserved_tokens <> coalesce(h.tokens, 0)
            UNION ALL SELECT h.scope || ' ' || h.owner || ' ' || h.period FROM held h LEFT JOIN budget_accounts p
              ON h.scope = p.scope AND h.owner = p.owner AND h.period = p.period WHERE p.scope IS NULL"),
    },
    AuditCheck {
        group: "AU13",
        name: "reservation-without-call",
        says: "money is reserved for a call that is not open",
        hint: "restart the engine: it settles every open call; if it stays, report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT h.run_id || ' turn ' || h.turn_index FROM budget_reservations h
            LEFT JOIN run_turns t ON t.run_id = h.run_id AND t.turn_index = h.turn_index AND t.attempt = h.attempt
            LEFT JOIN runs r ON r.id = h.run_id
            WHERE (t.state IS DISTINCT FROM 'started' OR r.state IS DISTINCT FROM 'running')
              AND NOT EXISTS (SELECT 1 FROM forks f WHERE f.run_id = h.run_id AND f.state = 'running')"),
    },
    AuditCheck {
        group: "AU13",
        name: "money-reserved-at-rest",
        says: "money is reserved and nobody works",
        hint: "restart the engine: it settles every open call",
        holds: Holds::AtRest,
        sql: Sql::same("SELECT scope || ' ' || owner || ' ' || period FROM budget_accounts
            WHERE reserved_micros <> 0 OR reserved_tokens <> 0 UNION ALL SELECT run_id FROM budget_reservations
            UNION ALL SELECT 'vectors ' || id FROM embedding_calls WHERE state = 'open'"),
    },
    AuditCheck {
        group: "AU13",
        name: "account-below-books",
        says: "a budget account of the engine counts less than the books have for its day",
        hint: "its bound would let through too much; report it",
        holds: Holds::Always,
        sql: Sql::same("WITH books AS (SELECT day, sum(tokens) AS tokens, sum(micros) AS micros FROM (
                SELECT day, input_tokens + cache_read_tokens + cache_write_tokens + output_tokens AS tokens,
                  coalesce(cost_micros, held_micros, 0) AS micros FROM usage_ledger
                UNION ALL SELECT day, tokens, coalesce(cost_micros, held_micros, 0) FROM embedding_calls WHERE state <> 'open') AS calls
              GROUP BY day)
            SELECT b.day FROM books b JOIN (SELECT period, sum(spent_tokens) AS tokens, sum(spent_micros) AS micros
              FROM budget_accounts WHERE scope = 'engine' GROUP BY period) p ON p.period = b.day
            WHERE p.tokens < b.tokens OR p.micros < b.micros"),
    },
    AuditCheck {
        group: "AU13",
        name: "grants-above-bound",
        says: "parts of the engine's account may spend more together than its bound",
        hint: "its bound would let through too much; report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT period FROM budget_accounts WHERE scope = 'engine' AND owner <> ''
            GROUP BY period, grant_bound_micros, grant_bound_tokens
            HAVING sum(granted_micros) > grant_bound_micros OR sum(granted_tokens) > grant_bound_tokens"),
    },
    AuditCheck {
        group: "AU13",
        name: "usage-sums-differ",
        says: "the sum of a day differs from the calls in the books",
        hint: "what the pages say of usage is wrong, budgets are not; report it",
        holds: Holds::Always,
        sql: Sql::same("WITH books AS (SELECT day, count(*) AS lines, count(DISTINCT call) AS calls, sum(tokens) AS tokens,
                coalesce(sum(cost_micros), 0) AS micros FROM (
                SELECT day, run_id || turn_index || '/' || attempt AS call,
                  input_tokens + cache_read_tokens + cache_write_tokens + output_tokens AS tokens, cost_micros FROM usage_ledger
                UNION ALL SELECT day, id, tokens, cost_micros FROM embedding_calls WHERE state <> 'open') AS calls
              GROUP BY day),
            sums AS (SELECT day, sum(lines) AS lines, sum(calls) AS calls,
                sum(input_tokens + cache_read_tokens + cache_write_tokens + output_tokens) AS tokens,
                coalesce(sum(cost_micros), 0) AS micros FROM usage_days GROUP BY day)
            SELECT coalesce(b.day, s.day) FROM books b FULL JOIN sums s ON s.day = b.day
            WHERE b.lines IS DISTINCT FROM s.lines OR b.calls IS DISTINCT FROM s.calls OR b.tokens IS DISTINCT FROM s.tokens
              OR b.micros IS DISTINCT FROM s.micros"),
    },
    AuditCheck {
        group: "AU13",
        name: "run-differs-from-turns",
        says: "a run counts other tokens than its calls",
        hint: "what `attache usage` says of it is wrong; report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT r.id FROM runs r LEFT JOIN run_turns t ON t.run_id = r.id GROUP BY r.id, r.input_tokens, r.output_tokens
            HAVING r.input_tokens <> coalesce(sum(t.input_tokens), 0)
              OR r.output_tokens <> coalesce(sum(t.output_tokens), 0)"),
    },
    AuditCheck {
        group: "AU14",
        name: "personas-mixed",
        says: "a row of one persona hangs on a row of another",
        hint: "one persona may see what belongs to another: stop the engine and report it",
        holds: Holds::Always,
        sql: Sql::same("SELECT 'message ' || m.id FROM messages m JOIN threads t ON t.id = m.thread_id
              WHERE t.persona_id <> m.persona_id
            UNION ALL SELECT 'thread ' || t.id FROM threads t JOIN conversations c ON c.id = t.conversation_id
              WHERE c.persona_id <> t.persona_id
            UNION ALL SELECT 'letter ' || l.id FROM raw_letters l JOIN messages m ON m.raw_id = l.id
              WHERE m.persona_id <> l.persona_id
            UNION ALL SELECT 'attachment ' || a.id FROM attachments a JOIN messages m ON m.id = a.message_id
              WHERE m.persona_id <> a.persona_id
            UNION ALL SELECT 'run ' || r.id FROM runs r JOIN threads t ON t.id = r.thread_id
              WHERE t.persona_id <> r.persona_id
            UNION ALL SELECT 'run ' || r.id FROM runs r JOIN messages m ON m.id = r.trigger_message_id
              WHERE m.persona_id <> r.persona_id
            UNION ALL SELECT 'turn of ' || t.run_id FROM run_turns t JOIN runs r ON r.id = t.run_id
              WHERE r.persona_id <> t.persona_id
            UNION ALL SELECT 'step of ' || e.run_id FROM thread_tool_events e JOIN runs r ON r.id = e.run_id
              WHERE r.persona_id <> e.persona_id
            UNION ALL SELECT 'delivery ' || d.id FROM deliveries d JOIN messages m ON m.id = d.message_id
              WHERE m.persona_id <> d.persona_id
            UNION ALL SELECT 'report of ' || d.message_id FROM delivery_reports d JOIN deliveries o
              ON o.id = d.delivery_id WHERE o.persona_id <> d.persona_id
            UNION ALL SELECT 'link ' || l.rfc_message_id FROM message_links l JOIN conversations c
              ON c.id = l.conversation_id WHERE c.persona_id <> l.persona_id
            UNION ALL SELECT 'output of ' || o.run_id FROM run_outputs o JOIN runs r ON r.id = o.run_id
              WHERE r.persona_id <> o.persona_id
            UNION ALL SELECT 'vector of ' || v.seq FROM letter_vectors v LEFT JOIN messages m ON m.seq = v.seq
              WHERE m.persona_id IS DISTINCT FROM v.persona_id"),
    },
];
