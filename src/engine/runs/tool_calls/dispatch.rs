//! Tool calls of one answer: executed in order, each call and each result recorded, none left
//! without a result.

use super::policy::{self, Asked, PreparedCall};
use super::verdict::{ToolVerdict, finish, is_failure};
use crate::context::prompt::{defuse_marks, shown_result};
use crate::mutants::is_off;
use crate::providers::{Block, FinishReason, Response};
use crate::runs::approvals::{ask, draft};
use crate::runs::budget::counters::Counters;
use crate::runs::error::RunError;
use crate::runs::hooks::of_call;
use crate::runs::record::outbox::Outbox;
use crate::runs::reply::mail;
use crate::runs::said::conversation::RunConversation;
use crate::runs::state::{LoopState, RunInput};
use crate::store::{ApprovalOfRun, JournalEntry, StepKind};
use crate::tools::{MailPolicy, RegisteredTool, ToolClass};
use serde_json::Value;

/// Error code of a call that was not executed because an earlier call failed.
const SKIPPED: &str = "skipped";

/// Told to a model that goes round in circles.
const HAD_TWICE: &str =
    "you have had this result twice, and it does not change: answer now, with what you have";

/// Executes the calls of an answer and returns their results as blocks, in order. Entries that must
/// be committed before the next provider call are left pending.
pub async fn call_all(
    state: &mut LoopState<'_>,
    response: &Response,
) -> Result<Vec<Block>, RunError> {
    let policy = mail::mail_policy(&state.ctx()).await?;
    let mut results = Vec::new();
    let mut failed: Option<String> = None;
    for (id, name, args) in response.calls() {
        let call = Asked::new(id, name, args);
        if let Some(known) = known_block(state, call) {
            if matches!(known, Block::ToolResult { is_error: true, .. }) && failed.is_none() {
                failed = Some(name.to_owned());
            }
            results.push(known);
            continue;
        }
        if let Some(cause) = &failed {
            let message =
                format!("not executed, because `{cause}` failed before it in the same answer");
            let payload = skip(&state.conversation, &mut state.outbox, call, message);
            results.push(result_block(call, payload));
            continue;
        }
        if had_twice(&state.conversation, call) {
            let payload = skip(
                &state.conversation,
                &mut state.outbox,
                call,
                HAD_TWICE.to_owned(),
            );
            results.push(result_block(call, payload));
            continue;
        }
        let verdict = verdict(state, response, call, &policy).await?;
        let verdict = of_call::after(&state.ctx(), name, verdict).await?;
        let (payload, outcome, terminal) = finish(verdict, name);
        if is_failure(&payload) {
            failed = Some(name.to_owned());
        }
        count(
            &mut state.input,
            &mut state.spending.counters,
            name,
            &payload,
        );
        let ended = call.step(StepKind::Result, payload.clone());
        if let JournalEntry::Step(step) = &ended
            && step.is_in_doubt()
        {
            // For the next calls this step counts as known from an earlier attempt.
            state.conversation.known_steps.push(step.clone());
        }
        state.outbox.pending.push(ended);
        let (draft, write) = outcome.map_or((None, None), |outcome| (outcome.mail, outcome.memory));
        state.outbox.pending.extend(write.map(JournalEntry::Memory));
        if let Some(draft) = draft {
            let draft = mail::outbound(&state.ctx(), *draft)?;
            state.outbox.count_mail(&draft);
            state
                .outbox
                .pending
                .push(JournalEntry::Mail(Box::new(draft)));
        }
        if let Some((class, message)) = terminal {
            skip_rest(&state.conversation, &mut state.outbox, response, id, name);
            state.outbox.commit(None).await?;
            return Err(RunError::Fatal { class, message });
        }
        results.push(result_block(call, payload));
    }
    Ok(results)
}

