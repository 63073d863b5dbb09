//! Texts of mails about questions. Pure.

use crate::domain::ApprovalKind;
use crate::store::{ApprovalView, PendingExplanation};
use crate::text::{one_line, shortened, visible};

/// Characters at the end of an id by which people name a question.
const SHORT: usize = 8;
pub(super) const SUBJECT_CHARS_MAX: usize = 80;

/// Returns the short name of a question.
pub fn short_id(view: &ApprovalView) -> &str {
    let from = view.id.len().saturating_sub(SHORT);
    view.id.get(from..).unwrap_or(&view.id)
}

pub fn subject(view: &ApprovalView, persona: &str, is_reminder: bool) -> String {
    let what = match view.kind {
        ApprovalKind::Call if ["send_email", "forward_email"].contains(&view.tool.as_str()) => {
            "may I send this mail?".to_owned()
        }
        ApprovalKind::Call => format!("may I call {}?", visible(&view.tool)),
        ApprovalKind::Reply => "may I send this answer?".to_owned(),
        ApprovalKind::Draft if view.edits > 0 => "a draft, as you edited it".to_owned(),
        ApprovalKind::Draft => "a draft for you".to_owned(),
        ApprovalKind::Plan => "may I do this?".to_owned(),
        ApprovalKind::Question => "a question".to_owned(),
    };
    let again = if is_reminder { "Reminder: " } else { "" };
    let asks = match view.kind {
        ApprovalKind::Draft => "",
        _ => " asks",
    };
    let subject = format!("{again}{persona}{asks}: {what} [{}]", short_id(view));
    shortened(&one_line(&subject), SUBJECT_CHARS_MAX)
}

/// Returns the text of a question, as Markdown. What a model or a letter wrote stands in a fence that it cannot close.
pub fn body(view: &ApprovalView, persona: &str) -> String {
    let fence = fence_for(&view.view);
    let how = match view.kind {
        ApprovalKind::Question => {
            "Answer by replying: the text of your reply is the answer.".to_owned()
        }
        ApprovalKind::Draft => format!(
            "Answer by replying, in the first line:\n\n\
              - `yes` sends it, exactly as shown\n\
              - `no` discards it\n\n\
              To change it: `attache drafts edit {}` on the machine.",
            short_id(view)
        ),
        _ => "Answer by replying, in the first line:\n\n\
              - `yes` lets it happen, exactly as shown\n\
              - `no`, or `no, because …`, refuses it\n\
              - `edit: …` refuses it and says what to change; you are asked again"
            .to_owned(),
    };
    let (begins, ends, command) = match view.kind {
        ApprovalKind::Draft => (
            "has written this mail for you to send. It is not sent.",
            "it is discarded",
            "drafts",
        ),
        _ => ("waits for your decision.", "it counts as a no", "approvals"),
    };
    format!(
        "{persona} {begins}\n\n{fence}\n{}\n{fence}\n\n{how}\n\n\
         Without an answer until {} {ends}. On the machine: `attache {command} show {}`. Only you can answer this mail; \
         a reply of anybody else decides nothing.\n",
        view.view,
        view.expires_at,
        short_id(view)
    )
}

/// Returns a fence that is longer than any run of backticks in the text.
pub(super) fn fence_for(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Returns the subject of the mail that explains what became of an answer with this one.
pub fn explanation_subject(answer: &str) -> String {
    let subject = format!("Re: {}", answer.trim_start_matches("Re: "));
    shortened(&one_line(&subject), SUBJECT_CHARS_MAX)
}

/// Said of an answer whose words may be another's reading of what its owner signed.
pub(super) const UNSIGNED_CONTENT: &str = "Your answer changed nothing and nothing was sent. Your mail server's signature does not cover \
    `Content-Type` and `Content-Transfer-Encoding`, and your answer would say something else under others, so it could be a copy \
    that somebody altered. Answer in plain text without special characters or in HTML with a text version, have your server sign \
    these fields, or submit the answer with a login";

/// Returns why an answer decided nothing.
pub fn explanation(pending: &PendingExplanation) -> String {
    let id = short_id(&pending.view);
    let at = pending
        .view
        .decided_at
        .map(|at| format!(" at {at}"))
        .unwrap_or_default();
    let by = match pending
        .view
        .decided_by
        .as_deref()
        .filter(|by| !by.is_empty())
    {
        Some(by) => format!(" by {}", visible(by)),
        None => String::new(),
    };
    let is_draft = pending.view.kind == ApprovalKind::Draft;
    let why = match pending.outcome.as_str() {
        "not_understood" if is_draft => format!(
            "I did not understand your answer, so nothing was decided and nothing was sent. Write `yes` or `no` in the first line \
             of a reply; to change the draft, `attache drafts edit {id}` on the machine."
        ),
        "edited_since" => "The draft was edited after the mail that you answered, so your answer changed nothing and nothing was \
             sent. Answer the mail that shows it as it is now."
            .to_owned(),
        "not_understood" => "I did not understand your answer, so nothing was decided and nothing was sent. Write `yes`, `no` \
             or `edit: …` in the first line of a reply."
            .to_owned(),
        "not_dated" => format!(
            "Your answer has no `Date`, or one that is more than a week old or more than a day ahead, so it changed nothing and \
             nothing was sent: it could be an older letter that somebody sent again. Correct the clock of your machine and answer \
             again; or on the machine: `attache approvals show {id}`."
        ),
        "unsigned_content" => format!(
            "{UNSIGNED_CONTENT}; or on the machine: `attache approvals show {id}`."
        ),
        "not_by_mail" => format!(
            "This question is not decided by mail (`not_by_mail` in `configs/policy.json`). On the machine: `attache approvals \
             approve {id}` or `reject {id}`."
        ),
        "expired" if is_draft => {
            "Your answer came when its time was over, so nothing was sent.".to_owned()
        }
        "expired" => "Your answer came when its time was over, so it counts as a no.".to_owned(),
        other => format!(
            "This was {} already{by}{at}; your answer changed nothing.",
            other.trim_start_matches("already_")
        ),
    };
    format!("{why}\n\nThe question: {id}.\n")
}
