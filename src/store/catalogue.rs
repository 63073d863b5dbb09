//! Every table, once: whose rows it has, and what an export, an erasure, a copy of the database and packing do with them. Tests
//! compare it with the schema of a fresh database, so that no new table and no new column of text is forgotten.

use self::ErasedColumns::{Gone, Kept, Keys};

/// Outcome of columns of text or bytes in an erasure. The last value: their names, divided by spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasedColumns {
    /// Ids, names, states, instants, digests and addresses: nothing that a person words.
    Keys(&'static str),
    /// They lose what a person wrote; by what: a kind of the statements, or another step of the erasure.
    Gone(&'static str, &'static str),
    /// They may hold words, and keep them; why.
    Kept(&'static str, &'static str),
}

impl ErasedColumns {
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let (Keys(names) | Gone(_, names) | Kept(_, names)) = self;
        names.split_whitespace()
    }
}

/// A table of the schema.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    /// Condition that selects the rows of the persona `$1`, with their order where one is promised. `None`: no export writes
    /// them, because they are an index, made again, of use to an engine alone, or no persona's.
    pub rows_of_persona: Option<&'static str>,
    /// All columns of text or bytes.
    pub columns: &'static [ErasedColumns],
    /// Columns with packed bytes (`packing.rs`).
    pub packed: &'static [&'static str],
    /// Why a move to another database leaves it out.
    pub not_copied: Option<&'static str>,
    /// Whether a new database has rows in it.
    pub is_made_by_migrations: bool,
}

impl Table {
    const fn packs(mut self, columns: &'static [&'static str]) -> Self {
        self.packed = columns;
        self
    }

    const fn not_copied(mut self, why: &'static str) -> Self {
        self.not_copied = Some(why);
        self
    }

    const fn made_by_migrations(mut self) -> Self {
        self.is_made_by_migrations = true;
        self
    }
}

const fn table(name: &'static str, columns: &'static [ErasedColumns]) -> Table {
    Table {
        name,
        rows_of_persona: None,
        columns,
        packed: &[],
        not_copied: None,
        is_made_by_migrations: false,
    }
}

const fn exported(
    name: &'static str,
    rows: &'static str,
    columns: &'static [ErasedColumns],
) -> Table {
    let mut table = table(name, columns);
    table.rows_of_persona = Some(rows);
    table
}

static OWN: &str = "persona_id = $1";
static OF_THREADS: &str = "thread_id IN (SELECT id FROM threads WHERE persona_id = $1)";
static OF_MEMORY: &str = "memory_id IN (SELECT id FROM memory WHERE persona_id = $1)";
static OF_APPROVALS: &str = "approval_id IN (SELECT id FROM approvals WHERE persona_id = $1)";
static OF_DELIVERIES: &str = "delivery_id IN (SELECT id FROM deliveries WHERE persona_id = $1)";
static OWNERS_FILE: &str = "a copy of a file of the owner, which the report names";
static OWNERS_WORDS: &str =
    "words of the owner about the engine; the report counts what quotes the person";
static OF_SERVERS: &str = "words of a server or of the engine about a connection, in which no letter is quoted; the report counts";

