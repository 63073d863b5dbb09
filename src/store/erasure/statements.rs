//! What an erasure empties. `$1` is a JSON list of ids, `$2` the instant, in all of them.

use crate::store::memory::redaction::EMPTY_ANSWERS;

/// A statement with the kind that the report counts it under.
pub struct ErasingStatement {
    pub kind: &'static str,
    pub of: ErasedRows,
    pub sql: &'static str,
}

/// The ids that a statement takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasedRows {
    Messages,
    Runs,
    Threads,
    WholeThreads,
    Held,
    /// Ids of messages, runs and whole threads, and addresses.
    Subjects,
    /// Earlier versions of files, by number.
    Versions,
    /// Answers that are kept for requests of the API sent again, by caller and key.
    ApiAnswers,
    /// Answers of owners by letter, with what was reported of them.
    OwnerReports,
}

const EMPTY_LETTERS: &str = "
    UPDATE raw_letters SET bytes = CAST('' AS BLOB), trace = NULL, pruned_at = coalesce(pruned_at, $2)
    WHERE id IN (SELECT m.raw_id FROM jsonb_each($1) w CROSS JOIN messages m WHERE m.id = w.value)";
/// The indexes of letters follow by their triggers.
const EMPTY_MESSAGES: &str = "
    UPDATE messages SET sender = CASE direction WHEN 'inbound' THEN coalesce(metadata_json ->> '$.sender', '') ELSE sender END,
      subject = '', text_body = '', fresh_text = CASE WHEN fresh_text IS NULL THEN NULL ELSE '' END,
      html_body = NULL, metadata_json = '{}'
    WHERE id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
/// What was read of an attachment goes by a trigger.
const EMPTY_ATTACHMENTS: &str = "
    UPDATE attachments SET bytes = CAST('' AS BLOB), encoding = NULL, range_start = NULL, range_len = NULL, filename = '', declared_name = '', content_id = NULL, pruned_at = coalesce(pruned_at, $2)
    WHERE message_id IN (SELECT value FROM jsonb_each($1))";
const EMPTY_VECTORS: &str = "
    DELETE FROM letter_vectors WHERE seq IN (SELECT m.seq FROM jsonb_each($1) w CROSS JOIN messages m WHERE m.id = w.value)
      AND $2 <> ''";
const EMPTY_MAILS: &str = "
    UPDATE deliveries SET bytes = CAST('' AS BLOB), pruned_at = coalesce(pruned_at, $2)
    WHERE message_id IN (SELECT value FROM jsonb_each($1)) AND state IN ('done', 'failed', 'cancelled')";
const EMPTY_REPORTS: &str = "
    UPDATE delivery_reports SET diagnostic = '' WHERE $2 <> '' AND diagnostic <> '' AND delivery_id IN
      (SELECT d.id FROM jsonb_each($1) w CROSS JOIN deliveries d WHERE d.message_id = w.value)";
const EMPTY_REPLIES: &str = "
    UPDATE delivery_recipients SET last_reply = 'erased' WHERE $2 <> '' AND last_reply NOT IN ('', 'erased') AND delivery_id IN
      (SELECT d.id FROM jsonb_each($1) w CROSS JOIN deliveries d WHERE d.message_id = w.value)";
const EMPTY_COMMANDS: &str = "
    UPDATE mail_commands SET argument = '' WHERE message_id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
/// Of the person's letters, and of their own events, whoever's letter brought them.
const EMPTY_EVENTS: &str = "
    DELETE FROM events WHERE (message_id IN (SELECT value FROM jsonb_each($1)) OR organizer IN (SELECT value FROM jsonb_each($1)))
      AND $2 <> ''";
const EMPTY_RUNS: &str = "
    UPDATE runs SET context_report_json = NULL, error_message = CASE WHEN error_message IS NULL THEN NULL ELSE '' END
    WHERE id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
