//! A thread: its letters in order, and beside each what the engine did about it.

use super::approvals::DraftForm;
use super::strip::{StripView, strip_view};
use crate::domain::{MessageId, ThreadId};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::words::{StateWords, message_state};
use crate::replay::{self, MessageRecord};
use crate::store::{AttachmentInfo, Store, ThreadMessage};
use axum::response::Response;
use serde::Serialize;
use serde_json::json;

/// Letters of a page, and most that one shows.
const LETTERS: u32 = 50;
const LETTERS_MAX: u32 = 500;
/// Characters of a letter that stand in the thread; the letter's own page has all of it.
const TEXT_CHARS_MAX: usize = 6_000;
/// Most threads of the same conversation that are named.
const SIBLINGS_MAX: u32 = 20;

/// A letter with its runs.
#[derive(Serialize)]
pub(in crate::http) struct LetterView {
    pub id: MessageId,
    /// `inbound`, `outbound` or `synthetic`.
    pub direction: String,
    pub sender: String,
    pub to: String,
    pub cc: String,
    pub subject: String,
    /// Beginning of its new text.
    pub text: String,
    /// `true`: the letter's own page has more of it.
    pub is_cut: bool,
    /// Its whole text, where it quotes other letters, and the lines that it quotes.
    pub quoting: Option<String>,
    pub quoted_lines: usize,
    pub received_at: String,
    pub trust: Option<String>,
    pub trust_basis: Option<String>,
    pub outcome: Option<StateWords>,
    pub remedy: Option<String>,
    /// `true`: a rule has filed it, and the owner may have it answered.
    pub may_answer: bool,
    is_draft: bool,
    /// The draft that it is, while it waits.
    pub draft: Option<DraftForm>,
    pub attachments: Vec<AttachmentInfo>,
    pub runs: Vec<StripView>,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let id: ThreadId = store.find_thread(call.param("id")).await?;
    let thread = store.thread_summary(&id).await?;
    let limit = match call.query("letters").parse::<u32>() {
        Ok(letters) => letters.clamp(1, LETTERS_MAX),
        Err(_) => LETTERS,
    };
    let persona = store.persona(&thread.persona);
    let messages = persona.thread_messages(&id, limit).await?;
    let mut strips = persona.run_strips(&id, limit).await?;
    let older = thread
        .messages
        .saturating_sub(u32::try_from(messages.len()).unwrap_or(u32::MAX));
    let mut letters = Vec::new();
    for message in messages {
        let (own, others) = strips
            .into_iter()
            .partition(|strip| strip.trigger_message == message.message.id);
        strips = others;
        let mut letter = letter_view(message, own.iter().map(strip_view).collect());
        letter.show_draft(store).await?;
        letters.push(letter);
    }
    let siblings = store
        .threads_of_conversation(&thread.conversation, SIBLINGS_MAX)
        .await?;
    let page = json!({
        "letters": letters,
        "older": older,
        "more": limit.saturating_mul(4).min(LETTERS_MAX),
        "others": strips.iter().map(strip_view).collect::<Vec<_>>(),
        "siblings": siblings.into_iter().filter(|one| one.id != id).collect::<Vec<_>>(),
        "thread": thread,
    });
    call.page("thread.html", &page).await
}

impl LetterView {
    /// Shows the draft as it is now, with its form, where the letter is one that waits.
    pub async fn show_draft(&mut self, store: &Store) -> Result<(), PageError> {
        if self.is_draft
            && let Some(record) = store.draft_of_message(&self.id).await?
        {
            let draft = DraftForm::from(record);
            self.text.clone_from(&draft.text);
            self.outcome = Some(StateWords::new("a draft for you", "wait"));
            self.draft = Some(draft);
        }
        Ok(())
    }
}

/// Returns a letter as pages show it.
pub(in crate::http) fn letter_view(found: ThreadMessage, runs: Vec<StripView>) -> LetterView {
    let message: MessageRecord = replay::message_record(found.message, found.attachments.clone());
    let fresh = message.fresh_text.as_deref().unwrap_or(&message.text);
    let quoted_lines = message
        .text
        .lines()
        .count()
        .saturating_sub(fresh.lines().count());
    LetterView {
        is_draft: message.disposition == "withheld:draft",
        draft: None,
        outcome: message_state(&message.disposition, !runs.is_empty()),
        remedy: message.filed().map(|(_, remedy)| remedy),
        may_answer: message.filed().is_some(),
        text: crate::text::truncated(fresh.trim(), TEXT_CHARS_MAX),
        is_cut: fresh.trim().chars().nth(TEXT_CHARS_MAX).is_some(),
        quoting: message
            .fresh_text
            .as_ref()
            .filter(|_| quoted_lines > 0)
            .map(|_| crate::text::truncated(&message.text, TEXT_CHARS_MAX)),
        quoted_lines,
        to: people(&message, "to"),
        cc: people(&message, "cc"),
        trust: (message.direction == "inbound").then_some(message.trust),
        trust_basis: message.trust_basis,
        id: MessageId::new(message.id),
        direction: message.direction,
        sender: message.sender,
        subject: message.subject,
        received_at: message.received_at,
        attachments: found.attachments,
        runs,
    }
}

fn people(message: &MessageRecord, field: &str) -> String {
    let listed = message.recipients[field].as_array();
    let names: Vec<&str> = listed
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str())
        .collect();
    names.join(", ")
}
