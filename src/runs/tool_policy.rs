//! Tool policy: the only way to a tool, for calls of our own loop and of an agent through
//! `attache mcp serve`: schema, mail policy, limits, and the form of a result.
//!
//! Absent on purpose: writing. The caller records the call before and commits the result with its
//! effect.

use super::deps::{RunDeps, RunError};
use super::label::RunLabel;
use super::run_store::CallOrder;
use super::send_limits;
use crate::config::Persona;
use crate::context::resolvers::Subject;
use crate::domain::{ErrorClass, Withheld};
use crate::providers::ToolArgs;
use crate::store::{ClaimedRun, JournalEntry, PersonaStore, Step, StepKind};
use crate::tools::{
    self, CallTrace, MailPolicy, RegisteredTool, ToolCall, ToolClass, ToolEnv, ToolError,
    ToolLimits, ToolOutcome, ToolResources, WriteOrigin,
};
use cap_std::fs_utf8::Dir;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Context of a call: its run, and what that run has sent so far.
pub struct ToolCallContext<'w> {
    pub deps: &'w RunDeps,
    pub run: &'w ClaimedRun,
    pub persona: &'w Persona,
    pub subject: &'w Subject,
    pub tools: &'w [Arc<RegisteredTool>],
    /// Permissions of the run, by what it has read.
    pub label: RunLabel,
    pub cancel: &'w CancellationToken,
    pub mails_sent: usize,
    /// `true`: some mail of this run answered the trigger.
    pub replied: bool,
    /// Entries of this run that are not yet committed.
    pub pending: &'w [JournalEntry],
}

/// End of one call.
pub enum Verdict {
    Done(ToolOutcome),
    /// Recorded result, whose effect was committed with it.
    Known(String),
    /// The model may correct the call; the rest of the batch is skipped.
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

/// Returns the verdict on a call beyond the run's limit.
pub fn used_up() -> Verdict {
    let message = "this run has used up the number of tool calls it may make";
    Verdict::Failed {
        code: "limit",
        message: message.to_owned(),
    }
}

/// Returns the verdict on a mail when another process of this run has sent the last permitted one.
pub fn no_more_mails(max: u32) -> Verdict {
    Verdict::Failed {
        code: tools::MAIL_LIMIT_REACHED,
        message: tools::no_more_mails(max as usize),
    }
}

/// Error code of a call of which it is unknown whether it has happened.
pub const OUTCOME_UNKNOWN: &str = "outcome_unknown";

/// One call as the model requested it.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub args: &'a ToolArgs,
    /// Expected effects, when an earlier attempt began it.
    pub begun: Option<&'a Value>,
}

/// Returns the expected effects to record before a call begins:
/// [`Env::expected_effects`](super::run_store::Env::expected_effects).
pub async fn begin(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    mail: &MailPolicy,
) -> Option<Value> {
    let tool = ctx.tools.iter().find(|tool| tool.name() == asked.name)?;
    let is_seen = matches!(tool.class(), ToolClass::Verifiable | ToolClass::Once);
    match asked.args {
        ToolArgs::Object(args) if is_seen && tool.check_args(args).is_ok() => {
            ctx.deps
                .env
                .expected_effects(
                    ctx,
                    CallOrder {
                        id: asked.id,
                        tool,
                        args,
                        mail,
                        begun: None,
                    },
                )
                .await
        }
        _ => None,
    }
}

/// Executes a call that is recorded, unless the policy refuses it.
pub async fn execute(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    mail: &MailPolicy,
) -> Result<Verdict, RunError> {
    let Asked {
        id,
        name,
        args,
        begun,
    } = asked;
    let Some(tool) = ctx.tools.iter().find(|tool| tool.name() == name) else {
        return Ok(not_offered(ctx, name));
    };
    if let Some(why) = ctx.label.closed(tool.effects()) {
        return Ok(closed(name, why));
    }
    let args = match args {
        ToolArgs::Object(args) => args,
        ToolArgs::Malformed { error, .. } => {
            let message = format!("the arguments are not a JSON object: {error}");
            return Ok(Verdict::Failed {
                code: "malformed_arguments",
                message,
            });
        }
    };
    if let Err(message) = tool.check_args(args) {
        return Ok(Verdict::Failed {
            code: "invalid_arguments",
            message,
        });
    }
    let mail = ctx.label.limit(MailPolicy {
        mails_sent: ctx.mails_sent,
        ..mail.clone()
    });
    ctx.deps
        .env
        .call(
            ctx,
            CallOrder {
                id,
                tool,
                args,
                mail: &mail,
                begun,
            },
        )
        .await
}