/// Decides on the call, records it, then executes it; or asks the owner, and then the attempt ends.
async fn verdict(
    state: &mut LoopState<'_>,
    response: &Response,
    call: Asked<'_>,
    mail: &MailPolicy,
) -> Result<ToolVerdict, RunError> {
    let begun = begun(&state.conversation, call);
    let asked = Asked {
        begun: begun.as_ref(),
        ..call
    };
    if let Some(refused) = refused_unseen(state, response, asked) {
        state.outbox.pending.extend(asked.entry(None, None));
        return Ok(refused);
    }
    if let Some(kept) = draft::known(&state.conversation.approvals, asked.id) {
        return Ok(kept);
    }
    if let Some(approved) =
        ask::approved(&state.ctx(), &state.conversation.approvals, asked).cloned()
    {
        return approved_call(state, asked, &approved, mail).await;
    }
    let (entry, ended) = match policy::prepare(&state.ctx(), asked, mail).await? {
        PreparedCall::Ask(outcome, judged) => {
            let outcome = outcome.map(|outcome| *outcome);
            return ask::park(state, asked, judged, outcome, mail).await;
        }
        PreparedCall::Draft(outcome, judged) => {
            return draft::keep(state, asked, judged, *outcome, mail).await;
        }
        PreparedCall::Ended(verdict, judged) => (asked.entry(judged.as_ref(), None), Some(verdict)),
        PreparedCall::Call(judged, expected) => {
            (asked.entry(judged.as_ref(), expected.as_ref()), None)
        }
    };
    // What has no effect before its result commits needs no commit of its own: after a crash the answer is asked for again. But
    // the tool reads what calls before it have changed.
    let class = state.input.tool(asked.name).map(RegisteredTool::class);
    let is_change =
        |entry: &JournalEntry| matches!(entry, JournalEntry::Memory(_) | JournalEntry::Mail(_));
    if ended.is_some()
        || (class == Some(ToolClass::Transactional) && !state.outbox.pending.iter().any(is_change))
    {
        state.outbox.pending.extend(entry);
    } else if let Some(entry) = entry {
        state.outbox.commit(Some(entry)).await?;
    }
    crate::crash::crash_point!("R7");
    let verdict = match ended {
        Some(verdict) => Ok(verdict),
        None => policy::execute(&state.ctx(), asked, mail).await,
    };
    crate::crash::crash_point!("R8");
    verdict
}

/// Executes a call that the owner has approved. Its beginning is committed first: a call that was approved and interrupted
/// goes by its class, like any other.
async fn approved_call(
    state: &mut LoopState<'_>,
    asked: Asked<'_>,
    approved: &ApprovalOfRun,
    mail: &MailPolicy,
) -> Result<ToolVerdict, RunError> {
    let asked = Asked {
        is_approved: true,
        ..asked
    };
    let begun: Option<Value> = match &approved.begun_json {
        Some(json) => Some(serde_json::from_str(json).unwrap_or_default()),
        None => {
            let expected = policy::expected(&state.ctx(), asked, mail).await;
            let entry = JournalEntry::ApprovedBegun {
                approval: approved.id.clone(),
                expected_json: expected.unwrap_or_default().to_string(),
            };
            state.outbox.commit(Some(entry)).await?;
            None
        }
    };
    let asked = Asked {
        begun: begun.as_ref(),
        ..asked
    };
    crate::crash::crash_point!("A4");
    policy::execute(&state.ctx(), asked, mail).await
}

/// Returns the verdict on a call that is not even decided on: one that was cut off, or is one too many.
fn refused_unseen(
    state: &LoopState<'_>,
    response: &Response,
    call: Asked<'_>,
) -> Option<ToolVerdict> {
    if response.stop == FinishReason::MaxTokens {
        let message =
            "the answer was cut off at its length limit, so these arguments may be incomplete";
        return Some(ToolVerdict::Failed {
            code: "truncated",
            message: message.to_owned(),
        });
    }
    let calls_max = match is_off("G27.calls") {
        true => u32::MAX,
        false => state.spending.budget.tool_calls_max,
    };
    policy::refused_unseen(
        &state.ctx(),
        call,
        calls_max,
        &state.conversation.known_steps,
    )
}