/// First those that an export writes, in its order; then the others, in that of the alphabet.
pub static TABLES: &[Table] = &[
    exported("conversations", OWN, &[Keys("id persona_id root_message_id created_at"), Gone("conversation_subjects", "subject")]),
    exported("threads", OWN, &[Keys("id conversation_id persona_id created_at updated_at"), Gone("thread_subjects", "subject")]),
    exported("thread_participants", OF_THREADS, &[Keys("thread_id address")]),
    exported("thread_instructions", "persona_id = $1 ORDER BY seq", &[Keys("id persona_id thread_id contact given_by given_at removed_at removed_by"), Gone("instructions", "text")]),
    exported("raw_letters", OWN, &[Keys("id persona_id sha256 envelope_json pruned_at"), Gone("raw_letters", "bytes trace")]).packs(&["bytes"]),
    exported("messages", OWN, &[Keys("id thread_id persona_id direction message_id in_reply_to references_json recipients_json received_at trust raw_id run_id dedup_key disposition readers_json"), Gone("message_texts", "sender subject text_body fresh_text html_body metadata_json")]),
    exported("message_links", OWN, &[Keys("persona_id rfc_message_id conversation_id")]),
    exported("attachments", OWN, &[Keys("id message_id persona_id content_type sha256 pruned_at encoding"), Gone("attachments", "filename declared_name content_id bytes")]),
    exported("runs", OWN, &[Keys("id persona_id thread_id trigger trigger_message_id profile state next_attempt_at cancel_requested_at provider model stop_reason error_class created_at started_at finished_at limits_json run_options_json state_at answered_by"), Kept(OWNERS_FILE, "output_schema"), Gone("run_reports", "error_message context_report_json")]).packs(&["context_report_json", "limits_json"]),
    exported("thread_memory", OWN, &[Keys("id persona_id thread_id run_id model state text_sha256 upto_message_id previous_id label_json readers_json created_at"), Gone("summaries", "problems_json text inputs_json")]),
    exported("run_turns", "persona_id = $1 ORDER BY run_id, turn_index, attempt", &[Keys("run_id persona_id request_sha256 provider model state error_class started_at finished_at begun_json pruned_at packed_with redacted_at named_json"), Gone("records of runs", "request_json context_json response_json error_message sources_json ended_json packed")]),
    exported("thread_tool_events", OWN, &[Keys("id thread_id persona_id parent_message_id run_id event_type tool_name tool_call_id created_at executor"), Gone("records of runs", "payload_json")]),
    exported("run_outputs", OWN, &[Keys("run_id persona_id schema_sha256 created_at"), Gone("run_outputs", "json")]),
    exported("forks", OWN, &[Keys("id run_id persona_id state created_at finished_at"), Gone("forks", "change_json"), Gone("records of runs", "record_json")]),
    exported("approvals", OWN, &[Keys("id persona_id run_id call_id kind tool call_sha256 fold_sha256 label_json requested_at expires_at asked_at remind_at reminded_at state decided_at decided_by via begun_at draft_id"), Gone("approvals", "call_json view_text reason_json result_json mail_json mail_bytes words evidence_json begun_json")]),
    exported("approval_versions", OF_APPROVALS, &[Keys("approval_id call_sha256 replaced_at replaced_by"), Gone("draft_versions", "view_text mail_json mail_bytes")]),
    exported("hook_calls", "persona_id = $1 ORDER BY seq", &[Keys("persona_id run_id event tool hook_id hook_sha256 decision asked_at"), Gone("hook_calls", "reason")]),
    exported("memory", OWN, &[Keys("id persona_id scope scope_key kind text_sha256 status trust readers_json audience_json said_by said_at valid_to created_at created_run created_by confirmed_at supersedes superseded_by erased_at last_used_at proposes"), Gone("memory", "text")]),
    exported("memory_sources", OF_MEMORY, &[Keys("memory_id message_id part quote_sha256"), Gone("memory", "quote")]),
    exported("memory_events", "memory_id IN (SELECT id FROM memory WHERE persona_id = $1) ORDER BY seq", &[Keys("memory_id act actor who before_json at"), Gone("memory", "why")]),
    exported("memory_replaces", OF_MEMORY, &[Keys("memory_id replaced_id")]),
    exported("deliveries", OWN, &[Keys("id persona_id message_id run_id envelope_from state next_attempt_at created_at finished_at bounce_token kind pruned_at state_at"), Gone("mails", "bytes")]).packs(&["bytes"]),
    exported("delivery_recipients", OF_DELIVERIES, &[Keys("delivery_id recipient state next_attempt_at bounced_at"), Gone("replies_of_servers", "last_reply")]),
    exported("delivery_reports", OWN, &[Keys("delivery_id persona_id message_id recipient kind action reason status created_at"), Gone("delivery_reports", "diagnostic")]),
    exported("responsibilities", OWN, &[Keys("id persona_id file schedule timezone prompt_sha256 cursor_at next_slot_at removed_at updated_at slot_options_json run_options_json fire_at paused_at paused_by thread_id mark"), Kept(OWNERS_FILE, "name prompt error output_schema own_thread_id")]),
    exported("responsibility_slots", OWN, &[Keys("responsibility_id slot_at persona_id kind state run_id prompt_sha256 created_at missed_until run_options_json overdue_at state_at"), Gone("prompts_of_slots", "prompt_snapshot note"), Kept(OWNERS_FILE, "output_schema")]),
    exported("usage_ledger", OWN, &[Keys("run_id model persona_id provider state cost_source price_version day created_at fork_id")]),
    exported("embedding_calls", OWN, &[Keys("id persona_id purpose run_id provider model state cost_source price_version accounts_json day created_at")]),
    exported("vector_switches", OWN, &[Keys("persona_id provider model measured_at")]),
    exported("persona_file_versions", "persona_id = $1 ORDER BY seq", &[Keys("persona_id name sha256 replaced_at replaced_by session_id replaced_with"), Gone("file_versions", "text")]),
    exported("audit_log", OWN, &[Keys("persona_id subject_kind subject_id decision rule created_at"), Gone("decisions", "detail")]),
    table("answer_tokens", &[Keys("token approval_id digest_id owner created_at call_sha256")]),
    table("api_calls", &[Keys("caller key request_sha256 created_at"), Gone("api_answers", "answer")]),
    table("approval_answers", &[Keys("message_id approval_id owner outcome created_at explained_at digest_id"), Gone("owner_answers", "report")]),
    table("archive", &[Keys("header_json imported_at")]).not_copied("it has the marks of the transfer itself"),
    table("attachment_texts", &[Keys("attachment_id read_at"), Gone("trigger of attachments", "document_json")]),
    table("backups", &[Keys("started_at finished_at path failure")]),
    table("budget_accounts", &[Keys("scope owner period")]),
    table("budget_reservations", &[Keys("run_id accounts_json day")]),
    table("contact_aliases", &[Keys("address person since said_by")]),
    table("contents", &[Keys("sha256"), Gone("texts that no turn names", "bytes")]),
    table("correspondence", &[Keys("persona_id counterparty minute")]),
    table("engine", &[Keys("loop_key transport_state transport_since transport_next_probe_at filed_told_at"), Kept(OF_SERVERS, "transport_reason")]).made_by_migrations(),
    table("erasures", &[Keys("id contact_sha256 addresses_json state started_by started_at finished_at counts_json")]),
    table("events", &[Keys("persona_id organizer stamped_at answer starts_at ends_at message_id updated_at"), Gone("calendar_events", "uid recurrence_id event_json")]),
    table("feed", &[Keys("kind persona_id thread_id run_id message_id delivery_id approval_id item at")]),
    table("halts", &[Keys("persona_id halted_at"), Kept(OWNERS_WORDS, "reason")]),
    table("held_letters", &[Keys("id persona_id sha256 held_at next_attempt_at"), Gone("held_letters", "envelope_json bytes")]),
    table("knowledge_chunks", &[Keys("persona_id path"), Kept(OWNERS_FILE, "heading body")]),
    table("knowledge_files", &[Keys("persona_id path sha256")]),
    table("leases", &[Keys("name since")]).not_copied("it is of nodes at work, and none is"),
    table("letter_part_texts", &[Keys("thread"), Gone("trigger of letters", "words")]),
    table("letter_parts_pending", &[]),
    table("letter_vectors", &[Keys("model persona_id text_sha256"), Gone("vectors", "vector")]),
    table("mail_commands", &[Keys("message_id persona_id rfc_message_id owner command refusal sent_at received_at acted_at outcome_json answered_at delivery_id"), Gone("commands", "argument")]),
    table("mailbox_contents", &[Keys("mailbox sha256")]),
    table("mailbox_letters", &[Keys("mailbox outcome noted_at"), Kept(OF_SERVERS, "reason")]),
    table("mailboxes", &[Keys("name source history_until last_fetch_at last_error_at failing_since"), Kept(OF_SERVERS, "last_error")]),
    table("mcp_tools_off", &[Keys("server tool pin_sha256 reason detail off_since")]),
    table("memory_digest_entries", &[Keys("digest_id memory_id")]),
    table("memory_digests", &[Keys("id persona_id asked_at closed_at")]),
    table("nodes", &[Keys("host workspace identity version roles started_at drain_asked_at")]).not_copied("it is of nodes at work, and none is"),
    table("notices", &[Keys("id persona_id kind cause subject_kind subject_id occurrence emitted_at notified_at delivery_id dismissed_at"), Gone("notices", "summary hint")]),
    table("pending_redactions", &[Keys("run_id since")]),
    table("policy_uses", &[Keys("rule_id")]),
    table("program_versions", &[Keys("version first_seen_at last_seen_at")]).made_by_migrations(),
    table("provider_calls", &[Keys("provider part last_success_at last_model last_failure_at last_failure_class"), Gone("failures_of_providers", "last_failure_message")]),
    table("provider_sessions", &[Keys("persona_id thread_id provider model options_sha256 state run_id created_at used_at"), Gone("agent_sessions", "session_id folder usage_json")]),
    table("retention", &[Keys("kind before started_at finished_at")]),
    table("sender_notes", &[Keys("run_id kind created_at withheld delivery_id")]),
    table("thread_budgets", &[Keys("thread_id")]),
    table("thread_resets", &[Keys("thread_id reset_at")]),
    table("usage_days", &[Keys("day persona_id provider model source")]),
    table("web_logins", &[Keys("code_sha256 listener asked_by created_at expires_at used_at")]),
    table("web_sessions", &[Keys("id secret_sha256 form_token listener asked_by browser created_at used_at expires_at ended_at")]),
    table("web_tokens", &[Keys("id secret_sha256 name scopes_json created_by created_at expires_at used_at revoked_at")]),
    table("webhook_deliveries", &[Keys("id webhook event persona_id body state next_attempt_at error created_at finished_at")]),
    table("webhooks", &[Keys("name disabled_at reason rests_until success_at")]),
];