/// A provider's failure is kept once for all runs, in the provider's words.
const EMPTY_FAILURES: &str = "
    UPDATE provider_calls SET last_failure_message = '' WHERE last_failure_message <> '' AND $2 <> '' AND provider IN
      (SELECT t.provider FROM jsonb_each($1) w CROSS JOIN run_turns t WHERE t.run_id = w.value AND t.error_class IS NOT NULL)";
const EMPTY_FORKS: &str = "
    UPDATE forks SET change_json = 'null' WHERE run_id IN (SELECT value FROM jsonb_each($1)) AND state <> 'running' AND $2 <> ''";
const EMPTY_SLOTS: &str = "
    UPDATE responsibility_slots SET prompt_snapshot = CASE WHEN prompt_snapshot IS NULL THEN NULL ELSE '' END, note = NULL
    WHERE run_id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
const EMPTY_OUTPUTS: &str = "UPDATE run_outputs SET json = 'null' WHERE run_id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
const EMPTY_HOOKS: &str = "
    UPDATE hook_calls SET reason = '' WHERE run_id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
const EMPTY_VERSIONS_OF_QUESTIONS: &str = "
    UPDATE approval_versions SET view_text = '', mail_json = '{}', mail_bytes = CAST('' AS BLOB)
    WHERE $2 <> '' AND approval_id IN (SELECT a.id FROM jsonb_each($1) w CROSS JOIN approvals a WHERE a.run_id = w.value)";
const EMPTY_QUESTIONS: &str = "
    UPDATE approvals SET call_json = '{}', view_text = '', mail_bytes = NULL, mail_json = NULL,
      words = CASE WHEN words IS NULL THEN NULL ELSE '' END, reason_json = '{}', result_json = NULL, evidence_json = NULL, begun_json = NULL
    WHERE run_id IN (SELECT value FROM jsonb_each($1)) AND state <> 'open' AND $2 <> ''";
const EMPTY_SUMMARIES: &str = "
    DELETE FROM thread_memory WHERE thread_id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
const EMPTY_SUMMARIES_OF_RUNS: &str =
    "DELETE FROM thread_memory WHERE run_id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
const EMPTY_SESSIONS: &str = "
    DELETE FROM provider_sessions WHERE thread_id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
const EMPTY_SUBJECTS: &str =
    "UPDATE threads SET subject = '' WHERE id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
/// A conversation has the subject of its first letter.
const EMPTY_CONVERSATIONS: &str = "
    UPDATE conversations SET subject = '' WHERE $2 <> '' AND id IN
      (SELECT t.conversation_id FROM jsonb_each($1) w CROSS JOIN threads t WHERE t.id = w.value)";
/// What an owner said about the person, or for a thread with nobody else.
const EMPTY_INSTRUCTIONS: &str = "
    UPDATE thread_instructions SET text = '' WHERE text <> '' AND (contact IN (SELECT value FROM jsonb_each($1))
      OR thread_id IN (SELECT value FROM jsonb_each($1))) AND $2 <> ''";
const EMPTY_HELD: &str = "
    DELETE FROM held_letters WHERE $2 <> '' AND id IN (SELECT value FROM jsonb_each($1))";
const EMPTY_NOTICES: &str = "
    UPDATE notices SET summary = 'erased', hint = '' WHERE $2 <> '' AND (summary <> 'erased' OR hint <> '') AND
      (subject_id IN (SELECT value FROM jsonb_each($1)) OR subject_id IN
        (SELECT d.id FROM jsonb_each($1) w CROSS JOIN deliveries d WHERE d.message_id = w.value) OR subject_id IN
        (SELECT a.id FROM jsonb_each($1) w CROSS JOIN approvals a WHERE a.run_id = w.value))";
