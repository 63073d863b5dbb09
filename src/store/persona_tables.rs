//! Every table, with the rows of it that are a persona's: what an export writes and what goes to another cell with the persona.
//! A test compares the lists with the schema, so that no new table is forgotten.

/// Rows of a table that belong to one persona, `$1`.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct PersonaTable {
    pub name: &'static str,
    /// Condition that selects the persona's rows; those of a table that it names are there still, or already.
    pub whose: &'static str,
    /// Order of the rows in an export; empty: any. `None`: it is not exported.
    pub exported: Option<&'static str>,
}

const fn exported(name: &'static str, whose: &'static str) -> PersonaTable {
    ordered(name, whose, "")
}

const fn ordered(name: &'static str, whose: &'static str, order: &'static str) -> PersonaTable {
    PersonaTable {
        name,
        whose,
        exported: Some(order),
    }
}

const fn moved(name: &'static str, whose: &'static str) -> PersonaTable {
    PersonaTable {
        name,
        whose,
        exported: None,
    }
}

static OWN: &str = "persona_id = $1";
static OF_THREADS: &str = "thread_id IN (SELECT id FROM threads WHERE persona_id = $1)";
static OF_RUNS: &str = "run_id IN (SELECT id FROM runs WHERE persona_id = $1)";
static OF_MEMORY: &str = "memory_id IN (SELECT id FROM memory WHERE persona_id = $1)";
static OF_APPROVALS: &str = "approval_id IN (SELECT id FROM approvals WHERE persona_id = $1)";
static OF_MESSAGES: &str = "message_id IN (SELECT id FROM messages WHERE persona_id = $1)";
static OF_DELIVERIES: &str = "delivery_id IN (SELECT id FROM deliveries WHERE persona_id = $1)";
static OF_DIGESTS: &str = "digest_id IN (SELECT id FROM memory_digests WHERE persona_id = $1)";
static OF_ATTACHMENTS: &str = "attachment_id IN (SELECT id FROM attachments WHERE persona_id = $1)";
/// A notice that a mail of another persona told stays with that mail.
static NOTICES: &str = "persona_id = $1
  AND (delivery_id IS NULL OR delivery_id IN (SELECT id FROM deliveries WHERE persona_id = $1))";
static ACCOUNTS: &str = "(scope = 'persona' AND owner = $1)
  OR (scope = 'thread' AND owner IN (SELECT id FROM threads WHERE persona_id = $1))
  OR (scope = 'run' AND owner IN (SELECT id FROM runs WHERE persona_id = $1))";

/// Tables whose rows are a persona's. A table comes after those that it refers to.
pub(in crate::store) static PERSONA_TABLES: &[PersonaTable] = &[
    exported("conversations", OWN),
    exported("threads", OWN),
    exported("thread_participants", OF_THREADS),
    moved("thread_resets", OF_THREADS),
    moved("thread_budgets", OF_THREADS),
    ordered("thread_instructions", OWN, "seq"),
    exported("raw_letters", OWN),
    moved("held_letters", OWN),
    exported("messages", OWN),
    exported("message_links", OWN),
    exported("attachments", OWN),
    moved("attachment_texts", OF_ATTACHMENTS),
    moved("events", OWN),
    moved("mail_commands", OWN),
    moved("letter_vectors", OWN),
    exported("runs", OWN),
    exported("thread_memory", OWN),
    ordered("run_turns", OWN, "run_id, turn_index, attempt"),
    exported("thread_tool_events", OWN),
    exported("run_outputs", OWN),
    exported("forks", OWN),
    moved("pending_redactions", OF_RUNS),
    moved("sender_notes", OF_RUNS),
    exported("approvals", OWN),
    exported("approval_versions", OF_APPROVALS),
    moved("approval_tokens", OF_APPROVALS),
    ordered("hook_calls", OWN, "seq"),
    exported("memory", OWN),
    exported("memory_sources", OF_MEMORY),
    ordered("memory_events", OF_MEMORY, "seq"),
    exported("memory_replaces", OF_MEMORY),
    moved("memory_digests", OWN),
    moved("memory_digest_entries", OF_DIGESTS),
    moved("memory_digest_tokens", OF_DIGESTS),
    moved("approval_answers", OF_MESSAGES),
    exported("deliveries", OWN),
    exported("delivery_recipients", OF_DELIVERIES),
    exported("delivery_reports", OWN),
    moved("notices", NOTICES),
    exported("responsibilities", OWN),
    exported("responsibility_slots", OWN),
    exported("usage_ledger", OWN),
    exported("embedding_calls", OWN),
    moved("usage_days", OWN),
    moved("budget_accounts", ACCOUNTS),
    moved("correspondence", OWN),
    moved("halts", OWN),
    exported("vector_switches", OWN),
    ordered("persona_file_versions", OWN, "seq"),
    exported("audit_log", OWN),
];

/// Tables whose rows of a persona go from the old cell and are made again in the new one.
pub(in crate::store) static MADE_AGAIN: &[PersonaTable] = &[
    // Sessions are files of an agent on the machine where it ran.
    moved("provider_sessions", OWN),
    // Of the files of the persona, at the first start.
    moved("knowledge_files", OWN),
    moved("knowledge_chunks", OWN),
];

