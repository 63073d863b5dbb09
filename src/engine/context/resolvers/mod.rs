//! Resolvers: each contributes one kind of piece to a run's context. One file each, and the list of
//! them. In reading order:
//!
//! - `reads`: what a resolver may read; `live`: from the store and the folders, and `good_prompts` in place of
//!   faulty ones; `record`: each read with its query and result; `recorded`: the same reads answered from such a record
//! - `load_file`: the smallest resolver; copy it to start a new one
//! - `persona`, `memory`, `knowledge`, `skills`, `thread_history`, `invocation_metadata`,
//!   `current_input`; `letter_images`, `letter_pdfs`: the files that it shows; `calendar_facts`: a calendar part in words
//! - `summary`: the summary of a thread, the letters for one, the owner's instructions
//!
//! Not here: the budget over all pieces and the order of the steps (`context`).

pub mod reads;
pub mod good_prompts;
pub mod live;
pub mod record;
pub mod recorded;
pub mod load_file;
pub mod persona;
pub mod memory;
pub mod knowledge;
pub mod skills;
pub mod summary;
pub mod thread_history;
pub mod invocation_metadata;
pub mod current_input;
mod letter_images;
mod letter_pdfs;
mod calendar_facts;

use crate::config::Persona;
use crate::domain::{Address, MemoryAudience, MemoryCircle, TextLabel, Timestamp, Trigger, Trust};
use crate::providers::contract::traits::{IMAGE_TOKENS, Image, Message, PdfFile};
use crate::store::{
    AttachmentInfo, MessageFile, StoreError, StoredMessage, SummaryInputs, TriggerMessage,
};
use futures_util::future::BoxFuture;
pub use letter_pdfs::PdfFacts;
use reads::{Files, Reads};
use std::collections::BTreeSet;

/// Resolvers, in the order in which the sample pipeline uses them.
pub static RESOLVERS: &[&dyn Resolver] = &[
    &load_file::LoadFile,
    &persona::PersonaText,
    &memory::active_memory::ActiveMemory,
    &memory::contact_memory::ContactMemory,
    &memory::recall::RecalledMemory,
    &knowledge::Knowledge,
    &skills::Skills,
    &summary::instructions::Instructions,
    &summary::SummaryOfThread,
    &thread_history::ThreadHistory,
    &invocation_metadata::InvocationMetadata,
    &current_input::CurrentInput,
    &summary::request::SummaryRequest,
];

/// One contributor to a run's context.
///
/// Implementations are unit structs; everything they may read arrives in [`ResolverCall`]. They
/// read and never write, keep to `budget_tokens` by leaving out whole pieces where they can choose,
/// and report what they left out. Contributing nothing is ordinary (`Contribution::nothing` with
/// the reason); an error is a broken configuration or a failed store. The caller adds the source's
/// name to the report, cuts what is more than the step's own `budget_tokens` ([`within_budget`]),
/// and trims history further if it must.
pub trait Resolver: Send + Sync {
    /// Returns the name in `configs/context.json`, lower case with hyphens.
    fn name(&self) -> &'static str;
    /// Returns the number of arguments that it takes.
    fn arguments(&self) -> std::ops::RangeInclusive<usize> {
        0..=0
    }
    /// Returns the problem that the operator should know before there is a run: a file that is
    /// missing or cannot be used. Reads files and nothing else.
    fn fault(&self, _step: StaticStep<'_>) -> Option<StaticFault> {
        None
    }
    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>>;
}

/// Part of a [`ResolverCall`] that holds without a run.
#[derive(Clone, Copy)]
pub struct StaticStep<'a> {
    /// Arguments, with the placeholders for the persona filled in.
    pub args: &'a [String],
    /// See [`ResolverCall::is_optional`].
    pub is_optional: bool,
    pub persona: &'a Persona,
    pub files: &'a dyn Files,
    pub now: Timestamp,
}

