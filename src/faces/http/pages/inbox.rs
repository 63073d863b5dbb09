//! The inbox: conversations, newest first, with what became of each.

use super::search::typed_search;
use crate::domain::{PersonaId, ThreadId, ThreadOutcome, Timestamp};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::words::{StateWords, thread_state};
use crate::store::{OverviewFilter, ThreadOverview};
use axum::response::Response;
use form_urlencoded::Serializer;
use serde::Serialize;
use serde_json::json;

/// Conversations of a page.
const ROWS: u32 = 30;
/// Most letters that a search looks at for their conversations.
const FOUND_MAX: u32 = 60;

/// Choices of the filter, with the outcomes of each.
const CHOICES: &[(&str, &str, &[ThreadOutcome])] = &[
    ("waiting", "waits for you", &[ThreadOutcome::Waiting]),
    ("at_work", "at work", &[ThreadOutcome::AtWork]),
    (
        "failed",
        "failed",
        &[ThreadOutcome::Failed, ThreadOutcome::Undelivered],
    ),
    ("filed", "filed, not answered", &[ThreadOutcome::Filed]),
    (
        "not_sent",
        "mail not sent",
        &[ThreadOutcome::NotSent, ThreadOutcome::Leaving],
    ),
    ("answered", "answered or sent", &[ThreadOutcome::Answered]),
    (
        "quiet",
        "ended without mail",
        &[ThreadOutcome::Quiet, ThreadOutcome::Cancelled],
    ),
    (ENGINE, "mail of the engine", &[]),
];
/// Choice of what the engine wrote to owners, what came of that, and bounces: no conversation of people.
const ENGINE: &str = "engine";

/// A row of the page.
#[derive(Serialize)]
struct InboxRow {
    #[serde(flatten)]
    thread: ThreadOverview,
    outcome: StateWords,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let (typed, text) = (call.query("persona"), call.query("q"));
    let state = match call.query("state") {
        // The API's word.
        "" => choice_of(call.query("outcome")),
        state => state,
    };
    let persona = PersonaId::parse(typed).ok();
    let outcomes = CHOICES.iter().find(|(name, ..)| *name == state);
    let filter = OverviewFilter {
        persona: persona.clone(),
        outcomes: outcomes
            .map(|(.., outcomes)| outcomes.to_vec())
            .unwrap_or_default(),
        of_engine: Some(state == ENGINE),
        after: cursor(call.query("after")),
        limit: ROWS,
    };
    let (threads, next) = match text.is_empty() {
        true => {
            let page = call.context.store.thread_overviews(&filter).await?;
            (page.threads, page.next)
        }
        false => (found(&call, persona.as_ref(), text).await?, None),
    };
    let rows: Vec<InboxRow> = threads
        .into_iter()
        .map(|thread| InboxRow {
            outcome: thread_state(&thread),
            thread,
        })
        .collect();
    let next = next.map(|(at, id)| {
        let mut query = Serializer::new(String::new());
        for (name, value) in [("persona", typed), ("state", state)] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        query.append_pair("after", &format!("{at},{id}"));
        query.finish()
    });
    let config = &call.context.config;
    let page = json!({
        "rows": rows,
        "next": next,
        "personas": config.personas.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
        "addresses": config
            .personas
            .iter()
            .map(|one| one.address.to_string())
            .collect::<Vec<_>>(),
        "choices": CHOICES
            .iter()
            .map(|(name, words, _)| (*name, *words))
            .collect::<Vec<_>>(),
        "persona": typed,
        "state": state,
        "text": text,
        "is_filtered": !(typed.is_empty() && state.is_empty() && text.is_empty()),
        "is_first": call.query("after").is_empty(),
    });
    call.page("inbox.html", &page).await
}

/// Returns the choice that has an outcome, which the API names; empty: none has.
fn choice_of(outcome: &str) -> &'static str {
    let outcome = ThreadOutcome::parse(outcome);
    let found = outcome.and_then(|outcome| {
        CHOICES
            .iter()
            .find(|(.., outcomes)| outcomes.contains(&outcome))
    });
    found.map_or("", |(name, ..)| name)
}

/// Reads where a page begins.
pub(in crate::http) fn cursor(text: &str) -> Option<(Timestamp, ThreadId)> {
    let (at, id) = text.split_once(',')?;
    Some((Timestamp::parse(at)?, ThreadId::new(id)))
}

/// Finds conversations by the words of their letters, of one persona or of all.
async fn found(
    call: &Call,
    persona: Option<&PersonaId>,
    text: &str,
) -> Result<Vec<ThreadOverview>, PageError> {
    let (store, config) = (&call.context.store, &call.context.config);
    let search = typed_search(text, config.zone(), FOUND_MAX);
    let all = config.personas.iter().map(|persona| &persona.id);
    let mut ids: Vec<ThreadId> = Vec::new();
    for id in all.filter(|id| persona.is_none_or(|persona| persona == *id)) {
        for message in store.persona(id).search_messages(&search).await? {
            if !ids.contains(&message.thread_id) {
                ids.push(message.thread_id);
            }
        }
    }
    Ok(store.overviews_of(&ids).await?)
}