/// Tables of which no row goes to another cell, and why. Names of the indexes of words are not among them.
#[cfg(test)]
static OF_THE_CELL: &[(&str, &str)] = &[
    (
        "api_calls",
        "answers to programs, which have keys of this cell",
    ),
    ("archive", "it marks the database"),
    ("backups", "copies of the database"),
    (
        "budget_reservations",
        "a persona with an open call does not move",
    ),
    (
        "contact_aliases",
        "said by the owner for all personas of the cell",
    ),
    (
        "contents",
        "texts of all personas: the other cell gets what its runs name, and what no turn names goes by the retention",
    ),
    ("database_copies", "copies of the database"),
    ("dropped_objects", "objects of this cell's store"),
    ("engine", "the engine's own"),
    (
        "erasures",
        "a cell with an open one does not let a persona go",
    ),
    (
        "feed",
        "what happened in this cell: kinds and ids for those who follow it, and no letter is new in the other",
    ),
    (
        "filed_summaries",
        "how far the owner was told of this cell's letters",
    ),
    ("leases", "of nodes at work"),
    (
        "letter_part_texts",
        "made of the letters in the transaction that brings them",
    ),
    ("letter_parts_build", "of the index"),
    ("letter_parts_pending", "of the index"),
    ("letter_words_build", "of the index"),
    ("mailbox_contents", "mailboxes are the cell's"),
    ("mailbox_letters", "mailboxes are the cell's"),
    ("mailboxes", "mailboxes are the cell's"),
    ("maintenance", "of the database"),
    ("mcp_tools_off", "tools are the cell's"),
    ("nodes", "engines of the cell"),
    ("object_tokens", "of this cell's object store"),
    ("persona_moves", "each cell has its own record of a move"),
    ("policy_uses", "rules are the cell's"),
    ("program_versions", "of the database"),
    ("provider_calls", "counts of all calls of the cell"),
    ("retention", "passes over the database"),
    ("transport_health", "of the cell's way out"),
    ("web_logins", "keys of browsers to this cell"),
    ("web_sessions", "keys of browsers to this cell"),
    ("web_tokens", "keys of programs to this cell"),
    ("webhook_deliveries", "what this cell tells programs"),
    ("webhooks", "what this cell tells programs"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::db::{Connection, query, query_scalar};
    use crate::store::transfer::COLUMNS_OF_FILE;
    use std::collections::{BTreeMap, BTreeSet};

    async fn fresh() -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = crate::clock::ManualClock::at(crate::domain::Timestamp::from_millis(0));
        let clock = std::sync::Arc::new(clock);
        let store = crate::store::Store::open(folder.path(), clock).await;
        store.expect("a database").close().await;
        let file = folder.path().join("data/attache.db");
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
        let conn = sqlx::ConnectOptions::connect(&options).await;
        (folder, conn.expect("a database").into())
    }

    fn persona_tables() -> impl Iterator<Item = &'static PersonaTable> {
        PERSONA_TABLES.iter().chain(MADE_AGAIN)
    }

    #[tokio::test]
    async fn every_table_of_the_schema_goes_with_a_persona_or_says_why_not() {
        let (_folder, mut conn) = fresh().await;
        let rows = query(COLUMNS_OF_FILE).fetch_all(&mut conn).await;
        let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in rows.expect("the schema") {
            let columns = tables.entry(row.get("of_table")).or_default();
            columns.insert(row.get("name"));
        }
        let named: Vec<&str> = persona_tables().map(|table| table.name).collect();
        let of_the_cell = OF_THE_CELL.iter().map(|(table, _)| *table);
        let listed: Vec<&str> = named.iter().copied().chain(of_the_cell).collect();
        let once: BTreeSet<&str> = listed.iter().copied().collect();
        assert_eq!(once.len(), listed.len(), "a table is listed twice");
        let schema: BTreeSet<&str> = tables.keys().map(String::as_str).collect();
        assert_eq!(once, schema);
        // What refers to a persona without being its row is rare.
        let exceptions = ["feed", "persona_moves", "webhook_deliveries"];
        for (table, columns) in &tables {
            let is_named = named.contains(&table.as_str());
            let has_persona = columns.contains("persona_id");
            assert!(
                is_named || !has_persona || exceptions.contains(&table.as_str()),
                "{table}"
            );
        }
    }

    #[tokio::test]
    async fn a_table_comes_after_those_that_it_refers_to_and_none_of_them_is_left_behind() {
        let (_folder, mut conn) = fresh().await;
        let mut before: BTreeSet<String> = BTreeSet::new();
        let references = "SELECT \"table\" FROM pragma_foreign_key_list($1)";
        for table in persona_tables() {
            let referred = query_scalar::<String>(references).bind(table.name);
            for other in referred.fetch_all(&mut conn).await.expect("references") {
                assert!(
                    before.contains(&other),
                    "{} comes before {other}",
                    table.name
                );
            }
            before.insert(table.name.to_owned());
        }
        for (table, _) in OF_THE_CELL {
            let referred = query_scalar::<String>(references).bind(*table);
            for other in referred.fetch_all(&mut conn).await.expect("references") {
                // A reservation is refused before anything moves.
                assert!(
                    !before.contains(&other) || *table == "budget_reservations",
                    "{table} refers to {other}"
                );
            }
        }
    }
}