/// Returns the verdict on a call of a tool that the run was not offered: it lists the offered ones.
/// It counts as a failure and as an unusable call, so that a model which goes on inventing tools is
/// stopped.
fn not_offered(ctx: &ToolCallContext<'_>, name: &str) -> Verdict {
    let is_closed = ctx.deps.tools.iter().find(|tool| tool.name() == name);
    let is_closed = is_closed.and_then(|tool| ctx.label.closed(tool.effects()));
    if let Some(why) = is_closed {
        return closed(name, why);
    }
    let offered: Vec<&str> = ctx.tools.iter().map(|tool| tool.name()).collect();
    if offered.is_empty() {
        let message = "this run has no tools; answer in words".to_owned();
        return Verdict::Failed {
            code: UNKNOWN_TOOL,
            message,
        };
    }
    let shown: String = name
        .chars()
        .filter(|c| !c.is_control())
        .take(SHOWN_NAME_CHARS)
        .collect();
    let nearness = |offered: &str| strsim::jaro_winkler(offered, &shown.to_lowercase());
    let mut near: Vec<&str> = offered
        .iter()
        .copied()
        .filter(|offered| nearness(offered) > NEAR)
        .collect();
    near.sort_by(|a, b| nearness(b).total_cmp(&nearness(a)));
    let near = match near.is_empty() {
        true => String::new(),
        false => format!(
            "did you mean `{}`; ",
            near[..near.len().min(NEAREST)].join("` or `")
        ),
    };
    let message = format!("no tool `{shown}`; {near}there are: {}", offered.join(", "));
    Verdict::Failed {
        code: UNKNOWN_TOOL,
        message,
    }
}

fn closed(name: &str, why: &str) -> Verdict {
    let message = format!("`{name}` is closed to this run: {why}");
    Verdict::Failed {
        code: "tool_closed",
        message,
    }
}

/// Error code of a call to an unknown tool.
pub const UNKNOWN_TOOL: &str = "unknown_tool";
const SHOWN_NAME_CHARS: usize = 64;
/// Lowest similarity of a name that is suggested instead, from 0 to 1.
const NEAR: f64 = 0.8;
const NEAREST: usize = 3;

/// Store and folder that tools work on.
struct Place {
    limits: ToolLimits,
    origin: WriteOrigin,
}

impl Place {
    fn of(ctx: &ToolCallContext<'_>) -> Self {
        let limits = &ctx.deps.config.limits;
        let limits = ToolLimits {
            result_bytes_max: limits.tool_result_bytes_max,
            file_bytes_max: limits.file_bytes_max,
            memory_bytes_max: limits.memory_bytes_max,
            attachments_bytes_max: limits.attachments_bytes_max,
        };
        Self {
            limits,
            origin: ctx.label.origin(ctx.subject),
        }
    }

    fn call<'a>(
        &'a self,
        ctx: &'a ToolCallContext<'_>,
        order: CallOrder<'a>,
        store: &'a PersonaStore,
        folder: &'a Dir,
    ) -> ToolCall<'a> {
        let clock = ctx.deps.clock.as_ref();
        let (run, limits, origin) = (&ctx.run.id, &self.limits, &self.origin);
        let reader = ctx.label.reader();
        let resources = ToolResources {
            folder,
            mail: order.mail,
            store,
        };
        ToolCall {
            run,
            args: order.args,
            env: ToolEnv::new(order.tool.declaration().capabilities, resources),
            limits,
            clock,
            origin,
            reader,
        }
    }
}

/// Returns values for a later verification of a call that may not simply be run again: its start,
/// and its expected effects.
pub async fn expected_effects(
    ctx: &ToolCallContext<'_>,
    order: CallOrder<'_>,
    store: &PersonaStore,
    folder: &Dir,
) -> Option<Value> {
    match order.tool.class() {
        ToolClass::Once => Some(json!({ "at": ctx.deps.clock.now().to_string() })),
        ToolClass::Verifiable => {
            let place = Place::of(ctx);
            // A call without expected effects fails when it is executed, with the reason.
            let expected = order
                .tool
                .expected_effects(place.call(ctx, order, store, folder))
                .await
                .ok()?;
            Some(json!({ "foreseen": expected }))
        }
        ToolClass::Repeatable | ToolClass::Transactional => None,
    }
}