const EMPTY_DECISIONS: &str = "
    UPDATE audit_log SET detail = '' WHERE detail <> '' AND $2 <> '' AND (subject_id IN (SELECT value FROM jsonb_each($1))
      OR subject_id IN (SELECT d.id FROM jsonb_each($1) w CROSS JOIN deliveries d WHERE d.message_id = w.value)
      OR subject_id IN (SELECT a.id FROM jsonb_each($1) w CROSS JOIN approvals a WHERE a.run_id = w.value))";
const EMPTY_VERSIONS: &str = "
    DELETE FROM persona_file_versions WHERE seq IN (SELECT CAST(value AS BIGINT) FROM jsonb_each($1)) AND $2 <> ''";
const EMPTY_API_ANSWERS: &str = "
    DELETE FROM api_calls WHERE '[' || json_quote(caller) || ',' || json_quote(key) || ']' IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";
const EMPTY_OWNER_REPORTS: &str = "
    UPDATE approval_answers SET report = '' WHERE message_id IN (SELECT value FROM jsonb_each($1)) AND $2 <> ''";

/// In this order.
pub static STATEMENTS: &[ErasingStatement] = &[
    of("raw_letters", ErasedRows::Messages, EMPTY_LETTERS),
    of("vectors", ErasedRows::Messages, EMPTY_VECTORS),
    of("attachments", ErasedRows::Messages, EMPTY_ATTACHMENTS),
    of("mails", ErasedRows::Messages, EMPTY_MAILS),
    of("delivery_reports", ErasedRows::Messages, EMPTY_REPORTS),
    of("replies_of_servers", ErasedRows::Messages, EMPTY_REPLIES),
    of("commands", ErasedRows::Messages, EMPTY_COMMANDS),
    of("calendar_events", ErasedRows::Subjects, EMPTY_EVENTS),
    of("run_reports", ErasedRows::Runs, EMPTY_RUNS),
    of("failures_of_providers", ErasedRows::Runs, EMPTY_FAILURES),
    of("forks", ErasedRows::Runs, EMPTY_FORKS),
    of("prompts_of_slots", ErasedRows::Runs, EMPTY_SLOTS),
    of("owner_answers", ErasedRows::Subjects, EMPTY_ANSWERS),
    of("run_outputs", ErasedRows::Runs, EMPTY_OUTPUTS),
    of("hook_calls", ErasedRows::Runs, EMPTY_HOOKS),
    of(
        "draft_versions",
        ErasedRows::Runs,
        EMPTY_VERSIONS_OF_QUESTIONS,
    ),
    of("approvals", ErasedRows::Runs, EMPTY_QUESTIONS),
    of("summaries", ErasedRows::Threads, EMPTY_SUMMARIES),
    of(
        "summaries_of_runs",
        ErasedRows::Runs,
        EMPTY_SUMMARIES_OF_RUNS,
    ),
    of("agent_sessions", ErasedRows::Threads, EMPTY_SESSIONS),
    of("thread_subjects", ErasedRows::WholeThreads, EMPTY_SUBJECTS),
    of(
        "conversation_subjects",
        ErasedRows::WholeThreads,
        EMPTY_CONVERSATIONS,
    ),
    of("instructions", ErasedRows::Subjects, EMPTY_INSTRUCTIONS),
    of("held_letters", ErasedRows::Held, EMPTY_HELD),
    of("notices", ErasedRows::Subjects, EMPTY_NOTICES),
    of("decisions", ErasedRows::Subjects, EMPTY_DECISIONS),
    of("file_versions", ErasedRows::Versions, EMPTY_VERSIONS),
    of("api_answers", ErasedRows::ApiAnswers, EMPTY_API_ANSWERS),
    of(
        "owner_reports",
        ErasedRows::OwnerReports,
        EMPTY_OWNER_REPORTS,
    ),
    // The last: until then the words of the person can be looked for.
    of("message_texts", ErasedRows::Messages, EMPTY_MESSAGES),
];

const fn of(kind: &'static str, of: ErasedRows, sql: &'static str) -> ErasingStatement {
    ErasingStatement { kind, of, sql }
}
