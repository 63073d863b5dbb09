//! The erasure of an entry of memory, in two steps: what would go, with a form that confirms it, and what has gone. The second
//! page is read from its address and from the entry, so that loading it again erases nothing and says the same.

use super::memory::{FILTER, filter_query};
use crate::domain::Timestamp;
use crate::http::call::Call;
use crate::http::failure::{PageError, Shape};
use crate::http::reply;
use crate::store::{ErasedMemory, MemoryEntry, RemainingText};
use axum::response::Response;
use form_urlencoded::Serializer;
use serde::Serialize;
use serde_json::{Value, json};

/// Places in which an erased text may still stand, each with its tables and in the words of an owner.
const PLACES: &[(&str, &[&str], &str)] = &[
    (
        "letters",
        &[
            "contents",
            "messages",
            "raw_letters",
            "archive",
            "mailbox_contents",
        ],
        "letters and mails, as they came and went",
    ),
    (
        "files",
        &["attachments", "attachment_texts"],
        "files that came with letters",
    ),
    (
        "questions",
        &["approvals", "approval_versions", "approval_answers"],
        "questions that you were asked",
    ),
    (
        "knowledge",
        &["knowledge_files", "knowledge_chunks"],
        "knowledge files of a persona",
    ),
    ("duties", &["responsibilities"], "duties by the clock"),
    (OTHER_PLACE, &[], "other records of the engine"),
];
const OTHER_PLACE: &str = "others";

/// An erasure before it happens, and after it.
#[derive(Serialize)]
struct ErasurePage<'a> {
    entry: &'a MemoryEntry,
    /// What would go; `None`: it has gone.
    would: Option<ErasedMemory>,
    erased_at: Option<Timestamp>,
    done: Option<Value>,
    /// Where the text stands still, or would.
    places: Vec<&'static str>,
    filter: Vec<(&'static str, &'a str)>,
    /// Path of the list.
    back: String,
}

/// Shows what an erasure would take, or, of an entry that is erased, what it took.
pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let entry = store.memory_dossier(call.param("id")).await?.entry;
    let would = match entry.erased_at {
        Some(_) => None,
        None => Some(
            store
                .erasable_memory(std::slice::from_ref(&entry.id))
                .await?,
        ),
    };
    let places = match &would {
        Some(would) => places(&would.remains),
        None => call.query("places").split(',').collect(),
    };
    let count = |name: &str| call.query(name).parse::<u64>().unwrap_or_default();
    let is_done = entry.erased_at.is_some() && !call.query("entries").is_empty();
    let page = ErasurePage {
        would,
        erased_at: entry.erased_at,
        done: is_done.then(|| {
            json!({
                "entries": count("entries"),
                "runs": count("runs"),
                "steps": count("steps"),
                "summaries": count("summaries"),
                "runs_at_work": count("runs_at_work"),
            })
        }),
        places: PLACES
            .iter()
            .filter(|(key, ..)| places.contains(key))
            .map(|(_, _, words)| *words)
            .collect(),
        filter: FILTER
            .iter()
            .map(|name| (*name, call.query(name)))
            .collect(),
        back: format!("/memory?{}", filter_query(|name| call.query(name))),
        entry: &entry,
    };
    call.page("memory_erasure.html", &page).await
}

/// Erases an entry for good. A browser is asked first; a program says it with one request.
pub(in crate::http) async fn forget(call: Call) -> Result<Response, PageError> {
    let id = call.param("id");
    if call.shape == Shape::Page && call.field("confirmed") != "yes" {
        return Ok(reply::see_other(&format!("/memory/{id}/forget")));
    }
    let ids = [id.to_owned()];
    let erased = call
        .context
        .store
        .erase_memory(&ids, &call.actor()?)
        .await?;
    let mut query = Serializer::new(String::new());
    for (name, count) in [
        ("entries", erased.entries),
        ("runs", erased.runs),
        ("steps", erased.steps),
        ("summaries", erased.summaries),
        ("runs_at_work", erased.runs_at_work),
    ] {
        query.append_pair(name, &count.to_string());
    }
    query.append_pair("places", &places(&erased.remains).join(","));
    for name in FILTER.iter().filter(|name| !call.field(name).is_empty()) {
        query.append_pair(name, call.field(name));
    }
    call.done(&format!("/memory/{id}/forget?{}", query.finish()), &erased)
}

/// Returns the keys of the places of rows.
fn places(remains: &[RemainingText]) -> Vec<&'static str> {
    let of_table = |table: &str| {
        let named = PLACES.iter().find(|(_, tables, _)| tables.contains(&table));
        named.map_or(OTHER_PLACE, |(key, ..)| *key)
    };
    let found: Vec<&str> = remains.iter().map(|place| of_table(&place.table)).collect();
    let keys = PLACES.iter().map(|(key, ..)| *key);
    keys.filter(|key| found.contains(key)).collect()
}
