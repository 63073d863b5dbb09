//! What became of a question.

use super::super::screen;
use super::super::{CommandContext, Exit};
use crate::domain::{RunId, RunState, ThreadId};
use crate::store::Store;
use serde::Serialize;

/// Newest messages of a thread among which the answer is.
const MESSAGES_MAX: u32 = 20;

/// The run of a question.
#[derive(Serialize)]
pub struct AskedRun {
    run: RunId,
    thread: ThreadId,
    state: RunState,
    /// Text of the answer; `None`: there is none.
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl AskedRun {
    pub async fn of(store: &Store, run: &RunId) -> anyhow::Result<Self> {
        let summary = store.run_summary(run).await?;
        let rows = store.persona(&summary.persona);
        let messages = rows.thread_messages(&summary.thread, MESSAGES_MAX).await?;
        let of_run = |message: &&crate::store::ThreadMessage| {
            message.message.run.as_ref() == Some(run) && message.message.direction == "outbound"
        };
        let answer = messages.iter().rev().find(of_run);
        Ok(Self {
            run: run.clone(),
            thread: summary.thread,
            state: summary.state,
            answer: answer.map(|message| message.message.text_body.clone()),
            error: summary.error_message,
        })
    }

    /// Reports whether waiting longer brings no answer by itself.
    pub fn is_settled(&self) -> bool {
        matches!(
            self.state,
            RunState::Succeeded
                | RunState::Failed
                | RunState::Cancelled
                | RunState::WaitingApproval
        )
    }
}

pub fn report(context: &CommandContext, asked: &AskedRun) -> anyhow::Result<Exit> {
    if context.json() {
        context.screen.json(asked)?;
    } else if let Some(answer) = &asked.answer {
        context.screen.line(answer)?;
    }
    if !context.json() {
        match asked.state {
            RunState::Succeeded if asked.answer.is_none() => {
                screen::remark("it ended without an answer")
            }
            RunState::Succeeded => {}
            RunState::WaitingApproval => {
                screen::remark(
                    "it waits for a decision: `attache approvals list` shows the question",
                );
            }
            _ => screen::remark(&format!(
                "no answer: {}; `attache runs show {}` tells more",
                asked.error.as_deref().unwrap_or(asked.state.as_str()),
                asked.run
            )),
        }
    }
    Ok(match asked.state {
        RunState::Succeeded => Exit::Ok,
        _ => Exit::Failed,
    })
}
