//! One box for letters and memory.

use super::memory::{EntryAuthor, status_words};
use crate::domain::PersonaId;
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::words::StateWords;
use crate::store::{MemoryEntry, MemoryFilter, MessageSearch};
use axum::response::Response;
use serde::Serialize;

/// Most letters of one persona, and most entries of memory that are looked at and shown.
const LETTERS_MAX: u32 = 30;
const ENTRIES_LOOKED_AT: u32 = 2_000;
const ENTRIES_SHOWN: usize = 30;

#[derive(Serialize)]
struct SearchPage<'a> {
    text: &'a str,
    letters: Vec<FoundLetter>,
    entries: Vec<FoundEntry>,
}

/// An entry of memory with its state, in the words of the page of memory.
#[derive(Serialize)]
struct FoundEntry {
    #[serde(flatten)]
    entry: MemoryEntry,
    outcome: StateWords,
    author: EntryAuthor,
}

#[derive(Serialize)]
struct FoundLetter {
    id: String,
    thread: String,
    persona: String,
    sender: String,
    subject: String,
    snippet: String,
    received_at: String,
    trust: Option<String>,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let text = call.query("q");
    let mut letters = Vec::new();
    let mut entries = Vec::new();
    if !text.is_empty() {
        for persona in call.context.config.personas.iter() {
            letters.extend(found(&call, &persona.id, text).await?);
        }
        entries = remembered(&call, text).await?;
    }
    let page = SearchPage {
        text,
        letters,
        entries,
    };
    call.page("search.html", &page).await
}

async fn found(
    call: &Call,
    persona: &PersonaId,
    text: &str,
) -> Result<Vec<FoundLetter>, PageError> {
    let search = MessageSearch {
        query: Some(text.to_owned()),
        limit: LETTERS_MAX,
        ..MessageSearch::default()
    };
    let found = call
        .context
        .store
        .persona(persona)
        .search_messages(&search)
        .await?;
    let letter = |found: crate::store::FoundMessage| FoundLetter {
        id: found.id.to_string(),
        thread: found.thread_id.to_string(),
        persona: persona.to_string(),
        trust: (found.direction == "inbound").then_some(found.trust),
        sender: found.sender,
        subject: found.subject,
        snippet: found.snippet,
        received_at: found.received_at.to_string(),
    };
    Ok(found.into_iter().map(letter).collect())
}

/// Finds entries that hold every word.
async fn remembered(call: &Call, text: &str) -> Result<Vec<FoundEntry>, PageError> {
    let filter = MemoryFilter {
        limit: ENTRIES_LOOKED_AT,
        ..MemoryFilter::default()
    };
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let holds = |entry: &MemoryEntry| {
        let text = entry.text.to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    let mut entries = call.context.store.memory_entries(&filter).await?;
    entries.retain(holds);
    entries.truncate(ENTRIES_SHOWN);
    let shown = |entry: MemoryEntry| {
        let (words, tone) = status_words(entry.status);
        FoundEntry {
            outcome: StateWords::new(words, tone),
            author: EntryAuthor::of(&entry),
            entry,
        }
    };
    Ok(entries.into_iter().map(shown).collect())
}
