//! Pipeline of `configs/context.json`: resolvers in order, a token budget over all, and a report of
//! both.
//!
//! Kept at any budget: the persona's own texts and the current input. Trimmed first: knowledge and what else was chosen for the
//! letter, the last section first; then history, whole exchanges from the oldest on; then memory and files.

pub mod prompt;
pub mod resolvers;
mod input;
mod results;
mod report;

pub use input::Input;
pub use report::{ContextCause, ContextReport, EntryOutcome, ReportEntry};
pub use results::words_of_result;

use crate::config::{ContextProfile, ContextStep, Persona};
use crate::domain::TextLabel;
use crate::domain::{ThreadId, Timestamp, Trust, sha256_hex};
use crate::providers::contract::traits::{Block, FileReference, Message, Role};
use crate::store::SummaryInputs;
use crate::tools::ToolRegistry;
use resolvers::reads::Reads;
use resolvers::thread_history::newest_within;
use resolvers::{
    Contribution, Exchange, Piece, ResolveError, ResolverCall, Subject, estimate_tokens,
};

/// Context of a run, before any provider's dialect.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    pub thread_id: ThreadId,
    pub system_sections: Vec<String>,
    /// Whole exchanges, oldest first.
    pub history: Vec<Exchange>,
    pub input: Input,
    /// Label of the notes beside the input.
    pub notes_label: TextLabel,
    /// Ids of the entries of memory beside the input.
    pub memory: Vec<String>,
    /// What the input is made of, where it is to be summarised.
    pub to_summarise: Option<SummaryInputs>,
}

/// Inputs of the pipeline.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    pub persona: &'a Persona,
    pub reads: &'a dyn Reads,
    pub subject: &'a Subject,
    pub now: Timestamp,
}

/// A tool whose description may make room for the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpareTool {
    pub name: String,
    /// Estimated tokens of its description.
    pub tokens: usize,
}

/// Tools that may go, in the order in which they go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpareTools {
    /// They go before any part of the context.
    pub rare: Vec<SpareTool>,
    /// They go when nothing of the context can.
    pub basic: Vec<SpareTool>,
}

impl SpareTools {
    /// Returns the tokens of all of them.
    pub fn tokens(&self) -> usize {
        let all = self.rare.iter().chain(&self.basic);
        all.map(|tool| tool.tokens).sum()
    }
}

/// One piece and its origin, while the pipeline runs.
struct PlacedPiece {
    entry: usize,
    piece: Piece,
}

/// Runs the pipeline of a profile. `allowed_tokens` bounds what each step may contribute,
/// `budget_tokens` the whole; the latter is lower for a model with a smaller window: then history
/// is trimmed, and not the end of the letter.
pub async fn assemble(
    sources: Sources<'_>,
    profile: (&str, &ContextProfile),
    allowed_tokens: usize,
    budget_tokens: usize,
) -> Result<(Context, ContextReport), ResolveError> {
    let mut report = ContextReport {
        profile: profile.0.to_owned(),
        budget_tokens,
        used_tokens: 0,
        note: None,
        entries: Vec::new(),
    };
    let mut gathered = Vec::new();
    for step in &profile.1.steps {
        resolve_step(sources, step, allowed_tokens, &mut gathered, &mut report).await?;
    }
    trim(&mut gathered, &mut report);
    for item in &gathered {
        let entry = &mut report.entries[item.entry];
        entry.sha256 = digest(&item.piece);
        entry.label = label(&item.piece, sources.subject);
    }
    report.used_tokens = report.entries.iter().map(|entry| entry.tokens).sum();
    Ok((build(sources.subject, gathered), report))
}

/// Assembles a context beside the tools of its request: `tokens` are those that each step's share is computed from, and those
/// of the whole if none of the tools in `spare` is offered. Returns the names of the tools that have to go.
pub async fn assemble_beside(
    sources: Sources<'_>,
    profile: (&str, &ContextProfile),
    allowed_tokens: usize,
    budget_tokens: usize,
    spare: &SpareTools,
) -> Result<(Context, ContextReport, Vec<String>), ResolveError> {
    let mut subject = sources.subject.clone();
    let mut gone: Vec<String> = Vec::new();
    let mut offered = spare.tokens();
    let room = |offered: usize| allowed_tokens.min(budget_tokens.saturating_sub(offered));
    if !spare.rare.is_empty() {
        let (_, whole) = assemble(sources, profile, allowed_tokens, usize::MAX).await?;
        for tool in &spare.rare {
            if whole.used_tokens.min(allowed_tokens) <= room(offered) {
                break;
            }
            offered -= tool.tokens;
            gone.push(tool.name.clone());
        }
    }
    loop {
        subject.tools.retain(|name| !gone.contains(name));
        let sources = Sources {
            subject: &subject,
            ..sources
        };
        let (context, report) = assemble(sources, profile, allowed_tokens, room(offered)).await?;
        let before = gone.len();
        for tool in &spare.basic {
            if gone.contains(&tool.name) || report.used_tokens <= room(offered) {
                continue;
            }
            offered -= tool.tokens;
            gone.push(tool.name.clone());
        }
        // The prompts speak of the tools that are offered.
        if gone.len() == before {
            return Ok((context, report, gone));
        }
    }
}

