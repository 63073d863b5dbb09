//! Every column of text or bytes, with what an erasure does to it, so that no new one is forgotten: a test compares it with the
//! schema of a fresh database.

use self::ErasedColumns::{Gone, Kept, Keys};

/// Outcome of columns in an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasedColumns {
    /// They lose what a person wrote; by what: a kind of the statements, or another step of the erasure.
    Gone(&'static str),
    /// Ids, names, states, instants, digests and addresses: nothing that a person words.
    Keys,
    /// They may hold words, and keep them; why.
    Kept(&'static str),
}

static OWNERS_FILE: &str = "a copy of a file of the owner, which the report names";
static OWNERS_WORDS: &str =
    "words of the owner about the engine; the report counts what quotes the person";
static OF_SERVERS: &str = "words of a server or of the engine about a connection, in which no letter is quoted; the report counts";

/// Tables with their columns, in the order of the alphabet.
pub static COLUMNS: &[(&str, &str, ErasedColumns)] = &[
    ("api_calls", "caller key request_sha256 created_at", Keys),
    ("api_calls", "answer", Gone("api_answers")),
    (
        "approval_answers",
        "message_id approval_id owner outcome created_at explained_at digest_id",
        Keys,
    ),
    ("approval_answers", "report", Gone("owner_answers")),
    (
        "approval_tokens",
        "token approval_id owner created_at call_sha256",
        Keys,
    ),
    (
        "approval_versions",
        "approval_id call_sha256 replaced_at replaced_by",
        Keys,
    ),
    (
        "approval_versions",
        "view_text mail_json mail_bytes",
        Gone("draft_versions"),
    ),
    (
        "approvals",
        "id persona_id run_id call_id kind tool call_sha256 fold_sha256 label_json requested_at expires_at asked_at remind_at \
         reminded_at state decided_at decided_by via begun_at draft_id",
        Keys,
    ),
    (
        "approvals",
        "call_json view_text reason_json result_json mail_json mail_bytes words evidence_json begun_json",
        Gone("approvals"),
    ),
    ("archive", "header_json imported_at", Keys),
    ("attachment_texts", "attachment_id read_at", Keys),
    (
        "attachment_texts",
        "document_json",
        Gone("trigger of attachments"),
    ),
    (
        "attachments",
        "id message_id persona_id content_type sha256 pruned_at encoding",
        Keys,
    ),
    (
        "attachments",
        "filename declared_name content_id bytes",
        Gone("attachments"),
    ),
    (
        "audit_log",
        "persona_id subject_kind subject_id decision rule created_at",
        Keys,
    ),
    ("audit_log", "detail", Gone("decisions")),
    ("backups", "started_at finished_at path failure", Keys),
    ("budget_accounts", "scope owner period", Keys),
    ("budget_reservations", "run_id accounts_json day", Keys),
    ("contact_aliases", "address person since said_by", Keys),
    ("contents", "sha256", Keys),
    ("contents", "bytes", Gone("texts that no turn names")),
    (
        "conversations",
        "id persona_id root_message_id created_at",
        Keys,
    ),
    ("conversations", "subject", Gone("conversation_subjects")),
    ("correspondence", "persona_id counterparty minute", Keys),
    (
        "deliveries",
        "id persona_id message_id run_id envelope_from state next_attempt_at created_at finished_at bounce_token kind pruned_at \
         state_at",
        Keys,
    ),
    ("deliveries", "bytes", Gone("mails")),
    (
        "delivery_recipients",
        "delivery_id recipient state next_attempt_at bounced_at",
        Keys,
    ),
    (
        "delivery_recipients",
        "last_reply",
        Gone("replies_of_servers"),
    ),
    (
        "delivery_reports",
        "delivery_id persona_id message_id recipient kind action reason status created_at",
        Keys,
    ),
    ("delivery_reports", "diagnostic", Gone("delivery_reports")),
    (
        "embedding_calls",
        "id persona_id purpose run_id provider model state cost_source price_version accounts_json day created_at",
        Keys,
    ),
    ("engine", "loop_key", Keys),
    (
        "erasures",
        "id contact_sha256 addresses_json state started_by started_at finished_at counts_json",
        Keys,
    ),
    (
        "events",
        "persona_id organizer stamped_at answer starts_at ends_at message_id updated_at",
        Keys,
    ),
    (
        "events",
        "uid recurrence_id event_json",
        Gone("calendar_events"),
    ),
    (
        "feed",
        "kind persona_id thread_id run_id message_id delivery_id approval_id item at",
        Keys,
    ),
    ("filed_summaries", "sent_at", Keys),
    (
        "forks",
        "id run_id persona_id state created_at finished_at",
        Keys,
    ),
    ("forks", "change_json", Gone("forks")),
    ("forks", "record_json", Gone("records of runs")),
    ("halts", "persona_id halted_at", Keys),
    ("halts", "reason", Kept(OWNERS_WORDS)),
    (
        "held_letters",
        "id persona_id sha256 held_at next_attempt_at",
        Keys,
    ),
    ("held_letters", "envelope_json bytes", Gone("held_letters")),
    (
        "hook_calls",
        "persona_id run_id event tool hook_id hook_sha256 decision asked_at",
        Keys,
    ),
    ("hook_calls", "reason", Gone("hook_calls")),
    ("knowledge_chunks", "persona_id path", Keys),
    ("knowledge_chunks", "heading body", Kept(OWNERS_FILE)),
    ("knowledge_files", "persona_id path sha256", Keys),
    ("leases", "name since", Keys),
    ("letter_part_texts", "thread", Keys),
    ("letter_part_texts", "words", Gone("trigger of letters")),
    ("letter_vectors", "model persona_id text_sha256", Keys),
    ("letter_vectors", "vector", Gone("vectors")),
    (
        "mail_commands",
        "message_id persona_id rfc_message_id owner command refusal sent_at received_at acted_at outcome_json answered_at \
         delivery_id",
        Keys,
    ),
    ("mail_commands", "argument", Gone("commands")),
    ("mailbox_contents", "mailbox sha256", Keys),
    ("mailbox_letters", "mailbox outcome noted_at", Keys),
    ("mailbox_letters", "reason", Kept(OF_SERVERS)),
    (
        "mailboxes",
        "name source history_until last_fetch_at last_error_at failing_since",
        Keys,
    ),
    ("mailboxes", "last_error", Kept(OF_SERVERS)),
    ("maintenance", "kind at detail", Keys),
    (
        "mcp_tools_off",
        "server tool pin_sha256 reason detail off_since",
        Keys,
    ),
    (
        "memory",
        "id persona_id scope scope_key kind text_sha256 status trust readers_json audience_json said_by said_at valid_to \
         created_at created_run created_by confirmed_at supersedes superseded_by erased_at last_used_at proposes",
        Keys,
    ),
    ("memory", "text", Gone("memory")),
    ("memory_digest_entries", "digest_id memory_id", Keys),
    ("memory_digest_tokens", "token digest_id owner", Keys),
    ("memory_digests", "id persona_id asked_at closed_at", Keys),
    (
        "memory_events",
        "memory_id act actor who before_json at",
        Keys,
    ),
    ("memory_events", "why", Gone("memory")),
    ("memory_replaces", "memory_id replaced_id", Keys),
    (
        "memory_sources",
        "memory_id message_id part quote_sha256",
        Keys,
    ),
    ("memory_sources", "quote", Gone("memory")),
    (
        "message_links",
        "persona_id rfc_message_id conversation_id",
        Keys,
    ),
    (
        "messages",
        "id thread_id persona_id direction message_id in_reply_to references_json recipients_json received_at trust raw_id run_id \
         dedup_key disposition readers_json",
        Keys,
    ),
    (
        "messages",
        "sender subject text_body fresh_text html_body metadata_json",
        Gone("message_texts"),
    ),
    (
        "nodes",
        "host workspace identity version roles started_at drain_asked_at",
        Keys,
    ),
    (
        "notices",
        "id persona_id kind cause subject_kind subject_id occurrence emitted_at notified_at delivery_id dismissed_at",
        Keys,
    ),
    ("notices", "summary hint", Gone("notices")),
    ("pending_redactions", "run_id since", Keys),
    (
        "persona_file_versions",
        "persona_id name sha256 replaced_at replaced_by session_id replaced_with",
        Keys,
    ),
    ("persona_file_versions", "text", Gone("file_versions")),
    ("policy_uses", "rule_id", Keys),
    (
        "program_versions",
        "version first_seen_at last_seen_at",
        Keys,
    ),
    (
        "provider_calls",
        "provider part last_success_at last_model last_failure_at last_failure_class",
        Keys,
    ),
    (
        "provider_calls",
        "last_failure_message",
        Gone("failures_of_providers"),
    ),
    (
        "provider_sessions",
        "persona_id thread_id provider model options_sha256 state run_id created_at used_at",
        Keys,
    ),
    (
        "provider_sessions",
        "session_id folder usage_json",
        Gone("agent_sessions"),
    ),
    (
        "raw_letters",
        "id persona_id sha256 envelope_json pruned_at",
        Keys,
    ),
    ("raw_letters", "bytes trace", Gone("raw_letters")),
    (
        "responsibilities",
        "id persona_id file schedule timezone prompt_sha256 cursor_at next_slot_at removed_at updated_at slot_options_json \
         run_options_json fire_at paused_at paused_by thread_id mark",
        Keys,
    ),
    (
        "responsibilities",
        "name prompt error output_schema own_thread_id",
        Kept(OWNERS_FILE),
    ),
    (
        "responsibility_slots",
        "responsibility_id slot_at persona_id kind state run_id prompt_sha256 created_at missed_until run_options_json overdue_at \
         state_at",
        Keys,
    ),
    (
        "responsibility_slots",
        "prompt_snapshot note",
        Gone("prompts_of_slots"),
    ),
    ("responsibility_slots", "output_schema", Kept(OWNERS_FILE)),
    ("retention", "kind before started_at finished_at", Keys),
    (
        "run_outputs",
        "run_id persona_id schema_sha256 created_at",
        Keys,
    ),
    ("run_outputs", "json", Gone("run_outputs")),
    (
        "run_turns",
        "run_id persona_id request_sha256 provider model state error_class started_at finished_at begun_json pruned_at packed_with \
         redacted_at named_json",
        Keys,
    ),
    (
        "run_turns",
        "request_json context_json response_json error_message sources_json ended_json packed",
        Gone("records of runs"),
    ),
    (
        "runs",
        "id persona_id thread_id trigger trigger_message_id profile state next_attempt_at cancel_requested_at provider model \
         stop_reason error_class created_at started_at finished_at limits_json run_options_json state_at",
        Keys,
    ),
    ("runs", "output_schema", Kept(OWNERS_FILE)),
    (
        "runs",
        "error_message context_report_json",
        Gone("run_reports"),
    ),
    (
        "sender_notes",
        "run_id kind created_at withheld delivery_id",
        Keys,
    ),
    (
        "thread_instructions",
        "id persona_id thread_id contact given_by given_at removed_at removed_by",
        Keys,
    ),
    ("thread_instructions", "text", Gone("instructions")),
    (
        "thread_memory",
        "id persona_id thread_id run_id model state text_sha256 upto_message_id previous_id label_json readers_json created_at",
        Keys,
    ),
    (
        "thread_memory",
        "problems_json text inputs_json",
        Gone("summaries"),
    ),
    ("thread_budgets", "thread_id", Keys),
    ("thread_participants", "thread_id address", Keys),
    ("thread_resets", "thread_id reset_at", Keys),
    (
        "thread_tool_events",
        "id thread_id persona_id parent_message_id run_id event_type tool_name tool_call_id created_at executor",
        Keys,
    ),
    (
        "thread_tool_events",
        "payload_json",
        Gone("records of runs"),
    ),
    (
        "threads",
        "id conversation_id persona_id created_at updated_at",
        Keys,
    ),
    ("threads", "subject", Gone("thread_subjects")),
    ("transport_health", "state since next_probe_at", Keys),
    ("transport_health", "reason", Kept(OF_SERVERS)),
    ("usage_days", "day persona_id provider model source", Keys),
    (
        "usage_ledger",
        "run_id model persona_id provider state cost_source price_version day created_at fork_id",
        Keys,
    ),
    (
        "vector_switches",
        "persona_id provider model measured_at",
        Keys,
    ),
    (
        "web_logins",
        "code_sha256 listener asked_by created_at expires_at used_at",
        Keys,
    ),
    (
        "web_sessions",
        "id secret_sha256 form_token listener asked_by browser created_at used_at expires_at ended_at",
        Keys,
    ),
    (
        "web_tokens",
        "id secret_sha256 name scopes_json created_by created_at expires_at used_at revoked_at",
        Keys,
    ),
    (
        "webhook_deliveries",
        "id webhook event persona_id body state next_attempt_at error created_at finished_at",
        Keys,
    ),
    (
        "webhooks",
        "name disabled_at reason rests_until success_at",
        Keys,
    ),
];

/// Virtual tables with what fills and empties them; their shadow tables go along.
pub static INDEXES: &[(&str, ErasedColumns)] = &[
    ("knowledge_fts", Kept(OWNERS_FILE)),
    ("letter_parts", Gone("triggers of the index")),
    ("letter_words", Gone("triggers of the index")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::erasure::statements::STATEMENTS;

    /// Steps that take words and are no statement of the erasure.
    static OTHER_STEPS: &[&str] = &[
        "records of runs",
        "memory",
        "texts that no turn names",
        "trigger of attachments",
        "trigger of letters",
        "triggers of the index",
    ];

    #[test]
    fn what_is_said_to_go_is_taken_by_a_statement_that_names_it() {
        for (table, columns, outcome) in COLUMNS {
            let Gone(kind) = outcome else { continue };
            if OTHER_STEPS.contains(kind) {
                continue;
            }
            let statement = STATEMENTS.iter().find(|statement| statement.kind == *kind);
            let sql = statement.unwrap_or_else(|| panic!("{kind} is no kind")).sql;
            let deletes = sql.contains(&format!("DELETE FROM {table} "));
            assert!(
                deletes || sql.contains(&format!("UPDATE {table} SET ")),
                "{kind} does not change {table}"
            );
            for column in columns.split(' ').filter(|_| !deletes) {
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
            let is_named = COLUMNS
                .iter()
                .any(|(_, _, outcome)| *outcome == Gone(statement.kind));
            assert!(
                is_named || others.contains(&statement.kind),
                "{}",
                statement.kind
            );
        }
    }
}
