//! Recorded reads: every answer comes from the record. Values and nothing else: no folder, no
//! store, so nothing of today can get into a past context.

use super::reads::{BaseFolder, Files, ReadError, ReadFuture, Reads};
use super::record::{PastRow, ReadRecord, RecordedHit};
use crate::domain::{MemoryCircle, MessageId, RunId, ThreadId};
use crate::store::{
    KnowledgeContents, KnowledgeHit, MemoryEntry, PastMessage, PastStep, PersonaStore,
    ShownInstruction, StoreError, StoredText, SummarySoFar, ThreadSummaryText,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sources of a run when its context was assembled.
#[derive(Debug, Clone, Default)]
pub struct RecordedSources {
    files: BTreeMap<(BaseFolder, String), Text>,
    searches: Vec<Search>,
    /// Each with the characters that were asked for.
    contents: Vec<(usize, KnowledgeContents)>,
    left_out: Vec<(String, String)>,
    memory: Option<Vec<MemoryEntry>>,
    pasts: Vec<Past>,
    steps: Vec<(u32, Vec<PastStep>)>,
    /// By thread and number of the run's own message.
    summaries: BTreeMap<(String, i64), RecordedSummary>,
    letters: Vec<RecordedLetters>,
    /// By thread and correspondent.
    instructions: BTreeMap<(String, Option<String>), Vec<ShownInstruction>>,
    damages: Vec<Damage>,
    /// `true`: a search for other terms is answered too.
    is_lenient: bool,
}

#[derive(Debug, Clone)]
enum Text {
    NoFile,
    Is(Arc<str>),
    /// Text that is not kept any more.
    Gone,
}

#[derive(Debug, Clone)]
struct Search {
    terms: Vec<String>,
    limit: u32,
    hits: Vec<KnowledgeHit>,
}

#[derive(Debug, Clone)]
struct Past {
    thread: String,
    before_seq: i64,
    limit: u32,
    chars_max: u32,
    messages: Vec<PastMessage>,
}

#[derive(Debug, Clone)]
enum RecordedSummary {
    Is(SummarySoFar),
    /// Its text is not kept any more.
    Gone,
}

#[derive(Debug, Clone)]
struct RecordedLetters {
    thread: String,
    between: (i64, i64, i64),
    bounds: (u32, u32),
    messages: Vec<PastMessage>,
}

/// Part of the record that differs from what was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Source of the damaged part: a file, a piece of knowledge, a message.
    pub of: String,
    pub what: String,
}

impl RecordedSources {
    /// Fetches the texts and rows of a record. Missing or changed ones are recorded as damage, and
    /// reported when they make a difference.
    pub async fn load(store: &PersonaStore, reads: &[ReadRecord]) -> Result<Self, StoreError> {
        let digests: Vec<&str> = reads.iter().flat_map(ReadRecord::digests).collect();
        let texts = store.texts(&digests).await?;
        let mut recorded = Self::default();
        for read in reads {
            match read {
                ReadRecord::File {
                    place,
                    path,
                    sha256,
                } => {
                    let text = match sha256 {
                        None => Text::NoFile,
                        Some(digest) => recorded
                            .kept(path, digest, &texts)
                            .map_or(Text::Gone, Text::Is),
                    };
                    recorded.files.insert((*place, path.clone()), text);
                }
                ReadRecord::Knowledge { terms, limit, hits } => {
                    let hits = hits
                        .iter()
                        .filter_map(|hit| recorded.hit(hit, &texts))
                        .collect();
                    recorded.searches.push(Search {
                        terms: terms.clone(),
                        limit: *limit,
                        hits,
                    });
                }
                ReadRecord::KnowledgeContents {
                    chars_max,
                    files,
                    more_files,
                    chars,
                    pieces,
                } => {
                    let pieces = pieces
                        .iter()
                        .filter_map(|piece| recorded.hit(piece, &texts))
                        .collect();
                    let contents = KnowledgeContents {
                        files: files.clone(),
                        more_files: *more_files,
                        chars: *chars,
                        pieces,
                    };
                    recorded.contents.push((*chars_max, contents));
                }
                ReadRecord::KnowledgeLeftOut { files } => {
                    recorded.left_out.extend_from_slice(files);
                }
                ReadRecord::Memory { entries } => recorded.load_memory(store, entries).await?,
                ReadRecord::Summary {
                    thread,
                    before_seq,
                    found,
                    flagged,
                } => {
                    let summary = recorded.summary(found.as_ref(), *flagged, &texts);
                    recorded
                        .summaries
                        .insert((thread.clone(), *before_seq), summary);
                }
                ReadRecord::Instructions {
                    thread,
                    contact,
                    found,
                } => {
                    let of = (thread.clone(), contact.clone());
                    recorded.instructions.insert(of, found.clone());
                }
                ReadRecord::PastMessages { .. }
                | ReadRecord::PastSteps { .. }
                | ReadRecord::LettersToSummarise { .. } => {
                    recorded.load_past(store, read).await?;
                }
            }
        }
        Ok(recorded)
    }