async fn resolve_step(
    sources: Sources<'_>,
    step: &ContextStep,
    allowed_tokens: usize,
    gathered: &mut Vec<PlacedPiece>,
    report: &mut ContextReport,
) -> Result<(), ResolveError> {
    let broken = |problem: String| ResolveError::Config {
        resolver: step.resolver.clone(),
        problem,
    };
    let resolver =
        resolvers::find(&step.resolver).ok_or_else(|| broken("no such resolver".to_owned()))?;
    if !resolver.arguments().contains(&step.args.len()) {
        return Err(broken(format!(
            "takes {:?} arguments, not {}",
            resolver.arguments(),
            step.args.len()
        )));
    }
    let args: Vec<String> = step.args.iter().map(|arg| expand(arg, sources)).collect();
    let upto = gathered.iter().find_map(|placed| match &placed.piece {
        Piece::Summary { upto_seq, .. } => Some(*upto_seq),
        _ => None,
    });
    let remembered = gathered.iter().filter_map(|placed| match &placed.piece {
        Piece::Remembered { entries, .. } => Some(entries),
        _ => None,
    });
    let remembered: Vec<String> = remembered.flatten().cloned().collect();
    let call = ResolverCall {
        summarised_upto: upto,
        remembered: &remembered,
        args: &args,
        is_optional: step.is_optional(),
        budget_tokens: step.budget_tokens.unwrap_or(allowed_tokens / 2),
        room_tokens: report.budget_tokens.min(allowed_tokens),
        persona: sources.persona,
        reads: sources.reads,
        subject: sources.subject,
        now: sources.now,
    };
    let mut contribution = resolver.resolve(call).await?;
    if let Some(budget_tokens) = step.budget_tokens {
        resolvers::within_budget(&mut contribution, budget_tokens);
    }
    if contribution.pieces.is_empty() && step.required == Some(true) && !contribution.is_withheld {
        let why = contribution.note.unwrap_or_default();
        return Err(broken(format!("is required and gave nothing: {why}")));
    }
    record(step, contribution, args.join(", "), gathered, report);
    Ok(())
}

/// Appends the pieces of a contribution, and an entry of the report for each and for what was left
/// out.
fn record(
    step: &ContextStep,
    contribution: Contribution,
    args: String,
    gathered: &mut Vec<PlacedPiece>,
    report: &mut ContextReport,
) {
    let entry = |source: String, outcome: EntryOutcome, why: Option<String>| ReportEntry {
        resolver: step.resolver.clone(),
        source,
        bytes: 0,
        tokens: 0,
        outcome,
        why,
        sha256: None,
        label: TextLabel::default(),
    };
    let note = contribution.note;
    if contribution.pieces.is_empty() {
        let empty = entry(args, EntryOutcome::Empty, note.clone());
        report.entries.push(empty);
    }
    let outcome = match note {
        Some(_) => EntryOutcome::Trimmed,
        None => EntryOutcome::Used,
    };
    for (source, piece) in contribution.pieces {
        let (bytes, tokens) = size(&piece);
        gathered.push(PlacedPiece {
            entry: report.entries.len(),
            piece,
        });
        report.entries.push(ReportEntry {
            bytes,
            tokens,
            ..entry(source, outcome, note.clone())
        });
    }
    let left_out = contribution.left_out.into_iter();
    let left_out = left_out.map(|(source, why)| entry(source, EntryOutcome::LeftOut, Some(why)));
    report.entries.extend(left_out);
}

/// Expands `{persona_id}`-style placeholders of an argument.
fn expand(arg: &str, sources: Sources<'_>) -> String {
    arg.replace("{persona_id}", sources.persona.id.as_str())
        .replace("{thread_id}", sources.subject.message.thread.as_str())
        .replace("{trigger}", sources.subject.trigger.as_str())
}

