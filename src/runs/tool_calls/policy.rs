//! Tool policy: the only way to a tool, for calls of our own loop and of an agent through
//! `attache mcp serve`: schema, mail policy, limits, and the form of a result.
//!
//! Absent on purpose: writing. The caller records the call before and commits the result with its
//! effect.

use super::context::ToolCallContext;
use super::execution::CallOrder;
use super::verdict::ToolVerdict;
use crate::domain::Withheld;
use crate::providers::ToolArgs;
use crate::runs::error::RunError;
use crate::runs::reply::send_limits;
use crate::store::{Step, StepKind};
use crate::tools::{self, MailPolicy, RegisteredTool, ToolClass, ToolLimits};
use serde_json::{Map, Value};

/// Returns the verdict on a call beyond the run's limit.
pub fn used_up() -> ToolVerdict {
    let message = "this run has used up the number of tool calls it may make";
    ToolVerdict::Failed {
        code: "limit",
        message: message.to_owned(),
    }
}

/// Returns the verdict on a mail when another process of this run has sent the last permitted one.
pub fn no_more_mails(max: u32) -> ToolVerdict {
    ToolVerdict::Failed {
        code: tools::MAIL_LIMIT_REACHED,
        message: tools::no_more_mails(max as usize),
    }
}

/// One call as the model requested it.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub args: &'a ToolArgs,
    /// Expected effects, when an earlier attempt began it.
    pub begun: Option<&'a Value>,
}

/// Returns the expected effects to record before a call begins, so that its outcome can be verified
/// after a crash; `None` for tools that may simply be run again.
pub async fn begin(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    mail: &MailPolicy,
) -> Option<Value> {
    let tool = ctx.tools.iter().find(|tool| tool.name() == asked.name)?;
    let is_seen = matches!(tool.class(), ToolClass::Verifiable | ToolClass::Once);
    match asked.args {
        ToolArgs::Object(args) if is_seen && tool.check_args(args).is_ok() => {
            let order = order(ctx, asked.id, tool, args, mail);
            ctx.deps.env.expected_effects(&order).await
        }
        _ => None,
    }
}

fn order<'a>(
    ctx: &ToolCallContext<'a>,
    id: &'a str,
    tool: &'a RegisteredTool,
    args: &'a Map<String, Value>,
    mail: &'a MailPolicy,
) -> CallOrder<'a> {
    let limits = &ctx.deps.config.limits;
    CallOrder {
        run: ctx.run,
        id,
        tool,
        args,
        mail,
        limits: ToolLimits {
            result_bytes_max: limits.tool_result_bytes_max,
            file_bytes_max: limits.file_bytes_max,
            memory_bytes_max: limits.memory_bytes_max,
            attachments_bytes_max: limits.attachments_bytes_max,
        },
        origin: ctx.label.origin(ctx.subject),
        reader: ctx.label.reader(),
        begun: None,
        cancel: ctx.cancel,
    }
}

/// Executes a call that is recorded, unless the policy refuses it.
pub async fn execute(
    ctx: &ToolCallContext<'_>,
    asked: Asked<'_>,
    mail: &MailPolicy,
) -> Result<ToolVerdict, RunError> {
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
            return Ok(ToolVerdict::Failed {
                code: "malformed_arguments",
                message,
            });
        }
    };
    if let Err(message) = tool.check_args(args) {
        return Ok(ToolVerdict::Failed {
            code: "invalid_arguments",
            message,
        });
    }
    let mail = ctx.label.limit(MailPolicy {
        mails_sent: ctx.mails_sent,
        ..mail.clone()
    });
    let order = CallOrder {
        begun,
        ..order(ctx, id, tool, args, &mail)
    };
    match ctx.deps.env.call(&order).await? {
        ToolVerdict::Done(outcome) => match &outcome.mail {
            Some(draft) => match send_limits::forbidden(ctx, draft).await? {
                Some(rule) => Ok(ToolVerdict::Failed {
                    code: rule.as_str(),
                    message: withheld_message(rule),
                }),
                None => Ok(ToolVerdict::Done(outcome)),
            },
            None => Ok(ToolVerdict::Done(outcome)),
        },
        verdict => Ok(verdict),
    }
}

/// Returns the verdict on a call of a tool that the run was not offered: it lists the offered ones.
/// It counts as a failure and as an unusable call, so that a model which goes on inventing tools is
/// stopped.
fn not_offered(ctx: &ToolCallContext<'_>, name: &str) -> ToolVerdict {
    let is_closed = ctx.deps.tools.iter().find(|tool| tool.name() == name);
    let is_closed = is_closed.and_then(|tool| ctx.label.closed(tool.effects()));
    if let Some(why) = is_closed {
        return closed(name, why);
    }
    let offered: Vec<&str> = ctx.tools.iter().map(|tool| tool.name()).collect();
    if offered.is_empty() {
        let message = "this run has no tools; answer in words".to_owned();
        return ToolVerdict::Failed {
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
    ToolVerdict::Failed {
        code: UNKNOWN_TOOL,
        message,
    }
}

fn closed(name: &str, why: &str) -> ToolVerdict {
    let message = format!("`{name}` is closed to this run: {why}");
    ToolVerdict::Failed {
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
pub fn not_again() -> ToolVerdict {
    let message = "the same call was cut off before and may have taken effect, so it is not made a second time in this \
        run; finish without it and say so";
    ToolVerdict::Failed {
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