/// Virtual tables with what an erasure does to them; their shadow tables go along.
pub static INDEXES: &[(&str, ErasedColumns)] = &[
    ("knowledge_fts", Kept(OWNERS_FILE, "")),
    ("letter_parts", Gone("triggers of the index", "")),
    ("letter_words", Gone("triggers of the index", "")),
];

/// Returns the table of that name.
pub fn find(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::erasure::statements::STATEMENTS;
    use crate::store::transfer::columns_of_schema;
    use std::collections::BTreeSet;

    /// Steps that take words and are no statement of the erasure.
    static OTHER_STEPS: &[&str] = &[
        "records of runs",
        "memory",
        "texts that no turn names",
        "trigger of attachments",
        "trigger of letters",
        "triggers of the index",
    ];

    #[tokio::test]
    async fn every_table_of_the_schema_is_named_once() {
        let schema: BTreeSet<String> = columns_of_schema().await.into_keys().collect();
        let named: BTreeSet<String> = TABLES.iter().map(|table| table.name.to_owned()).collect();
        assert_eq!(named.len(), TABLES.len(), "a table is named twice");
        assert_eq!(named, schema);
    }

    fn gone() -> impl Iterator<Item = (&'static Table, &'static str, ErasedColumns)> {
        let of_table =
            |table: &'static Table| table.columns.iter().map(move |columns| (table, *columns));
        TABLES
            .iter()
            .flat_map(of_table)
            .filter_map(|(table, columns)| match columns {
                Gone(kind, _) => Some((table, kind, columns)),
                Keys(_) | Kept(..) => None,
            })
    }

    #[test]
    fn what_is_said_to_go_is_taken_by_a_statement_that_names_it() {
        for (Table { name: table, .. }, kind, columns) in gone() {
            if OTHER_STEPS.contains(&kind) {
                continue;
            }
            let statement = STATEMENTS.iter().find(|statement| statement.kind == kind);
            let sql = statement.unwrap_or_else(|| panic!("{kind} is no kind")).sql;
            let deletes = sql.contains(&format!("DELETE FROM {table} "));
            assert!(
                deletes || sql.contains(&format!("UPDATE {table} SET ")),
                "{kind} does not change {table}"
            );
            for column in columns.names().filter(|_| !deletes) {
                assert!(
                    sql.contains(&format!("{column} = ")),
                    "{kind} leaves {table}.{column}"
                );
            }
        }
    }

    #[test]
    fn every_statement_is_named_by_a_column() {
        let others = ["summaries_of_runs", "owner_reports"];
        for statement in STATEMENTS {
            assert!(
                gone().any(|(_, kind, _)| kind == statement.kind)
                    || others.contains(&statement.kind),
                "{}",
                statement.kind
            );
        }
    }
}
