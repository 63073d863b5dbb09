//! Runs executed once more, over their records: the real loop, with the provider's answers, the results of tools and the
//! time from the record. Every request must be the recorded one, byte for byte.
//!
//! Nothing can happen here, by what there is to do it with: the loop gets a [`tape`] that has values and no store, no
//! folder, no clock, and of each adapter its [`Wire`](crate::harness::providers::Wire) alone, which cannot send. The
//! database is read before, by connections that cannot write.

mod difference;
mod record;
mod tape;

pub use difference::{Difference, Place};

use crate::config::{Config, Vocabulary};
use crate::domain::{RunId, RunState, StopReason, Timestamp};
use crate::harness::as_of::{AsOfError, Configs};
use crate::harness::circumstances::RULES;
use crate::harness::desk::{Bench, RunError};
use crate::harness::execute::execute;
use crate::harness::providers::{self, Provider, ProviderError, Wire};
use crate::harness::route::Spares;
use crate::replay::parcel::Header;
use crate::store::{Store, StoreError};
use crate::tools::TOOLS;
use record::{Attempt, Record};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tape::{Recorded, Tape};
use tokio::sync::{Notify, OnceCell};
use tokio_util::sync::CancellationToken;

/// What became of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Verified {
    pub run: String,
    /// Where the run stands.
    pub state: String,
    #[serde(flatten)]
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Outcome {
    /// As recorded.
    Identical {
        requests: usize,
        attempts: usize,
    },
    Differs(Box<Difference>),
    /// What it was told is not here: whoever exported it took secrets out of it, or gave people other names.
    Masked {
        reason: String,
    },
    /// Nothing can be said about it.
    NotVerifiable {
        reason: String,
    },
    /// Its requests and answers went by age (`attache gc`).
    ThrownAway {
        at: String,
    },
    /// A row of its record cannot be read.
    Unreadable {
        reason: String,
    },
    /// No model was asked.
    NothingAsked,
}

/// Verifies runs of one workspace; what they have in common is made once.
pub struct Verifier {
    store: Store,
    configs: Configs,
    /// Instead of what the configuration names.
    given: BTreeMap<String, Arc<dyn Wire>>,
    /// By configuration, provider and program.
    wires: Mutex<HashMap<WireKey, Arc<dyn Wire>>>,
    /// What was done to the texts of an archive when they were exported; asked once.
    masks: OnceCell<Option<&'static str>>,
}

/// Digest of the configuration, provider, program.
type WireKey = (String, String, PathBuf);

/// Why a run was not executed again.
pub enum Fault {
    Store(StoreError),
    ThrownAway(Timestamp),
    /// For people.
    Unverifiable(String),
    /// Texts are not those that their digests name.
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
    pub fn new(store: Store, workspace: PathBuf, vocabulary: Vocabulary) -> Self {
        let configs = Configs::new(workspace, vocabulary);
        Self { store, configs, given: BTreeMap::new(), wires: Mutex::default(), masks: OnceCell::new() }
    }

