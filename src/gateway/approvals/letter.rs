//! Texts of mails about questions. Pure.

use crate::domain::{ApprovalKind, Trigger};
use crate::store::{ApprovalView, LetterOfRun, PendingExplanation, quoted};
use crate::text::{one_line, shortened, visible};
use chrono_tz::Tz;

/// Characters at the end of an id by which people name a question.
const SHORT: usize = 8;
pub(super) const SUBJECT_CHARS_MAX: usize = 80;
/// What a view has between what is asked and why, see `runs::approvals::view`.
const REASON: &str = "\n\n--\n";

/// Returns the short name of a question.
pub fn short_id(view: &ApprovalView) -> &str {
    let from = view.id.len().saturating_sub(SHORT);
    view.id.get(from..).unwrap_or(&view.id)
}

pub fn subject(view: &ApprovalView, persona: &str, is_reminder: bool) -> String {
    let what = match view.kind {
        ApprovalKind::Call if is_mail(view) => "may I send this mail?".to_owned(),
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

/// What a mail about a question shows beside the question.
pub struct Surroundings<'a> {
    pub persona: &'a str,
    pub zone: Tz,
    /// The letter that the run is about.
    pub letter: Option<&'a LetterOfRun>,
    /// Address of the page with the question, where people reach the pages.
    pub page: Option<String>,
}

/// Returns the text of a question, in the dialect of letters: what is asked and how to answer it, what would be sent, the letter
/// that it answers, and the rest. What a model or a letter wrote is in fences that it cannot close.
pub fn body(view: &ApprovalView, around: &Surroundings<'_>) -> String {
    let persona = around.persona;
    let until = view.expires_at.minute_in(around.zone);
    let id = short_id(view);
    let is_draft = view.kind == ApprovalKind::Draft;
    let asked = match view.kind {
        ApprovalKind::Question => format!("{persona} has a question for you."),
        ApprovalKind::Plan => format!("{persona} asks: may I do this?"),
        ApprovalKind::Reply => format!("{persona} asks: may I send this answer?"),
        ApprovalKind::Draft => format!("{persona} has written this mail for you. It is not sent."),
        ApprovalKind::Call if is_mail(view) => format!("{persona} asks: may I send this mail?"),
        ApprovalKind::Call => format!("{persona} asks: may I make this call?"),
    };
    let answer = match view.kind {
        ApprovalKind::Question => format!("Reply with your answer by {until}."),
        _ => format!("Reply with `yes` or `no` by {until}."),
    };
    let (shown, why) = view.view.rsplit_once(REASON).unwrap_or((&view.view, ""));
    let mut text = format!("**{asked}**\n\n{answer}\n\n{}\n\n", framed(shown, ""));
    if let Some(letter) = around.letter {
        let what = match letter.trigger {
            Trigger::Chat => "question",
            _ => "letter",
        };
        text.push_str(&format!(
            "**The {what} that this is about**, by {} on {}. These are their words:\n\n{}\n\n",
            quoted(&letter.sender),
            letter.received_at.minute_in(around.zone),
            framed(&theirs(letter), "> "),
        ));
    }
    text.push_str(match view.kind {
        ApprovalKind::Question => {
            "**How to answer.** The text of your reply is the answer. It approves nothing else.\n\n"
        }
        ApprovalKind::Draft => {
            "**How to answer.** Begin the first line of your reply with one of these words:\n\n\
             - `yes` sends it exactly as shown\n\
             - `no` discards it\n\n"
        }
        _ => {
            "**How to answer.** Begin the first line of your reply with one of these words:\n\n\
             - `yes` lets it happen exactly as shown\n\
             - `no`, or `no, because …`, refuses it\n\
             - `edit: …` refuses it and says what to change; you are asked again\n\n"
        }
    });
    if let Some(page) = &around.page {
        let verb = if is_draft { "Read, edit" } else { "Read" };
        text.push_str(&format!("{verb} or decide it on its page: {page}\n\n"));
    }
    let (commands, ends) = match is_draft {
        true => (
            format!("`attache drafts show {id}` and `attache drafts edit {id}`"),
            "is discarded",
        ),
        false => (format!("`attache approvals show {id}`"), "counts as a no"),
    };
    text.push_str(&format!(
        "Without an answer it {ends} at that time. On the machine: {commands}. Only you can answer this mail; a reply by \
         anybody else decides nothing.\n"
    ));
    if !why.is_empty() {
        text.push_str(&format!("\n{}\n", framed(why.trim_end(), "")));
    }
    text
}

fn is_mail(view: &ApprovalView) -> bool {
    ["send_email", "forward_email"].contains(&view.tool.as_str())
}

/// Returns the beginning of a letter, with every character visible.
fn theirs(letter: &LetterOfRun) -> String {
    let text = letter.text.trim();
    match (text.is_empty(), letter.is_cut) {
        (true, _) => "(it has no text)".to_owned(),
        (false, true) => format!("{} […]", visible(text)),
        (false, false) => visible(text),
    }
}

/// Returns a text in a frame that it cannot leave; each line begins with `mark`.
fn framed(text: &str, mark: &str) -> String {
    let fence = fence_for(text);
    let lines = std::iter::once(format!("{fence}letter"));
    let lines = lines.chain(text.lines().map(str::to_owned)).chain([fence]);
    lines
        .map(|line| format!("{mark}{line}"))
        .collect::<Vec<_>>()
        .join("\n")
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
pub fn explanation(pending: &PendingExplanation, zone: Tz) -> String {
    let id = short_id(&pending.view);
    let at = pending
        .view
        .decided_at
        .map(|at| format!(" on {}", at.minute_in(zone)))
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