/// Problem that would keep a step from contributing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticFault {
    /// Path, relative to the workspace, of the faulty file; `None` when the step itself is at
    /// fault.
    pub file: Option<String>,
    pub what: String,
    /// Correct setting, when it is known.
    pub hint: Option<String>,
}

/// Everything a resolver may read.
#[derive(Clone, Copy)]
pub struct ResolverCall<'a> {
    /// Arguments with their placeholders filled in.
    pub args: &'a [String],
    /// `true`: a file that the arguments name may be missing.
    pub is_optional: bool,
    /// Estimated tokens that this step may contribute.
    pub budget_tokens: usize,
    /// Estimated tokens of the whole context.
    pub room_tokens: usize,
    pub persona: &'a Persona,
    pub reads: &'a dyn Reads,
    pub subject: &'a Subject,
    pub now: Timestamp,
    /// Number of the last message in the summary that an earlier step contributed.
    pub summarised_upto: Option<i64>,
    /// Ids of the entries of memory that earlier steps contributed.
    pub remembered: &'a [String],
}

/// Subject of a run: its triggering message.
#[derive(Debug, Clone)]
pub struct Subject {
    pub trigger: Trigger,
    pub message: StoredMessage,
    pub attachments: Vec<AttachmentInfo>,
    /// Its images and PDF files.
    pub files: Vec<MessageFile>,
    /// What is known of the PDF files; of one without, that it is not shown.
    pub pdfs: Vec<PdfFacts>,
    /// See [`TriggerMessage::readers`].
    pub readers: Vec<String>,
    /// `true`: the thread has messages before this one.
    pub has_past: bool,
    /// Names of the tools that the run is offered.
    pub tools: Vec<String>,
}

impl Subject {
    pub fn of(trigger: Trigger, about: TriggerMessage) -> Self {
        let TriggerMessage {
            message,
            attachments,
            files,
            readers,
            has_past,
            sent: _,
        } = about;
        Self {
            trigger,
            message,
            attachments,
            files,
            pdfs: Vec::new(),
            readers,
            has_past,
            tools: Vec::new(),
        }
    }

    /// Reports whether the input is an order: a duty that is due, or words of an owner at the machine. Letters are none, also where
    /// an owner's gives orders: they quote others.
    pub fn is_task(&self) -> bool {
        match self.trigger {
            Trigger::Schedule | Trigger::Manual => true,
            Trigger::Chat => self.sender_trust() >= Trust::Owner,
            Trigger::Email | Trigger::Summary => false,
        }
    }

    /// Returns the people who may read what the run writes, besides the owners.
    pub fn audience(&self) -> MemoryAudience {
        let mut people: BTreeSet<String> = self.readers.iter().cloned().collect();
        if self.sender_trust() < Trust::Owner {
            let metadata: serde_json::Value =
                serde_json::from_str(&self.message.metadata_json).unwrap_or_default();
            let sender = metadata["sender"].as_str().map(Address::parse);
            people.extend(sender.and_then(Result::ok).map(|sender| sender.key()));
        }
        MemoryAudience { people }
    }

    /// Returns the people around the run whose memory it may use; `None`: nobody proved who asks, such as another agent
    /// that passes words on.
    pub fn memory_circle(&self) -> Option<MemoryCircle> {
        let metadata: serde_json::Value =
            serde_json::from_str(&self.message.metadata_json).unwrap_or_default();
        let trust = self.sender_trust();
        let sender = match self.trigger {
            Trigger::Email => {
                let sender = metadata["sender"].as_str().map(Address::parse)?;
                Some(sender.ok()?.key())
            }
            _ if metadata["sender"].is_string() => return None,
            _ => None,
        };
        (trust > Trust::Unauthenticated).then(|| MemoryCircle {
            sender,
            trust,
            thread: self.message.thread.clone(),
            people: self.audience().people,
        })
    }

    /// Returns what the message says itself: its subject, and its text without quoted history where there is any.
    pub fn new_text(&self) -> String {
        format!("{}\n{}", self.message.subject, self.fresh_text())
    }

