//! Reads of today: folders and rows as they are now.

use super::reads::{Files, Folders, Place, ReadError, Reading, Reads};
use crate::domain::{MessageId, ThreadId};
use crate::store::{KnowledgeHit, PastMessage, PastStep, PersonaStore};
use std::sync::Arc;

/// What a run may read while it is worked on.
pub struct Live<'a> {
    folders: Folders<'a>,
    store: &'a PersonaStore,
}

impl<'a> Live<'a> {
    pub fn new(folders: Folders<'a>, store: &'a PersonaStore) -> Self {
        Self { folders, store }
    }
}

impl Files for Live<'_> {
    fn text(&self, place: Place, path: &str, bytes_max: u64) -> Result<Option<Arc<str>>, ReadError> {
        self.folders.text(place, path, bytes_max)
    }
}

impl Reads for Live<'_> {
    fn knowledge<'a>(&'a self, terms: &'a [String], limit: u32) -> Reading<'a, Vec<KnowledgeHit>> {
        Box::pin(async move { Ok(self.store.search_knowledge(terms, limit).await?) })
    }

    fn past_messages<'a>(
        &'a self,
        thread: &'a ThreadId,
        before_seq: i64,
        limit: u32,
        chars_max: u32,
    ) -> Reading<'a, Vec<PastMessage>> {
        Box::pin(async move { Ok(self.store.past_messages(thread, before_seq, limit, chars_max).await?) })
    }

    fn past_steps<'a>(&'a self, messages: &'a [&'a MessageId], chars_max: u32) -> Reading<'a, Vec<PastStep>> {
        Box::pin(async move { Ok(self.store.past_steps(messages, chars_max).await?) })
    }
}
