//! Record of the reads of one assembly, small enough to be kept with every run: texts by their
//! digests, rows by their numbers with their mutable fields.

use super::reads::BaseFolder;
use crate::domain::{RunId, sha256_hex};
use crate::store::{
    KnowledgeContents, KnowledgeHit, MemoryEntry, PastMessage, PastStep, ShownInstruction,
    SummarySoFar, ThreadSummaryText,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One read: its query and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "read", rename_all = "snake_case")]
pub enum ReadRecord {
    File {
        place: BaseFolder,
        path: String,
        /// Digest of the text as it was read; `None`: there was no such file.
        sha256: Option<String>,
    },
    /// Hits in the index of all files of the persona; the rank depends on all of them, so the hits
    /// are kept and not searched again.
    Knowledge {
        terms: Vec<String>,
        limit: u32,
        hits: Vec<RecordedHit>,
    },
    /// What the knowledge held, with all of its pieces where they were few.
    KnowledgeContents {
        chars_max: usize,
        files: Vec<(String, Vec<String>)>,
        #[serde(default, skip_serializing_if = "is_none")]
        more_files: usize,
        chars: Option<usize>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pieces: Vec<RecordedHit>,
    },
    /// Files of knowledge that were in no index, with the reason.
    KnowledgeLeftOut { files: Vec<(String, String)> },
    /// Entries of memory by their ids; a text never changes, and goes only when it is erased.
    Memory { entries: Vec<String> },
    PastMessages {
        thread: String,
        before_seq: i64,
        limit: u32,
        chars_max: u32,
        /// Messages, oldest first.
        messages: Vec<PastRow>,
    },
    /// Summary of a thread; its row may be replaced.
    Summary {
        thread: String,
        before_seq: i64,
        /// The summary without its text, and the digest of that.
        found: Option<(ThreadSummaryText, String)>,
        flagged: u32,
    },
    /// Instructions of the owner, which can be taken back.
    Instructions {
        thread: String,
        contact: Option<String>,
        found: Vec<ShownInstruction>,
    },
    LettersToSummarise {
        thread: String,
        between: (i64, i64, i64),
        bounds: (u32, u32),
        messages: Vec<PastRow>,
    },
    /// Steps by run. Traces grow at their end: the number counts the first steps that existed.
    PastSteps {
        chars_max: u32,
        runs: Vec<(String, u32)>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedHit {
    pub path: String,
    pub heading: String,
    /// Digest of its text.
    pub sha256: String,
    /// Its place in its file; 0 in records of earlier versions.
    #[serde(default, skip_serializing_if = "is_first")]
    pub position: i64,
    /// Rank in Rust's float format, which is exact; a JSON number would depend on its reader.
    pub rank: String,
}

fn is_first(position: &i64) -> bool {
    *position == 0
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// Mutable fields of a past message; its text never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRow {
    pub seq: i64,
    pub disposition: String,
    /// Recipients that it did not reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Quoted lines that its text leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u32>,
}

impl PastRow {
    fn of(found: &PastMessage) -> Self {
        Self {
            seq: found.seq,
            disposition: found.disposition.clone(),
            lost: found.lost.clone(),
            left_out: found.left_out,
        }
    }
}

impl ReadRecord {
    /// Returns the digests of its texts.
    pub(super) fn digests(&self) -> Vec<&str> {
        match self {
            ReadRecord::File { sha256, .. } => sha256.as_deref().into_iter().collect(),
            ReadRecord::Knowledge { hits, .. }
            | ReadRecord::KnowledgeContents { pieces: hits, .. } => {
                hits.iter().map(|hit| hit.sha256.as_str()).collect()
            }
            ReadRecord::Summary { found, .. } => {
                found.iter().map(|(_, sha256)| sha256.as_str()).collect()
            }
            ReadRecord::KnowledgeLeftOut { .. }
            | ReadRecord::Memory { .. }
            | ReadRecord::Instructions { .. }
            | ReadRecord::PastMessages { .. }
            | ReadRecord::LettersToSummarise { .. }
            | ReadRecord::PastSteps { .. } => Vec::new(),
        }
    }
}

/// Reads so far.
#[derive(Debug, Default)]
pub struct ReadLog {
    pub reads: Vec<ReadRecord>,
    /// Texts by digest.
    pub texts: BTreeMap<String, Arc<str>>,
    /// Files read for this context: each is read once, so that it cannot differ within it.
    files: BTreeMap<(BaseFolder, String), Option<Arc<str>>>,
}

impl ReadLog {
    pub fn known_file(&self, place: BaseFolder, path: &str) -> Option<Option<Arc<str>>> {
        self.files.get(&(place, path.to_owned())).cloned()
    }

    pub fn file(&mut self, place: BaseFolder, path: &str, text: Option<&Arc<str>>) {
        let sha256 = text.map(|text| self.keep(text.clone()));
        self.reads.push(ReadRecord::File {
            place,
            path: path.to_owned(),
            sha256,
        });
        self.files.insert((place, path.to_owned()), text.cloned());
    }

    pub fn knowledge(&mut self, terms: &[String], limit: u32, hits: &[KnowledgeHit]) {
        let hits = hits.iter().map(|hit| self.hit(hit)).collect();
        self.reads.push(ReadRecord::Knowledge {
            terms: terms.to_vec(),
            limit,
            hits,
        });
    }

    pub fn knowledge_contents(&mut self, chars_max: usize, contents: &KnowledgeContents) {
        let pieces = contents
            .pieces
            .iter()
            .map(|piece| self.hit(piece))
            .collect();
        self.reads.push(ReadRecord::KnowledgeContents {
            chars_max,
            files: contents.files.clone(),
            more_files: contents.more_files,
            chars: contents.chars,
            pieces,
        });
    }

    fn hit(&mut self, hit: &KnowledgeHit) -> RecordedHit {
        RecordedHit {
            path: hit.path.clone(),
            heading: hit.heading.clone(),
            sha256: self.keep(hit.body.as_str().into()),
            position: hit.position,
            rank: hit.rank.to_string(),
        }
    }

    /// Records the files once, unless there are none.
    pub fn knowledge_left_out(&mut self, files: &[(String, String)]) {
        let is_recorded = |read: &ReadRecord| matches!(read, ReadRecord::KnowledgeLeftOut { .. });
        if !files.is_empty() && !self.reads.iter().any(is_recorded) {
            self.reads.push(ReadRecord::KnowledgeLeftOut {
                files: files.to_vec(),
            });
        }
    }

    pub fn memory(&mut self, found: &[MemoryEntry]) {
        let entries = found.iter().map(|entry| entry.id.clone()).collect();
        self.reads.push(ReadRecord::Memory { entries });
    }

    pub fn past_messages(
        &mut self,
        thread: &str,
        before_seq: i64,
        limit: u32,
        chars_max: u32,
        found: &[PastMessage],
    ) {
        let (thread, messages) = (thread.to_owned(), found.iter().map(PastRow::of).collect());
        self.reads.push(ReadRecord::PastMessages {
            thread,
            before_seq,
            limit,
            chars_max,
            messages,
        });
    }

    pub fn summary(&mut self, thread: &str, before_seq: i64, so_far: &SummarySoFar) {
        let found = so_far.summary.as_ref().map(|summary| {
            let sha256 = self.keep(summary.text.as_str().into());
            let text = String::new();
            (
                ThreadSummaryText {
                    text,
                    ..summary.clone()
                },
                sha256,
            )
        });
        self.reads.push(ReadRecord::Summary {
            thread: thread.to_owned(),
            before_seq,
            found,
            flagged: so_far.flagged,
        });
    }

    pub fn instructions(
        &mut self,
        thread: &str,
        contact: Option<&str>,
        found: &[ShownInstruction],
    ) {
        self.reads.push(ReadRecord::Instructions {
            thread: thread.to_owned(),
            contact: contact.map(str::to_owned),
            found: found.to_vec(),
        });
    }

    pub fn letters(
        &mut self,
        thread: &str,
        between: (i64, i64, i64),
        bounds: (u32, u32),
        found: &[PastMessage],
    ) {
        self.reads.push(ReadRecord::LettersToSummarise {
            thread: thread.to_owned(),
            between,
            bounds,
            messages: found.iter().map(PastRow::of).collect(),
        });
    }

    pub fn past_steps(&mut self, chars_max: u32, found: &[PastStep]) {
        let mut counts: BTreeMap<&RunId, u32> = BTreeMap::new();
        found
            .iter()
            .for_each(|step| *counts.entry(&step.run).or_default() += 1);
        let runs = counts
            .into_iter()
            .map(|(run, count)| (run.to_string(), count))
            .collect();
        self.reads.push(ReadRecord::PastSteps { chars_max, runs });
    }

    fn keep(&mut self, text: Arc<str>) -> String {
        let digest = sha256_hex(&[text.as_bytes()]);
        self.texts.insert(digest.clone(), text);
        digest
    }
}