/// Executes a call with the persona's store and folder; an interrupted one only as its class
/// permits.
pub async fn carry_out(
    ctx: &ToolCallContext<'_>,
    order: CallOrder<'_>,
    store: &PersonaStore,
    folder: &Dir,
) -> Result<Verdict, RunError> {
    let place = Place::of(ctx);
    if let Some(begun) = order.begun {
        match order.tool.class() {
            ToolClass::Repeatable | ToolClass::Transactional => {}
            ToolClass::Once => return Ok(unknown(begun)),
            ToolClass::Verifiable => {
                let call = place.call(ctx, order, store, folder);
                match order.tool.verify(call, &begun["foreseen"]).await {
                    Ok(CallTrace::Untouched) => {}
                    Ok(CallTrace::Done(outcome)) => return Ok(Verdict::Done(*outcome)),
                    Ok(CallTrace::Neither) | Err(_) => return Ok(unknown(begun)),
                }
            }
        }
    }
    let running = order.tool.call(place.call(ctx, order, store, folder));
    let outcome = tokio::select! {
        outcome = running => outcome,
        () = ctx.cancel.cancelled() => {
            let message = "the run was cancelled while this call was running".to_owned();
            return Ok(Verdict::Terminal { class: ErrorClass::Cancelled, message });
        }
    };
    Ok(match outcome {
        Ok(outcome) => match &outcome.mail {
            Some(draft) => match send_limits::forbidden(ctx, draft).await? {
                Some(rule) => Verdict::Failed {
                    code: rule.as_str(),
                    message: withheld_message(rule),
                },
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

/// Returns the verdict on an interrupted call that may not be run again.
fn unknown(begun: &Value) -> Verdict {
    let at = begun["at"]
        .as_str()
        .map(|at| format!(", begun at {at},"))
        .unwrap_or_default();
    let message = format!(
        "the engine stopped while this call{at} was running; it may or may not have taken effect. Find out \
         by other means; it is not run again"
    );
    Verdict::Failed {
        code: OUTCOME_UNKNOWN,
        message,
    }
}

/// Reports whether a call repeats one with an unknown outcome, of a tool that must not be run
/// twice.
pub fn asks_again(tool: &RegisteredTool, steps: &[Step], name: &str, args: &ToolArgs) -> bool {
    let read = |step: &Step| serde_json::from_str::<Value>(&step.payload_json).unwrap_or_default();
    let ToolArgs::Object(args) = args else {
        return false;
    };
    let is_same = |id: &str| {
        let call = |step: &&Step| step.kind == StepKind::Call && step.tool_call_id == id;
        steps.iter().find(call).is_some_and(|step| {
            step.tool_name == name
                && read(step)["args"]
                    .as_object()
                    .is_some_and(|before| before == args)
        })
    };
    tool.class() == ToolClass::Once
        && steps
            .iter()
            .any(|step| step.is_in_doubt() && is_same(&step.tool_call_id))
}

/// Returns the verdict on such a call.
pub fn not_again() -> Verdict {
    let message = "the same call was cut off before and may have taken effect, so it is not made a second time in this \
        run; finish without it and say so";
    Verdict::Failed {
        code: "not_again",
        message: message.to_owned(),
    }
}

/// Returns the reason why a draft is not queued, for the model.
fn withheld_message(rule: Withheld) -> String {
    let why = match rule {
        Withheld::HopLimit => "this mail has gone from persona to persona as often as a mail may",
        Withheld::Alternations => "this thread has had as many answers as it may have for today",
        _ => "one of its recipients has had as many mails from you as they may have for now",
    };
    format!("not sent: {why}; another try in this run will not help, so finish without it")
}

pub type Finished = (String, Option<ToolOutcome>, Option<(ErrorClass, String)>);

/// Formats the result as the model reads it, with its consequence for the run.
pub fn finish(verdict: Verdict, name: &str) -> Finished {
    match verdict {
        Verdict::Done(mut outcome) => {
            let result = std::mem::replace(&mut outcome.result, Value::Null);
            (
                json!({ "ok": true, "result": result }).to_string(),
                Some(outcome),
                None,
            )
        }
        Verdict::Known(payload) => {
            let terminal = ends_the_run(&payload);
            (payload, None, terminal)
        }
        Verdict::Failed { code, message } => (failure(name, code, &message), None, None),
        Verdict::Terminal { class, message } => (
            failure(name, class.as_str(), &message),
            None,
            Some((class, message)),
        ),
    }
}

/// Formats the result of a failed call, as the model reads it.
pub fn failure(name: &str, code: &str, message: &str) -> String {
    json!({ "ok": false, "tool": name, "error": { "code": code, "message": message } }).to_string()
}

/// Returns the error with which this result ended the run, if it did.
fn ends_the_run(payload: &str) -> Option<(ErrorClass, String)> {
    let parsed: Value = serde_json::from_str(payload).ok()?;
    let error = parsed.get("error")?;
    let class = ErrorClass::parse(error["code"].as_str()?)?;
    let is_end = matches!(
        class,
        ErrorClass::UnsupportedAction | ErrorClass::OutboundNotConfigured | ErrorClass::Cancelled
    );
    is_end.then(|| {
        (
            class,
            error["message"].as_str().unwrap_or_default().to_owned(),
        )
    })
}

/// Formats the payload of a call row.
pub fn call_payload(args: &ToolArgs, begun: Option<Value>) -> String {
    match args {
        ToolArgs::Object(args) => match begun {
            Some(begun) => json!({ "args": args, "begun": begun }).to_string(),
            None => json!({ "args": args }).to_string(),
        },
        ToolArgs::Malformed { raw, error } => {
            json!({ "malformed": raw, "error": error }).to_string()
        }
    }
}

/// Reports whether a result payload is a failure.
pub fn is_failure(payload: &str) -> bool {
    payload.starts_with("{\"ok\":false")
}