    /// Fetches entries of memory; an erased one is damage.
    async fn load_memory(
        &mut self,
        store: &PersonaStore,
        ids: &[String],
    ) -> Result<(), StoreError> {
        let entries = store.recorded_memory(ids).await?;
        let gone = ids.len()
            - entries
                .iter()
                .filter(|entry| entry.erased_at.is_none())
                .count();
        if gone > 0 {
            self.damages.push(Damage {
                of: "memory".to_owned(),
                what: format!("{gone} of {} entries were erased", ids.len()),
            });
        }
        self.memory = Some(entries);
        Ok(())
    }

    /// Fetches the messages or the steps of a thread's past.
    async fn load_past(
        &mut self,
        store: &PersonaStore,
        read: &ReadRecord,
    ) -> Result<(), StoreError> {
        match read {
            ReadRecord::PastMessages {
                thread,
                before_seq,
                limit,
                chars_max,
                messages,
            } => {
                let seqs: Vec<i64> = messages.iter().map(|row| row.seq).collect();
                let found = store.messages_by_seq(&seqs, *chars_max).await?;
                let messages = self.past(messages, found);
                self.pasts.push(Past {
                    thread: thread.clone(),
                    before_seq: *before_seq,
                    limit: *limit,
                    chars_max: *chars_max,
                    messages,
                });
            }
            ReadRecord::LettersToSummarise {
                thread,
                between,
                bounds,
                messages,
            } => {
                let seqs: Vec<i64> = messages.iter().map(|row| row.seq).collect();
                let found = store.messages_by_seq(&seqs, bounds.1).await?;
                let messages = self.past(messages, found);
                self.letters.push(RecordedLetters {
                    thread: thread.clone(),
                    between: *between,
                    bounds: *bounds,
                    messages,
                });
            }
            ReadRecord::PastSteps { chars_max, runs } => {
                let wanted: Vec<_> = runs
                    .iter()
                    .map(|(run, count)| (RunId::new(run), *count))
                    .collect();
                let steps = store.first_steps(&wanted, *chars_max).await?;
                let count: u32 = runs.iter().map(|(_, count)| count).sum();
                if steps.len() != count as usize {
                    let what = format!("{} of {count} steps are still there", steps.len());
                    self.damages.push(Damage {
                        of: "tool traces".to_owned(),
                        what,
                    });
                }
                self.steps.push((*chars_max, steps));
            }
            ReadRecord::File { .. }
            | ReadRecord::Knowledge { .. }
            | ReadRecord::KnowledgeContents { .. }
            | ReadRecord::KnowledgeLeftOut { .. }
            | ReadRecord::Memory { .. }
            | ReadRecord::Instructions { .. }
            | ReadRecord::Summary { .. } => {}
        }
        Ok(())
    }

