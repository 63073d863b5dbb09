//! What the model saw in a run: each contribution with its source, and what changed since the run before in the thread.

use super::strip::StripBar;
use crate::domain::RunId;
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::replay::{ContextEntry, ContextRecord, block_text};
use crate::store::StoredTurn;
use crate::text::truncated;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};

/// Most runs of the thread that are looked at for the one before.
const RUNS_MAX: u32 = 200;
/// Most characters of one text, and of all, that stand in the page; the exact bytes have a page of their own.
const TEXT_CHARS_MAX: usize = 20_000;
const TEXTS_CHARS_MAX: usize = 80_000;

/// A contribution, with its share of the budget.
#[derive(Serialize)]
struct EntryView {
    #[serde(flatten)]
    entry: ContextEntry,
    label_text: String,
    bar: StripBar,
    /// Link to its source, where it has a page.
    link: Option<String>,
    /// `same`, `changed` or `new` beside the run before; empty: there is none.
    change: &'static str,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let id: RunId = store.find_run(call.param("id")).await?;
    let summary = store.run_summary(&id).await?;
    let persona = store.persona(&summary.persona);
    let turns = persona.turns_of_run(&id).await?;
    let own = report(persona.context_report(&id).await?);
    let runs = persona.thread_runs(&summary.thread, RUNS_MAX).await?;
    let before = runs
        .iter()
        .take_while(|run| run.id != id)
        .filter(|run| run.started_at.is_some())
        .last();
    let earlier = match before {
        Some(run) => report(persona.context_report(&run.id).await?),
        None => None,
    };
    let first = turns.first();
    let prompt = Prompt::of(first);
    let entries = own
        .as_ref()
        .map(|context| views(context, earlier.as_ref()))
        .unwrap_or_default();
    let gone = gone(own.as_ref(), earlier.as_ref());
    let page = json!({
        "id": id.as_str(),
        "thread": summary.thread.as_str(),
        "subject": summary.subject,
        "persona": summary.persona.as_str(),
        "before": before
            .filter(|_| earlier.is_some())
            .map(|run| run.id.to_string()),
        "context": own.as_ref(),
        "entries": entries,
        "gone": gone,
        "request_bytes": first.map_or(0, |turn| turn.request_json.len()),
        "sha256": first.map(|turn| turn.request_sha256.as_str()),
        "is_cut": prompt.is_cut,
        "system": prompt.system,
        "messages": prompt.messages,
        "tools": prompt.tools,
    });
    call.page("context.html", &page).await
}

fn report(json: Option<String>) -> Option<ContextRecord> {
    serde_json::from_str(&json?).ok()
}

/// Returns the contribution of another run that stands in the place of this one: of the same source, or of the same step where
/// either run has but one of it, since each letter has an id of its own.
fn counterpart<'c>(
    entry: &ContextEntry,
    own: &ContextRecord,
    other: &'c ContextRecord,
) -> Option<&'c ContextEntry> {
    let of_step = |context: &ContextRecord| {
        let is_of_step = |one: &&ContextEntry| one.resolver == entry.resolver;
        context.entries.iter().filter(is_of_step).count()
    };
    let is_same =
        |one: &&ContextEntry| one.resolver == entry.resolver && one.source == entry.source;
    let same = other.entries.iter().find(is_same);
    same.or_else(|| {
        let is_only = of_step(own) == 1 && of_step(other) == 1;
        other
            .entries
            .iter()
            .find(|one| is_only && one.resolver == entry.resolver)
    })
}

fn views(context: &ContextRecord, earlier: Option<&ContextRecord>) -> Vec<EntryView> {
    let all: u64 = context.entries.iter().map(|entry| entry.tokens).sum();
    let budget = context.budget_tokens.max(all).max(1);
    let mut from = 0;
    let view = |entry: &ContextEntry| {
        let is_sent = matches!(entry.outcome.as_str(), "used" | "trimmed");
        let width = match is_sent && entry.tokens > 0 {
            true => (entry.tokens * 1_000 / budget).max(2),
            false => 0,
        };
        let bar = StripBar { from, width };
        from += width;
        let found = earlier.map(|earlier| match counterpart(entry, context, earlier) {
            None => "new",
            Some(then) if then.sha256 == entry.sha256 && then.outcome == entry.outcome => "same",
            Some(_) => "changed",
        });
        EntryView {
            label_text: entry.label.described(),
            link: link(&entry.source),
            change: found.unwrap_or_default(),
            entry: entry.clone(),
            bar,
        }
    };
    context.entries.iter().map(view).collect()
}

fn gone(own: Option<&ContextRecord>, earlier: Option<&ContextRecord>) -> Vec<ContextEntry> {
    let (Some(own), Some(earlier)) = (own, earlier) else {
        return Vec::new();
    };
    let is_gone =
        |then: &&ContextEntry| then.outcome != "empty" && counterpart(then, earlier, own).is_none();
    earlier.entries.iter().filter(is_gone).cloned().collect()
}

/// Returns the page of a source that is a message.
fn link(source: &str) -> Option<String> {
    let is_id = source.len() == 36 && source.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_id.then(|| format!("/m/{source}"))
}

/// Texts of the first request, in the order in which the model read them.
#[derive(Default)]
struct Prompt {
    system: Vec<Value>,
    messages: Vec<Value>,
    tools: Vec<Value>,
    is_cut: bool,
    chars: usize,
}

impl Prompt {
    fn of(turn: Option<&StoredTurn>) -> Self {
        let mut prompt = Self::default();
        let request: Option<Value> = turn
            .and_then(|turn| turn.context_json.as_deref())
            .and_then(|json| serde_json::from_str(json).ok());
        let Some(request) = request else {
            return prompt;
        };
        for text in request["system"].as_array().into_iter().flatten() {
            let (text, chars) = prompt.cut(text.as_str().unwrap_or_default());
            prompt.system.push(json!({ "text": text, "chars": chars }));
        }
        for message in request["messages"].as_array().into_iter().flatten() {
            let mut parts = Vec::new();
            for block in message["blocks"].as_array().into_iter().flatten() {
                let kind = block["type"].as_str().unwrap_or_default().replace('_', " ");
                let whole = block_text(block);
                let (text, chars) = prompt.cut(&whole);
                parts.push(json!({ "kind": kind, "text": text, "chars": chars }));
            }
            let role = message["role"].as_str().unwrap_or_default().to_owned();
            prompt
                .messages
                .push(json!({ "role": role, "parts": parts }));
        }
        for tool in request["tools"].as_array().into_iter().flatten() {
            let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
            prompt.tools.push(json!({
                "name": text("name"),
                "description": text("description"),
            }));
        }
        prompt
    }

    /// Returns the beginning of a text, as much as the page still takes, with its whole length.
    fn cut(&mut self, text: &str) -> (String, usize) {
        let chars = text.chars().count();
        let room = TEXTS_CHARS_MAX
            .saturating_sub(self.chars)
            .min(TEXT_CHARS_MAX);
        self.is_cut |= chars > room;
        self.chars += chars.min(room);
        (truncated(text, room), chars)
    }
}