/// Gives every call after a terminal failure a result too.
fn skip_rest(
    conversation: &RunConversation,
    outbox: &mut Outbox<'_>,
    response: &Response,
    after: &str,
    cause: &str,
) {
    let rest = response.calls().skip_while(|(id, ..)| *id != after).skip(1);
    for (id, name, args) in rest {
        skip(
            conversation,
            outbox,
            Asked::new(id, name, args),
            format!("not executed, because `{cause}` ended the run"),
        );
    }
}

/// Reports whether a call was made twice before in this run, with one result both times. Failures have bounds of their own.
fn had_twice(conversation: &RunConversation, call: Asked<'_>) -> bool {
    let blocks = || conversation.said.iter().flat_map(|message| &message.blocks);
    let same: Vec<&str> = blocks()
        .filter_map(|block| match block {
            Block::ToolCall { id, name, args, .. } if name == call.name && args == call.args => {
                Some(id.as_str())
            }
            _ => None,
        })
        .collect();
    let mut results: Vec<&str> = blocks()
        .filter_map(|block| match block {
            Block::ToolResult {
                call_id,
                content,
                is_error: false,
                ..
            } if same.contains(&call_id.as_str()) => Some(content.as_str()),
            _ => None,
        })
        .collect();
    let count = results.len();
    results.sort_unstable();
    results.dedup();
    results.len() < count
}

/// Records a skipped call as a call row and a result row, so that every trace is balanced. Returns
/// the result.
fn skip(
    conversation: &RunConversation,
    outbox: &mut Outbox<'_>,
    call: Asked<'_>,
    message: String,
) -> String {
    let (result, ..) = finish(
        ToolVerdict::Failed {
            code: SKIPPED,
            message,
        },
        call.name,
    );
    if begun(conversation, call).is_none() {
        outbox.pending.extend(call.entry(None, None));
    }
    outbox
        .pending
        .push(call.step(StepKind::Result, result.clone()));
    result
}

/// Returns the expected effect of a call that an earlier attempt recorded without a result; `Null`
/// when no effect was expected.
fn begun(conversation: &RunConversation, call: Asked<'_>) -> Option<Value> {
    let known = conversation.known_step(StepKind::Call, call.id);
    known.map(|step| step.begun().unwrap_or_default())
}

fn count(input: &mut RunInput<'_>, counters: &mut Counters, name: &str, payload: &str) {
    input.label = input.label.clone().after(&input.deps.tools, name, payload);
    if !is_skipped(payload) {
        counters.tool_calls += 1;
        counters.tool_failures += u32::from(is_failure(payload));
    }
}

fn result_block(call: Asked<'_>, content: String) -> Block {
    let shown = shown_result(&content);
    Block::ToolResult {
        call_id: call.id.to_owned(),
        name: call.name.to_owned(),
        content: match is_own(&content) {
            true => shown,
            false => defuse_marks(&shown),
        },
        is_error: is_failure(&content),
    }
}

/// Reports whether only the persona and its owner wrote a result: it is told as it stands, because it may be edited, or written back.
fn is_own(payload: &str) -> bool {
    let parsed: Value = serde_json::from_str(payload).unwrap_or_default();
    parsed["label"].is_object() && parsed["label"]["lowest"].is_null()
}

/// Returns the results that an earlier attempt recorded for an answer, and counts them again.
pub fn known_blocks(state: &mut LoopState<'_>, response: &Response) -> Vec<Block> {
    response
        .calls()
        .filter_map(|(id, name, args)| known_block(state, Asked::new(id, name, args)))
        .collect()
}

/// Returns the recorded result of a call, if there is one, and counts it.
fn known_block(state: &mut LoopState<'_>, call: Asked<'_>) -> Option<Block> {
    let known = state.conversation.known_step(StepKind::Result, call.id)?;
    let known = known.payload_json.clone();
    count(
        &mut state.input,
        &mut state.spending.counters,
        call.name,
        &known,
    );
    Some(result_block(call, known))
}

/// Reports whether a result payload belongs to a skipped call.
fn is_skipped(payload: &str) -> bool {
    let parsed: Option<Value> = serde_json::from_str(payload).ok();
    parsed.is_some_and(|value| value["ok"] == false && value["error"]["code"] == SKIPPED)
}
