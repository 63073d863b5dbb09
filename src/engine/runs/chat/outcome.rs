//! What became of a question.

use crate::domain::{
    ApprovalState, ErrorClass, PersonaId, RunId, RunState, RunWait, StopReason, ThreadId,
    Timestamp, Withheld,
};
use crate::store::{ApprovalView, ListPage, Store, StoreError, ThreadMessage};
use serde::Serialize;

/// Most open questions of a persona among which those of the run are.
const QUESTIONS_MAX: u32 = 100;
/// Newest messages of a thread among which the answer is.
const MESSAGES_MAX: u32 = 20;

/// The run of a question.
#[derive(Serialize)]
pub struct AskedRun {
    pub run: RunId,
    pub thread: ThreadId,
    pub state: RunState,
    /// Text of the answer; `None`: there is none.
    pub answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip)]
    pub persona: PersonaId,
    /// Questions to the owner for whose decision the run waits.
    #[serde(skip)]
    pub questions: Vec<ApprovalView>,
    #[serde(skip)]
    waits_for: Option<RunWait>,
    #[serde(skip)]
    next_attempt_at: Option<Timestamp>,
    #[serde(skip)]
    error_class: Option<ErrorClass>,
    /// The rule that keeps the answer from an agent that asked.
    #[serde(skip)]
    withheld: Option<Withheld>,
    /// `true`: the answer was cut at the length that was asked for.
    #[serde(skip)]
    pub is_cut: bool,
}

impl AskedRun {
    pub async fn of(store: &Store, run: &RunId) -> Result<Self, StoreError> {
        let summary = store.run_summary(run).await?;
        let answer = match summary.state {
            RunState::Queued | RunState::Running | RunState::WaitingRetry => None,
            _ => answer_of(store, &summary.persona, &summary.thread, run).await?,
        };
        let output = match &answer {
            Some(_) => store.persona(&summary.persona).output_of_run(run).await?,
            None => None,
        };
        let questions = match summary.state {
            RunState::WaitingApproval => questions_of(store, &summary.persona, run).await?,
            _ => Vec::new(),
        };
        Ok(Self {
            questions,
            run: run.clone(),
            thread: summary.thread,
            state: summary.state,
            withheld: answer.as_ref().and_then(withheld),
            // The value alone, which stands in the message in a fence.
            answer: match output {
                Some(stored) => Some(stored.output.json),
                None => answer.map(|answer| answer.message.text_body),
            },
            is_cut: summary.stop_reason == Some(StopReason::LimitOutput),
            error: summary.error_message,
            error_class: summary.error_class,
            persona: summary.persona,
            waits_for: summary.waits_for,
            next_attempt_at: summary.next_attempt_at,
        })
    }

    /// Reports whether the run waits for `attache resume`.
    pub fn is_halted(&self) -> bool {
        self.waits_for == Some(RunWait::Halted)
    }

    /// Kind of the failure that ended it, or that it waits after.
    pub fn error_class(&self) -> Option<ErrorClass> {
        self.error_class
    }

    /// Instant before which a run that is put back is not worked on again.
    pub fn next_attempt_at(&self) -> Option<Timestamp> {
        self.next_attempt_at
    }

    /// Returns what an agent that asked may know of it: no answer that a rule withholds, and of an error its class.
    #[must_use]
    pub fn for_agent(self) -> Self {
        let error = match self.withheld {
            Some(rule) => Some(format!(
                "the answer is not given out: {} ({rule})",
                rule.why()
            )),
            None => self.error_class.map(|class| class.to_string()),
        };
        Self {
            answer: self.answer.filter(|_| self.withheld.is_none()),
            error,
            ..self
        }
    }

    /// Reports whether waiting longer brings no answer by itself.
    pub fn is_settled(&self) -> bool {
        self.is_halted()
            || matches!(
                self.state,
                RunState::Succeeded
                    | RunState::Failed
                    | RunState::Cancelled
                    | RunState::WaitingApproval
            )
    }

    /// Returns what the run waits for, where that may take long.
    pub fn waits(&self) -> Option<String> {
        match (self.state, &self.waits_for, &self.next_attempt_at) {
            (RunState::WaitingRetry, _, Some(at)) => {
                let error = self.error.as_deref().unwrap_or("the attempt failed");
                Some(format!("{error}; the next attempt is at {at}"))
            }
            (_, Some(RunWait::EarlierRun), _) => {
                Some("an earlier question of this thread is worked on first".to_owned())
            }
            _ => None,
        }
    }
}

async fn questions_of(
    store: &Store,
    persona: &PersonaId,
    run: &RunId,
) -> Result<Vec<ApprovalView>, StoreError> {
    let open = Some(ApprovalState::Open);
    let mut open = store
        .approvals(open, Some(persona), ListPage::first(QUESTIONS_MAX))
        .await?;
    open.retain(|question| question.run == *run && question.parks);
    Ok(open)
}

async fn answer_of(
    store: &Store,
    persona: &PersonaId,
    thread: &ThreadId,
    run: &RunId,
) -> Result<Option<ThreadMessage>, StoreError> {
    let rows = store.persona(persona);
    let messages = rows.thread_messages(thread, MESSAGES_MAX).await?;
    let of_run = |message: &ThreadMessage| {
        message.message.run.as_ref() == Some(run) && message.message.direction == "outbound"
    };
    Ok(messages.into_iter().rev().find(of_run))
}

fn withheld(answer: &ThreadMessage) -> Option<Withheld> {
    let rule = answer.message.disposition.strip_prefix("withheld:");
    // A rule that is not known here keeps the answer, too.
    let rule = rule.map(|rule| Withheld::parse(rule).unwrap_or(Withheld::NotApproved));
    rule.filter(|rule| *rule != Withheld::StoreOnly)
}
