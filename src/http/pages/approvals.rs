//! Questions to the owner: what would be done, in its exact bytes, and the owner's answer.

pub(in crate::http) mod rule;

use crate::domain::{ApprovalKind, ApprovalState};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::words::StateWords;
use crate::store::{
    ApprovalVerdict, ApprovalView, DecisionOutcome, ListPage, NewDecision, StoreError,
};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

/// Most open questions, and most decided ones, that the page shows.
const OPEN_MAX: u32 = 100;
const DECIDED_MAX: u32 = 50;
/// Longest text that an owner writes to a persona.
const WORDS_CHARS_MAX: usize = 20_000;

#[derive(Serialize)]
struct ApprovalsPage {
    words_max: usize,
    open: Vec<OpenQuestion>,
    decided: Vec<DecidedQuestion>,
}

/// A question with the answers that it takes.
#[derive(Serialize)]
struct OpenQuestion {
    #[serde(flatten)]
    question: ApprovalView,
    why: String,
    rule: Option<String>,
    takes_yes: bool,
    takes_change: bool,
    takes_words: bool,
}

/// A question after a decision.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct DecidedRecord<'a> {
    id: &'a str,
    state: ApprovalState,
}

#[derive(Serialize)]
struct DecidedQuestion {
    #[serde(flatten)]
    question: ApprovalView,
    outcome: StateWords,
    first_line: String,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let open = store
        .approvals(Some(ApprovalState::Open), None, ListPage::first(OPEN_MAX))
        .await?;
    let mut decided = store
        .approvals(None, None, ListPage::first(OPEN_MAX + DECIDED_MAX))
        .await?;
    decided.retain(|question| question.state != ApprovalState::Open);
    let page = ApprovalsPage {
        words_max: WORDS_CHARS_MAX,
        open: open.into_iter().map(open_question).collect(),
        decided: decided.into_iter().map(decided_question).collect(),
    };
    call.page("approvals.html", &page).await
}

fn open_question(question: ApprovalView) -> OpenQuestion {
    let text = |key: &str| question.reason[key].as_str().map(str::to_owned);
    let is_question = question.kind == ApprovalKind::Question;
    OpenQuestion {
        why: text("why").unwrap_or_default(),
        rule: text("rule").or_else(|| text("code")),
        takes_yes: !is_question,
        takes_change: !is_question && question.kind != ApprovalKind::Draft,
        takes_words: is_question,
        question,
    }
}

fn decided_question(question: ApprovalView) -> DecidedQuestion {
    let tone = match question.state {
        ApprovalState::Approved | ApprovalState::Answered => "good",
        ApprovalState::Rejected => "bad",
        _ => "quiet",
    };
    DecidedQuestion {
        outcome: StateWords::new(question.state.to_string(), tone),
        first_line: question.view.lines().next().unwrap_or_default().to_owned(),
        question,
    }
}

pub(in crate::http) async fn approve(call: Call) -> Result<Response, PageError> {
    decide(call, ApprovalVerdict::Approve).await
}

pub(in crate::http) async fn reject(call: Call) -> Result<Response, PageError> {
    decide(call, ApprovalVerdict::Reject).await
}

pub(in crate::http) async fn edit(call: Call) -> Result<Response, PageError> {
    decide(call, ApprovalVerdict::Edit).await
}

pub(in crate::http) async fn answer(call: Call) -> Result<Response, PageError> {
    decide(call, ApprovalVerdict::Answer).await
}

/// Decides on a question about exactly the bytes that the page showed.
async fn decide(call: Call, verdict: ApprovalVerdict) -> Result<Response, PageError> {
    let words = call.field("words");
    let wants_words = matches!(verdict, ApprovalVerdict::Edit | ApprovalVerdict::Answer);
    if wants_words && words.is_empty() {
        return Err(PageError::Refused(
            "write what the persona is to read".to_owned(),
        ));
    }
    let chars = words.chars().count();
    if chars > WORDS_CHARS_MAX {
        return Err(PageError::Refused(format!(
            "this has {chars} characters, and {WORDS_CHARS_MAX} are the most; nothing was sent"
        )));
    }
    let sha256 = call.field("sha256");
    if sha256.is_empty() {
        return Err(PageError::Refused(
            "this form does not say which bytes it is about".to_owned(),
        ));
    }
    let decision = NewDecision {
        verdict,
        by: call.actor()?,
        via: "web",
        words: words.to_owned(),
        evidence_json: "{}".to_owned(),
        sha256: Some(sha256.to_owned()),
    };
    let decided = call
        .context
        .store
        .decide_approval(call.param("id"), decision)
        .await;
    let outcome = match decided {
        Err(error @ StoreError::MailsUsedUp { .. }) => {
            return Err(conflict(
                error.to_string(),
                "the question stays open; reject it, or raise the limit",
            ));
        }
        decided => decided?,
    };
    match outcome {
        DecisionOutcome::Decided(state) => {
            call.context.wake();
            call.renew().await?;
            let id = call.param("id");
            call.done("/approvals", &DecidedRecord { id, state })
        }
        DecisionOutcome::Already { state, by, .. } => {
            let by = if by.is_empty() {
                String::new()
            } else {
                format!(" by {by}")
            };
            Err(conflict(
                format!("this question is {state} already{by}"),
                "nothing was changed now",
            ))
        }
        DecisionOutcome::OtherBytes => Err(conflict(
            "it asks for something else than the page showed".to_owned(),
            "load the page again and read it anew",
        )),
        DecisionOutcome::NotFitting => Err(PageError::Refused(
            "this question takes another kind of answer".to_owned(),
        )),
    }
}

fn conflict(message: String, hint: &str) -> PageError {
    PageError::Conflict {
        message,
        hint: hint.to_owned(),
    }
}
