//! What a file of runs holds: kinds of things with named fields, whatever tables and columns this version keeps them in.
//!
//! A file outlives the schema (D-162): kinds and fields are named once and for all, and only the right-hand sides here change with
//! a migration. A test compares them with the schema, so that no new column is forgotten.

use crate::store::catalogue;
use crate::store::db::Sql;

const CONVERSATIONS: &str = "
    SELECT * FROM conversations WHERE id IN (SELECT conversation_id FROM threads WHERE id IN (
      SELECT thread_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1))
      UNION SELECT thread_id FROM messages WHERE run_id IN (SELECT value FROM jsonb_each($1))))";
/// Threads of the runs, and threads that they wrote into: mail to another recipient is a thread of
/// its own.
const THREADS: &str = "
    SELECT * FROM threads WHERE id IN (
      SELECT thread_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1))
      UNION SELECT thread_id FROM messages WHERE run_id IN (SELECT value FROM jsonb_each($1)))";
const PARTICIPANTS: &str = "
    SELECT * FROM thread_participants WHERE thread_id IN (
      SELECT thread_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1))
      UNION SELECT thread_id FROM messages WHERE run_id IN (SELECT value FROM jsonb_each($1)))";
const RAW_LETTERS: &str = "
    SELECT * FROM raw_letters WHERE id IN (SELECT raw_id FROM messages WHERE id IN
      (SELECT trigger_message_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1))))";
/// The triggering letters, the messages that the runs wrote, and the messages that they could see
/// in their threads. Only the letters include their bytes.
const MESSAGES: &str = "
    SELECT * FROM messages WHERE id IN (
      SELECT trigger_message_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1))
      UNION SELECT id FROM messages WHERE run_id IN (SELECT value FROM jsonb_each($1))
      UNION SELECT p.id FROM runs r JOIN messages t ON t.id = r.trigger_message_id
        JOIN messages p ON p.thread_id = r.thread_id
        WHERE r.id IN (SELECT value FROM jsonb_each($1)) AND (p.seq < t.seq OR p.direction = 'outbound'))
    ORDER BY seq DESC LIMIT $2";
const ATTACHMENTS: &str = "
    SELECT a.*, CASE WHEN a.encoding IS NOT NULL THEN
      (SELECT l.bytes FROM messages m JOIN raw_letters l ON l.id = m.raw_id WHERE m.id = a.message_id) END AS letter
    FROM attachments a WHERE a.message_id IN
      (SELECT trigger_message_id FROM runs WHERE id IN (SELECT value FROM jsonb_each($1)))";
/// The runs with the earlier runs of their threads, to which the traces of a history belong.
const RUNS: &str = "
    SELECT DISTINCT b.* FROM runs r JOIN runs b ON b.thread_id = r.thread_id AND b.seq <= r.seq
    WHERE r.id IN (SELECT value FROM jsonb_each($1)) ORDER BY b.seq";
/// Responsibilities of the runs, whose slots hold the run options.
const RESPONSIBILITIES: &str = "
    SELECT * FROM responsibilities WHERE id IN (
      SELECT responsibility_id FROM responsibility_slots WHERE run_id IN (SELECT value FROM jsonb_each($1)))";
const SLOTS: &str =
    "SELECT * FROM responsibility_slots WHERE run_id IN (SELECT value FROM jsonb_each($1))";
/// Requests and contexts leave as the texts that they are: a reader looks for words in them.
pub const TURNS: &str = "
    SELECT t.*, c.bytes AS dictionary FROM run_turns t LEFT JOIN contents c ON c.sha256 = t.packed_with
    WHERE t.run_id IN (SELECT value FROM jsonb_each($1)) ORDER BY t.run_id, t.turn_index, t.attempt";
/// What the contexts were assembled from: every digest that their sources name, and the files that a configuration among
/// them names.
const CONTENTS: Sql = Sql::pair(
    "
    WITH named (sha256) AS (SELECT t.sha256 FROM turn_texts t WHERE t.run_id IN (SELECT value FROM jsonb_each($1)))
    SELECT * FROM contents WHERE sha256 IN (
      SELECT sha256 FROM named
      UNION SELECT f.value FROM named n JOIN contents c ON c.sha256 = n.sha256,
        json_each(CASE WHEN json_valid(CAST(c.bytes AS TEXT)) THEN CAST(c.bytes AS TEXT) ELSE '{}' END, '$.files') f)",
    "
    WITH named (sha256) AS (SELECT t.sha256 FROM turn_texts t WHERE t.run_id IN (SELECT value FROM jsonb_each($1)))
    SELECT * FROM contents WHERE sha256 IN (
      SELECT sha256 FROM named
      UNION SELECT f.value FROM named n JOIN contents c ON c.sha256 = n.sha256,
        json_each(CASE WHEN json_valid(text_of(c.bytes)) THEN text_of(c.bytes) ELSE '{}' END, '$.files') f)",
);
const STEPS: &str = "
    SELECT DISTINCT e.* FROM runs r JOIN runs b ON b.thread_id = r.thread_id AND b.seq <= r.seq
      JOIN thread_tool_events e ON e.run_id = b.id
    WHERE r.id IN (SELECT value FROM jsonb_each($1))";
