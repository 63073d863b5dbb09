//! Verification: runs are executed again over their records: the real loop, with the provider's
//! answers, the results of tools and the time from the record. Every request must be the recorded
//! one, byte for byte.
//!
//! It can have no effects: the loop gets a [`recorded_env`] that has values and no store, no
//! folder, no clock, and of each adapter its
//! [`RequestEncoder`](crate::providers::RequestEncoder) alone, which cannot send. The
//! database is read before, by connections that cannot write.

mod difference;
mod record;
mod recorded_env;
mod recorded_provider;

pub use difference::{Difference, DifferencePlace};

use crate::config::{Config, NameCatalog};
use crate::domain::{RunId, RunState, StopReason, Timestamp};
use crate::providers::{self, Provider, ProviderError, RequestEncoder};
use crate::replay::bundle::BundleHeader;
use crate::runs::deps::RunDeps;
use crate::runs::env::RunEnv;
use crate::runs::error::RunError;
use crate::runs::execute::execute;
use crate::runs::provider_health::adapters::LazyProviders;
use crate::runs::record::as_of::AsOfError;
use crate::runs::record::call_record::RULES;
use crate::runs::record::configs::Configs;
use crate::store::{Store, StoreError};
use crate::tools;
use record::{Attempt, Record};
use recorded_env::RecordedEnv;
use recorded_provider::RecordedProvider;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// Result of verifying one run.
#[derive(Debug, Clone, Serialize)]
pub struct Verified {
    pub run: String,
    /// State of the run.
    pub state: String,
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Outcome {
    /// Equal to the record.
    Identical {
        requests: usize,
        attempts: usize,
    },
    Differs(Box<Difference>),
    /// The texts are not the original ones: the export removed secrets, or replaced names.
    Masked {
        reason: String,
    },
    /// The run cannot be verified.
    NotVerifiable {
        reason: String,
    },
    /// Requests and answers were pruned by age (`attache gc`).
    Pruned {
        at: String,
    },
    /// The owner erased a text that it held (`attache memory forget`).
    Redacted {
        at: String,
    },
    /// A row of its record cannot be read.
    Unreadable {
        reason: String,
    },
    /// No model was asked.
    NothingAsked,
}

/// Verifier of the runs of one workspace; shared parts are built once.
pub struct Verifier {
    store: Store,
    configs: Configs,
    /// Encoders by provider that replace the configured ones.
    given: BTreeMap<String, Arc<dyn RequestEncoder>>,
    /// Encoders by configuration, provider and program.
    encoders: Mutex<HashMap<EncoderKey, Arc<dyn RequestEncoder>>>,
    /// Changes that an archive's export made to the texts; asked once.
    masks: OnceCell<Option<&'static str>>,
}

/// Digest of the configuration, provider, program.
type EncoderKey = (String, String, PathBuf);

/// Reason why a run was not executed again.
pub enum Fault {
    Store(StoreError),
    Pruned(Timestamp),
    Redacted(Timestamp),
    /// Reason for an operator.
    Unverifiable(String),
    /// Texts that do not match their digests.
    Changed(String),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::Store(error)
    }
}

impl From<AsOfError> for Fault {
    fn from(error: AsOfError) -> Self {
        match error {
            AsOfError::Store(error) => Fault::Store(error),
            AsOfError::ConfigChanged(_) => Fault::Changed(error.to_string()),
            other => Fault::Unverifiable(other.to_string()),
        }
    }
}

impl Verifier {
    pub fn new(store: Store, workspace: PathBuf, names: NameCatalog) -> Self {
        let configs = Configs::new(workspace, names);
        Self {
            store,
            configs,
            given: BTreeMap::new(),
            encoders: Mutex::default(),
            masks: OnceCell::new(),
        }
    }

    /// Replaces the encoder of a provider.
    #[must_use]
    pub fn with(mut self, provider: &str, encoder: Arc<dyn RequestEncoder>) -> Self {
        self.given.insert(provider.to_owned(), encoder);
        self
    }

    /// Executes one run again. Errors: the database cannot be read.
    pub async fn verify(&self, run: &RunId) -> Result<Verified, StoreError> {
        let summary = match self.store.run_summary(run).await {
            Err(error) if error.is_of_one_row() => {
                let (run, state) = (run.to_string(), "unreadable".to_owned());
                return Ok(Verified {
                    run,
                    state,
                    outcome: Outcome::Unreadable {
                        reason: error.to_string(),
                    },
                });
            }
            summary => summary?,
        };
        let state = summary.state.to_string();
        let outcome = match Record::load(&self.store, summary).await {
            Ok(None) => Ok(Outcome::NothingAsked),
            Ok(Some(record)) => self.replay(Arc::new(record)).await,
            Err(fault) => Err(fault),
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(Fault::Pruned(at)) => Outcome::Pruned { at: at.to_string() },
            Err(Fault::Redacted(at)) => Outcome::Redacted { at: at.to_string() },
            Err(Fault::Unverifiable(reason)) => Outcome::NotVerifiable { reason },
            Err(Fault::Changed(reason)) => match self.masks().await? {
                Some(masked) => Outcome::Masked {
                    reason: masked.to_owned(),
                },
                None => Outcome::NotVerifiable { reason },
            },
            // A broken row concerns one run; the others are still verified.
            Err(Fault::Store(error)) if error.is_of_one_row() => Outcome::Unreadable {
                reason: error.to_string(),
            },
            Err(Fault::Store(error)) => return Err(error),
        };
        Ok(Verified {
            run: run.to_string(),
            state,
            outcome,
        })
    }

