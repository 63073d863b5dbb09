//! Loads the record of a run or of a thread from the store. Reads only.

use super::{
    AttachmentRecord, CallRecord, DeliveryRecord, ErrorRecord, MailRecord, MessageRecord,
    OutputRecord, RecipientRecord, RunRecord, RunRow, ThreadRecord, TurnRecord,
};
use crate::domain::{RunId, ThreadId, Timestamp};
use crate::store::{
    AttachmentInfo, Delivery, Result, RunSummary, Step, StepKind, Store, StoreError, StoredMessage,
    StoredOutput, StoredTurn,
};
use serde_json::Value;

/// Loads everything about one run. Errors: [`StoreError::Missing`].
pub async fn load_run(store: &Store, id: &RunId) -> Result<RunRecord> {
    let summary = store.run_summary(id).await?;
    let persona = store.persona(&summary.persona);
    let trigger = persona.message(&summary.trigger_message).await?;
    let attachments = persona.attachment_infos(&summary.trigger_message).await?;
    let context = match persona.context_report(id).await? {
        None => None,
        Some(json) => {
            serde_json::from_str(&json)
                .map(Some)
                .map_err(|_| StoreError::Unreadable {
                    what: "context report of a run",
                })?
        }
    };
    let turns: Vec<TurnRecord> = persona
        .turns_of_run(id)
        .await?
        .into_iter()
        .map(turn)
        .collect();
    let calls = pair(persona.timed_steps_of_run(id).await?, &turns);
    let deliveries: Vec<Delivery> = persona
        .deliveries_of_run(id)
        .await?
        .into_iter()
        .map(|frozen| frozen.delivery)
        .collect();
    let mut mails = Vec::new();
    for mail in persona.mails_of_run(id).await? {
        let delivery = deliveries
            .iter()
            .find(|delivery| delivery.message_id == mail.id)
            .map(delivery);
        let attachments = persona.attachment_infos(&mail.id).await?;
        mails.push(MailRecord {
            message: message_record(mail, attachments),
            delivery,
        });
    }
    Ok(RunRecord {
        run: run_record(&summary),
        slot: persona.slot_of_run(id).await?.map(Into::into),
        trigger: message_record(trigger, attachments),
        context,
        turns,
        calls,
        mails,
        output: persona.output_of_run(id).await?.map(output).transpose()?,
        hooks: store.hooks_of_run(id).await?,
    })
}

fn output(stored: StoredOutput) -> Result<OutputRecord> {
    let StoredOutput { output, created_at } = stored;
    let value = serde_json::from_str(&output.json);
    Ok(OutputRecord {
        value: value.map_err(|_| StoreError::Unreadable {
            what: "output of a run",
        })?,
        schema_sha256: output.schema_sha256,
        repairs: output.repairs,
        created_at: created_at.to_string(),
    })
}

/// Loads a thread with its last `messages_max` messages and last `runs_max` runs. Errors:
/// [`StoreError::Missing`].
pub async fn load_thread(
    store: &Store,
    id: &ThreadId,
    messages_max: u32,
    runs_max: u32,
) -> Result<ThreadRecord> {
    let summary = store.thread_summary(id).await?;
    let persona = store.persona(&summary.persona);
    let messages = persona.thread_messages(id, messages_max).await?;
    let mut runs = Vec::new();
    for run in persona.thread_runs(id, runs_max).await? {
        runs.push(load_run(store, &run.id).await?);
    }
    Ok(ThreadRecord {
        id: summary.id.to_string(),
        persona: summary.persona.to_string(),
        conversation: summary.conversation.to_string(),
        subject: summary.subject,
        participants: summary.participants,
        messages: messages
            .into_iter()
            .map(|found| message_record(found.message, found.attachments))
            .collect(),
        runs,
    })
}

fn run_record(run: &RunSummary) -> RunRow {
    RunRow {
        id: run.id.to_string(),
        persona: run.persona.to_string(),
        thread: run.thread.to_string(),
        trigger: run.trigger.to_string(),
        profile: run.profile.clone(),
        state: run.state.to_string(),
        attempt: run.attempt,
        next_attempt_at: text(run.next_attempt_at),
        cancel_requested_at: text(run.cancel_requested_at),
        provider: run.provider.clone(),
        model: run.model.clone(),
        stop_reason: run.stop_reason.map(|stop| stop.to_string()),
        error: run.error_class.map(|class| ErrorRecord {
            class: class.to_string(),
            message: run.error_message.clone().unwrap_or_default(),
        }),
        usage: run.usage.into(),
        limits: run.limits_json.as_deref().map(json),
        created_at: run.created_at.to_string(),
        started_at: text(run.started_at),
        finished_at: text(run.finished_at),
        answered_by: run.answered_by.as_ref().map(RunId::to_string),
    }
}

