//! Words of a person in one column each, in rows that belong to her: what `erased_columns` lets an erasure take.

/// A statement that writes `@table.column@` into columns; `{M}`, `{T}`, `{R}`, `{D}` are the message, thread, run and delivery of
/// her first letter, `{C}` her address, `{VIOLIN}` words of another one.
pub struct Plant {
    pub table: &'static str,
    pub columns: &'static str,
    pub sql: &'static str,
}

const fn plant(table: &'static str, columns: &'static str, sql: &'static str) -> Plant {
    Plant {
        table,
        columns,
        sql,
    }
}

const AT: &str = "2026-11-20T09:00:00.000Z";

/// Values that the statements name.
pub fn names() -> [(&'static str, String); 7] {
    let message = "(SELECT id FROM messages WHERE message_id = 'c1@partner.test')";
    let run = format!("(SELECT id FROM runs WHERE trigger_message_id = {message})");
    [
        ("{M}", message.to_owned()),
        (
            "{T}",
            format!("(SELECT thread_id FROM messages WHERE id = {message})"),
        ),
        ("{R}", run.clone()),
        (
            "{D}",
            format!("(SELECT id FROM deliveries WHERE run_id = {run} ORDER BY id LIMIT 1)"),
        ),
        ("{C}", super::erasure::CAROL.to_owned()),
        ("{VIOLIN}", super::erasure::VIOLIN.to_owned()),
        ("{AT}", AT.to_owned()),
    ]
}

/// In this order: later rows name earlier ones.
pub static PLANTS: &[Plant] = &[
    plant("messages", "sender subject text_body fresh_text html_body metadata_json",
        "UPDATE messages SET sender = '@messages.sender@ <{C}>', subject = '@messages.subject@', text_body = '@messages.text_body@',
           fresh_text = '@messages.fresh_text@', html_body = '@messages.html_body@',
           metadata_json = json_set(metadata_json, '$.x', '@messages.metadata_json@') WHERE id = {M}"),
    plant("raw_letters", "bytes trace",
        "UPDATE raw_letters SET bytes = CAST('@raw_letters.bytes@' AS BLOB), trace = '@raw_letters.trace@'
         WHERE id = (SELECT raw_id FROM messages WHERE id = {M})"),
    plant("attachments", "filename declared_name content_id bytes",
        "UPDATE attachments SET filename = '@attachments.filename@', declared_name = '@attachments.declared_name@',
           content_id = '@attachments.content_id@', bytes = CAST('@attachments.bytes@' AS BLOB) WHERE message_id = {M}"),
    plant("attachment_texts", "document_json",
        "INSERT OR REPLACE INTO attachment_texts (attachment_id, version, document_json, read_at)
         SELECT id, 1, '{\"x\":\"@attachment_texts.document_json@\"}', '{AT}' FROM attachments WHERE message_id = {M}"),
    plant("letter_part_texts", "words",
        "INSERT OR REPLACE INTO letter_part_texts (seq, thread, words)
         SELECT seq, 'x', '@letter_part_texts.words@' FROM messages WHERE id = {M}"),
    plant("letter_vectors", "vector",
        "INSERT OR REPLACE INTO letter_vectors (seq, model, persona_id, text_sha256, vector)
         SELECT seq, 'm', 'ada', 'x', CAST('@letter_vectors.vector@' AS BLOB) FROM messages WHERE id = {M}"),
    plant("threads", "subject", "UPDATE threads SET subject = '@threads.subject@' WHERE id = {T}"),
    plant("conversations", "subject",
        "UPDATE conversations SET subject = '@conversations.subject@' WHERE id = (SELECT conversation_id FROM threads WHERE id = {T})"),
    plant("deliveries", "bytes", "UPDATE deliveries SET bytes = CAST('@deliveries.bytes@' AS BLOB) WHERE id = {D}"),
    plant("delivery_recipients", "last_reply",
        "UPDATE delivery_recipients SET last_reply = '@delivery_recipients.last_reply@' WHERE delivery_id = {D}"),
    plant("delivery_reports", "diagnostic",
        "INSERT INTO delivery_reports (delivery_id, persona_id, message_id, recipient, kind, action, reason, diagnostic, is_hard,
           believed, changed, created_at)
         VALUES ({D}, 'ada', {M}, '{C}', 'delayed', 'delayed', '', '@delivery_reports.diagnostic@', 0, 0, 0, '{AT}')"),
    plant("events", "uid recurrence_id event_json",
        "INSERT INTO events (persona_id, uid, organizer, recurrence_id, sequence, stamped_at, is_cancelled, event_json, message_id,
           updated_at)
         VALUES ('ada', '@events.uid@', '{C}', '@events.recurrence_id@', 0, '{AT}', 0, '{\"x\":\"@events.event_json@\"}',
           (SELECT id FROM messages WHERE message_id = 'b1@guest.example'), '{AT}')"),
    plant("held_letters", "envelope_json bytes",
        "INSERT INTO held_letters (id, persona_id, sha256, envelope_json, bytes, held_at, next_attempt_at) VALUES ('held', 'ada', 'x',
           '{\"mail_from\":\"{C}\",\"x\":\"@held_letters.envelope_json@\"}', CAST('From: {C}' || char(13, 10, 13, 10) || '@held_letters.bytes@' AS BLOB), '{AT}', '{AT}')"),
    plant("mail_commands", "argument",
        "INSERT INTO mail_commands (message_id, persona_id, rfc_message_id, owner, command, argument, sent_at, received_at, answered_at)
         VALUES ({M}, 'ada', 'c1@partner.test', '{C}', 'reset', '@mail_commands.argument@', '{AT}', '{AT}', '{AT}')"),
    plant("runs", "error_message context_report_json",
        "UPDATE runs SET error_message = '@runs.error_message@', context_report_json = CAST('{\"x\":\"@runs.context_report_json@\"}' AS BLOB)
         WHERE id = {R}"),
    plant("run_turns", "request_json context_json response_json error_message sources_json ended_json packed",
        "UPDATE run_turns SET request_json = '{\"x\":\"@run_turns.request_json@\"}', context_json = '{\"x\":\"@run_turns.context_json@\"}',
           response_json = '{\"x\":\"@run_turns.response_json@\"}', error_message = '@run_turns.error_message@', error_class = 'network',
           sources_json = '{\"x\":\"@run_turns.sources_json@\"}', packed = CAST('@run_turns.packed@' AS BLOB),
           ended_json = '{\"worked_ms\":1,\"error\":{\"message\":\"@run_turns.ended_json@\"}}' WHERE run_id = {R}"),
    plant("thread_tool_events", "payload_json",
        "UPDATE thread_tool_events SET payload_json = json_set(payload_json, '$.args.x', '@thread_tool_events.payload_json@')
         WHERE run_id = {R} AND event_type = 'tool_call'"),
    plant("run_outputs", "json",
        "INSERT INTO run_outputs (run_id, persona_id, schema_sha256, json, repairs, created_at)
         VALUES ({R}, 'ada', 'x', '{\"x\":\"@run_outputs.json@\"}', 0, '{AT}')"),
    plant("contents", "bytes", "INSERT INTO contents (sha256, bytes) VALUES ('x', CAST('@contents.bytes@' AS BLOB))"),
    plant("forks", "change_json record_json",
        "INSERT INTO forks (id, run_id, persona_id, at_turn, change_json, state, record_json, created_at)
         VALUES ('fork', {R}, 'ada', 0, '{\"x\":\"@forks.change_json@\"}', 'succeeded', '{\"x\":\"@forks.record_json@\"}', '{AT}')"),
    plant("hook_calls", "reason",
        "INSERT INTO hook_calls (persona_id, run_id, event, tool, hook_id, hook_sha256, decision, reason, took_ms, asked_at)
         VALUES ('ada', {R}, 'before_run', '', 'h', 'x', 'deny', '@hook_calls.reason@', 1, '{AT}')"),
    plant("provider_calls", "last_failure_message",
        "INSERT INTO provider_calls (provider, calls, last_failure_message) VALUES
           ('scripted', 1, '@provider_calls.last_failure_message@')
         ON CONFLICT (provider, part) DO UPDATE SET last_failure_message = excluded.last_failure_message"),
    plant("provider_sessions", "session_id folder usage_json",
        "INSERT INTO provider_sessions (persona_id, thread_id, provider, model, session_id, folder, options_sha256, state, run_id,
           seen_seq, usage_json, created_at, used_at)
         VALUES ('ada', {T}, 'claude', 'm', '@provider_sessions.session_id@', '@provider_sessions.folder@', 'x', 'resumable', {R}, 0,
           '{\"x\":\"@provider_sessions.usage_json@\"}', '{AT}', '{AT}')"),
    plant("approvals", "call_json view_text reason_json result_json mail_json mail_bytes words evidence_json begun_json",
        "INSERT INTO approvals (id, persona_id, run_id, call_id, kind, tool, call_json, call_sha256, fold_sha256, view_text, reason_json,
           label_json, result_json, mail_json, mail_bytes, parks, requested_at, expires_at, remind_at, state, words, evidence_json,
           begun_json)
         VALUES ('approval', 'ada', {R}, 'c', 'question', 'ask_owner', '{\"x\":\"@approvals.call_json@\"}', 'x', 'x',
           '@approvals.view_text@', '{\"why\":\"@approvals.reason_json@\"}', '{}', '{\"x\":\"@approvals.result_json@\"}',
           '{\"x\":\"@approvals.mail_json@\"}', CAST('@approvals.mail_bytes@' AS BLOB), 0, '{AT}', '{AT}', '{AT}', 'answered',
           '@approvals.words@', '{\"x\":\"@approvals.evidence_json@\"}', '{\"x\":\"@approvals.begun_json@\"}')"),
    plant("approval_versions", "view_text mail_json mail_bytes",
        "INSERT INTO approval_versions (approval_id, version, call_sha256, view_text, mail_json, mail_bytes, replaced_at, replaced_by)
         VALUES ('approval', 0, 'x', '@approval_versions.view_text@', '{\"x\":\"@approval_versions.mail_json@\"}',
           CAST('@approval_versions.mail_bytes@' AS BLOB), '{AT}', 'olga')"),
    plant("approval_answers", "report",
        "INSERT INTO approval_answers (message_id, approval_id, outcome, created_at, explain, report)
         VALUES ((SELECT id FROM messages WHERE message_id = 'b1@guest.example'), 'approval', 'answered', '{AT}', 0,
           '@approval_answers.report@')"),
    plant("thread_memory", "problems_json text inputs_json",
        "INSERT INTO thread_memory (id, persona_id, thread_id, run_id, model, state, problems_json, text, text_sha256, from_seq, upto_seq,
           upto_message_id, inputs_json, generation, messages, label_json, readers_json, created_at)
         VALUES ('summary', 'ada', {T}, {R}, 'm', 'usable', '[\"@thread_memory.problems_json@\"]', '@thread_memory.text@', 'x', 1, 1, {M},
           '[\"@thread_memory.inputs_json@\"]', 1, 1, '{}', '\"everyone\"', '{AT}')"),
    plant("thread_instructions", "text",
        "INSERT INTO thread_instructions (id, persona_id, contact, text, given_by, given_at)
         VALUES ('instruction', 'ada', '{C}', '@thread_instructions.text@', 'olga', '{AT}')"),
    plant("notices", "summary hint",
        "INSERT INTO notices (id, persona_id, kind, cause, subject_kind, subject_id, occurrence, summary, hint, emitted_at)
         VALUES ('notice', 'ada', 'run_failed', 'run_failed', 'run', {R}, '', '@notices.summary@', '@notices.hint@', '{AT}')"),
    plant("audit_log", "detail",
        "INSERT INTO audit_log (persona_id, subject_kind, subject_id, decision, rule, detail, created_at)
         VALUES ('ada', 'delivery', {D}, 'denied', 'x', '@audit_log.detail@', '{AT}')"),
    plant("memory", "text",
        "INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust, readers_json, audience_json,
           said_by, said_at, created_at, created_by, confirmed_at)
         VALUES ('entry', 'ada', 'contact', '{C}', 1, 'fact', '@memory.text@', 'x', 'active', 'contact', '\"everyone\"', '[]', '{C}', '{AT}',
           '{AT}', 'model', '{AT}')"),
    plant("memory_sources", "quote",
        "INSERT INTO memory_sources (memory_id, message_id, part, quote_start, quote_end, quote, quote_sha256)
         VALUES ('entry', {M}, 'fresh', 0, 1, '@memory_sources.quote@', 'x')"),
    plant("memory_events", "why",
        "INSERT INTO memory_events (memory_id, act, actor, who, why, at)
         VALUES ('entry', 'created', 'model', 'x', '@memory_events.why@', '{AT}')"),
    plant("responsibility_slots", "prompt_snapshot note",
        "INSERT INTO responsibilities (id, persona_id, file, name, schedule, timezone, enabled, prompt, prompt_sha256, cursor_at, updated_at)
         VALUES ('duty', 'ada', 'duty.md', 'duty', '0 9 * * *', 'UTC', 0, 'x', 'x', '{AT}', '{AT}');
         INSERT INTO responsibility_slots (responsibility_id, slot_at, persona_id, kind, state, run_id, prompt_snapshot, note, created_at)
         VALUES ('duty', '{AT}', 'ada', 'manual', 'fired', {R}, '@responsibility_slots.prompt_snapshot@', '@responsibility_slots.note@', '{AT}')"),
    // Nothing but her words ties these to her.
    plant("persona_file_versions", "text",
        "INSERT INTO persona_file_versions (persona_id, name, bytes, sha256, replaced_at, replaced_by, replaced_with, text)
         VALUES ('ada', 'active.md', 1, 'x', '{AT}', 'owner', 'x', '{VIOLIN} @persona_file_versions.text@')"),
    plant("api_calls", "answer",
        "INSERT INTO api_calls (caller, key, request_sha256, answer, created_at)
         VALUES ('key', 'k', 'x', '{\"x\":\"{VIOLIN} @api_calls.answer@\"}', '{AT}')"),
];