/// Returns bytes and estimated tokens.
fn size(piece: &Piece) -> (usize, usize) {
    let bytes = match piece {
        Piece::ActiveMemory { text, .. }
        | Piece::Remembered { text, .. }
        | Piece::System { text, .. }
        | Piece::Summary { text, .. }
        | Piece::ToSummarise { text, .. }
        | Piece::WholeKnowledge(text)
        | Piece::Metadata(text)
        | Piece::Input(text) => text.len(),
        Piece::Image(image) => image.as_ref().map_or(0, |image| file_bytes(&image.file)),
        Piece::Pdf(pdf) => pdf.as_ref().map_or(0, |pdf| file_bytes(&pdf.file)),
        Piece::History(exchanges) => {
            let blocks = exchanges
                .iter()
                .flat_map(|e| &e.messages)
                .flat_map(|m| &m.blocks);
            blocks.map(block_bytes).sum()
        }
    };
    (bytes, piece.tokens())
}

fn block_bytes(block: &Block) -> usize {
    match block {
        Block::Text { text } | Block::Thinking { text, .. } => text.len(),
        Block::ToolCall { args, .. } => serde_json::to_string(args).map_or(0, |json| json.len()),
        Block::ToolResult { content, .. } => content.len(),
        Block::Image(image) => file_bytes(&image.file),
        Block::Pdf(pdf) => file_bytes(&pdf.file),
        Block::FileReference(file) => file.name.len(),
    }
}

fn file_bytes(file: &FileReference) -> usize {
    usize::try_from(file.size_bytes).unwrap_or(usize::MAX)
}

/// Returns the digest of the part of a piece that is sent; `None` when nothing is.
fn digest(piece: &Piece) -> Option<String> {
    match piece {
        Piece::ActiveMemory { text, .. }
        | Piece::Remembered { text, .. }
        | Piece::System { text, .. }
        | Piece::Summary { text, .. }
        | Piece::ToSummarise { text, .. }
        | Piece::WholeKnowledge(text)
        | Piece::Metadata(text)
        | Piece::Input(text) => Some(sha256_hex(&[text.as_bytes()])),
        Piece::Image(image) => image.as_ref().map(|image| image.file.digest.clone()),
        Piece::Pdf(pdf) => pdf.as_ref().map(|pdf| pdf.file.digest.clone()),
        Piece::History(exchanges) if exchanges.is_empty() => None,
        Piece::History(exchanges) => {
            let messages: Vec<&Message> = exchanges
                .iter()
                .flat_map(|exchange| &exchange.messages)
                .collect();
            serde_json::to_vec(&messages)
                .ok()
                .map(|json| sha256_hex(&[&json]))
        }
    }
}

/// Returns the label of a piece, for the report.
fn label(piece: &Piece, subject: &Subject) -> TextLabel {
    match piece {
        Piece::ActiveMemory { label, .. }
        | Piece::Remembered { label, .. }
        | Piece::Summary { label, .. } => label.clone(),
        Piece::ToSummarise { made_of, .. } => made_of.label.clone(),
        Piece::History(exchanges) => exchanges
            .iter()
            .map(|exchange| exchange.words.clone())
            .fold(TextLabel::default(), TextLabel::and),
        Piece::Input(_) => TextLabel {
            lowest: Some(subject.sender_trust()),
            ..TextLabel::default()
        },
        Piece::Image(_) | Piece::Pdf(_) => of_file(),
        Piece::System { .. } | Piece::WholeKnowledge(_) | Piece::Metadata(_) => {
            TextLabel::default()
        }
    }
}

/// Returns the label of an image or a PDF file: nobody knows who wrote what can be read on it, whoever sent it.
fn of_file() -> TextLabel {
    TextLabel {
        lowest: Some(Trust::Unknown),
        ..TextLabel::default()
    }
}

/// Trims the whole to its budget: first sections that were chosen for the letter, the last one first; then history, oldest
/// exchange first; then memory and files, the last one first.
fn trim(gathered: &mut Vec<PlacedPiece>, report: &mut ContextReport) {
    drop_while_too_long(gathered, report, |piece| {
        matches!(
            piece,
            Piece::System {
                required: false,
                ..
            } | Piece::WholeKnowledge(_)
        )
    });
    let excess = total(report).saturating_sub(report.budget_tokens);
    if excess == 0 {
        return;
    }
    for item in gathered.iter_mut() {
        if let Piece::History(exchanges) = &mut item.piece {
            let entry = &mut report.entries[item.entry];
            let (kept, left_out) = newest_within(
                std::mem::take(exchanges),
                entry.tokens.saturating_sub(excess),
            );
            *exchanges = kept;
            if left_out > 0 {
                (entry.bytes, entry.tokens) = size(&item.piece);
                entry.outcome = if entry.tokens == 0 {
                    EntryOutcome::Dropped
                } else {
                    EntryOutcome::Trimmed
                };
                entry.why = Some(format!(
                    "{left_out} older exchanges did not fit the context budget"
                ));
            }
        }
    }
    drop_while_too_long(gathered, report, |piece| {
        matches!(
            piece,
            Piece::Remembered { .. } | Piece::Image(_) | Piece::Pdf(_)
        )
    });
}

