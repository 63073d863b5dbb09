//! Complete record of one run, loaded before it is executed again. Values only.

use super::Fault;
use crate::config::{Config, Persona, Personas};
use crate::domain::{Allowance, ThreadBudget, Timestamp};
use crate::providers::{AgentOptions, Response};
use crate::runs::record::as_of::AsOf;
use crate::runs::record::call_record::{Begun, Ended};
use crate::store::{
    ClaimedRun, RunOptionsInForce, RunSummary, Step, Store, StoredMessage, StoredTurn,
};
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Reason for runs of older engines, which did not record everything that verification needs.
const OLDER: &str = "it is older than the record of what decided beside the rows";

/// One run as it was recorded.
pub struct Record {
    pub run: RunSummary,
    /// Provider calls, in order.
    pub calls: Vec<RecordedCall>,
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// Contexts, in order.
    pub contexts: Vec<AsOf>,
    /// Texts of the messages that it wrote.
    pub mails: Vec<String>,
    /// Recipients in To and Cc of the last of them; empty where it had none.
    pub people: Vec<String>,
    /// Options of the run.
    pub run_options: RunOptionsInForce,
}

/// One provider call.
pub struct RecordedCall {
    pub turn: StoredTurn,
    pub begun: Begun,
    /// Outcome; `None`: its end was not recorded.
    pub ended: Option<Ended>,
    pub response: Option<Response>,
}

/// One attempt of a run, from its claim to its end or interruption; only attempts that made calls
/// are known.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Range of its calls among all.
    pub calls: Range<usize>,
    /// Number of steps when it began.
    pub steps: usize,
}

impl Record {
    /// Loads a run; `None`: no model was asked. Errors: a needed part is missing.
    pub async fn load(store: &Store, run: RunSummary) -> Result<Option<Self>, Fault> {
        let persona = store.persona(&run.persona);
        let turns = persona.turns_of_run(&run.id).await?;
        if turns.is_empty() {
            return Ok(None);
        }
        let calls = turns
            .into_iter()
            .map(RecordedCall::of)
            .collect::<Result<Vec<_>, Fault>>()?;
        let contexts = AsOf::of_run(store, &run.id).await?;
        let mails = persona.mails_of_run(&run.id).await?;
        let people = mails.last().map(people).unwrap_or_default();
        let mails = mails.into_iter().map(|mail| mail.text_body).collect();
        Ok(Some(Self {
            calls: in_order(calls),
            steps: persona.steps_of_run(&run.id).await?,
            contexts,
            mails,
            people,
            run_options: persona.options_of_run(&run.id, run.trigger).await?,
            run,
        }))
    }

