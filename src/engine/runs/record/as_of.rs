//! Contexts as of a past run: every context that a run was given can be assembled again from its
//! recorded sources, although memory, knowledge, configuration and threads have changed since.
//!
//! Absent on purpose: folders and clocks. Once loaded, an [`AsOf`] holds values only.

use crate::config::Config;
use crate::context::resolvers::reads::BaseFolder;
use crate::context::resolvers::record::{ReadLog, ReadRecord};
use crate::context::resolvers::recorded::RecordedSources;
use crate::context::resolvers::{PdfFacts, ResolveError, Subject};
use crate::context::{
    self, Context, ContextCause, ContextReport, EntryOutcome, ReportEntry, Sources,
};
use crate::domain::{PersonaId, RunId, ThreadId, Timestamp};
use crate::runs::env::ContextOrder;
use crate::store::{
    Assembly, AttachmentInfo, MessageFile, NewSources, RunSummary, SharedPart, Store, StoreError,
    StoredMessage,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::sync::Arc;

/// File of a persona that says who it is.
const PERSONA_FILE: &str = "PERSONA.md";

/// Record of one assembly of a context; the shape of `run_turns.sources_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// Digest of the configuration.
    pub config: String,
    pub now: String,
    /// Thread id when the context was assembled: threads can be folded into another later.
    pub thread: String,
    pub has_past: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachmentInfo>,
    /// What was known of its PDF files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pdfs: Vec<PdfFacts>,
    pub allowed_tokens: usize,
    pub budget_tokens: usize,
    pub reads: Vec<ReadRecord>,
    pub report: ContextReport,
}

/// Records the sources of a context. Errors: those of JSON, which no field of a [`Note`] can cause.
pub fn sources(
    config: &Config,
    order: &ContextOrder<'_>,
    seen: ReadLog,
    report: &ContextReport,
) -> Result<NewSources, serde_json::Error> {
    let note = Note {
        config: config.snapshot.sha256().to_owned(),
        now: order.now.to_string(),
        thread: order.subject.message.thread.to_string(),
        has_past: order.subject.has_past,
        readers: order.subject.readers.clone(),
        attachments: order.subject.attachments.clone(),
        pdfs: order.subject.pdfs.clone(),
        allowed_tokens: order.allowed_tokens,
        // Of what is left beside the tools that stay.
        budget_tokens: report.budget_tokens,
        reads: seen.reads,
        report: report.clone(),
    };
    let json = serde_json::to_string(&note)?;
    Ok(NewSources {
        json,
        texts: seen.texts,
        config: config.snapshot.clone(),
    })
}

/// Returns what most runs of a persona have in common, as a dictionary for their records: the first request without its messages,
/// and of the note of sources what tells nothing about a letter. Whoever keeps the dictionary keeps the texts in `files`: so
/// they are those that an owner changes, now and then, and not the memory of the persona.
pub fn shared_part(
    request_json: &str,
    sources: &NewSources,
) -> Result<SharedPart, serde_json::Error> {
    #[derive(Serialize)]
    struct Shared<'s> {
        request: &'s RawValue,
        files: &'s BTreeSet<String>,
        note: Common<'s>,
    }
    #[derive(Serialize)]
    struct Common<'s> {
        config: &'s str,
        reads: Vec<&'s ReadRecord>,
        entries: Vec<&'s ReportEntry>,
    }
    let note: Note = serde_json::from_str(&sources.json)?;
    // A file of the owner, or nothing: other entries name letters and people.
    let is_common = |entry: &&ReportEntry| {
        entry.outcome == EntryOutcome::Empty
            || ["load-file", "persona", "skills"].contains(&entry.resolver.as_str())
    };
    let (mut reads, mut files) = (Vec::new(), BTreeSet::new());
    for read in &note.reads {
        let ReadRecord::File {
            place,
            path,
            sha256,
        } = read
        else {
            continue;
        };
        if *place == BaseFolder::Workspace || path == PERSONA_FILE {
            reads.push(read);
            files.extend(sha256.clone());
        }
    }
    let json = serde_json::to_string(&Shared {
        request: serde_json::from_str(request_json)?,
        files: &files,
        note: Common {
            config: &note.config,
            entries: note.report.entries.iter().filter(is_common).collect(),
            reads,
        },
    })?;
    Ok(SharedPart { json, files })
}