    /// The same, with an adapter of one's own for a provider.
    #[must_use]
    pub fn with(mut self, provider: &str, wire: Arc<dyn Wire>) -> Self {
        self.given.insert(provider.to_owned(), wire);
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
                    outcome: Outcome::Unreadable { reason: error.to_string() },
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
            Err(Fault::ThrownAway(at)) => Outcome::ThrownAway { at: at.to_string() },
            Err(Fault::Unverifiable(reason)) => Outcome::NotVerifiable { reason },
            Err(Fault::Changed(reason)) => match self.masks().await? {
                Some(masked) => Outcome::Masked { reason: masked.to_owned() },
                None => Outcome::NotVerifiable { reason },
            },
            // A row that is wrong is one run's, and the others are looked at all the same.
            Err(Fault::Store(error)) if error.is_of_one_row() => {
                Outcome::Unreadable { reason: error.to_string() }
            }
            Err(Fault::Store(error)) => return Err(error),
        };
        Ok(Verified { run: run.to_string(), state, outcome })
    }

    async fn replay(&self, record: Arc<Record>) -> Result<Outcome, Fault> {
        if let Some(difference) = record.damage() {
            return Ok(match self.masks().await? {
                Some(masked) => Outcome::Masked { reason: masked.to_owned() },
                None => Outcome::Differs(Box::new(difference)),
            });
        }
        let attempts = record.attempts();
        for attempt in &attempts {
            match self.replay_attempt(&record, attempt).await? {
                Some(difference) if record.rules() < RULES => {
                    return Ok(Outcome::NotVerifiable { reason: earlier_rules(record.rules(), &difference) });
                }
                Some(difference) => return Ok(Outcome::Differs(Box::new(difference))),
                None => {}
            }
        }
        Ok(Outcome::Identical { requests: record.calls.len(), attempts: attempts.len() })
    }

    /// Why texts here need not be those of then; `None`: they must be.
    async fn masks(&self) -> Result<Option<&'static str>, StoreError> {
        let ask = || async {
            let header = self.store.archive_header().await?;
            let header = header.and_then(|json| serde_json::from_str::<Header>(&json).ok());
            Ok(header.and_then(|header| header.masks()))
        };
        self.masks.get_or_try_init(ask).await.copied()
    }

    /// One attempt from its claim to where its record ends.
    async fn replay_attempt(
        &self,
        record: &Arc<Record>,
        attempt: &Attempt,
    ) -> Result<Option<Difference>, Fault> {
        let digest = &record.calls[attempt.calls.start].begun.config;
        let persona = self.store.persona(&record.run.persona);
        let config = record.in_its_place(self.configs.get(&persona, digest).await?);
        let tape = Arc::new(Tape::new(record.clone(), attempt.clone()));
        let bench = self.bench(&config, digest, &tape)?;
        let claim = record.claim(attempt);
        let worked = execute(&bench, &claim, &CancellationToken::new()).await;
        match tape.difference() {
            Some(difference) => Ok(Some(difference.explained(record, &config).await?)),
            None => Ok(unfinished(record, attempt, &tape, worked)),
        }
    }

    fn bench(&self, config: &Arc<Config>, digest: &str, tape: &Arc<Tape>) -> Result<Bench, Fault> {
        let record = tape.record();
        let choices = config.personas.get(&record.run.persona).into_iter();
        let terms = &record.held_to.run_terms;
        let choices = choices.flat_map(|persona| config.inference.choices_under(terms, persona));
        let mut providers: BTreeMap<String, Box<dyn Provider>> = BTreeMap::new();
        for choice in choices {
            let wire = self.wire(config, digest, &choice.provider, record.program(&choice.provider));
            let wire = wire.map_err(|error| {
                Fault::Unverifiable(format!("provider `{}` cannot be had: {error}", choice.provider))
            })?;
            providers.insert(choice.provider, Box::new(Recorded::new(wire, tape.clone())));
        }
        Ok(Bench {
            config: config.clone(),
            clock: tape.clone(),
            providers,
            ledger: Box::new(tape.clone()),
            hands: Box::new(tape.clone()),
            circumstances: Box::new(tape.clone()),
            tools: TOOLS.to_vec(),
            loop_key: self.store.loop_key().clone(),
            mail_queued: Arc::default(),
            given_back: Notify::new(),
            spares: Spares::default(),
        })
    }

    /// The pure part of an adapter. It is built without a key, and an agent's program is said to be where it was.
    fn wire(
        &self,
        config: &Config,
        digest: &str,
        provider: &str,
        program: PathBuf,
    ) -> Result<Arc<dyn Wire>, ProviderError> {
        if let Some(wire) = self.given.get(provider) {
            return Ok(wire.clone());
        }
        let key = (digest.to_owned(), provider.to_owned(), program);
        let wires = || self.wires.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wire) = wires().get(&key) {
            return Ok(wire.clone());
        }
        let settings = config.inference.providers.get(provider).cloned().unwrap_or_default();
        let wire: Arc<dyn Wire> = Arc::from(providers::wire(provider, &settings, &key.2)?);
        wires().insert(key, wire.clone());
        Ok(wire)
    }
}

/// Why a run that would go another way today does not differ from its record.
fn earlier_rules(rules: u32, difference: &Difference) -> String {
    format!("it was recorded under rules {rules}, and this version has rules {RULES}: {difference}")
}

/// What the loop left of the record.
fn unfinished(
    record: &Record,
    attempt: &Attempt,
    tape: &Tape,
    worked: Result<StopReason, RunError>,
) -> Option<Difference> {
    let next = tape.next_call();
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
            Some(Difference::of_engine(record, next - 1, &format!("the end `{then}`"), &format!("`{stop}`")))
        }
        _ => None,
    }
}
