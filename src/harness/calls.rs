//! The tool calls of one answer: executed in order, each call and each result recorded, none left without a result.

use super::desk::RunError;
use super::providers::{Block, Response, Stop, ToolArgs};
use super::quota;
use super::reply;
use super::work::Work;
use crate::domain::{ErrorClass, Withheld};
use crate::store::{Entry, Step, StepKind};
use crate::tools::{self, MailPolicy, Tool, ToolCall, ToolClass, ToolError, ToolLimits, ToolOutcome};
use serde_json::{Value, json};

/// The code of a call that was not executed because of another one.
const SKIPPED: &str = "skipped";

/// One call of an answer.
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    args: &'a ToolArgs,
}

/// How one call ended.
enum Verdict {
    Done(ToolOutcome),
    /// The model may mend it; the rest of the batch is skipped.
    Failed {
        code: &'static str,
        message: String,
    },
    /// The run ends after this result is recorded.
    Terminal {
        class: ErrorClass,
        message: String,
    },
}

/// Executes the calls of an answer and gives their results as blocks, in order. What must be committed before the
/// next provider call is left pending.
pub async fn call_all(work: &mut Work<'_>, response: &Response) -> Result<Vec<Block>, RunError> {
    let mail = reply::mail_policy(work).await?;
    let mut results = Vec::new();
    let mut failed: Option<String> = None;
    for (id, name, args) in response.calls() {
        let call = Call { id, name, args };
        if let Some(known) = known_block(work, &call) {
            if matches!(known, Block::ToolResult { is_error: true, .. }) && failed.is_none() {
                failed = Some(name.to_owned());
            }
            results.push(known);
            continue;
        }
        if let Some(culprit) = &failed {
            let message = format!("not executed, because `{culprit}` failed before it in the same answer");
            let payload = skip(work, &call, message);
            results.push(result_block(&call, payload));
            continue;
        }
        let verdict = verdict(work, response, &call, &mail).await?;
        let (payload, outcome, terminal) = settle(verdict, name);
        if is_failure(&payload) {
            failed = Some(name.to_owned());
        }
        count(work, &payload);
        let entry = step(work, &call, StepKind::Result, payload.clone());
        work.pending.push(entry);
        if let Some(draft) = outcome.and_then(|outcome| outcome.mail) {
            let mail = reply::outbound(work, draft)?;
            work.pending.push(Entry::Mail(Box::new(mail)));
        }
        if let Some((class, message)) = terminal {
            skip_rest(work, response, id, name);
            work.commit(None).await?;
            return Err(RunError::Fatal { class, message });
        }
        results.push(result_block(&call, payload));
    }
    Ok(results)
}

/// Records the call, then runs it, unless something speaks against running it at all.
async fn verdict(
    work: &mut Work<'_>,
    response: &Response,
    call: &Call<'_>,
    mail: &MailPolicy,
) -> Result<Verdict, RunError> {
    let tool = work.tools.iter().copied().find(|tool| tool.name() == call.name);
    if !was_started(work, call) {
        let entry = step(work, call, StepKind::Call, call_payload(call));
        work.commit(Some(entry)).await?;
    } else if tool.is_some_and(|tool| tool.class() == ToolClass::Once) {
        let message = "the engine restarted while this call was running; it may or may not have taken effect";
        return Ok(Verdict::Failed { code: "outcome_unknown", message: message.to_owned() });
    }
    if response.stop == Stop::MaxTokens {
        let message = "the answer was cut off at its length limit, so these arguments may be incomplete";
        return Ok(Verdict::Failed { code: "truncated", message: message.to_owned() });
    }
    if work.meter.tool_calls >= work.budget().tool_calls_max {
        let message = "this run has used up the number of tool calls it may make";
        return Ok(Verdict::Failed { code: "limit", message: message.to_owned() });
    }
    let Some(tool) = tool else {
        let offered: Vec<&str> = work.tools.iter().map(|tool| tool.name()).collect();
        let message = format!("no tool `{}`; there are: {}", call.name, offered.join(", "));
        return Ok(Verdict::Terminal { class: ErrorClass::UnknownTool, message });
    };
    execute(work, tool, call, mail).await
}

async fn execute(
    work: &Work<'_>,
    tool: &'static dyn Tool,
    call: &Call<'_>,
    mail: &MailPolicy,
) -> Result<Verdict, RunError> {
    let args = match call.args {
        ToolArgs::Object(args) => args,
        ToolArgs::Malformed { error, .. } => {
            let message = format!("the arguments are not a JSON object: {error}");
            return Ok(Verdict::Failed { code: "malformed_arguments", message });
        }
    };
    if let Err(message) = tools::check_args(tool, args) {
        return Ok(Verdict::Failed { code: "invalid_arguments", message });
    }
    let mail = MailPolicy { mails_sent: work.mails_sent, ..mail.clone() };
    let limits = &work.desk.config.limits;
    let limits = ToolLimits {
        result_bytes_max: limits.tool_result_bytes_max,
        file_bytes_max: limits.file_bytes_max,
        memory_bytes_max: limits.memory_bytes_max,
        attachments_bytes_max: limits.attachments_bytes_max,
    };
    let tool_call = ToolCall {
        args,
        store: &work.store,
        folder: &work.folder,
        mail: &mail,
        limits: &limits,
        clock: work.desk.clock.as_ref(),
    };
    let running = tool.call(tool_call);
    let outcome = tokio::select! {
        outcome = running => outcome,
        () = work.cancel.cancelled() => {
            let message = "the run was cancelled while this call was running".to_owned();
            return Ok(Verdict::Terminal { class: ErrorClass::Cancelled, message });
        }
    };
    Ok(match outcome {
        Ok(outcome) => match &outcome.mail {
            Some(draft) => match quota::forbidden(work, draft).await? {
                Some(rule) => Verdict::Failed { code: rule.as_str(), message: told(rule) },
                None => Verdict::Done(outcome),
            },
            None => Verdict::Done(outcome),
        },
        Err(ToolError::Mendable { code, message }) => Verdict::Failed { code, message },
        Err(ToolError::UnsupportedAction(action)) => Verdict::Terminal {
            class: ErrorClass::UnsupportedAction,
            message: format!("this engine does not offer {action}"),
        },
        Err(ToolError::OutboundNotConfigured) => Verdict::Terminal {
            class: ErrorClass::OutboundNotConfigured,
            message: "no outbound transport is configured".to_owned(),
        },
        Err(ToolError::Store(error)) => return Err(RunError::Store(error)),
    })
}

