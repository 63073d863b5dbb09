//! What a call would do, before it is decided on: a mail, or a question to the owner.

use super::context::ToolCallContext;
use super::execution::CallOrder;
use super::verdict::ToolVerdict;
use crate::domain::Withheld;
use crate::runs::error::RunError;
use crate::runs::reply::send_limits;
use crate::tools::{MailDraft, RegisteredTool, ToolClass, ToolOutcome};

/// What a call would do, to be decided on: nothing of it has happened.
#[derive(Default)]
pub struct Drafted {
    /// Outcome of a tool that sends mail or asks the owner.
    pub outcome: Option<Box<ToolOutcome>>,
    pub mail: Option<MailDraft>,
}

/// Returns the draft of a tool that sends mail or asks the owner. Its effect commits with its result, so drafting does
/// nothing. The inner error is the end of a call that comes to nothing.
pub async fn of_call(
    ctx: &ToolCallContext<'_>,
    tool: &RegisteredTool,
    order: &CallOrder<'_>,
) -> Result<Result<Drafted, ToolVerdict>, RunError> {
    let capabilities = tool.declaration().capabilities;
    let sends_mail = capabilities.mail && tool.effects().sends_out;
    if !((sends_mail || capabilities.owner) && tool.class() == ToolClass::Transactional) {
        return Ok(Ok(Drafted::default()));
    }
    let outcome = match ctx.deps.env.call(order).await? {
        ToolVerdict::Done(outcome) => outcome,
        verdict => return Ok(Err(verdict)),
    };
    let mail = match &outcome.mail {
        Some(mail) => (**mail).clone(),
        None if outcome.question.is_none() => return Ok(Err(ToolVerdict::Done(outcome))),
        None => {
            return Ok(Ok(Drafted {
                outcome: Some(Box::new(outcome)),
                mail: None,
            }));
        }
    };
    match send_limits::forbidden(ctx, &mail).await? {
        Some(rule) => Ok(Err(ToolVerdict::Failed {
            code: rule.as_str(),
            message: withheld_message(rule),
        })),
        None => Ok(Ok(Drafted {
            outcome: Some(Box::new(outcome)),
            mail: Some(mail),
        })),
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
