//! Memory: what each persona keeps about people, with what it rests on, and what its owner does with it.

use crate::domain::{Address, MEMORY_TEXT_CHARS_MAX, MemoryStatus, PersonaId};
use crate::http::call::Call;
use crate::http::failure::{PageError, Shape};
use crate::http::reply;
use crate::http::words::StateWords;
use crate::store::{ErasedMemory, MemoryAct, MemoryEntry, MemoryFilter, MemorySource, StoreError};
use crate::text::one_line;
use axum::response::Response;
use form_urlencoded::Serializer;
use schemars::JsonSchema;
use serde::Serialize;

/// Most entries that the page shows.
const ENTRIES_MAX: u32 = 300;

#[derive(Serialize)]
struct MemoryPage<'a> {
    people: Vec<Person>,
    shown: usize,
    personas: Vec<&'a str>,
    persona: &'a str,
    statuses: Vec<String>,
    status: &'a str,
    contact: &'a str,
    is_full: bool,
}

/// What is kept about one person, about one thread, or for everybody.
#[derive(Serialize)]
struct Person {
    about: String,
    persona: String,
    entries: Vec<MemoryRow>,
}

#[derive(Serialize)]
struct MemoryRow {
    #[serde(flatten)]
    entry: MemoryEntry,
    outcome: StateWords,
    sources: Vec<MemorySource>,
    may_approve: bool,
    may_edit: bool,
    may_reject: bool,
    may_restore: bool,
    may_forget: bool,
}

/// An entry after a change.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct ChangedEntry<'a> {
    id: &'a str,
    status: MemoryStatus,
}

#[derive(Serialize)]
struct ErasedPage {
    erased: ErasedMemory,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let (persona, status, contact) = (
        call.query("persona"),
        call.query("status"),
        call.query("contact"),
    );
    let store = &call.context.store;
    let filter = MemoryFilter {
        after: None,
        persona: PersonaId::parse(persona).ok(),
        status: match status {
            "all" => None,
            "" => Some(MemoryStatus::Active),
            status => MemoryStatus::parse(status),
        },
        contact: Address::parse(contact).ok().map(|address| address.key()),
        limit: ENTRIES_MAX,
    };
    let mut entries = store.memory_entries(&filter).await?;
    if status.is_empty() {
        // What waits for its owner stands in front.
        let waiting = MemoryFilter {
            status: Some(MemoryStatus::Proposed),
            ..filter
        };
        let mut all = store.memory_entries(&waiting).await?;
        all.append(&mut entries);
        entries = all;
    }
    let shown = entries.len();
    let mut people: Vec<Person> = Vec::new();
    for entry in entries {
        let (about, owner) = (about(&entry), entry.persona.to_string());
        let sources = store.memory_dossier(&entry.id).await?.sources;
        let row = row(entry, sources);
        match people
            .iter_mut()
            .find(|one| one.about == about && one.persona == owner)
        {
            Some(person) => person.entries.push(row),
            None => people.push(Person {
                about,
                persona: owner,
                entries: vec![row],
            }),
        }
    }
    let config = &call.context.config;
    let page = MemoryPage {
        people,
        is_full: shown >= ENTRIES_MAX as usize,
        shown,
        personas: config.personas.iter().map(|one| one.id.as_str()).collect(),
        persona,
        statuses: MemoryStatus::ALL.iter().map(ToString::to_string).collect(),
        status,
        contact,
    };
    call.page("memory.html", &page).await
}

/// Returns the owner of an entry, for people.
fn about(entry: &MemoryEntry) -> String {
    match entry.scope.columns() {
        ("persona", _) => "everybody".to_owned(),
        ("thread", key) => format!("thread {key}"),
        (_, key) => key.to_owned(),
    }
}

fn row(entry: MemoryEntry, sources: Vec<MemorySource>) -> MemoryRow {
    let (words, tone) = match entry.status {
        MemoryStatus::Proposed => ("waits for you", "wait"),
        MemoryStatus::Active => ("in use", "good"),
        MemoryStatus::Rejected => ("rejected", "bad"),
        MemoryStatus::Superseded => ("said anew", "quiet"),
        MemoryStatus::Expired => ("expired", "quiet"),
        MemoryStatus::Forgotten => ("forgotten", "quiet"),
    };
    let is_kept = entry.erased_at.is_none();
    let is_open = matches!(entry.status, MemoryStatus::Proposed | MemoryStatus::Active);
    MemoryRow {
        outcome: StateWords {
            why: entry
                .proposes
                .map(|proposal| proposal.to_string())
                .unwrap_or_default(),
            ..StateWords::new(words, tone)
        },
        may_approve: is_kept && entry.status == MemoryStatus::Proposed,
        may_edit: is_kept && is_open,
        may_reject: is_kept && is_open,
        may_restore: is_kept && entry.status != MemoryStatus::Proposed,
        may_forget: is_kept,
        sources,
        entry,
    }
}

pub(in crate::http) async fn approve(call: Call) -> Result<Response, PageError> {
    let for_everybody = call.field("for_everybody") == "yes";
    change(&call, MemoryAct::Approve { for_everybody }).await
}

pub(in crate::http) async fn reject(call: Call) -> Result<Response, PageError> {
    let why = one_line(call.field("words"));
    change(&call, MemoryAct::Reject { why }).await
}

pub(in crate::http) async fn edit(call: Call) -> Result<Response, PageError> {
    let text = one_line(call.field("words"));
    let chars = text.chars().count();
    if chars == 0 || chars > MEMORY_TEXT_CHARS_MAX {
        return Err(PageError::Refused(format!(
            "an entry has 1 to {MEMORY_TEXT_CHARS_MAX} characters, and this has {chars}"
        )));
    }
    change(&call, MemoryAct::Edit { text }).await
}

pub(in crate::http) async fn restore(call: Call) -> Result<Response, PageError> {
    change(&call, MemoryAct::Restore).await
}

/// Erases an entry for good, and says where its text still stands.
pub(in crate::http) async fn forget(call: Call) -> Result<Response, PageError> {
    let ids = [call.param("id").to_owned()];
    let erased = call
        .context
        .store
        .erase_memory(&ids, &call.actor()?)
        .await?;
    match call.shape {
        Shape::Json | Shape::OpenAi => reply::record(&erased),
        Shape::Page => {
            let page = ErasedPage { erased };
            call.page("memory_erased.html", &page).await
        }
    }
}

async fn change(call: &Call, act: MemoryAct) -> Result<Response, PageError> {
    let changed = call
        .context
        .store
        .change_memory(call.param("id"), act, &call.actor()?)
        .await;
    if let Err(StoreError::MemoryFull) = changed {
        return Err(PageError::Conflict {
            message: "there are as many entries as there may be".to_owned(),
            hint: "reject one that is of no use any more".to_owned(),
        });
    }
    let changed = call.context.store.memory_dossier(&changed?).await?.entry;
    call.renew().await?;
    let mut query = Serializer::new(String::new());
    for name in ["persona", "status", "contact"] {
        if !call.field(name).is_empty() {
            query.append_pair(name, call.field(name));
        }
    }
    let record = ChangedEntry {
        id: &changed.id,
        status: changed.status,
    };
    call.done(&format!("/memory?{}", query.finish()), &record)
}
