//! Questions to the owner: what would be done, in its exact bytes, and the owner's answer.

pub(in crate::http) mod rule;

use crate::domain::{ApprovalKind, ApprovalState};
use crate::http::call::Call;
use crate::http::checks::own_path;
use crate::http::failure::PageError;
use crate::http::words::StateWords;
use crate::runs::approvals::edit::{NewText, edit};
use crate::store::{
    ApprovalVerdict, ApprovalView, DecisionOutcome, DraftRecord, LetterOfRun, ListPage,
    NewDecision, StoreError,
};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

/// Most open questions, and most decided ones, that the page shows.
const OPEN_MAX: u32 = 100;
const DECIDED_MAX: u32 = 50;
/// Longest text that an owner writes to a persona.
const WORDS_CHARS_MAX: usize = 20_000;

/// A question with the answers that it takes.
#[derive(Serialize)]
struct OpenQuestion {
    #[serde(flatten)]
    question: ApprovalView,
    draft: Option<DraftForm>,
    letter: Option<LetterOfRun>,
    why: String,
    rule: Option<String>,
    takes_yes: bool,
    takes_change: bool,
    takes_words: bool,
}

/// A draft as its form shows it, to be edited and sent.
#[derive(Serialize)]
pub(in crate::http) struct DraftForm {
    id: String,
    sha256: String,
    subject: String,
    pub text: String,
    /// `false`: it carries an invitation, which its text repeats.
    is_editable: bool,
}

impl From<DraftRecord> for DraftForm {
    fn from(record: DraftRecord) -> Self {
        Self {
            id: record.view.id,
            sha256: record.view.sha256,
            is_editable: record.mail.event.is_none(),
            subject: record.mail.content.subject,
            text: record.mail.content.text_body,
        }
    }
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
    let mut questions = Vec::new();
    for question in open {
        let letter = store.letter_of_run(&question.run).await?;
        let draft = match question.kind {
            // Decided between the two reads, it is none any more.
            ApprovalKind::Draft => store.draft(&question.id).await.ok(),
            _ => None,
        };
        questions.push(OpenQuestion {
            draft: draft.map(DraftForm::from),
            ..open_question(question, letter)
        });
    }
    let page = json!({
        "words_max": WORDS_CHARS_MAX,
        "open": questions,
        "decided": decided.into_iter().map(decided_question).collect::<Vec<_>>(),
    });
    call.page("approvals.html", &page).await
}

fn open_question(question: ApprovalView, letter: Option<LetterOfRun>) -> OpenQuestion {
    let text = |key: &str| question.reason[key].as_str().map(str::to_owned);
    let is_question = question.kind == ApprovalKind::Question;
    OpenQuestion {
        why: text("why").unwrap_or_default(),
        rule: text("rule").or_else(|| text("code")),
        takes_yes: !is_question,
        takes_change: !is_question && question.kind != ApprovalKind::Draft,
        takes_words: is_question,
        letter,
        draft: None,
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

pub(in crate::http) async fn change(call: Call) -> Result<Response, PageError> {
    decide(call, ApprovalVerdict::Edit).await
}

pub(in crate::http) async fn answer(call: Call) -> Result<Response, PageError> {
    decide(call, ApprovalVerdict::Answer).await
}

/// Replaces subject and text of a draft, and sends it if its form says so.
pub(in crate::http) async fn rewrite(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let record = store.draft(call.param("id")).await?;
    if record.view.sha256 != call.field("sha256") {
        return Err(conflict(
            "the draft is another one than the page showed".to_owned(),
            "load the page again and read it anew",
        ));
    }
    let text = call.field_whole("text").replace("\r\n", "\n");
    let new = NewText {
        subject: call.field("subject"),
        text: text.trim(),
        at: None,
    };
    let content = &record.mail.content;
    let is_changed = new.subject != content.subject || new.text != content.text_body.trim();
    let mut sha256 = record.view.sha256.clone();
    if is_changed {
        let trigger = store.run_summary(&record.view.run).await?.trigger;
        let edit = edit(
            &call.context.config,
            store,
            &record,
            trigger,
            &new,
            call.actor()?,
            "web",
        )
        .map_err(|error| PageError::Refused(format!("nothing was changed: {error}")))?;
        sha256.clone_from(&edit.call_sha256);
        store.edit_draft(&record.view.id, edit).await?;
        call.context.wake();
    }
    if call.field("then") == "send" {
        return decide_on(call, ApprovalVerdict::Approve, &sha256).await;
    }
    call.renew().await?;
    let (id, state) = (record.view.id.as_str(), record.view.state);
    call.done(back(&call), &DecidedRecord { id, state })
}

/// Returns the page to which a form leads back: that of its thread, or the list.
fn back(call: &Call) -> &str {
    match call.field("next") {
        "" => "/approvals",
        next => own_path(next),
    }
}

async fn decide(call: Call, verdict: ApprovalVerdict) -> Result<Response, PageError> {
    let sha256 = call.field("sha256").to_owned();
    decide_on(call, verdict, &sha256).await
}

/// Decides on a question about exactly the bytes that the page showed.
async fn decide_on(
    call: Call,
    verdict: ApprovalVerdict,
    sha256: &str,
) -> Result<Response, PageError> {
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
            call.done(back(&call), &DecidedRecord { id, state })
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
