//! Effect of a changed file on past runs: each first context is assembled again as of its time,
//! with and without the change, and both are compared.
//!
//! Absent on purpose: asking a model. Its answer to the changed context is unknown.

use crate::config::{Config, Persona, PersonaTools};
use crate::context::resolvers::reads::BaseFolder;
use crate::context::{ContextReport, EntryOutcome};
use crate::domain::{Origin, RunId, RunOptions, Trigger};
use crate::providers::{self, Request};
use crate::runs::record::as_of::{AsOf, AsOfError};
use crate::runs::record::configs::Configs;
use crate::store::{Store, StoreError};
use serde::Serialize;
use serde_json::Value;
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
pub struct ChangedFile {
    /// Path relative to the workspace, with `/`.
    pub path: String,
    pub text: String,
}

/// Effect of a change on a run's first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    Same,
    /// The text differs; pieces left out and included are equal.
    Wording,
    /// A piece is left out or included that was not.
    Room,
    /// Another model is asked, or with other parameters.
    Asked,
    /// The record is not sufficient.
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

/// Effect on one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    pub run: String,
    pub effect: Effect,
    /// Resolver or setting that makes the difference.
    pub by: String,
    /// File, thread or message of the resolver, where there is one.
    pub source: String,
    /// Explanation for an operator.
    pub why: String,
}

/// One change, judged over many runs.
pub struct Sweep<'a> {
    store: &'a Store,
    configs: &'a Configs,
    changes: Vec<ChangedFile>,
    /// Changed configurations, by the digest of the unchanged one; or their error.
    changed: Mutex<BTreeMap<String, Result<Arc<Config>, String>>>,
}

impl<'a> Sweep<'a> {
    pub fn new(store: &'a Store, configs: &'a Configs, changes: Vec<ChangedFile>) -> Self {
        Self {
            store,
            configs,
            changes,
            changed: Mutex::default(),
        }
    }

    /// Judges one run. Errors: those of the store; an insufficient record, or a row that cannot be
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
        let recorded = self
            .configs
            .get(&self.store.persona(&then.persona), &then.config)
            .await?;
        let config = self.with_changes(&then, &recorded).await?;
        let options = self
            .store
            .persona(&then.persona)
            .options_of_run(run, then.subject.trigger)
            .await?
            .run_options;
        if let Some((by, why)) = asked(&then, &options, &recorded, &config) {
            return Ok(judgement(run, Effect::Asked, by, "", why));
        }
        let (_, before) = then.assemble(&recorded).await?;
        let (_, after) = self
            .after(&then, &recorded, &config)
            .assemble(&config)
            .await?;
        // A changed bound that is not reached changes nothing.
        let after = ContextReport {
            budget_tokens: before.budget_tokens,
            ..after
        };
        if let Some(cause) = before.cause(&after) {
            let effect = if makes_room(&before, &after) {
                Effect::Room
            } else {
                Effect::Wording
            };
            return Ok(judgement(
                run,
                effect,
                &cause.resolver,
                &cause.source,
                cause.what,
            ));
        }
        if let Some(path) = self.knowledge_of(&then) {
            let why =
                "the knowledge was searched, and what that finds with another file is not recorded";
            return Ok(judgement(
                run,
                Effect::Unknown,
                "knowledge",
                path,
                why.to_owned(),
            ));
        }
        Ok(judgement(run, Effect::Same, "", "", String::new()))
    }

    /// Returns the configuration of the run with the change.
    async fn with_changes(
        &self,
        then: &AsOf,
        recorded: &Arc<Config>,
    ) -> Result<Arc<Config>, AsOfError> {
        let changes: Vec<&ChangedFile> = self
            .changes
            .iter()
            .filter(|change| is_config(&change.path))
            .collect();
        if changes.is_empty() {
            return Ok(recorded.clone());
        }
        let known = || self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let resolved = known().get(&then.config).cloned();
        let resolved = resolved.unwrap_or_else(|| {
            let mut snapshot = (*recorded.snapshot).clone();
            for change in changes {
                snapshot = snapshot.with(&change.path, &change.text);
            }
            let resolved = self.configs.resolve(&then.config, &snapshot).map(Arc::new);
            let resolved = resolved.map_err(|error| format!("with the change: {error}"));
            known().insert(then.config.clone(), resolved.clone());
            resolved
        });
        resolved.map_err(|why| AsOfError::Config {
            digest: then.config.clone(),
            why,
        })
    }

    /// Returns the run's context with the changed texts, within the bounds of the changed
    /// configuration.
    fn after(&self, then: &AsOf, recorded: &Config, config: &Config) -> AsOf {
        let mut after = then.clone();
        for change in &self.changes {
            let text = change
                .text
                .trim_start_matches('\u{feff}')
                .replace("\r\n", "\n");
            after
                .reads
                .add_file(BaseFolder::Workspace, &change.path, &text);
            if let Some(path) = change
                .path
                .strip_prefix(&format!("personas/{}/", then.persona))
            {
                after.reads.add_file(BaseFolder::Persona, path, &text);
            }
        }
        let (was, is) = (&recorded.inference.budget, &config.inference.budget);
        if was.context_tokens_max != is.context_tokens_max {
            // The known window of a model bounds the context as before.
            let is_bound_by_model = then.budget_tokens < then.allowed_tokens;
            after.allowed_tokens = is.context_tokens_max;
            after.budget_tokens = match is_bound_by_model {
                true => then.budget_tokens.min(is.context_tokens_max),
                false => is.context_tokens_max,
            };
        }
        after
    }

    /// Returns a changed file of the knowledge that the run searched.
    fn knowledge_of(&self, then: &AsOf) -> Option<&str> {
        let folder = format!("personas/{}/knowledge/", then.persona);
        let changed = self
            .changes
            .iter()
            .find(|change| change.path.starts_with(&folder));
        changed
            .filter(|_| then.reads.searched_knowledge())
            .map(|change| change.path.as_str())
    }
}

