//! The tables that an export of a persona writes. A test compares them with the schema, so that no new table is forgotten.

/// Rows of an exported table that belong to one persona, `$1`.
#[derive(Debug, Clone, Copy)]
pub struct PersonaTable {
    pub name: &'static str,
    /// Condition that selects the persona's rows, with their order where one is promised.
    pub rows: &'static str,
}

const fn table(name: &'static str, rows: &'static str) -> PersonaTable {
    PersonaTable { name, rows }
}

static OWN: &str = "persona_id = $1";
static OF_THREADS: &str = "thread_id IN (SELECT id FROM threads WHERE persona_id = $1)";
static OF_MEMORY: &str = "memory_id IN (SELECT id FROM memory WHERE persona_id = $1)";
static OF_APPROVALS: &str = "approval_id IN (SELECT id FROM approvals WHERE persona_id = $1)";
static OF_DELIVERIES: &str = "delivery_id IN (SELECT id FROM deliveries WHERE persona_id = $1)";

pub static PERSONA_TABLES: &[PersonaTable] = &[
    table("conversations", OWN),
    table("threads", OWN),
    table("thread_participants", OF_THREADS),
    table("thread_instructions", "persona_id = $1 ORDER BY seq"),
    table("raw_letters", OWN),
    table("messages", OWN),
    table("message_links", OWN),
    table("attachments", OWN),
    table("runs", OWN),
    table("thread_memory", OWN),
    table(
        "run_turns",
        "persona_id = $1 ORDER BY run_id, turn_index, attempt",
    ),
    table("thread_tool_events", OWN),
    table("run_outputs", OWN),
    table("forks", OWN),
    table("approvals", OWN),
    table("approval_versions", OF_APPROVALS),
    table("hook_calls", "persona_id = $1 ORDER BY seq"),
    table("memory", OWN),
    table("memory_sources", OF_MEMORY),
    table(
        "memory_events",
        "memory_id IN (SELECT id FROM memory WHERE persona_id = $1) ORDER BY seq",
    ),
    table("memory_replaces", OF_MEMORY),
    table("deliveries", OWN),
    table("delivery_recipients", OF_DELIVERIES),
    table("delivery_reports", OWN),
    table("responsibilities", OWN),
    table("responsibility_slots", OWN),
    table("usage_ledger", OWN),
    table("embedding_calls", OWN),
    table("vector_switches", OWN),
    table("persona_file_versions", "persona_id = $1 ORDER BY seq"),
    table("audit_log", OWN),
];

#[cfg(test)]
mod tests {
    use super::PERSONA_TABLES;
    use crate::store::transfer::columns_of_schema;
    use std::collections::BTreeSet;

    /// Tables that are not exported: indexes and what is made again, what only an engine can use, and what is no persona's.
    /// Names of the indexes of words are not among them.
    static NOT_EXPORTED: &[&str] = &[
        "api_calls",
        "approval_answers",
        "approval_tokens",
        "archive",
        "attachment_texts",
        "backups",
        "budget_accounts",
        "budget_reservations",
        "contact_aliases",
        "contents",
        "correspondence",
        "database_copies",
        "engine",
        "erasures",
        "events",
        "feed",
        "filed_summaries",
        "halts",
        "held_letters",
        "knowledge_chunks",
        "knowledge_files",
        "leases",
        "letter_part_texts",
        "letter_parts_pending",
        "letter_vectors",
        "mail_commands",
        "mailbox_contents",
        "mailbox_letters",
        "mailboxes",
        "maintenance",
        "mcp_tools_off",
        "memory_digest_entries",
        "memory_digest_tokens",
        "memory_digests",
        "nodes",
        "notices",
        "pending_redactions",
        "policy_uses",
        "program_versions",
        "provider_calls",
        "provider_sessions",
        "retention",
        "sender_notes",
        "thread_budgets",
        "thread_resets",
        "transport_health",
        "usage_days",
        "web_logins",
        "web_sessions",
        "web_tokens",
        "webhook_deliveries",
        "webhooks",
    ];

    #[tokio::test]
    async fn every_table_of_the_schema_is_exported_or_named_as_not() {
        let schema: BTreeSet<String> = columns_of_schema().await.into_keys().collect();
        let exported = PERSONA_TABLES.iter().map(|table| table.name);
        let listed: Vec<String> = exported
            .chain(NOT_EXPORTED.iter().copied())
            .map(str::to_owned)
            .collect();
        let once: BTreeSet<String> = listed.iter().cloned().collect();
        assert_eq!(once.len(), listed.len(), "a table is listed twice");
        assert_eq!(once, schema);
    }
}
