//! Which past runs would have been told otherwise, had a file had another text: each first context is assembled once
//! more as of then, with and without the change, and the two are compared.
//!
//! Absent on purpose: asking a model. What it would have answered nobody knows.

use crate::config::{Config, Persona};
use crate::domain::{RunId, RunTerms};
use crate::harness::as_of::{AsOf, AsOfError, Configs};
use crate::harness::context::{ContextReport, Outcome};
use crate::harness::providers::{self, Request};
use crate::harness::resolvers::reads::Place;
use crate::store::{Store, StoreError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Files that every configuration is read from.
const CONFIGS: &[&str] = &[
    "configs/gateway.json",
    "configs/inference.json",
    "configs/prices.json",
    "configs/context.json",
    "configs/security.json",
];

/// A file of the workspace with another text.
#[derive(Debug, Clone)]
pub struct Change {
    /// Below the workspace, with `/`.
    pub path: String,
    pub text: String,
}

/// What a change would have done to a run's first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Same,
    /// The model reads other words; nothing else was left out or let in.
    Wording,
    /// Something is left out or let in that was not.
    Room,
    /// Another model is asked, or in another way.
    Asked,
    /// The record does not say.
    Unknown,
}

impl Effect {
    pub fn as_str(self) -> &'static str {
        match self {
            Effect::Same => "same",
            Effect::Wording => "wording",
            Effect::Room => "room",
            Effect::Asked => "asked",
            Effect::Unknown => "unknown",
        }
    }
}

/// What is to be said of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    pub run: String,
    pub effect: Effect,
    /// The resolver or the setting that makes the difference.
    pub by: String,
    /// Its file, thread or message, where there is one.
    pub source: String,
    /// For people.
    pub why: String,
}

/// One question about many runs.
pub struct Sweep<'a> {
    store: &'a Store,
    configs: &'a Configs,
    changes: Vec<Change>,
    /// Configurations with the change in them, by the digest of the one without; or what is wrong with them.
    changed: Mutex<BTreeMap<String, Result<Arc<Config>, String>>>,
}

impl<'a> Sweep<'a> {
    pub fn new(store: &'a Store, configs: &'a Configs, changes: Vec<Change>) -> Self {
        Self { store, configs, changes, changed: Mutex::default() }
    }

    /// Judges one run. Errors: those of the store; what the record does not say, or a row that cannot be
    /// read, is [`Effect::Unknown`].
    pub async fn judge(&self, run: &RunId) -> Result<Judgement, StoreError> {
        match self.compare(run).await {
            Ok(judgement) => Ok(judgement),
            Err(AsOfError::Store(error)) if !error.is_of_one_row() => Err(error),
            Err(other) => Ok(judgement(run, Effect::Unknown, "", "", other.to_string())),
        }
    }

    async fn compare(&self, run: &RunId) -> Result<Judgement, AsOfError> {
        let then = AsOf::of_run(self.store, run).await?.swap_remove(0);
        let told = self.configs.get(&self.store.persona(&then.persona), &then.config).await?;
        let config = self.with_changes(&then, &told).await?;
        let terms = self.store.persona(&then.persona).terms_of_run(run).await?.run_terms;
        if let Some((by, why)) = asked(&then, &terms, &told, &config) {
            return Ok(judgement(run, Effect::Asked, by, "", why));
        }
        let (_, before) = then.assemble(&told).await?;
        let (_, after) = self.after(&then, &told, &config).assemble(&config).await?;
        // Another bound that nothing comes up against changes nothing.
        let after = ContextReport { budget_tokens: before.budget_tokens, ..after };
        if let Some(culprit) = before.culprit(&after) {
            let effect = if makes_room(&before, &after) { Effect::Room } else { Effect::Wording };
            return Ok(judgement(run, effect, &culprit.resolver, &culprit.source, culprit.what));
        }
        if let Some(path) = self.knowledge_of(&then) {
            let why = "the knowledge was searched, and what that finds with another file is not recorded";
            return Ok(judgement(run, Effect::Unknown, "knowledge", path, why.to_owned()));
        }
        Ok(judgement(run, Effect::Same, "", "", String::new()))
    }

    /// The configuration that the run would have been told.
    async fn with_changes(&self, then: &AsOf, told: &Arc<Config>) -> Result<Arc<Config>, AsOfError> {
        let changes: Vec<&Change> = self.changes.iter().filter(|change| is_config(&change.path)).collect();
        if changes.is_empty() {
            return Ok(told.clone());
        }
        let known = || self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = known().get(&then.config).cloned();
        let settled = settled.unwrap_or_else(|| {
            let mut snapshot = (*told.snapshot).clone();
            for change in changes {
                snapshot = snapshot.with(&change.path, &change.text);
            }
            let settled = self.configs.settle(&then.config, &snapshot).map(Arc::new);
            let settled = settled.map_err(|error| format!("with the change: {error}"));
            known().insert(then.config.clone(), settled.clone());
            settled
        });
        settled.map_err(|why| AsOfError::Config { digest: then.config.clone(), why })
    }