/// Returns a message as records hold it.
pub fn message_record(message: StoredMessage, attachments: Vec<AttachmentInfo>) -> MessageRecord {
    let attachment = |found: AttachmentInfo| AttachmentRecord {
        filename: found.filename,
        content_type: found.content_type,
        size_bytes: found.size_bytes,
    };
    let metadata = json(&message.metadata_json);
    let identity = |key: &str| {
        metadata["identity"][key]
            .as_str()
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    MessageRecord {
        id: message.id.to_string(),
        direction: message.direction,
        rfc_message_id: message.rfc_message_id,
        in_reply_to: message.in_reply_to,
        sender: message.sender,
        recipients: json(&message.recipients_json),
        subject: message.subject,
        text: message.text_body,
        fresh_text: message.fresh_text,
        received_at: message.received_at.to_string(),
        trust: message.trust,
        trust_basis: identity("basis"),
        authentication_results: identity("results"),
        disposition: message.disposition,
        run: message.run.map(|run| run.to_string()),
        attachments: attachments.into_iter().map(attachment).collect(),
    }
}

fn turn(turn: StoredTurn) -> TurnRecord {
    let (request, request_text) = exactly(turn.request_json);
    let response = turn.response_json.map(exactly);
    let (response, response_text) =
        response.map_or((None, None), |(value, text)| (Some(value), text));
    TurnRecord {
        turn_index: turn.turn_index,
        attempt: turn.attempt,
        state: turn.state,
        provider: turn.provider,
        model: turn.model,
        usage: turn.usage.into(),
        error: turn.error_class.map(|class| ErrorRecord {
            class,
            message: turn.error_message.unwrap_or_default(),
        }),
        started_at: turn.started_at.to_string(),
        finished_at: text(turn.finished_at),
        request_sha256: turn.request_sha256,
        request,
        request_text,
        response,
        response_text,
        pruned_at: text(turn.pruned_at),
        redacted_at: text(turn.redacted_at),
    }
}

/// Pairs calls with their results, in the order of the calls.
fn pair(steps: Vec<(Step, Timestamp)>, turns: &[TurnRecord]) -> Vec<CallRecord> {
    let mut calls: Vec<CallRecord> = Vec::new();
    for (step, at) in steps {
        let payload = json(&step.payload_json);
        match step.kind {
            StepKind::Call => calls.push(CallRecord {
                turn_index: asking_turn(turns, &step.tool_call_id, &at.to_string()),
                executor: step.executor.as_str().to_owned(),
                id: step.tool_call_id,
                tool: step.tool_name,
                call: payload,
                result: None,
                called_at: at.to_string(),
                finished_at: None,
            }),
            StepKind::Result => {
                let call = calls.iter_mut().find(|call| call.id == step.tool_call_id);
                if let Some(call) = call {
                    (call.result, call.finished_at) = (Some(payload), Some(at.to_string()));
                }
            }
        }
    }
    calls
}

/// Returns the turn whose answer has the call; for a call of an agent's, which no answer has, the
/// turn during which it was made.
fn asking_turn(turns: &[TurnRecord], call_id: &str, at: &str) -> Option<u32> {
    // Instants have one format, so their texts sort as they do.
    let during = |turn: &&TurnRecord| {
        turn.started_at.as_str() <= at && turn.finished_at.as_deref().is_some_and(|end| at <= end)
    };
    let answered = || turns.iter().filter(|turn| turn.state == "answered");
    let asking = turns.iter().find(|turn| asks_for(turn, call_id));
    let asking = asking.or_else(|| {
        answered()
            .find(during)
            .filter(|_| !call_id.starts_with('c'))
    });
    asking.map(|turn| turn.turn_index)
}

fn asks_for(turn: &TurnRecord, call_id: &str) -> bool {
    let blocks = turn
        .response
        .as_ref()
        .and_then(|response| response["blocks"].as_array());
    blocks.is_some_and(|blocks| {
        blocks
            .iter()
            .any(|block| block["type"] == "tool_call" && block["id"] == call_id)
    })
}

fn delivery(delivery: &Delivery) -> DeliveryRecord {
    let recipients = delivery.recipients.iter().map(|found| RecipientRecord {
        recipient: found.recipient.clone(),
        state: found.state.as_str().to_owned(),
        attempts: found.attempts,
        next_attempt_at: text(found.next_attempt_at),
        last_code: found.last_code,
        last_reply: found.last_reply.clone(),
    });
    DeliveryRecord {
        id: delivery.id.to_string(),
        state: delivery.state.as_str().to_owned(),
        attempts: delivery.attempts,
        next_attempt_at: text(delivery.next_attempt_at),
        possible_duplicate: delivery.possible_duplicate,
        envelope_from: delivery.envelope_from.clone(),
        size_bytes: delivery.size_bytes,
        recipients: recipients.collect(),
    }
}

fn text(at: Option<Timestamp>) -> Option<String> {
    at.map(|at| at.to_string())
}

/// Parses a text as JSON; returns the text too where the value alone would not restore it.
fn exactly(text: String) -> (Value, Option<String>) {
    let value = json(&text);
    let written = value.to_string();
    (value, (written != text).then_some(text))
}

/// Parses stored JSON; invalid JSON becomes a JSON string, so that nothing is lost.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}