    async fn replay(&self, record: Arc<Record>) -> Result<Outcome, Fault> {
        if let Some(difference) = difference::damage(&record) {
            return Ok(match self.masks().await? {
                Some(masked) => Outcome::Masked {
                    reason: masked.to_owned(),
                },
                None => Outcome::Differs(Box::new(difference)),
            });
        }
        let attempts = record.attempts();
        for attempt in &attempts {
            match self.replay_attempt(&record, attempt).await? {
                Some(difference) if record.rules() < RULES => {
                    return Ok(Outcome::NotVerifiable {
                        reason: earlier_rules(record.rules(), &difference),
                    });
                }
                Some(difference) => return Ok(Outcome::Differs(Box::new(difference))),
                None => {}
            }
        }
        Ok(Outcome::Identical {
            requests: record.calls.len(),
            attempts: attempts.len(),
        })
    }

    /// Returns the reason why texts may differ from the original ones; `None`: they may not.
    async fn masks(&self) -> Result<Option<&'static str>, StoreError> {
        let ask = || async {
            let header = self.store.archive_header().await?;
            let header = header.and_then(|json| serde_json::from_str::<BundleHeader>(&json).ok());
            Ok(header.and_then(|header| header.masks()))
        };
        self.masks.get_or_try_init(ask).await.copied()
    }

    /// Replays one attempt from its claim to the end of its record.
    async fn replay_attempt(
        &self,
        record: &Arc<Record>,
        attempt: &Attempt,
    ) -> Result<Option<Difference>, Fault> {
        let digest = &record.calls[attempt.calls.start].begun.config;
        let persona = self.store.persona(&record.run.persona);
        let config = record.in_its_place(self.configs.get(&persona, digest).await?);
        let recorded_env = Arc::new(RecordedEnv::new(record.clone(), attempt.clone()));
        let run_deps = self.run_deps(&config, digest, &recorded_env)?;
        let claim = record.claim(attempt);
        let worked = execute(&run_deps, &claim, &CancellationToken::new()).await;
        match recorded_env.difference() {
            Some(difference) => Ok(Some(difference.explained(record, &config).await?)),
            None => Ok(unfinished(record, attempt, &recorded_env, worked)),
        }
    }

    fn run_deps(
        &self,
        config: &Arc<Config>,
        digest: &str,
        recorded_env: &Arc<RecordedEnv>,
    ) -> Result<RunDeps, Fault> {
        let record = recorded_env.record();
        let choices = config.personas.get(&record.run.persona).into_iter();
        let options = &record.run_options.run_options;
        let choices = choices.flat_map(|persona| config.inference.choices_under(options, persona));
        let mut providers: BTreeMap<String, Box<dyn Provider>> = BTreeMap::new();
        for choice in choices {
            let encoder = self.encoder(
                config,
                digest,
                &choice.provider,
                record.program(&choice.provider),
            );
            let encoder = encoder.map_err(|error| {
                Fault::Unverifiable(format!(
                    "provider `{}` cannot be had: {error}",
                    choice.provider
                ))
            })?;
            providers.insert(
                choice.provider,
                Box::new(RecordedProvider::new(encoder, recorded_env.clone())),
            );
        }
        Ok(RunDeps {
            config: config.clone(),
            clock: recorded_env.clone(),
            providers,
            env: RunEnv::Recorded(recorded_env.clone()),
            provider_health: Arc::new(recorded_env.clone()),
            tools: tools::of_config(config),
            loop_key: self.store.loop_key().clone(),
            mail_queued: Arc::default(),
            given_back: Arc::default(),
            lazy_providers: LazyProviders::default(),
        })
    }

    /// Returns the pure part of an adapter. It is built without a key, and with the recorded path
    /// of an agent's program.
    fn encoder(
        &self,
        config: &Config,
        digest: &str,
        provider: &str,
        program: PathBuf,
    ) -> Result<Arc<dyn RequestEncoder>, ProviderError> {
        if let Some(encoder) = self.given.get(provider) {
            return Ok(encoder.clone());
        }
        let key = (digest.to_owned(), provider.to_owned(), program);
        let encoders = || self.encoders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(encoder) = encoders().get(&key) {
            return Ok(encoder.clone());
        }
        let settings = config
            .inference
            .providers
            .get(provider)
            .cloned()
            .unwrap_or_default();
        let encoder: Arc<dyn RequestEncoder> =
            Arc::from(providers::encoder(provider, &settings, &key.2)?);
        encoders().insert(key, encoder.clone());
        Ok(encoder)
    }
}

/// Returns the reason why a run that would go another way today does not differ from its record.
fn earlier_rules(rules: u32, difference: &Difference) -> String {
    format!("it was recorded under rules {rules}, and this version has rules {RULES}: {difference}")
}

/// Reports the part of the record that the loop did not reach.
fn unfinished(
    record: &Record,
    attempt: &Attempt,
    recorded_env: &RecordedEnv,
    worked: Result<StopReason, RunError>,
) -> Option<Difference> {
    let next = recorded_env.next_call();
    if next < attempt.calls.end {
        let how = match worked {
            Ok(stop) => format!("the run ends here (`{stop}`)"),
            Err(error) => format!("the run is given up here: {error}"),
        };
        return Some(Difference::of_engine(record, next, "another request", &how));
    }
    let is_last = attempt.calls.end == record.calls.len();
    let has_end = matches!(record.run.state, RunState::Succeeded | RunState::Failed);
    match (worked, record.run.stop_reason) {
        (Ok(stop), Some(then)) if is_last && has_end && stop != then => {
            Some(Difference::of_engine(
                record,
                next - 1,
                &format!("the end `{then}`"),
                &format!("`{stop}`"),
            ))
        }
        _ => None,
    }
}
