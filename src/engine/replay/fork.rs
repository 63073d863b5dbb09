//! Fork of a run: continues it differently from one of its turns, with another model, another
//! result of a call, or another persona text.
//!
//! The loop itself (`runs/execute.rs`) works on it, as on a run that is resumed after a crash:
//! its journal is the recorded one up to the fork's turn, and then the provider is asked. Its
//! effects stay inside: its tools work in a copy of the persona's folder, its mails are drafts in
//! its own record, and its journal is a document of its own (`store/runs/forks.rs`). Only its cost is
//! real.

mod document;
mod sandbox;
mod view;

pub use sandbox::sweep;

use super::{ContextEntry, RunRecord, load_run};
use crate::config::{Config, Persona, Personas};
use crate::context::resolvers::estimate_tokens;
use crate::context::resolvers::reads::BaseFolder;
use crate::domain::{RunId, RunOptions, ThreadBudget, Timestamp, sha256_hex};
use crate::embeddings::Embedder;
use crate::extract::{ExtractLimits, Extractor};
use crate::providers::{LoopOwner, Provider, ProviderError};
use crate::runs::deps::RunDeps;
use crate::runs::env::live::LiveEnv;
use crate::runs::env::{ForkEnv, RunEnv};
use crate::runs::error::RunError;
use crate::runs::execute::execute;
use crate::runs::provider_health::adapters::{LazyProviders, build_provider};
use crate::runs::provider_health::breakers::CircuitBreakers;
use crate::runs::record::as_of::AsOf;
use crate::store::{
    ClaimedRun, Executor, JournalSoFar, NewFork, NewOutbound, Step, StepKind, Store, StoreError,
};
use crate::tools;
use document::ForkDocument;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Changes of a fork.
#[derive(Debug, Clone, Default)]
pub struct ForkChange {
    pub provider: Option<String>,
    pub model: Option<String>,
    /// Id of a call, and the payload that replaces its result: `{"ok": …}`.
    pub result: Option<(String, Value)>,
    /// Text in place of `PERSONA.md`; the context is assembled anew, and the fork begins at turn 0.
    pub persona_text: Option<String>,
}