    fn summary(
        &mut self,
        found: Option<&(ThreadSummaryText, String)>,
        flagged: u32,
        texts: &BTreeMap<String, StoredText>,
    ) -> RecordedSummary {
        let Some((summary, sha256)) = found else {
            return RecordedSummary::Is(SummarySoFar {
                summary: None,
                flagged,
            });
        };
        let of = format!("summary {}", summary.id);
        match self.kept(&of, sha256, texts) {
            Some(text) => RecordedSummary::Is(SummarySoFar {
                summary: Some(ThreadSummaryText {
                    text: text.to_string(),
                    ..summary.clone()
                }),
                flagged,
            }),
            None => RecordedSummary::Gone,
        }
    }

    /// Returns the damaged parts of the record.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Returns a copy in which a search for other terms has the recorded hits: for finding out why
    /// the terms differ.
    pub fn leniently(&self) -> Self {
        Self {
            is_lenient: true,
            ..self.clone()
        }
    }

    /// Replaces or adds the text of a file.
    pub fn add_file(&mut self, place: BaseFolder, path: &str, text: &str) {
        self.files
            .insert((place, path.to_owned()), Text::Is(text.into()));
    }

    /// Returns every file that was read and is kept.
    pub fn files(&self) -> impl Iterator<Item = (BaseFolder, &str, &Arc<str>)> {
        self.files
            .iter()
            .filter_map(|((place, path), text)| match text {
                Text::Is(text) => Some((*place, path.as_str(), text)),
                Text::NoFile | Text::Gone => None,
            })
    }

    /// Reports whether the persona's knowledge was searched.
    pub fn searched_knowledge(&self) -> bool {
        !self.searches.is_empty() || !self.contents.is_empty()
    }

    fn kept(
        &mut self,
        of: &str,
        digest: &str,
        texts: &BTreeMap<String, StoredText>,
    ) -> Option<Arc<str>> {
        let found = texts.get(digest);
        let what = match found {
            None => format!("its text {digest} is not kept any more"),
            Some(stored) if stored.is_damaged => {
                format!("its text {digest} was changed in the database")
            }
            Some(_) => String::new(),
        };
        if !what.is_empty() {
            self.damages.push(Damage {
                of: of.to_owned(),
                what,
            });
        }
        found.map(|stored| stored.text.clone())
    }

    fn hit(
        &mut self,
        hit: &RecordedHit,
        texts: &BTreeMap<String, StoredText>,
    ) -> Option<KnowledgeHit> {
        let body = self.kept(&hit.path, &hit.sha256, texts)?.to_string();
        let rank = hit.rank.parse().unwrap_or(0.0);
        Some(KnowledgeHit {
            path: hit.path.clone(),
            heading: hit.heading.clone(),
            body,
            position: hit.position,
            rank,
        })
    }

    /// Restores the recorded fields and order of today's rows.
    fn past(&mut self, rows: &[PastRow], found: Vec<PastMessage>) -> Vec<PastMessage> {
        let mut found: BTreeMap<i64, PastMessage> = found
            .into_iter()
            .map(|message| (message.seq, message))
            .collect();
        let mut past = Vec::with_capacity(rows.len());
        for row in rows {
            match found.remove(&row.seq) {
                Some(message) => past.push(PastMessage {
                    disposition: row.disposition.clone(),
                    lost: row.lost.clone(),
                    left_out: row.left_out,
                    ..message
                }),
                None => self.damages.push(Damage {
                    of: format!("message number {}", row.seq),
                    what: "it is not kept any more".to_owned(),
                }),
            }
        }
        past
    }
}

impl Files for RecordedSources {
    fn text(
        &self,
        place: BaseFolder,
        path: &str,
        _bytes_max: u64,
    ) -> Result<Option<Arc<str>>, ReadError> {
        match self.files.get(&(place, path.to_owned())) {
            Some(Text::Is(text)) => Ok(Some(text.clone())),
            Some(Text::NoFile) => Ok(None),
            Some(Text::Gone) => not_recorded(format!("`{path}`, whose text is not kept any more,")),
            None => not_recorded(format!("`{path}`")),
        }
    }
}

impl Reads for RecordedSources {
    fn is_record(&self) -> bool {
        true
    }