/// Why a draft is not queued, for the model.
fn told(rule: Withheld) -> String {
    let why = match rule {
        Withheld::HopLimit => "this mail has gone from persona to persona as often as a mail may",
        Withheld::Alternations => "this thread has had as many answers as it may have for today",
        _ => "one of its recipients has had as many mails from you as they may have for now",
    };
    format!("not sent: {why}; another try in this run will not help, so finish without it")
}

type Settled = (String, Option<ToolOutcome>, Option<(ErrorClass, String)>);

/// The result as the model reads it, and what follows from it.
fn settle(verdict: Verdict, name: &str) -> Settled {
    let failure = |code: &str, message: &str| {
        json!({ "ok": false, "tool": name, "error": { "code": code, "message": message } }).to_string()
    };
    match verdict {
        Verdict::Done(mut outcome) => {
            let result = std::mem::replace(&mut outcome.result, Value::Null);
            (json!({ "ok": true, "result": result }).to_string(), Some(outcome), None)
        }
        Verdict::Failed { code, message } => (failure(code, &message), None, None),
        Verdict::Terminal { class, message } => {
            (failure(class.as_str(), &message), None, Some((class, message)))
        }
    }
}

/// Every call after a terminal failure is closed with a result too.
fn skip_rest(work: &mut Work<'_>, response: &Response, after: &str, culprit: &str) {
    let rest = response.calls().skip_while(|(id, ..)| *id != after).skip(1);
    for (id, name, args) in rest {
        skip(work, &Call { id, name, args }, format!("not executed, because `{culprit}` ended the run"));
    }
}

/// A skipped call has a call row as well as a result row, so that every trace is balanced. Gives the result.
fn skip(work: &mut Work<'_>, call: &Call<'_>, message: String) -> String {
    let (result, ..) = settle(Verdict::Failed { code: SKIPPED, message }, call.name);
    if !was_started(work, call) {
        let entry = step(work, call, StepKind::Call, call_payload(call));
        work.pending.push(entry);
    }
    let entry = step(work, call, StepKind::Result, result.clone());
    work.pending.push(entry);
    result
}

/// What a call row holds.
fn call_payload(call: &Call<'_>) -> String {
    match call.args {
        ToolArgs::Object(args) => json!({ "args": args }).to_string(),
        ToolArgs::Malformed { raw, error } => json!({ "malformed": raw, "error": error }).to_string(),
    }
}

/// An earlier attempt recorded the call and no result.
fn was_started(work: &Work<'_>, call: &Call<'_>) -> bool {
    work.known_steps.iter().any(|step| step.kind == StepKind::Call && step.tool_call_id == call.id)
}

fn step(work: &mut Work<'_>, call: &Call<'_>, kind: StepKind, payload_json: String) -> Entry {
    let step_index = work.next_step;
    work.next_step += 1;
    Entry::Step(Step {
        step_index,
        kind,
        tool_name: call.name.to_owned(),
        tool_call_id: call.id.to_owned(),
        payload_json,
    })
}

fn count(work: &mut Work<'_>, payload: &str) {
    if !is_skipped(payload) {
        work.meter.tool_calls += 1;
        work.meter.tool_failures += u32::from(is_failure(payload));
    }
}

fn result_block(call: &Call<'_>, content: String) -> Block {
    let is_error = is_failure(&content);
    Block::ToolResult { call_id: call.id.to_owned(), name: call.name.to_owned(), content, is_error }
}

/// The results that an earlier attempt recorded for an answer, counted as they were then.
pub fn known_blocks(work: &mut Work<'_>, response: &Response) -> Vec<Block> {
    response.calls().filter_map(|(id, name, args)| known_block(work, &Call { id, name, args })).collect()
}

/// The recorded result of a call, when there is one; counts it.
fn known_block(work: &mut Work<'_>, call: &Call<'_>) -> Option<Block> {
    let is_its_result = |step: &&Step| step.kind == StepKind::Result && step.tool_call_id == call.id;
    let known = work.known_steps.iter().find(is_its_result)?.payload_json.clone();
    count(work, &known);
    Some(result_block(call, known))
}

/// Whether a result payload says that the call failed.
fn is_failure(payload: &str) -> bool {
    payload.starts_with("{\"ok\":false")
}

/// Whether a result payload says that the call was not executed because of another one.
fn is_skipped(payload: &str) -> bool {
    let parsed: Option<Value> = serde_json::from_str(payload).ok();
    parsed.is_some_and(|value| value["ok"] == false && value["error"]["code"] == SKIPPED)
}
