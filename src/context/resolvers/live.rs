//! Live reads: folders and rows as they are now, each recorded as it is read.

use super::good_prompts::{GoodPrompts, PROMPTS};
use super::reads::{BaseFolder, Files, Folders, ReadError, ReadFuture, Reads};
use super::record::ReadLog;
use crate::config::Persona;
use crate::domain::{MemoryCircle, MessageId, ThreadId, Timestamp};
use crate::store::{
    KnowledgeHit, MemoryEntry, PastMessage, PastStep, PersonaStore, ShownInstruction, SummarySoFar,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sources of a live run; one value for each context that is assembled.
pub struct Live<'a> {
    folders: Folders<'a>,
    store: &'a PersonaStore,
    now: Timestamp,
    /// What stands for a faulty prompt, and the persona by which it is judged.
    prompts: Option<(&'a GoodPrompts, &'a Persona)>,
    /// Files of knowledge that are in no index, with the reason.
    left_out: Vec<(String, String)>,
    seen: Mutex<ReadLog>,
}

impl<'a> Live<'a> {
    pub fn new(folders: Folders<'a>, store: &'a PersonaStore, now: Timestamp) -> Self {
        Self {
            folders,
            store,
            now,
            prompts: None,
            left_out: Vec::new(),
            seen: Mutex::default(),
        }
    }

    /// Adds files of knowledge that could not be indexed, with the reason.
    #[must_use]
    pub fn without(self, left_out: Vec<(String, String)>) -> Self {
        Self { left_out, ..self }
    }

    /// Reads the last good text instead of a faulty prompt.
    #[must_use]
    pub fn with_prompts(self, prompts: &'a GoodPrompts, persona: &'a Persona) -> Self {
        let prompts = Some((prompts, persona));
        Self { prompts, ..self }
    }

    /// Returns the record of the reads.
    pub fn into_seen(self) -> ReadLog {
        self.seen
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, ReadLog> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files for Live<'_> {
    fn text(
        &self,
        place: BaseFolder,
        path: &str,
        bytes_max: u64,
    ) -> Result<Option<Arc<str>>, ReadError> {
        if let Some(known) = self.seen().known_file(place, path) {
            return Ok(known);
        }
        let mut text = self.folders.text(place, path, bytes_max)?;
        if let (Some((prompts, persona)), Some(read), BaseFolder::Workspace) =
            (self.prompts, &mut text, place)
            && path.starts_with(PROMPTS)
        {
            *read = prompts.good(path, read, (persona, self.now));
        }
        self.seen().file(place, path, text.as_ref());
        Ok(text)
    }
}

impl Reads for Live<'_> {
    fn knowledge<'a>(
        &'a self,
        terms: &'a [String],
        limit: u32,
    ) -> ReadFuture<'a, Vec<KnowledgeHit>> {
        Box::pin(async move {
            let hits = self.store.search_knowledge(terms, limit).await?;
            self.seen().knowledge(terms, limit, &hits);
            Ok(hits)
        })
    }

    fn knowledge_left_out(&self) -> Vec<(String, String)> {
        self.seen().knowledge_left_out(&self.left_out);
        self.left_out.clone()
    }

    fn memory<'a>(&'a self, circle: &'a MemoryCircle) -> ReadFuture<'a, Vec<MemoryEntry>> {
        Box::pin(async move {
            let entries = self.store.memory(circle).active(self.now).await?;
            self.seen().memory(&entries);
            Ok(entries)
        })
    }

    fn past_messages<'a>(
        &'a self,
        thread: &'a ThreadId,
        window: (i64, u32),
        chars_max: u32,
        readers: &'a [String],
    ) -> ReadFuture<'a, Vec<PastMessage>> {
        Box::pin(async move {
            let past = self
                .store
                .past_messages(thread, window, chars_max, readers)
                .await?;
            self.seen()
                .past_messages((thread.as_str(), window.0), (window.1, chars_max), &past);
            Ok(past)
        })
    }

    fn summary_so_far<'a>(
        &'a self,
        thread: &'a ThreadId,
        before_seq: i64,
        readers: &'a [String],
    ) -> ReadFuture<'a, SummarySoFar> {
        Box::pin(async move {
            let found = self
                .store
                .summary_so_far(thread, before_seq, readers)
                .await?;
            self.seen().summary(thread.as_str(), before_seq, &found);
            Ok(found)
        })
    }

    fn instructions<'a>(
        &'a self,
        thread: &'a ThreadId,
        contact: Option<&'a str>,
    ) -> ReadFuture<'a, Vec<ShownInstruction>> {
        Box::pin(async move {
            let found = self.store.instructions_in_force(thread, contact).await?;
            self.seen().instructions(thread.as_str(), contact, &found);
            Ok(found)
        })
    }

    fn letters_to_summarise<'a>(
        &'a self,
        thread: &'a ThreadId,
        between: (i64, i64, i64),
        bounds: (u32, u32),
        readers: &'a [String],
    ) -> ReadFuture<'a, Vec<PastMessage>> {
        Box::pin(async move {
            let found = self
                .store
                .letters_to_summarise(thread, between, bounds, readers)
                .await?;
            self.seen()
                .letters(thread.as_str(), between, bounds, &found);
            Ok(found)
        })
    }

    fn past_steps<'a>(
        &'a self,
        messages: &'a [&'a MessageId],
        chars_max: u32,
    ) -> ReadFuture<'a, Vec<PastStep>> {
        Box::pin(async move {
            let steps = self.store.past_steps(messages, chars_max).await?;
            self.seen().past_steps(chars_max, &steps);
            Ok(steps)
        })
    }
}
