//! Memory: what each persona keeps about people, with what it rests on, and what its owner does with it.

use crate::domain::{Address, MEMORY_TEXT_CHARS_MAX, MemoryStatus, PersonaId};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::words::StateWords;
use crate::store::{
    MemoryAct, MemoryDossier, MemoryEntry, MemoryEvent, MemoryFilter, MemorySource, StoreError,
};
use crate::text::one_line;
use axum::response::Response;
use form_urlencoded::Serializer;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// Most entries that the page shows.
const ENTRIES_MAX: u32 = 300;
/// Fields that narrow the list, in the order of its query.
pub(in crate::http) const FILTER: [&str; 3] = ["persona", "status", "contact"];

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
    author: EntryAuthor,
    sources: Vec<MemorySource>,
    /// Text that it replaced; empty: none, or it is erased.
    before: String,
    history: Vec<Value>,
    may_approve: bool,
    may_edit: bool,
    may_reject: bool,
    may_restore: bool,
    may_forget: bool,
}

/// Writer of an entry: a persona heard it from somebody, or its owner worded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum EntryAuthor {
    Heard,
    /// The owner edited what somebody said.
    Edited,
    Owner,
}

impl EntryAuthor {
    pub(in crate::http) fn of(entry: &MemoryEntry) -> Self {
        match (entry.created_by.as_str(), &entry.supersedes) {
            ("owner", Some(_)) => Self::Edited,
            ("owner", None) => Self::Owner,
            _ => Self::Heard,
        }
    }
}

/// An entry after a change.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct ChangedEntry<'a> {
    id: &'a str,
    status: MemoryStatus,
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
        let dossier = store.memory_dossier(&entry.id).await?;
        let before = match &entry.supersedes {
            Some(old) => store.memory_dossier(old).await?.entry.text,
            None => String::new(),
        };
        let row = row(dossier, before);
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
    let page = json!({
        "people": people,
        "is_full": shown >= ENTRIES_MAX as usize,
        "shown": shown,
        "personas": config.personas.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
        "persona": persona,
        "statuses": MemoryStatus::ALL
            .iter()
            .map(|status| (status.as_str(), status_words(*status).0))
            .collect::<Vec<_>>(),
        "status": status,
        "contact": contact,
        "filter": filter_query(|name| call.query(name)),
    });
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

/// Returns the words of a state, with their tone.
pub(in crate::http) fn status_words(status: MemoryStatus) -> (&'static str, &'static str) {
    match status {
        MemoryStatus::Proposed => ("waits for you", "wait"),
        MemoryStatus::Active => ("in use", "good"),
        MemoryStatus::Rejected => ("rejected", "bad"),
        MemoryStatus::Superseded => ("said anew", "quiet"),
        MemoryStatus::Expired => ("expired", "quiet"),
        MemoryStatus::Forgotten => ("forgotten", "quiet"),
    }
}

/// Describes a change: what was done, and by whom.
fn change_line(event: MemoryEvent, author: EntryAuthor) -> Value {
    let what = match event.act.as_str() {
        "added" if author == EntryAuthor::Edited => "edited",
        "added" => "written",
        "confirmed" => "said again",
        "superseded" => "replaced by another entry",
        "swapped" => "changed with another entry",
        act => act,
    };
    let who = match event.actor.as_str() {
        "owner" if event.who.is_empty() => "by the owner".to_owned(),
        "owner" => format!("by the owner ({})", event.who),
        "model" => "by the persona".to_owned(),
        _ => "by the engine".to_owned(),
    };
    json!({
        "words": format!("{what} {who}"),
        "why": event.why,
        "at": event.at,
    })
}

fn row(dossier: MemoryDossier, before: String) -> MemoryRow {
    let MemoryDossier {
        entry,
        sources,
        events,
        ..
    } = dossier;
    let (words, tone) = status_words(entry.status);
    let author = EntryAuthor::of(&entry);
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
        author,
        history: events
            .into_iter()
            .map(|event| change_line(event, author))
            .collect(),
        sources,
        before,
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
    let record = ChangedEntry {
        id: &changed.id,
        status: changed.status,
    };
    let query = filter_query(|name| call.field(name));
    call.done(&format!("/memory?{query}"), &record)
}

/// Returns the query of the list from the fields that narrow it.
pub(in crate::http) fn filter_query<'a>(field: impl Fn(&str) -> &'a str) -> String {
    let mut query = Serializer::new(String::new());
    for name in FILTER.iter().filter(|name| !field(name).is_empty()) {
        query.append_pair(name, field(name));
    }
    query.finish()
}