    /// Returns the text without quoted history; all of it when nothing else is left.
    pub fn fresh_text(&self) -> &str {
        let fresh = self.message.fresh_text.as_deref();
        let fresh = fresh.filter(|text| !text.trim().is_empty());
        fresh.unwrap_or(&self.message.text_body)
    }

    /// Returns the trust of the sender that triggered the run.
    pub fn sender_trust(&self) -> Trust {
        Trust::parse_stored(&self.message.trust)
    }
}

/// One piece of context.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// The persona's short working memory, as far as the run's readers may see it.
    ActiveMemory { text: String, label: TextLabel },
    /// Entries of memory about the people around the run, with their ids.
    Remembered {
        text: String,
        label: TextLabel,
        entries: Vec<String>,
    },
    /// A standing text. `required` ones are never dropped and make the system text; the others were
    /// chosen for the letter and stand with it.
    System { text: String, required: bool },
    /// All of the persona's knowledge: it stands in the system text, since it is the same for every letter, and may go.
    WholeKnowledge(String),
    /// The summary of the thread up to this message.
    Summary {
        text: String,
        upto_seq: i64,
        label: TextLabel,
    },
    /// Letters that the run is to summarise.
    ToSummarise {
        text: String,
        made_of: Box<SummaryInputs>,
    },
    /// Whole exchanges, oldest first.
    History(Vec<Exchange>),
    /// Facts about the triggering message, for the head of the input.
    Metadata(String),
    /// The text of the input.
    Input(String),
    /// An image of the input; `None`: it did not fit.
    Image(Option<Image>),
    /// A PDF file of the input; `None`: it did not fit.
    Pdf(Option<PdfFile>),
}

/// A past trigger with everything that it caused: never split.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    pub messages: Vec<Message>,
    pub tokens: usize,
    /// Trust of the texts in it, except for tool results.
    pub words: TextLabel,
    /// Names and recorded results of its tool calls.
    pub results: Vec<(String, String)>,
}

/// Contribution of a resolver.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contribution {
    /// Pieces, each with its source: a file, a message id.
    pub pieces: Vec<(String, Piece)>,
    /// Reason why there is no piece, or what was left out.
    pub note: Option<String>,
    /// Sources that exist and gave nothing, with the reason.
    pub left_out: Vec<(String, String)>,
    /// `true`: there is no piece because this run must not have it; a required step accepts that.
    pub is_withheld: bool,
}

impl Contribution {
    pub fn nothing(why: impl Into<String>) -> Self {
        Self {
            note: Some(why.into()),
            ..Self::default()
        }
    }
    /// Returns a contribution that is empty on purpose.
    pub fn withheld(why: impl Into<String>) -> Self {
        Self {
            is_withheld: true,
            ..Self::nothing(why)
        }
    }
    pub fn one(source: impl Into<String>, piece: Piece) -> Self {
        Self {
            pieces: vec![(source.into(), piece)],
            ..Self::default()
        }
    }
    /// Adds a note.
    #[must_use]
    pub fn noted(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }
}

/// Reason why a context cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The operator must change a file; the run fails with class `config`.
    #[error("resolver `{resolver}`: {problem}")]
    Config { resolver: String, problem: String },
    /// A file that every run has is gone; the run waits for it.
    #[error("resolver `{resolver}`: no file `{path}`")]
    NoText { resolver: String, path: String },
    /// The machine could not read it now; the run is retried later.
    #[error("resolver `{resolver}`: {problem}")]
    Machine { resolver: String, problem: String },
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The record of a past context, assembled again, lacks a read of the resolver.
    #[error("resolver `{resolver}`: {what} was not read then")]
    NotRecorded { resolver: String, what: String },
}

/// Returns the resolver of that name.
pub fn find(name: &str) -> Option<&'static dyn Resolver> {
    RESOLVERS
        .iter()
        .copied()
        .find(|resolver| resolver.name() == name)
}

/// Estimates the tokens of a text at 3.5 characters each, rounded up; for budgets only, never for
/// billing.
pub fn estimate_tokens(text: &str) -> usize {
    (text.chars().count() * 2).div_ceil(7)
}

