//! One box for letters, calls of runs, memory and ids.

use super::memory::{EntryAuthor, status_words};
use crate::domain::{PersonaId, RunId, Timestamp};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::words::{StateWords, run_state};
use crate::store::{MemoryEntry, MemoryFilter, MessageSearch, RunSummary, StoreError};
use axum::response::Response;
use chrono::{NaiveDate, NaiveTime};
use chrono_tz::Tz;
use serde::Serialize;
use serde_json::{Value, json};

/// Most letters of one persona, and most entries of memory that are looked at and shown.
const LETTERS_MAX: u32 = 30;
const ENTRIES_LOOKED_AT: u32 = 2_000;
const ENTRIES_SHOWN: usize = 30;
/// Newest steps of runs that are looked at, and most runs that are shown.
const STEPS_LOOKED_AT: u32 = 20_000;
const RUNS_MAX: u32 = 30;
/// Fewest characters of a piece of an id.
const ID_CHARS_MIN: usize = 6;

/// A run whose calls hold the words.
#[derive(Serialize)]
struct FoundRun {
    #[serde(flatten)]
    run: RunSummary,
    /// Tool in whose arguments or result the words are.
    tool: String,
    outcome: StateWords,
}

/// An entry of memory with its state, in the words of the page of memory.
#[derive(Serialize)]
struct FoundEntry {
    #[serde(flatten)]
    entry: MemoryEntry,
    outcome: StateWords,
    author: EntryAuthor,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let text = call.query("q");
    let mut letters = Vec::new();
    let (mut runs, mut entries, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    if !text.is_empty() {
        for persona in call.context.config.personas.iter() {
            letters.extend(found(&call, &persona.id, text).await?);
        }
        runs = ran(&call, text).await?;
        entries = remembered(&call, text).await?;
        ids = named(&call, text).await?;
    }
    let page = json!({
        "text": text,
        "letters": letters,
        "runs": runs,
        "entries": entries,
        "ids": ids,
        "steps_looked_at": STEPS_LOOKED_AT,
    });
    call.page("search.html", &page).await
}

async fn found(call: &Call, persona: &PersonaId, text: &str) -> Result<Vec<Value>, PageError> {
    let search = typed_search(text, call.context.config.zone(), LETTERS_MAX);
    let found = call
        .context
        .store
        .persona(persona)
        .search_messages(&search)
        .await?;
    let letter = |found: crate::store::FoundMessage| {
        json!({
            "id": found.id.to_string(),
            "thread": found.thread_id.to_string(),
            "persona": persona.to_string(),
            "trust": (found.direction == "inbound").then_some(found.trust),
            "sender": found.sender,
            "subject": found.subject,
            "snippet": found.snippet,
            "received_at": found.received_at.to_string(),
        })
    };
    Ok(found.into_iter().map(letter).collect())
}

/// Reads what somebody typed: words, and `from:nora`, `subject:refund`, `since:2026-11-01`, `before:2026-12-01` among them. Days
/// begin in `zone`.
pub(super) fn typed_search(text: &str, zone: Tz, limit: u32) -> MessageSearch {
    let mut search = MessageSearch {
        limit,
        ..MessageSearch::default()
    };
    let mut words: Vec<&str> = Vec::new();
    let add = |field: &mut Option<String>, word: &str| {
        let field = field.get_or_insert_default();
        field.push(' ');
        field.push_str(word);
    };
    let day = |word: &str| {
        let day: NaiveDate = word.parse().ok()?;
        let midnight = day.and_time(NaiveTime::MIN).and_local_timezone(zone);
        Some(Timestamp::from(midnight.earliest()?.to_utc()))
    };
    for word in text.split_whitespace() {
        match word.split_once(':') {
            Some(("from", sender)) if !sender.is_empty() => add(&mut search.from, sender),
            Some(("subject", of)) if !of.is_empty() => add(&mut search.subject, of),
            Some(("since", at)) if day(at).is_some() => search.since = day(at),
            Some(("before", at)) if day(at).is_some() => search.before = day(at),
            _ => words.push(word),
        }
    }
    search.query = (!words.is_empty()).then(|| words.join(" "));
    search
}

fn small_words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_lowercase).collect()
}

/// Finds runs by words in what their tools were given and gave.
async fn ran(call: &Call, text: &str) -> Result<Vec<FoundRun>, PageError> {
    let store = &call.context.store;
    let found = store
        .runs_with_words(&small_words(text), STEPS_LOOKED_AT, RUNS_MAX)
        .await?;
    let ids: Vec<RunId> = found.iter().map(|(id, _)| id.clone()).collect();
    let runs = store.run_summaries(&ids).await?;
    let shown = |(id, tool): (RunId, String)| {
        let run = runs.iter().find(|run| run.id == id)?.clone();
        let class = run.error_class.as_ref().map(|class| class.as_str());
        Some(FoundRun {
            outcome: run_state(run.state.as_str(), class),
            run,
            tool,
        })
    };
    Ok(found.into_iter().filter_map(shown).collect())
}

/// Finds what has an id that begins or ends like this.
async fn named(call: &Call, text: &str) -> Result<Vec<(&'static str, String)>, PageError> {
    let is_id = |c: char| c.is_ascii_hexdigit() || c == '-';
    if text.len() < ID_CHARS_MIN || !text.chars().all(is_id) {
        return Ok(Vec::new());
    }
    let store = &call.context.store;
    let found = [
        (
            "run",
            store.find_run(text).await.map(|id| format!("/r/{id}")),
        ),
        (
            "thread",
            store.find_thread(text).await.map(|id| format!("/t/{id}")),
        ),
        (
            "letter",
            store.find_message(text).await.map(|id| format!("/m/{id}")),
        ),
    ];
    let mut pages = Vec::new();
    for (kind, page) in found {
        match page {
            Ok(page) => pages.push((kind, page)),
            Err(StoreError::Missing { .. } | StoreError::Ambiguous { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(pages)
}

/// Finds entries that hold every word.
async fn remembered(call: &Call, text: &str) -> Result<Vec<FoundEntry>, PageError> {
    let filter = MemoryFilter {
        limit: ENTRIES_LOOKED_AT,
        ..MemoryFilter::default()
    };
    let words = small_words(text);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_has_filters_among_its_words_and_days_begin_in_the_owners_zone() {
        let typed =
            "from:nora refund from:lind subject:order since:2026-11-01 before:soon re: 12:30";
        let read = typed_search(typed, chrono_tz::Europe::Berlin, 9);
        assert_eq!(read.from.as_deref(), Some(" nora lind"));
        assert_eq!(read.subject.as_deref(), Some(" order"));
        assert_eq!(read.query.as_deref(), Some("refund before:soon re: 12:30"));
        assert_eq!(read.since, Timestamp::parse("2026-10-31T23:00:00Z"));
        assert_eq!((read.before, read.limit), (None, 9));
        assert_eq!(typed_search("from:nora", Tz::UTC, 9).query, None);
    }
}