/// Entries of memory that the runs were shown.
pub const MEMORY: &str = "
    SELECT * FROM memory WHERE id IN (SELECT n.value FROM run_turns t, json_each(t.named_json) n
      WHERE t.run_id IN (SELECT value FROM jsonb_each($1)) AND t.named_json IS NOT NULL)";
const OUTPUTS: &str =
    "SELECT * FROM run_outputs WHERE run_id IN (SELECT value FROM jsonb_each($1))";
const DELIVERIES: &str =
    "SELECT * FROM deliveries WHERE run_id IN (SELECT value FROM jsonb_each($1))";
const RECIPIENTS: &str = "
    SELECT * FROM delivery_recipients WHERE delivery_id IN
      (SELECT id FROM deliveries WHERE run_id IN (SELECT value FROM jsonb_each($1)))";
const LEDGER: &str =
    "SELECT * FROM usage_ledger WHERE run_id IN (SELECT value FROM jsonb_each($1))";
const FORKS: &str = "SELECT * FROM forks WHERE run_id IN (SELECT value FROM jsonb_each($1))";

/// Things of one kind.
pub struct BundleKind {
    /// Name in the file.
    pub name: &'static str,
    pub table: &'static str,
    /// Query of the table's rows that belong to the runs `$1`.
    pub rows: Sql,
    /// `field`, or `field=column` where the column has another name; separated by spaces.
    fields: &'static str,
}

impl BundleKind {
    /// Returns the fields with their columns.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let fields = self.fields.split_whitespace();
        fields.map(|field| field.split_once('=').unwrap_or((field, field)))
    }

    /// Returns the columns that are packed in the table.
    pub fn packed(&self) -> &'static [&'static str] {
        catalogue::find(self.table).map_or(&[], |table| table.packed)
    }
}

const fn kind(
    (name, table): (&'static str, &'static str),
    rows: Sql,
    fields: &'static str,
) -> BundleKind {
    BundleKind {
        name,
        table,
        rows,
        fields,
    }
}