    /// Returns the attempts that made calls, in order.
    pub fn attempts(&self) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        for (place, call) in self.calls.iter().enumerate() {
            match attempts.last_mut() {
                Some(last)
                    if self.calls[last.calls.start].begun.found_calls == call.begun.found_calls =>
                {
                    last.calls.end = place + 1;
                }
                _ => attempts.push(Attempt {
                    calls: place..place + 1,
                    steps: (call.begun.found_steps as usize).min(self.steps.len()),
                }),
            }
        }
        attempts
    }

    /// Returns the run as it was claimed for an attempt.
    pub fn claim(&self, attempt: &Attempt) -> ClaimedRun {
        let claim = &self.calls[attempt.calls.start].begun.claim;
        let [run_cost, run_tokens, day_cost, day_tokens] = claim.thread_budget;
        let allowance = |cost_micros_max, tokens_max| Allowance {
            cost_micros_max,
            tokens_max,
        };
        let thread = self
            .contexts
            .first()
            .map(|context| context.subject.message.thread.clone());
        ClaimedRun {
            id: self.run.id.clone(),
            persona: self.run.persona.clone(),
            thread: thread.unwrap_or_else(|| self.run.thread.clone()),
            trigger: self.run.trigger,
            trigger_message: self.run.trigger_message.clone(),
            profile: self.run.profile.clone(),
            attempt: claim.attempt,
            has_journal: attempt.calls.start > 0,
            worked: Duration::from_millis(claim.worked_ms),
            created_at: self.run.created_at,
            is_retried: claim.is_retried,
            is_overtaken: claim.is_overtaken,
            letters: claim.letters,
            budget_micros: claim.budget_micros,
            attempts_max: None, // the worker counts attempts
            thread_budget: ThreadBudget {
                run: allowance(run_cost, run_tokens),
                day: allowance(day_cost, day_tokens),
            },
        }
    }

    /// Returns the lowest version of the rules under which a part of it was recorded.
    pub fn rules(&self) -> u32 {
        self.calls
            .iter()
            .map(|call| call.begun.rules)
            .min()
            .unwrap_or_default()
    }

    /// Returns the context that was first used by a call.
    pub fn context_of(&self, call: usize) -> Option<&AsOf> {
        let turn = &self.calls.get(call)?.turn;
        let is_its = |context: &&AsOf| {
            (context.turn_index, context.attempt) == (turn.turn_index, turn.attempt)
        };
        self.contexts.iter().find(is_its)
    }

    /// Returns the instant at which a call began; for an index beyond the last call, that call's.
    pub fn instant(&self, call: usize) -> Timestamp {
        let call = self.calls.get(call).or(self.calls.last());
        call.map_or(self.run.created_at, |call| call.turn.started_at)
    }

    /// Returns the recorded window of this provider's model, if there is one.
    pub fn window_tokens(&self, provider: &str) -> Option<u64> {
        let mut of_it = self
            .calls
            .iter()
            .filter(|call| call.turn.provider == provider);
        of_it.find_map(|call| call.begun.window_tokens)
    }

    /// Returns the configuration with the recorded paths: an agent is told its folder and the
    /// program of our tools.
    pub fn in_its_place(&self, config: Arc<Config>) -> Arc<Config> {
        let Some(options) = self.options() else {
            return config;
        };
        let mut config = (*config).clone();
        if let Some(tools) = options.tool_server {
            config.program = tools.program.into();
        }
        // Formatted `WORKSPACE/personas/ID`.
        let folder = PathBuf::from(options.folder);
        if let Some(workspace) = folder.parent().and_then(Path::parent) {
            config.workspace = workspace.to_owned();
        }
        let personas =
            config
                .personas
                .iter()
                .cloned()
                .map(|persona| match persona.id == self.run.persona {
                    true => Persona {
                        folder: folder.clone(),
                        ..persona
                    },
                    false => persona,
                });
        // They were all valid before, with these addresses.
        if let Ok(personas) = Personas::new(personas.collect()) {
            config.personas = personas;
        }
        Arc::new(config)
    }

    /// Returns the options of the first request to an agent; `None`: no agent was asked.
    fn options(&self) -> Option<AgentOptions> {
        /// Needed part of an agent's request.
        #[derive(Deserialize)]
        struct RecordedRequest {
            #[serde(alias = "agent")]
            #[serde(rename = "terms")]
            options: AgentOptions,
        }
        let of_agents = self
            .calls
            .iter()
            .filter(|call| call.begun.session.is_some());
        let mut recorded = of_agents.filter_map(|call| {
            let recorded: RecordedRequest = serde_json::from_str(&call.turn.request_json).ok()?;
            Some(recorded.options)
        });
        recorded.next()
    }

    /// Returns the recorded path of an agent's program; any path where there was none.
    pub fn program(&self, provider: &str) -> PathBuf {
        /// Needed part of an agent's request.
        #[derive(Deserialize)]
        struct Started {
            argv: Vec<String>,
        }
        let of_it = self
            .calls
            .iter()
            .filter(|call| call.turn.provider == provider);
        let of_agents = of_it.filter(|call| call.begun.session.is_some());
        let mut programs = of_agents.filter_map(|call| {
            serde_json::from_str::<Started>(&call.turn.request_json)
                .ok()?
                .argv
                .into_iter()
                .next()
        });
        programs
            .next()
            .unwrap_or_else(|| "/nowhere".to_owned())
            .into()
    }
}

impl RecordedCall {
    fn of(turn: StoredTurn) -> Result<Self, Fault> {
        if let Some(at) = turn.redacted_at {
            return Err(Fault::Redacted(at));
        }
        if let Some(at) = turn.pruned_at {
            return Err(Fault::Pruned(at));
        }
        let older = || Fault::Unverifiable(OLDER.to_owned());
        let changed = |what: &str| {
            Fault::Unverifiable(format!("{what} of turn {} cannot be read", turn.turn_index))
        };
        let begun = serde_json::from_str(turn.begun_json.as_deref().ok_or_else(older)?);
        let begun = begun.map_err(|_| changed("the beginning"))?;
        let ended = turn
            .ended_json
            .as_deref()
            .map(serde_json::from_str)
            .transpose();
        let ended = ended.map_err(|_| changed("the end"))?;
        let response = turn
            .response_json
            .as_deref()
            .map(serde_json::from_str)
            .transpose();
        let response = response.map_err(|_| changed("the response"))?;
        Ok(Self {
            begun,
            ended,
            response,
            turn,
        })
    }
}

/// Sorts calls in the order in which they were made: rows are listed by turn, and a repair of a
/// later attempt may have asked an earlier turn again.
fn in_order(mut calls: Vec<RecordedCall>) -> Vec<RecordedCall> {
    calls.sort_by_key(|call| call.begun.found_calls);
    calls
}

fn people(mail: &StoredMessage) -> Vec<String> {
    let recipients: serde_json::Value =
        serde_json::from_str(&mail.recipients_json).unwrap_or_default();
    let named = ["to", "cc"].map(|field| recipients[field].as_array().into_iter().flatten());
    let named = named.into_iter().flatten();
    named
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect()
}