    /// The run's context with the texts of the change, within the bounds of the changed configuration.
    fn after(&self, then: &AsOf, told: &Config, config: &Config) -> AsOf {
        let mut after = then.clone();
        for change in &self.changes {
            let text = change.text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
            after.reads.add_file(Place::Workspace, &change.path, &text);
            if let Some(path) = change.path.strip_prefix(&format!("personas/{}/", then.persona)) {
                after.reads.add_file(Place::Persona, path, &text);
            }
        }
        let (was, is) = (&told.inference.budget, &config.inference.budget);
        if was.context_tokens_max != is.context_tokens_max {
            // What a model was known to take bounds it as before.
            let is_bound_by_model = then.budget_tokens < then.allowed_tokens;
            after.allowed_tokens = is.context_tokens_max;
            after.budget_tokens = match is_bound_by_model {
                true => then.budget_tokens.min(is.context_tokens_max),
                false => is.context_tokens_max,
            };
        }
        after
    }

    /// A changed file of the knowledge that the run searched.
    fn knowledge_of(&self, then: &AsOf) -> Option<&str> {
        let folder = format!("personas/{}/knowledge/", then.persona);
        let changed = self.changes.iter().find(|change| change.path.starts_with(&folder));
        changed.filter(|_| then.reads.searched_knowledge()).map(|change| change.path.as_str())
    }
}

fn judgement(run: &RunId, effect: Effect, by: &str, source: &str, why: String) -> Judgement {
    Judgement { run: run.to_string(), effect, by: by.to_owned(), source: source.to_owned(), why }
}

/// Whether a configuration is read from the file.
pub fn is_config(path: &str) -> bool {
    let of_persona = path.strip_prefix("personas/").and_then(|rest| rest.split_once('/'));
    CONFIGS.contains(&path) || of_persona.is_some_and(|(_, file)| file == "persona.json")
}

/// Whether the two differ in what was left out, and not only in words.
fn makes_room(before: &ContextReport, after: &ContextReport) -> bool {
    let outcomes = |report: &ContextReport| -> Vec<(String, Outcome, Option<String>)> {
        let entry = |entry: &crate::harness::context::ReportEntry| {
            (entry.resolver.clone(), entry.outcome, entry.why.clone())
        };
        report.entries.iter().map(entry).collect()
    };
    outcomes(before) != outcomes(after)
}

/// Who is asked, and how: the first setting that differs, and how it does.
fn asked(then: &AsOf, terms: &RunTerms, told: &Config, config: &Config) -> Option<(&'static str, String)> {
    let (was, is) = (told.personas.get(&then.persona)?, config.personas.get(&then.persona)?);
    let first = |config: &Config, persona: &Persona| {
        let choice = config.inference.choices_under(terms, persona).into_iter().next();
        choice.map(|choice| (choice.provider, choice.model)).unwrap_or_default()
    };
    let (then_asked, now_asked) = (first(told, was), first(config, is));
    let differs =
        |was: String, is: String| (was != is).then(|| format!("`{was}` then, `{is}` with the change"));
    let is_meant = |tool: &&String| terms.tools.as_ref().is_none_or(|tools| tools.contains(tool));
    let all = |tools: &Option<Vec<String>>| match (tools, &terms.tools) {
        (Some(tools), _) => tools.iter().filter(is_meant).cloned().collect::<Vec<_>>().join(", "),
        (None, Some(tools)) => tools.join(", "),
        (None, None) => "all".to_owned(),
    };
    let temperature = |of: Option<f32>| of.map_or("none".to_owned(), |of| of.to_string());
    let (told_inference, inference) = (&told.inference, &config.inference);
    let settings = [
        ("provider", differs(then_asked.0.clone(), now_asked.0.clone())),
        ("model", differs(then_asked.1, now_asked.1)),
        ("tools", differs(all(&was.tools), all(&is.tools))),
        (
            "max_output_tokens",
            differs(told_inference.max_output_tokens.to_string(), inference.max_output_tokens.to_string()),
        ),
        ("temperature", differs(temperature(told_inference.temperature), temperature(inference.temperature))),
    ];
    let setting = settings.into_iter().find_map(|(name, how)| how.map(|how| (name, how)));
    setting.or_else(|| {
        let provider = now_asked.0;
        let wire = |config: &Config| -> Option<String> {
            let settings = config.inference.providers.get(&provider).cloned().unwrap_or_default();
            let request: Request = serde_json::from_str(&then.request_json).ok()?;
            providers::wire(&provider, &settings, Path::new("/nowhere")).ok()?.wire_request(&request).ok()
        };
        let (was, is) = (wire(told), wire(config));
        (was != is)
            .then(|| ("providers", format!("the settings of `{provider}` write the request otherwise")))
    })
}