/// Every kind, after the kinds that its things refer to.
pub static KINDS: &[BundleKind] = &[
    kind(
        ("conversation", "conversations"),
        Sql::same(CONVERSATIONS),
        "id persona=persona_id subject first_message=root_message_id created=created_at",
    ),
    kind(
        ("thread", "threads"),
        Sql::same(THREADS),
        "id conversation=conversation_id persona=persona_id subject created=created_at updated=updated_at",
    ),
    kind(
        ("participant", "thread_participants"),
        Sql::same(PARTICIPANTS),
        "thread=thread_id address joined_after",
    ),
    kind(
        ("letter", "raw_letters"),
        Sql::same(RAW_LETTERS),
        "id persona=persona_id sha256 envelope=envelope_json bytes trace pruned=pruned_at",
    ),
    kind(
        ("message", "messages"),
        Sql::same(MESSAGES),
        "number=seq id thread=thread_id persona=persona_id direction message_id in_reply_to references=references_json sender \
         recipients=recipients_json subject text=text_body fresh_text html=html_body received=received_at trust letter=raw_id run=run_id \
         key=dedup_key acknowledged=ack_confirmed disposition metadata=metadata_json hops readers=readers_json",
    ),
    kind(
        ("attachment", "attachments"),
        Sql::same(ATTACHMENTS),
        "id message=message_id persona=persona_id filename declared_name content_type size_bytes sha256 content_id bytes pruned=pruned_at",
    ),
    kind(
        ("run", "runs"),
        Sql::same(RUNS),
        "number=seq id persona=persona_id thread=thread_id trigger message=trigger_message_id profile state attempt provider model \
         stop_reason error_class error_message input_tokens cache_read_tokens cache_write_tokens output_tokens reasoning_tokens \
         cost_micros context_report=context_report_json created=created_at started=started_at finished=finished_at budget_micros \
         limits=limits_json worked_ms attempts_max options=run_options_json output_schema state_at cancel_requested=cancel_requested_at letters answered_by",
    ),
    kind(
        ("task", "responsibilities"),
        Sql::same(RESPONSIBILITIES),
        "id persona=persona_id file name schedule timezone enabled prompt prompt_sha256 revision cursor=cursor_at next_slot=next_slot_at \
         removed=removed_at error updated=updated_at budget_micros output_schema slot_options=slot_options_json \
         run_options=run_options_json fires=fire_at is_done paused=paused_at paused_by failures thread=thread_id own_thread=own_thread_id \
         mark",
    ),
    kind(
        ("slot", "responsibility_slots"),
        Sql::same(SLOTS),
        "task=responsibility_id at=slot_at persona=persona_id kind state missed_count run=run_id prompt=prompt_snapshot prompt_sha256 \
         created=created_at missed_until note output_schema options=run_options_json is_late overdue=overdue_at catching_up revision state_at",
    ),
    kind(
        ("turn", "run_turns"),
        Sql::same(TURNS),
        "run=run_id turn=turn_index attempt persona=persona_id request=request_json request_sha256 context=context_json \
         response=response_json provider model input_tokens cache_read_tokens cache_write_tokens output_tokens reasoning_tokens cost_micros \
         state error_class error_message started=started_at finished=finished_at sources=sources_json begun=begun_json ended=ended_json \
         pruned=pruned_at redacted=redacted_at",
    ),
    kind(("text", "contents"), CONTENTS, "sha256 bytes"),
    kind(
        ("step", "thread_tool_events"),
        Sql::same(STEPS),
        "id thread=thread_id persona=persona_id message=parent_message_id run=run_id step=step_index event=event_type tool=tool_name \
         call=tool_call_id payload=payload_json created=created_at executor",
    ),
    kind(
        ("memory", "memory"),
        Sql::same(MEMORY),
        "id persona=persona_id scope scope_key number kind text text_sha256 status trust readers=readers_json audience=audience_json \
         said_by said=said_at valid_to created=created_at created_run created_by confirmed=confirmed_at confirmations supersedes \
         superseded_by erased=erased_at uses last_used=last_used_at pinned proposes",
    ),
    kind(
        ("output", "run_outputs"),
        Sql::same(OUTPUTS),
        "run=run_id persona=persona_id schema_sha256 json repairs created=created_at",
    ),
    kind(
        ("mail", "deliveries"),
        Sql::same(DELIVERIES),
        "number=seq id persona=persona_id message=message_id run=run_id envelope_from bytes state attempts possible_duplicate \
         created=created_at finished=finished_at kind pruned=pruned_at state_at",
    ),
    kind(
        ("recipient", "delivery_recipients"),
        Sql::same(RECIPIENTS),
        "mail=delivery_id address=recipient state attempts last_code last_reply bounced=bounced_at",
    ),
    kind(
        ("bill", "usage_ledger"),
        Sql::same(LEDGER),
        "run=run_id turn=turn_index attempt model persona=persona_id provider state input_tokens cache_read_tokens cache_write_tokens \
         output_tokens reasoning_tokens estimated cost_micros cost_source price_version held_micros day created=created_at fork=fork_id",
    ),
    kind(
        ("fork", "forks"),
        Sql::same(FORKS),
        "id run=run_id persona=persona_id at_turn change=change_json state record=record_json created=created_at finished=finished_at",
    ),
];

#[cfg(test)]
mod tests {
    use super::KINDS;
    use crate::store::transfer::columns_of_schema;
    use std::collections::BTreeSet;

    /// Columns that stay behind: state of an engine at work, what stands in other fields, and the token of an address to
    /// which reports are believed.
    static LEFT: &[(&str, &[&str])] = &[
        (
            "run",
            &[
                "next_attempt_at",
                "epoch",
                "behind",
                "crashes",
                "crashed_at",
                "alone",
                "context_tokens",
                "context_budget_tokens",
                "history_is_cut",
            ],
        ),
        ("turn", &["packed", "packed_with", "named_json"]),
        ("letter", &["size_bytes"]),
        ("attachment", &["encoding", "range_start", "range_len"]),
        (
            "mail",
            &["size_bytes", "epoch", "next_attempt_at", "bounce_token"],
        ),
        ("recipient", &["next_attempt_at"]),
    ];

    #[tokio::test]
    async fn every_column_of_an_exported_table_is_a_field_or_stays_behind() {
        let schema = columns_of_schema().await;
        for kind in KINDS {
            let (fields, columns): (Vec<&str>, Vec<&str>) = kind.fields().unzip();
            let once: BTreeSet<&str> = fields.iter().copied().collect();
            assert_eq!(once.len(), fields.len(), "{}: a field twice", kind.name);
            let left = LEFT.iter().find(|(name, _)| *name == kind.name);
            let left = left.map_or(&[][..], |(_, left)| left);
            let named: Vec<&str> = columns.iter().chain(left).copied().collect();
            let once: BTreeSet<String> = named.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(once.len(), named.len(), "{}: a column twice", kind.name);
            assert_eq!(once, schema[kind.table], "{}", kind.name);
        }
    }
}