fn judgement(run: &RunId, effect: Effect, by: &str, source: &str, why: String) -> Judgement {
    Judgement {
        run: run.to_string(),
        effect,
        by: by.to_owned(),
        source: source.to_owned(),
        why,
    }
}

/// Reports whether a configuration is read from the file.
pub fn is_config(path: &str) -> bool {
    let of_persona = path
        .strip_prefix("personas/")
        .and_then(|rest| rest.split_once('/'));
    CONFIGS.contains(&path) || of_persona.is_some_and(|(_, file)| file == "persona.json")
}

/// Reports whether the two differ in what was left out, and not only in text.
fn makes_room(before: &ContextReport, after: &ContextReport) -> bool {
    let outcomes = |report: &ContextReport| -> Vec<(String, EntryOutcome, Option<String>)> {
        let entry = |entry: &crate::context::ReportEntry| {
            (entry.resolver.clone(), entry.outcome, entry.why.clone())
        };
        report.entries.iter().map(entry).collect()
    };
    outcomes(before) != outcomes(after)
}

/// Returns the first differing setting of the model, and its difference.
fn asked(
    then: &AsOf,
    options: &RunOptions,
    recorded: &Config,
    config: &Config,
) -> Option<(&'static str, String)> {
    let (was, is) = (
        recorded.personas.get(&then.persona)?,
        config.personas.get(&then.persona)?,
    );
    let first = |config: &Config, persona: &Persona| {
        let choices = config.inference.choices_under(options, persona);
        let choice = choices.into_iter().next();
        choice
            .map(|choice| (choice.provider, choice.model))
            .unwrap_or_default()
    };
    let (then_asked, now_asked) = (first(recorded, was), first(config, is));
    let differs = |was: String, is: String| {
        (was != is).then(|| format!("`{was}` then, `{is}` with the change"))
    };
    let in_force = |config, persona, provider: &str| {
        shaping(config, persona, options, then.subject.trigger, provider)
    };
    let settings_then = in_force(recorded, was, &then_asked.0);
    let settings_now = in_force(config, is, &now_asked.0);
    let settings = [
        (
            "provider",
            differs(then_asked.0.clone(), now_asked.0.clone()),
        ),
        ("model", differs(then_asked.1, now_asked.1)),
        (
            "tools",
            differs(
                tools_offered(&was.tools, options),
                tools_offered(&is.tools, options),
            ),
        ),
    ];
    let setting = settings
        .into_iter()
        .find_map(|(name, how)| how.map(|how| (name, how)));
    let in_force = || {
        let mut pairs = settings_then.iter().zip(&settings_now);
        pairs.find_map(|((name, was, _), (_, is, _))| {
            differs(worded(was), worded(is)).map(|how| (*name, how))
        })
    };
    setting.or_else(in_force).or_else(|| {
        let provider = now_asked.0;
        let (was, is) = (
            encoded(&provider, recorded, then),
            encoded(&provider, config, then),
        );
        (was != is).then(|| {
            (
                "providers",
                format!("the settings of `{provider}` write the request otherwise"),
            )
        })
    })
}

/// Returns the settings in force that shape a request.
fn shaping(
    config: &Config,
    persona: &Persona,
    options: &RunOptions,
    trigger: Trigger,
    provider: &str,
) -> Vec<(&'static str, Value, Origin)> {
    let inference = &config.inference;
    let settings = inference.settings_in_force((persona, options), trigger, provider);
    let mut listed = settings.listed();
    listed.retain(|(name, _, _)| ["max_output_tokens", "temperature"].contains(name));
    listed
}

/// Formats a setting for a sentence; `none` where it is not set.
fn worded(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Lists the tools that a persona and the run's options permit.
fn tools_offered(tools: &PersonaTools, options: &RunOptions) -> String {
    match (tools.named(), &options.tools) {
        (Some(tools), meant) => tools
            .iter()
            .filter(|tool| meant.as_ref().is_none_or(|meant| meant.contains(tool)))
            .cloned()
            .collect::<Vec<_>>()
            .join(", "),
        (None, Some(meant)) => meant.join(", "),
        (None, None) => tools.to_string(),
    }
}

/// Returns the recorded request as this configuration's provider writes it.
fn encoded(provider: &str, config: &Config, then: &AsOf) -> Option<String> {
    let settings = config
        .inference
        .providers
        .get(provider)
        .cloned()
        .unwrap_or_default();
    let request: Request = serde_json::from_str(&then.request_json).ok()?;
    providers::encoder(provider, &settings, Path::new("/nowhere"))
        .ok()?
        .encode_request(&request)
        .ok()
}
