//! Live reads: folders and rows as they are now, each recorded as it is read.
//!
//! A question is answered once in a context: whoever asks it again is told the same, whatever another node or run has
//! stored meanwhile. The record has one answer to each question, and a replay could not say which of two was whose.

use super::good_prompts::{GoodPrompts, PROMPTS};
use super::reads::{BaseFolder, Files, Folders, ReadError, ReadFuture, Reads};
use super::record::ReadLog;
use crate::config::Persona;
use crate::domain::{MemoryCircle, MessageId, ThreadId, Timestamp};
use crate::store::{
    KnowledgeContents, KnowledgeHit, MemoryEntry, PastMessage, PastStep, PersonaStore,
    ShownInstruction, StoreError, SummarySoFar,
};
use std::any::Any;
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
    seen: Mutex<SeenReads>,
}

/// Reads so far: their record, and names of reads with pairs of a question and its answer, of which a context has few.
#[derive(Default)]
struct SeenReads {
    log: ReadLog,
    answered: Vec<(&'static str, Box<dyn Any + Send>)>,
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
        let seen = self.seen.into_inner();
        seen.unwrap_or_else(PoisonError::into_inner).log
    }

    fn seen(&self) -> MutexGuard<'_, SeenReads> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a question of a named read: as before in this context, or by the read, which is recorded.
    async fn once<Q: PartialEq + Send + 'static, A: Clone + Send + 'static>(
        &self,
        name: &'static str,
        question: Q,
        read: impl Future<Output = Result<A, StoreError>>,
        record: impl FnOnce(&mut ReadLog, &A),
    ) -> Result<A, ReadError> {
        let known = |seen: &SeenReads| {
            let of_read = seen.answered.iter().filter(|(of, _)| *of == name);
            let mut known = of_read.filter_map(|(_, one)| one.downcast_ref());
            let same = known.find(|(asked, _): &&(Q, A)| *asked == question);
            same.map(|(_, answer)| answer.clone())
        };
        if let Some(answer) = known(&self.seen()) {
            return Ok(answer);
        }
        let answer = read.await?;
        let mut seen = self.seen();
        record(&mut seen.log, &answer);
        let answered = Box::new((question, answer.clone()));
        seen.answered.push((name, answered));
        Ok(answer)
    }
}

impl Files for Live<'_> {
    fn text(
        &self,
        place: BaseFolder,
        path: &str,
        bytes_max: u64,
    ) -> Result<Option<Arc<str>>, ReadError> {
        if let Some(known) = self.seen().log.known_file(place, path) {
            return Ok(known);
        }
        let mut text = self.folders.text(place, path, bytes_max)?;
        if let (Some((prompts, persona)), Some(read), BaseFolder::Workspace) =
            (self.prompts, &mut text, place)
            && path.starts_with(PROMPTS)
        {
            *read = prompts.good(path, read, persona, self.now);
        }
        self.seen().log.file(place, path, text.as_ref());
        Ok(text)
    }
}

impl Reads for Live<'_> {
    fn knowledge<'a>(
        &'a self,
        terms: &'a [String],
        limit: u32,
    ) -> ReadFuture<'a, Vec<KnowledgeHit>> {
        Box::pin(self.once(
            "knowledge",
            (terms.to_vec(), limit),
            self.store.search_knowledge(terms, limit),
            move |log, hits| log.knowledge(terms, limit, hits),
        ))
    }

    fn knowledge_contents(&self, chars_max: usize) -> ReadFuture<'_, KnowledgeContents> {
        Box::pin(self.once(
            "knowledge_contents",
            chars_max,
            self.store.knowledge_contents(chars_max),
            move |log, contents| log.knowledge_contents(chars_max, contents),
        ))
    }

    fn knowledge_left_out(&self) -> Vec<(String, String)> {
        self.seen().log.knowledge_left_out(&self.left_out);
        self.left_out.clone()
    }

    fn memory<'a>(&'a self, circle: &'a MemoryCircle) -> ReadFuture<'a, Vec<MemoryEntry>> {
        Box::pin(self.once(
            "memory",
            circle.clone(),
            async { self.store.memory(circle).active(self.now).await },
            |log, entries| log.memory(entries),
        ))
    }

    fn past_messages<'a>(
        &'a self,
        thread: &'a ThreadId,
        window: (i64, u32),
        chars_max: u32,
        readers: &'a [String],
    ) -> ReadFuture<'a, Vec<PastMessage>> {
        Box::pin(self.once(
            "past_messages",
            (thread.clone(), window, chars_max),
            self.store.past_messages(thread, window, chars_max, readers),
            move |log, past| {
                log.past_messages(thread.as_str(), window.0, window.1, chars_max, past);
            },
        ))
    }

    fn summary_so_far<'a>(
        &'a self,
        thread: &'a ThreadId,
        before_seq: i64,
        readers: &'a [String],
    ) -> ReadFuture<'a, SummarySoFar> {
        Box::pin(self.once(
            "summary_so_far",
            (thread.clone(), before_seq),
            self.store.summary_so_far(thread, before_seq, readers),
            move |log, found| log.summary(thread.as_str(), before_seq, found),
        ))
    }

    fn instructions<'a>(
        &'a self,
        thread: &'a ThreadId,
        contact: Option<&'a str>,
    ) -> ReadFuture<'a, Vec<ShownInstruction>> {
        Box::pin(self.once(
            "instructions",
            (thread.clone(), contact.map(str::to_owned)),
            self.store.instructions_in_force(thread, contact),
            move |log, found| log.instructions(thread.as_str(), contact, found),
        ))
    }

    fn letters_to_summarise<'a>(
        &'a self,
        thread: &'a ThreadId,
        between: (i64, i64, i64),
        bounds: (u32, u32),
        readers: &'a [String],
    ) -> ReadFuture<'a, Vec<PastMessage>> {
        Box::pin(
            self.once(
                "letters_to_summarise",
                (thread.clone(), between, bounds),
                self.store
                    .letters_to_summarise(thread, between, bounds, readers),
                move |log, found| log.letters(thread.as_str(), between, bounds, found),
            ),
        )
    }

    fn past_steps<'a>(
        &'a self,
        messages: &'a [&'a MessageId],
        chars_max: u32,
    ) -> ReadFuture<'a, Vec<PastStep>> {
        let of: Vec<MessageId> = messages.iter().copied().cloned().collect();
        Box::pin(self.once(
            "past_steps",
            (of, chars_max),
            self.store.past_steps(messages, chars_max),
            move |log, steps| log.past_steps(chars_max, steps),
        ))
    }
}