fn total(report: &ContextReport) -> usize {
    report.entries.iter().map(|entry| entry.tokens).sum()
}

/// Drops pieces of that kind, the last one first, while the whole is longer than its budget.
fn drop_while_too_long(
    gathered: &mut Vec<PlacedPiece>,
    report: &mut ContextReport,
    may_go: impl Fn(&Piece) -> bool,
) {
    let mut index = gathered.len();
    while index > 0 && total(report) > report.budget_tokens {
        index -= 1;
        if may_go(&gathered[index].piece) {
            let entry = &mut report.entries[gathered[index].entry];
            (entry.bytes, entry.tokens, entry.outcome) = (0, 0, EntryOutcome::Dropped);
            entry.why = Some("did not fit the context budget".to_owned());
            gathered.remove(index);
        }
    }
}

fn build(subject: &Subject, gathered: Vec<PlacedPiece>) -> Context {
    let message_id = subject.message.id.clone();
    let mut context = Context {
        thread_id: subject.message.thread.clone(),
        system_sections: Vec::new(),
        history: Vec::new(),
        input: Input {
            message_id,
            text: String::new(),
            is_task: subject.is_task(),
            metadata: String::new(),
            knowledge: Vec::new(),
            notes: None,
            remembered: None,
            images: Vec::new(),
            pdfs: Vec::new(),
        },
        notes_label: TextLabel::default(),
        memory: Vec::new(),
        to_summarise: None,
    };
    for item in gathered {
        match item.piece {
            Piece::ActiveMemory { text, label } => {
                context.input.notes = Some(text);
                context.notes_label = context.notes_label.and(label);
            }
            Piece::Remembered {
                text,
                label,
                entries,
            } => {
                context.memory.extend(entries);
                let before = context.input.remembered.get_or_insert_default();
                before.push_str(&text);
                context.notes_label = context.notes_label.and(label);
            }
            Piece::System {
                text,
                required: true,
            } => context.system_sections.push(text),
            // The same for every letter, so that it is cached with the rest of the system text.
            Piece::WholeKnowledge(text) => context.system_sections.push(input::knowledge(&text)),
            // What changes from letter to letter stands behind the history, so that the vendor's
            // cache of the beginning serves the whole thread.
            Piece::System { text, .. } => context.input.knowledge.push(text),
            // First of all, whatever the order of the steps: it is the older part.
            Piece::Summary { text, label, .. } => {
                let tokens = estimate_tokens(&text);
                context.history.insert(
                    0,
                    Exchange {
                        messages: vec![Message::user(text)],
                        tokens,
                        words: label,
                        results: Vec::new(),
                    },
                );
            }
            Piece::ToSummarise { text, made_of } => {
                context.input.text.push_str(&text);
                context.to_summarise = Some(*made_of);
            }
            Piece::History(exchanges) => context.history.extend(exchanges),
            Piece::Metadata(text) => context.input.metadata.push_str(&text),
            Piece::Input(text) => context.input.text.push_str(&text),
            Piece::Image(image) => context.input.images.extend(image),
            Piece::Pdf(pdf) => context.input.pdfs.extend(pdf),
        }
    }
    context
}

impl Context {
    /// Returns the trust of the texts that the run is given besides its own letter.
    pub fn words(&self, tools: &ToolRegistry) -> TextLabel {
        let past = self.history.iter();
        let found = past.clone().flat_map(|exchange| &exchange.results);
        let found = found.map(|(tool, payload)| words_of_result(tools, tool, payload));
        let seen = self.input.files().map(|_| of_file());
        past.map(|exchange| exchange.words.clone())
            .chain(found)
            .chain(seen)
            .fold(self.notes_label.clone(), TextLabel::and)
    }

    /// Returns the system text, section by section. It holds nothing that a letter can influence.
    pub fn system(&self) -> Vec<String> {
        self.system_sections.clone()
    }

    /// Returns the number of messages before the input: those that the next letter of the thread has
    /// before its own, too.
    pub fn past_messages(&self) -> usize {
        let past = self.history.iter();
        past.map(|exchange| exchange.messages.len()).sum()
    }

    /// Returns history in its alternation, then the input as the last user message.
    pub fn messages(&self) -> Vec<Message> {
        let past = self
            .history
            .iter()
            .flat_map(|exchange| exchange.messages.iter().cloned());
        let images = self.input.images.iter().cloned().map(Block::Image);
        let pdfs = self.input.pdfs.iter().cloned().map(Block::Pdf);
        past.chain([Message {
            role: Role::User,
            blocks: [Block::text(self.input.framed())]
                .into_iter()
                .chain(images)
                .chain(pdfs)
                .collect(),
        }])
        .collect()
    }
}