/// Reason why there is no fork.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error("the run has not ended")]
    NotEnded,
    #[error("the run did not come to turn {0}")]
    NoTurn(u32),
    /// Pruned at this time.
    #[error("requests and answers of the run were pruned on {0} (`attache gc`)")]
    Collected(String),
    #[error("the run is redacted: its owner erased what it was told, on {0}")]
    Redacted(String),
    #[error("the run has no result of a call `{id}`")]
    NoResult { id: String, there: Vec<String> },
    #[error("at turn {at_turn} there is no result of `{id}` yet, which turn {of_turn} asked for")]
    ResultLater {
        id: String,
        at_turn: u32,
        of_turn: u32,
    },
    #[error("no provider `{name}`")]
    NoProvider { name: String, there: Vec<String> },
    #[error("another persona text changes the run from its beginning: fork it at turn 0")]
    PersonaLater,
    #[error("the persona text cannot be changed: {0}")]
    PersonaText(&'static str),
    #[error("`{0}` works with hands of its own, which a fork cannot hold back")]
    Agent(String),
    #[error("provider `{provider}` cannot be used")]
    Provider {
        provider: String,
        #[source]
        source: Box<ProviderError>,
    },
    #[error("the persona's folder cannot be copied")]
    Sandbox(#[source] std::io::Error),
    #[error("the record of the run cannot be read")]
    Unreadable(#[source] serde_json::Error),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A fork that has ended.
pub struct Forked {
    pub record: RunRecord,
    /// Final reply, as it would have been sent.
    pub reply: Option<NewOutbound>,
}

/// Refuses a run whose texts are gone.
pub fn require_texts(record: &RunRecord) -> Result<(), ForkError> {
    if let Some(at) = record.redacted_at() {
        return Err(ForkError::Redacted(at.to_owned()));
    }
    match record.pruned_at() {
        Some(at) => Err(ForkError::Collected(at.to_owned())),
        None => Ok(()),
    }
}

/// Forks a run at a turn and executes it to its end. A failure of the model is the end of the fork,
/// not an error.
pub async fn fork(
    store: &Store,
    mut config: Config,
    run: &RunId,
    at_turn: u32,
    change: &ForkChange,
    cancel: &CancellationToken,
) -> Result<Forked, ForkError> {
    let mut record = load_run(store, run).await?;
    if record.run.finished_at.is_none() {
        return Err(ForkError::NotEnded);
    }
    require_texts(&record)?;
    let read = read_of(store, run, &record).await;
    let rows = store.persona(&store.run_summary(run).await?.persona);
    let whole = rows.journal_so_far(run).await?;
    let mut past = past_of(&record, whole, at_turn, change)?;
    if let Some(text) = &change.persona_text {
        change_persona(&mut past, &mut record, text.trim_end(), &read)?;
    }
    let clock = store.clock().clone();
    let id = clock.new_id();
    let begun = view::begin(&record, &id, at_turn, &past, &clock.now().to_string());
    let claimed = claimed(&record, &id, store, clock.now()).await?;
    let mut run_options = rows.options_of_run(run, claimed.trigger).await?;
    choose(&mut config, &claimed, change, &mut run_options.run_options)?;
    let config = Arc::new(config);
    let providers = providers(&config, &claimed, &run_options.run_options)?;
    let persona_dir = sandbox::copy(&config.workspace, record.run.persona.as_str(), &id, &read)?;
    store
        .begin_fork(NewFork {
            id: id.clone(),
            run: run.clone(),
            persona: claimed.persona.clone(),
            at_turn,
            change_json: change_json(change).to_string(),
            record_json: serde_json::to_string(&begun).map_err(ForkError::Unreadable)?,
        })
        .await?;
    let document = Arc::new(ForkDocument::new(store.clone(), id, begun));
    let documents = Extractor::new(config.program.clone(), ExtractLimits::default());
    let env = ForkEnv {
        live: LiveEnv::in_sandbox(store.clone(), persona_dir, documents)
            .with_vectors(Embedder::of(store, &config).unwrap_or_default()),
        run_options,
        past,
        journal: document.clone(),
    };
    let tools = tools::of_config(&config);
    let run_deps = RunDeps {
        config,
        clock: clock.clone(),
        providers,
        env: RunEnv::Fork(Box::new(env)),
        provider_health: Arc::new(CircuitBreakers::new(clock)),
        tools,
        loop_key: store.loop_key().clone(),
        mail_queued: Arc::new(Notify::new()),
        given_back: Arc::default(),
        lazy_providers: LazyProviders::default(),
    };
    if let Err(error) = execute(&run_deps, &claimed, cancel).await {
        document.give_up(&error).await?;
    }
    Ok(document.finished())
}

/// Returns the journal of the run before the turn, with the fork's changes.
fn past_of(
    record: &RunRecord,
    mut whole: JournalSoFar,
    at_turn: u32,
    change: &ForkChange,
) -> Result<JournalSoFar, ForkError> {
    let answered = u32::try_from(whole.answers.len()).unwrap_or(u32::MAX);
    let asked = record
        .turns
        .iter()
        .map(|turn| turn.turn_index + 1)
        .max()
        .unwrap_or(0);
    if at_turn > answered
        || at_turn >= asked.max(answered + u32::from(has_open_end(record, answered)))
    {
        return Err(ForkError::NoTurn(at_turn));
    }
    let started = record
        .turns
        .iter()
        .find(|turn| turn.turn_index == at_turn)
        .map(|turn| turn.started_at.as_str());
    let is_before = |call: &str| {
        let call = record.calls.iter().find(|known| known.id == call);
        call.is_some_and(|call| call.turn_index.is_some_and(|turn| turn < at_turn))
    };
    whole.answers.retain(|(turn, _)| *turn < at_turn);
    whole.steps.retain(|step| is_before(&step.tool_call_id));
    whole.attempts.clear();
    let last = record
        .turns
        .iter()
        .rfind(|turn| turn.turn_index < at_turn && turn.state == "answered");
    whole.answered_by = last.map(|turn| (turn.provider.clone(), turn.model.clone()));
    if change.provider.is_some() || change.model.is_some() {
        whole.answered_by = None;
    }
    let is_past = |at: &str| started.is_some_and(|started| at < started);
    let sent = || {
        let sent = record
            .mails
            .iter()
            .filter(|mail| mail.message.disposition == "sent");
        sent.filter(|mail| is_past(&mail.message.received_at))
    };
    whole.mails = u32::try_from(sent().count()).unwrap_or(u32::MAX);
    let letter = &record.trigger.rfc_message_id;
    whole.replied = sent().any(|mail| mail.message.in_reply_to.as_ref() == Some(letter));
    if let Some((id, payload)) = &change.result {
        change_result(&mut whole.steps, record, at_turn, id, payload)?;
    }
    if change.persona_text.is_some() && at_turn > 0 {
        return Err(ForkError::PersonaLater);
    }
    match whole.first_request_json {
        Some(_) => Ok(whole),
        None => Err(ForkError::NoTurn(at_turn)),
    }
}

/// Reports whether another turn would have followed the last answer: its calls all have results,
/// and nothing came after them.
fn has_open_end(record: &RunRecord, answered: u32) -> bool {
    let mut last = record
        .calls
        .iter()
        .filter(|call| call.turn_index == answered.checked_sub(1))
        .peekable();
    last.peek().is_some() && last.all(|call| call.result.is_some())
}

fn change_result(
    steps: &mut [Step],
    record: &RunRecord,
    at_turn: u32,
    id: &str,
    payload: &Value,
) -> Result<(), ForkError> {
    let is_result =
        |step: &&mut Step| step.kind == StepKind::Result && step.executor == Executor::Engine;
    if let Some(step) = steps
        .iter_mut()
        .filter(is_result)
        .find(|step| step.tool_call_id == id)
    {
        step.payload_json = payload.to_string();
        return Ok(());
    }
    let call = record
        .calls
        .iter()
        .find(|call| call.id == id && call.result.is_some());
    let id = id.to_owned();
    match call
        .and_then(|call| call.turn_index)
        .filter(|turn| *turn >= at_turn)
    {
        Some(of_turn) => Err(ForkError::ResultLater {
            id,
            at_turn,
            of_turn,
        }),
        None => Err(ForkError::NoResult {
            id,
            there: results_of(record),
        }),
    }
}

/// Returns the calls whose results a fork can change.
pub fn results_of(record: &RunRecord) -> Vec<String> {
    let engine = Executor::Engine.as_str();
    let changeable = record
        .calls
        .iter()
        .filter(|call| call.result.is_some() && call.executor == engine);
    changeable.map(|call| call.id.clone()).collect()
}

/// Returns the files of the persona's folder as the run read them; empty where the reads were not
/// recorded.
async fn read_of(store: &Store, run: &RunId, record: &RunRecord) -> Vec<(String, Arc<str>)> {
    let contexts = AsOf::of_run(store, run).await.unwrap_or_default();
    let own = format!("personas/{}/", record.run.persona);
    let below = |(place, path, text): (BaseFolder, &str, &Arc<str>)| {
        let path = match place {
            BaseFolder::Persona => Some(path),
            BaseFolder::Workspace => path.strip_prefix(&own),
        };
        path.map(|path| (path.to_owned(), text.clone()))
    };
    contexts
        .last()
        .map(|context| context.reads.files().filter_map(below).collect())
        .unwrap_or_default()
}

/// Puts another persona text into the first request. Every resolver's text is a part of its own
/// there, and the report tells which was the persona's; all other parts stay as recorded. The
/// fork's report describes the new context.
fn change_persona(
    past: &mut JournalSoFar,
    record: &mut RunRecord,
    text: &str,
    read: &[(String, Arc<str>)],
) -> Result<(), ForkError> {
    let none = || ForkError::PersonaText("the run's context has no part from `PERSONA.md`");
    let context = record.context.as_mut().ok_or_else(none)?;
    let is_persona =
        |entry: &&mut ContextEntry| entry.resolver == "persona" && entry.outcome == "used";
    let entry = context
        .entries
        .iter_mut()
        .find(is_persona)
        .ok_or_else(none)?;
    let first = past.first_request_json.as_deref().unwrap_or_default();
    let mut kept: Value = serde_json::from_str(first).map_err(ForkError::Unreadable)?;
    let is_it = |part: &str| match &entry.sha256 {
        Some(digest) => sha256_hex(&[part.as_bytes()]) == *digest,
        // A run from before reports had digests.
        None => part.len() as u64 == entry.bytes,
    };
    // An export masks the text in the request and in the file alike.
    let file = read
        .iter()
        .find(|(path, _)| path == "PERSONA.md")
        .map(|(_, text)| text.trim_end());
    let parts = kept["system"].as_array_mut().into_iter().flatten();
    let mut parts: Vec<&mut Value> = parts.filter(|part| part.is_string()).collect();
    let place = |is_it: &dyn Fn(&str) -> bool| {
        let mut places = (0..parts.len()).filter(|at| parts[*at].as_str().is_some_and(is_it));
        places.next().filter(|_| places.next().is_none())
    };
    let found = place(&is_it).or_else(|| place(&|part| Some(part) == file));
    let found = found.ok_or(ForkError::PersonaText(
        "its part of the run's context cannot be told from others",
    ))?;
    *parts[found] = Value::String(text.to_owned());
    let tokens = estimate_tokens(text) as u64;
    context.used_tokens = context
        .used_tokens
        .saturating_sub(entry.tokens)
        .saturating_add(tokens);
    (entry.bytes, entry.tokens) = (text.len() as u64, tokens);
    entry.sha256 = Some(sha256_hex(&[text.as_bytes()]));
    entry.why = Some("another text, by --persona-file".to_owned());
    past.first_request_json = Some(kept.to_string());
    Ok(())
}

/// Returns the fork as a claimed run for the loop: a run of its own, with the bounds of its
/// original.
async fn claimed(
    record: &RunRecord,
    id: &str,
    store: &Store,
    now: Timestamp,
) -> Result<ClaimedRun, ForkError> {
    let run = RunId::new(&record.run.id);
    let summary = store.run_summary(&run).await?;
    let thread_budget: ThreadBudget = store.thread_budget(&summary.thread).await?;
    Ok(ClaimedRun {
        id: RunId::new(id),
        persona: summary.persona,
        thread: summary.thread,
        trigger: summary.trigger,
        trigger_message: summary.trigger_message,
        profile: summary.profile,
        attempt: 1,
        has_journal: true,
        worked: Duration::ZERO,
        created_at: now,
        is_retried: true,
        is_overtaken: false,
        letters: 1,
        budget_micros: store.budget_of_run(&run).await?,
        attempts_max: None, // the worker counts attempts
        thread_budget,
    })
}

/// Sets the fork's model. A chosen model has no fallback: the answer is to be its own. The options
/// of the run leave the choice to the persona, whose choice it becomes.
fn choose(
    config: &mut Config,
    run: &ClaimedRun,
    change: &ForkChange,
    options: &mut RunOptions,
) -> Result<(), ForkError> {
    if change.provider.is_none() && change.model.is_none() {
        return Ok(());
    }
    let known = &config.inference.providers;
    if let Some(name) = change
        .provider
        .as_ref()
        .filter(|name| !known.contains_key(*name))
    {
        return Err(ForkError::NoProvider {
            name: name.clone(),
            there: known.keys().cloned().collect(),
        });
    }
    let Config {
        personas,
        inference,
        ..
    } = config;
    let (provider, model) = (options.provider.take(), options.model.take());
    let changed = personas.iter().cloned().map(|mut persona: Persona| {
        if persona.id == run.persona {
            let model = model
                .clone()
                .or(persona.model)
                .unwrap_or_else(|| inference.model.clone());
            persona.provider = change
                .provider
                .clone()
                .or(provider.clone())
                .or(persona.provider);
            persona.model = change.model.clone().or(Some(model));
            persona.fallback = Some(Vec::new());
        }
        persona
    });
    // They were all valid before, with these addresses.
    if let Ok(changed) = Personas::new(changed.collect()) {
        *personas = changed;
    }
    Ok(())
}

/// Builds the adapters that the fork may ask. No agents: they act by themselves.
fn providers(
    config: &Config,
    run: &ClaimedRun,
    options: &RunOptions,
) -> Result<BTreeMap<String, Box<dyn Provider>>, ForkError> {
    let mut providers = BTreeMap::new();
    let persona = config.personas.get(&run.persona).into_iter();
    for choice in persona.flat_map(|persona| config.inference.choices_under(options, persona)) {
        let built = build_provider(config, &choice.provider);
        let provider = built.map_err(|source| ForkError::Provider {
            provider: choice.provider.clone(),
            source: Box::new(source),
        })?;
        if provider.capabilities(&choice.model).loop_owner == LoopOwner::Agent {
            return Err(ForkError::Agent(choice.provider));
        }
        providers.insert(choice.provider, provider);
    }
    Ok(providers)
}

/// Returns the stored form of the change.
fn change_json(change: &ForkChange) -> Value {
    let ForkChange {
        provider,
        model,
        result,
        persona_text,
    } = change;
    let result = result
        .as_ref()
        .map(|(id, payload)| json!({ "call": id, "payload": payload }));
    json!({ "provider": provider, "model": model, "result": result, "persona_text": persona_text })
}