/// Cuts a text to at most that many tokens, between characters, and notes how much is missing where
/// there is room for the note.
pub fn cut_to_tokens(text: &str, tokens: usize) -> Option<String> {
    let chars_max = tokens * 7 / 2;
    text.char_indices().nth(chars_max)?;
    let up_to = |chars: usize| {
        text.char_indices()
            .nth(chars)
            .map_or(text, |(end, _)| &text[..end])
    };
    let remark = |kept: &str| {
        let missing = text.chars().count() - kept.chars().count();
        format!("\n[… {missing} more characters are stored and not shown]")
    };
    // The note is longest for a text of which nothing is kept.
    let room = chars_max.checked_sub(remark("").chars().count());
    Some(match room.filter(|room| *room > 0).map(up_to) {
        Some(kept) => format!("{kept}{}", remark(kept)),
        None => up_to(chars_max).to_owned(),
    })
}

/// Trims a contribution to a configured budget, whatever its resolver made of it: pieces from the
/// end on are cut or left out, of history the oldest exchanges.
pub fn within_budget(contribution: &mut Contribution, budget_tokens: usize) {
    let mut left = budget_tokens;
    let mut is_cut = false;
    contribution.pieces.retain_mut(|(_, piece)| {
        let tokens = piece.tokens();
        if tokens > left {
            is_cut = true;
            piece.cut(left);
        }
        left = left.saturating_sub(piece.tokens());
        !piece.is_empty()
    });
    if is_cut && contribution.note.is_none() {
        contribution.note = Some("cut at its budget".to_owned());
    }
}

impl Piece {
    /// Returns estimated tokens.
    pub fn tokens(&self) -> usize {
        match self {
            Piece::ActiveMemory { text, .. }
            | Piece::Remembered { text, .. }
            | Piece::System { text, .. }
            | Piece::Summary { text, .. }
            | Piece::ToSummarise { text, .. }
            | Piece::WholeKnowledge(text)
            | Piece::Metadata(text)
            | Piece::Input(text) => estimate_tokens(text),
            Piece::History(exchanges) => exchanges.iter().map(|exchange| exchange.tokens).sum(),
            Piece::Image(image) => image.as_ref().map_or(0, |_| usize::from(IMAGE_TOKENS)),
            Piece::Pdf(pdf) => pdf.as_ref().map_or(0, |pdf| pdf.tokens as usize),
        }
    }

    fn cut(&mut self, tokens: usize) {
        match self {
            Piece::ActiveMemory { text, .. }
            | Piece::Remembered { text, .. }
            | Piece::System { text, .. }
            | Piece::Summary { text, .. }
            | Piece::ToSummarise { text, .. }
            | Piece::WholeKnowledge(text)
            | Piece::Metadata(text)
            | Piece::Input(text) => {
                if let Some(cut) = cut_to_tokens(text, tokens) {
                    *text = cut;
                }
            }
            Piece::History(exchanges) => {
                *exchanges = thread_history::newest_within(std::mem::take(exchanges), tokens).0;
            }
            Piece::Image(image) => *image = None,
            Piece::Pdf(pdf) => *pdf = None,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Piece::ActiveMemory { text, .. }
            | Piece::Remembered { text, .. }
            | Piece::System { text, .. }
            | Piece::Summary { text, .. }
            | Piece::ToSummarise { text, .. }
            | Piece::WholeKnowledge(text)
            | Piece::Metadata(text)
            | Piece::Input(text) => text.is_empty(),
            // The report notes history that did not fit.
            Piece::History(_) => false,
            Piece::Image(image) => image.is_none(),
            Piece::Pdf(pdf) => pdf.is_none(),
        }
    }
}

/// Returns a note on a text that [`read_text`] had to repair, to explain odd characters to the
/// model.
fn garbled(text: &str) -> Option<String> {
    text.contains(char::REPLACEMENT_CHARACTER)
        .then(|| "not UTF-8, so the model reads `�` there".to_owned())
}
