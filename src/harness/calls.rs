//! The tool calls of one answer: executed in order, each call and each result recorded, none left without a result.

use super::desk::RunError;
use super::gate::{self, Asked, Verdict, is_failure, settle};
use super::providers::{Block, Response, Stop, ToolArgs};
use super::reply;
use super::work::Work;
use crate::store::{Entry, Executor, Step, StepKind};
use crate::tools::MailPolicy;
use serde_json::Value;

/// The code of a call that was not executed because of another one.
const SKIPPED: &str = "skipped";

/// One call of an answer.
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    args: &'a ToolArgs,
}

/// Executes the calls of an answer and gives their results as blocks, in order. What must be committed before the
/// next provider call is left pending.
pub async fn call_all(work: &mut Work<'_>, response: &Response) -> Result<Vec<Block>, RunError> {
    let mail = reply::mail_policy(&work.gate()).await?;
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
        count(work, name, &payload);
        let ended = step(&call, StepKind::Result, payload.clone());
        if let Entry::Step(step) = &ended
            && step.is_in_doubt()
        {
            // Known from an earlier attempt, as far as what comes next is concerned.
            work.known_steps.push(step.clone());
        }
        work.pending.push(ended);
        if let Some(draft) = outcome.and_then(|outcome| outcome.mail) {
            let mail = reply::outbound(&work.gate(), draft)?;
            work.count_mail(&mail);
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
    let begun = begun(work, call);
    if begun.is_none() {
        let asked = Asked { id: call.id, name: call.name, args: call.args, begun: None };
        let foreseen = gate::begin(&work.gate(), asked, mail).await;
        let entry = step(call, StepKind::Call, gate::call_payload(call.args, foreseen));
        work.commit(Some(entry)).await?;
    }
    if response.stop == Stop::MaxTokens {
        let message = "the answer was cut off at its length limit, so these arguments may be incomplete";
        return Ok(Verdict::Failed { code: "truncated", message: message.to_owned() });
    }
    if work.meter.tool_calls >= work.budget().tool_calls_max {
        return Ok(gate::used_up());
    }
    let tool = work.tools.iter().copied().find(|tool| tool.name() == call.name);
    if tool.is_some_and(|tool| gate::asks_again(tool, &work.known_steps, call.name, call.args)) {
        return Ok(gate::not_again());
    }
    crate::crash::crash_point!("R7");
    let asked = Asked { id: call.id, name: call.name, args: call.args, begun: begun.as_ref() };
    let verdict = gate::execute(&work.gate(), asked, mail).await;
    crate::crash::crash_point!("R8");
    verdict
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
    if begun(work, call).is_none() {
        let entry = step(call, StepKind::Call, gate::call_payload(call.args, None));
        work.pending.push(entry);
    }
    let entry = step(call, StepKind::Result, result.clone());
    work.pending.push(entry);
    result
}

/// What an earlier attempt foresaw that recorded the call and no result; `Null` when there was nothing to foresee.
fn begun(work: &Work<'_>, call: &Call<'_>) -> Option<Value> {
    let is_it = |step: &&Step| step.kind == StepKind::Call && step.tool_call_id == call.id;
    work.known_steps.iter().find(is_it).map(|step| step.begun().unwrap_or_default())
}

fn step(call: &Call<'_>, kind: StepKind, payload_json: String) -> Entry {
    Entry::Step(Step {
        kind,
        executor: Executor::Engine,
        tool_name: call.name.to_owned(),
        tool_call_id: call.id.to_owned(),
        payload_json,
    })
}

fn count(work: &mut Work<'_>, name: &str, payload: &str) {
    work.label = work.label.after(name, payload);
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
    count(work, call.name, &known);
    Some(result_block(call, known))
}

/// Whether a result payload says that the call was not executed because of another one.
fn is_skipped(payload: &str) -> bool {
    let parsed: Option<Value> = serde_json::from_str(payload).ok();
    parsed.is_some_and(|value| value["ok"] == false && value["error"]["code"] == SKIPPED)
}