/// One context of a run, with everything to assemble it again.
#[derive(Debug, Clone)]
pub struct AsOf {
    pub run: RunId,
    pub persona: PersonaId,
    pub profile: String,
    /// First turn whose request carried this context.
    pub turn_index: u32,
    pub attempt: u32,
    /// Digest of the configuration; see [`Configs`].
    pub config: String,
    pub subject: Subject,
    pub now: Timestamp,
    pub allowed_tokens: usize,
    pub budget_tokens: usize,
    pub reads: RecordedSources,
    /// Report that was recorded with the context.
    pub report: ContextReport,
    /// Normalised request that was recorded with the turn.
    pub request_json: Arc<str>,
}

/// Reason why a context cannot be assembled again.
#[derive(Debug, thiserror::Error)]
pub enum AsOfError {
    #[error("run `{0}` was never given a context: no model was asked")]
    NoContext(RunId),
    #[error("what run `{0}` was told was pruned on {1} (`attache gc`)")]
    Pruned(RunId, Timestamp),
    #[error("what run `{0}` was told is redacted: its owner erased it, on {1}")]
    Redacted(RunId, Timestamp),
    /// Run of an engine version that did not record sources yet.
    #[error("run `{0}` is older than the record of what contexts are assembled from")]
    NotRecorded(RunId),
    #[error("the configuration {digest} cannot be had: {why}")]
    Config { digest: String, why: String },
    /// Stored configuration that does not match its digest.
    #[error("the configuration {0} was changed in the database")]
    ConfigChanged(String),
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AsOf {
    /// Returns every context of a run, in order: the first one, and one for each time that it had
    /// to be shortened.
    ///
    /// Errors: [`AsOfError::NoContext`], [`AsOfError::Pruned`], [`AsOfError::Redacted`],
    /// [`AsOfError::NotRecorded`], [`AsOfError::Store`].
    pub async fn of_run(store: &Store, run: &RunId) -> Result<Vec<AsOf>, AsOfError> {
        let summary = store.run_summary(run).await?;
        let persona = store.persona(&summary.persona);
        let assemblies = persona.assemblies_of_run(run).await?;
        if assemblies.is_empty() {
            let turns = persona.turns_of_run(run).await?;
            let redacted = turns.iter().find_map(|turn| turn.redacted_at);
            let pruned = turns.iter().find_map(|turn| turn.pruned_at);
            return Err(match (redacted, pruned) {
                (Some(at), _) => AsOfError::Redacted(run.clone(), at),
                (None, Some(at)) => AsOfError::Pruned(run.clone(), at),
                (None, None) => AsOfError::NoContext(run.clone()),
            });
        }
        let message = persona.message(&summary.trigger_message).await?;
        let mut contexts = Vec::with_capacity(assemblies.len());
        for assembly in assemblies {
            let Some(json) = &assembly.sources_json else {
                return Err(AsOfError::NotRecorded(run.clone()));
            };
            let unreadable = StoreError::Unreadable {
                what: "sources of a context",
            };
            let note: Note = serde_json::from_str(json).map_err(|_| unreadable)?;
            let reads = RecordedSources::load(&persona, &note.reads).await?;
            let files = persona.files_among(&message.id, &note.attachments).await?;
            if let Some(at) = pruned_file(&note.report, &files) {
                return Err(AsOfError::Pruned(run.clone(), at));
            }
            let mut context = AsOf::new(&summary, message.clone(), assembly, note, reads)?;
            context.subject.files = files;
            contexts.push(context);
        }
        Ok(contexts)
    }

    fn new(
        run: &RunSummary,
        message: StoredMessage,
        assembly: Assembly,
        note: Note,
        reads: RecordedSources,
    ) -> Result<Self, StoreError> {
        let message = StoredMessage {
            thread: ThreadId::new(note.thread),
            ..message
        };
        let Note {
            attachments,
            pdfs,
            readers,
            has_past,
            ..
        } = note;
        Ok(AsOf {
            run: run.id.clone(),
            persona: run.persona.clone(),
            profile: run.profile.clone(),
            turn_index: assembly.turn_index,
            attempt: assembly.attempt,
            config: note.config,
            subject: Subject {
                trigger: run.trigger,
                message,
                attachments,
                files: Vec::new(),
                pdfs,
                readers,
                has_past,
                tools: RecordedTools::read(&assembly.request_json)?,
            },
            now: Timestamp::parse(&note.now).ok_or(StoreError::Unreadable { what: "time" })?,
            allowed_tokens: note.allowed_tokens,
            budget_tokens: note.budget_tokens,
            reads,
            report: note.report,
            request_json: assembly.request_json.into(),
        })
    }

    /// Assembles the context again, with the compiled-in pipeline and the given configuration.
    pub async fn assemble(&self, config: &Config) -> Result<(Context, ContextReport), AsOfError> {
        let missing = |what: String| AsOfError::Config {
            digest: self.config.clone(),
            why: what,
        };
        let persona = config.personas.get(&self.persona);
        let persona =
            persona.ok_or_else(|| missing(format!("it has no persona `{}`", self.persona)))?;
        let profile = config.profile_of(&self.profile, self.subject.trigger);
        let profile =
            profile.ok_or_else(|| missing(format!("it has no profile `{}`", self.profile)))?;
        let sources = Sources {
            persona,
            reads: &self.reads,
            subject: &self.subject,
            now: self.now,
        };
        let (context, mut report) = context::assemble(
            sources,
            (&self.profile, &profile),
            self.allowed_tokens,
            self.budget_tokens,
        )
        .await?;
        report.note.clone_from(&self.report.note);
        Ok((context, report))
    }

    /// Assembles the context again and returns the first difference from the recorded one; `None`:
    /// both are equal, byte for byte.
    pub async fn cause(&self, config: &Config) -> Result<Option<ContextCause>, AsOfError> {
        let (context, report) = match self.assemble(config).await {
            Ok(assembled) => assembled,
            Err(AsOfError::Resolve(ResolveError::NotRecorded { resolver, what })) => {
                if let Some(earlier) = self.behind(config).await {
                    return Ok(Some(earlier));
                }
                let what = format!("{what} was not read then");
                return Ok(Some(self.explained(ContextCause {
                    resolver,
                    source: String::new(),
                    what,
                })));
            }
            Err(error) => return Err(error),
        };
        if let Some(cause) = self.report.cause(&report) {
            return Ok(Some(self.explained(cause)));
        }
        let recorded = RecordedPrompt::read(&self.request_json)?;
        let same = |then: &RawValue, now: serde_json::Result<String>| {
            now.is_ok_and(|now| now == then.get())
        };
        let is_same = same(recorded.system, serde_json::to_string(&context.system()))
            && same(
                recorded.messages,
                serde_json::to_string(&context.messages()),
            );
        Ok((!is_same).then(|| ContextCause {
            resolver: "assembly".to_owned(),
            source: self.profile.clone(),
            what: "every resolver gave the same, and it was put together otherwise".to_owned(),
        }))
    }

    /// Finds the earlier entry that changed a resolver's search terms, such as a changed letter.
    async fn behind(&self, config: &Config) -> Option<ContextCause> {
        let lenient = AsOf {
            reads: self.reads.leniently(),
            ..self.clone()
        };
        let (_, report) = lenient.assemble(config).await.ok()?;
        self.report
            .cause(&report)
            .map(|cause| self.explained(cause))
    }

    /// Adds the recorded damage of its source to a cause.
    fn explained(&self, mut cause: ContextCause) -> ContextCause {
        let concerns = |of: &str| match cause.resolver.as_str() {
            "knowledge" => of.starts_with("knowledge/"),
            "thread-history" => of.starts_with("message number") || of == "tool traces",
            _ => cause.source.contains(of) || cause.what.contains(of),
        };
        let damage = self
            .reads
            .damages()
            .iter()
            .find(|damage| concerns(&damage.of));
        if let Some(damage) = damage {
            cause.what = format!("{}; {}: {}", cause.what, damage.of, damage.what);
        }
        cause
    }
}

/// Returns when a file that the model was shown was pruned; `None`: none was.
fn pruned_file(report: &ContextReport, files: &[MessageFile]) -> Option<Timestamp> {
    let is_of = |entry: &ReportEntry, file: &MessageFile| {
        entry.outcome == EntryOutcome::Used && entry.sha256.as_ref() == Some(&file.sha256)
    };
    let mut shown = files
        .iter()
        .filter(|file| report.entries.iter().any(|entry| is_of(entry, file)));
    shown.find_map(|file| file.pruned_at)
}

/// The part of a normalised request that comes from the context.
#[derive(Deserialize)]
struct RecordedPrompt<'j> {
    #[serde(borrow)]
    system: &'j RawValue,
    #[serde(borrow)]
    messages: &'j RawValue,
}

/// Names of the tools in a recorded request.
#[derive(Deserialize)]
struct RecordedTools {
    tools: Vec<RecordedTool>,
}

#[derive(Deserialize)]
struct RecordedTool {
    name: String,
}

impl RecordedTools {
    fn read(json: &str) -> Result<Vec<String>, StoreError> {
        let read: Self = serde_json::from_str(json).map_err(|_| StoreError::Unreadable {
            what: "context of a run",
        })?;
        Ok(read.tools.into_iter().map(|tool| tool.name).collect())
    }
}

impl<'j> RecordedPrompt<'j> {
    fn read(json: &'j str) -> Result<Self, StoreError> {
        serde_json::from_str(json).map_err(|_| StoreError::Unreadable {
            what: "context of a run",
        })
    }
}
