//! What became of a question, for the person who asked it.

use super::super::screen;
use super::super::{CommandContext, Exit};
use super::view::AnswerView;
use crate::domain::RunState;
use crate::runs::chat::outcome::AskedRun;

/// Shows what became of a question, as far as `view` has not shown it.
pub fn report(
    context: &CommandContext,
    asked: &AskedRun,
    view: &mut AnswerView<'_>,
) -> anyhow::Result<Exit> {
    let exit = match asked.state {
        RunState::Succeeded => Exit::Ok,
        _ => Exit::Failed,
    };
    if context.json() {
        context.screen.json(asked)?;
        return Ok(exit);
    }
    match &asked.answer {
        Some(answer) => view.show_answer(answer)?,
        None => view.end_line()?,
    }
    match asked.state {
        RunState::Succeeded if asked.answer.is_none() => {
            screen::remark("it ended without an answer");
        }
        RunState::Succeeded => {}
        RunState::WaitingApproval => {
            screen::remark(&format!(
                "run {} waits for your decision: `attache approvals list` shows the question, `attache approvals show ID` what \
                 would be done, and `attache approvals approve ID` or `attache approvals reject ID` answers it",
                asked.run
            ));
        }
        _ if asked.is_halted() => {
            screen::remark("no answer: runs are halted; it is answered after `attache resume`");
        }
        _ => screen::remark(&format!(
            "no answer: {}; `attache runs show {}` tells more",
            asked.error.as_deref().unwrap_or(asked.state.as_str()),
            asked.run
        )),
    }
    Ok(exit)
}