    fn knowledge<'a>(
        &'a self,
        terms: &'a [String],
        limit: u32,
    ) -> ReadFuture<'a, Vec<KnowledgeHit>> {
        let same =
            |search: &&Search| search.limit == limit && (self.is_lenient || search.terms == terms);
        let search = self.searches.iter().find(same);
        let hits = search.map(|search| search.hits.clone());
        ready(hits, "the knowledge of these words")
    }

    fn knowledge_contents(&self, chars_max: usize) -> ReadFuture<'_, KnowledgeContents> {
        // A changed budget asks for another size, and the recorded one mostly decides that, too.
        let decided = self.contents.iter().find_map(|(read_max, contents)| {
            let (was_read, is_asked) = (contents.fits(*read_max), contents.fits(chars_max));
            let mut contents = contents.clone();
            if !is_asked {
                contents.pieces.clear();
            }
            (was_read || !is_asked).then_some(contents)
        });
        ready(decided, "what the knowledge holds")
    }

    fn knowledge_left_out(&self) -> Vec<(String, String)> {
        self.left_out.clone()
    }

    fn memory<'a>(&'a self, _circle: &'a MemoryCircle) -> ReadFuture<'a, Vec<MemoryEntry>> {
        ready(self.memory.clone(), "what was remembered")
    }

    fn past_messages<'a>(
        &'a self,
        thread: &'a ThreadId,
        window: (i64, u32),
        chars_max: u32,
        // The record names the messages that they were given.
        _readers: &'a [String],
    ) -> ReadFuture<'a, Vec<PastMessage>> {
        let same = |past: &&Past| {
            past.thread == thread.as_str()
                && (past.before_seq, past.limit) == window
                && past.chars_max == chars_max
        };
        ready(
            self.pasts
                .iter()
                .find(same)
                .map(|past| past.messages.clone()),
            "that past of the thread",
        )
    }

    fn summary_so_far<'a>(
        &'a self,
        thread: &'a ThreadId,
        before_seq: i64,
        _readers: &'a [String],
    ) -> ReadFuture<'a, SummarySoFar> {
        match self.summaries.get(&(thread.to_string(), before_seq)) {
            Some(RecordedSummary::Is(found)) => ready(Some(found.clone()), ""),
            Some(RecordedSummary::Gone) => {
                ready(None, "the summary, whose text is not kept any more,")
            }
            None => ready(None, "the summary of the thread"),
        }
    }

    fn instructions<'a>(
        &'a self,
        thread: &'a ThreadId,
        contact: Option<&'a str>,
    ) -> ReadFuture<'a, Vec<ShownInstruction>> {
        let of = (thread.to_string(), contact.map(str::to_owned));
        ready(
            self.instructions.get(&of).cloned(),
            "the instructions for the thread",
        )
    }

    fn letters_to_summarise<'a>(
        &'a self,
        thread: &'a ThreadId,
        between: (i64, i64, i64),
        bounds: (u32, u32),
        _readers: &'a [String],
    ) -> ReadFuture<'a, Vec<PastMessage>> {
        let same = |found: &&RecordedLetters| {
            (found.thread.as_str(), found.between, found.bounds)
                == (thread.as_str(), between, bounds)
        };
        let found = self.letters.iter().find(same);
        ready(
            found.map(|found| found.messages.clone()),
            "those letters of the thread",
        )
    }

    fn past_steps<'a>(
        &'a self,
        messages: &'a [&'a MessageId],
        chars_max: u32,
    ) -> ReadFuture<'a, Vec<PastStep>> {
        let steps = self.steps.iter().find(|(chars, _)| *chars == chars_max);
        let of_these = |step: &&PastStep| messages.contains(&&step.message);
        let steps = steps.map(|(_, steps)| steps.iter().filter(of_these).cloned().collect());
        ready(steps, "those tool traces")
    }
}

fn ready<'a, T: Send + 'a>(found: Option<T>, what: &str) -> ReadFuture<'a, T> {
    let found = found.map_or_else(|| not_recorded(what.to_owned()), Ok);
    Box::pin(std::future::ready(found))
}

fn not_recorded<T>(what: String) -> Result<T, ReadError> {
    Err(ReadError::NotRecorded { what })
}
