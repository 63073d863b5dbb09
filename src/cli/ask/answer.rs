//! What became of a question, for the person who asked it.

use super::super::screen;
use super::super::{CommandContext, Exit};
use super::view::AnswerView;
use crate::domain::{ApprovalKind, RunState};
use crate::runs::chat::outcome::AskedRun;
use crate::store::ApprovalView;

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
        RunState::WaitingApproval => asked.questions.iter().for_each(remark_question),
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

/// Says what the run waits for, and how the owner decides.
fn remark_question(question: &ApprovalView) {
    let id = &question.id;
    let (what, how) = match question.kind {
        ApprovalKind::Question => (
            "the persona asks you something".to_owned(),
            format!("`attache approvals answer {id} TEXT`"),
        ),
        _ => (
            format!("it waits for your decision on `{}`", question.tool),
            format!("`attache approvals approve {id}` or `attache approvals reject {id}`"),
        ),
    };
    screen::remark(&format!(
        "{what}: `attache approvals show {id}` shows it, {how} decides"
    ));
}
