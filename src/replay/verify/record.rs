//! Everything that was recorded of one run, loaded before it is executed again. Values only.

use super::Fault;
use super::difference::{Difference, Place};
use crate::config::{Config, Persona, Personas};
use crate::domain::{Allowance, ThreadBudget};
use crate::domain::{Timestamp, sha256_hex};
use crate::harness::as_of::AsOf;
use crate::harness::circumstances::{Begun, Ended};
use crate::harness::providers::{AgentTerms, Response};
use crate::store::{ClaimedRun, HeldTo, RunSummary, Step, Store, StoredMessage, StoredTurn};
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Of what verification needs, runs of older engines wrote nothing down.
const OLDER: &str = "it is older than the record of what decided beside the rows";

/// One run as it was recorded.
pub struct Record {
    pub run: RunSummary,
    /// Every call of a provider, in order.
    pub calls: Vec<Call>,
    /// In order.
    pub steps: Vec<Step>,
    /// Its contexts, in order.
    pub contexts: Vec<AsOf>,
    /// Texts of the messages that it wrote.
    pub mails: Vec<String>,
    /// Whom the last of them names in To; nobody where there was nobody to send it to.
    pub people: Vec<String>,
    /// Its terms.
    pub held_to: HeldTo,
}

/// One call of a provider.
pub struct Call {
    pub turn: StoredTurn,
    pub begun: Begun,
    /// `None`: nobody saw it end.
    pub ended: Option<Ended>,
    pub response: Option<Response>,
}

/// A stretch of work on a run, from its claim to where it ended or was cut off; only those that made calls are seen.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Its calls among all.
    pub calls: Range<usize>,
    /// Steps that it found.
    pub steps: usize,
}

impl Record {
    /// `None`: no model was asked. Errors: something that is needed is not there.
    pub async fn load(store: &Store, run: RunSummary) -> Result<Option<Self>, Fault> {
        let persona = store.persona(&run.persona);
        let turns = persona.turns_of_run(&run.id).await?;
        if turns.is_empty() {
            return Ok(None);
        }
        let calls = turns.into_iter().map(Call::of).collect::<Result<Vec<_>, Fault>>()?;
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
            held_to: persona.terms_of_run(&run.id).await?,
            run,
        }))
    }

    /// The attempts that made calls, in order.
    pub fn attempts(&self) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        for (place, call) in self.calls.iter().enumerate() {
            match attempts.last_mut() {
                Some(last) if self.calls[last.calls.start].begun.found_calls == call.begun.found_calls => {
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

    /// The run as it was claimed for an attempt.
    pub fn claim(&self, attempt: &Attempt) -> ClaimedRun {
        let claim = &self.calls[attempt.calls.start].begun.claim;
        let [run_cost, run_tokens, day_cost, day_tokens] = claim.thread_budget;
        let allowance = |cost_micros_max, tokens_max| Allowance { cost_micros_max, tokens_max };
        let thread = self.contexts.first().map(|context| context.subject.message.thread.clone());
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
            budget_micros: claim.budget_micros,
            attempts_max: None, // how often it is tried is the worker's affair
            thread_budget: ThreadBudget {
                run: allowance(run_cost, run_tokens),
                day: allowance(day_cost, day_tokens),
            },
        }
    }

    /// The earliest rules under which something of it was recorded.
    pub fn rules(&self) -> u32 {
        self.calls.iter().map(|call| call.begun.rules).min().unwrap_or_default()
    }

    /// The context that a call was the first to have.
    pub fn context_of(&self, call: usize) -> Option<&AsOf> {
        let turn = &self.calls.get(call)?.turn;
        let is_its =
            |context: &&AsOf| (context.turn_index, context.attempt) == (turn.turn_index, turn.attempt);
        self.contexts.iter().find(is_its)
    }

    /// When a call began; for one beyond the last, when that one began.
    pub fn instant(&self, call: usize) -> Timestamp {
        let call = self.calls.get(call).or(self.calls.last());
        call.map_or(self.run.created_at, |call| call.turn.started_at)
    }

    /// A request, or terms of the run, that are not those whose digest was stored beside them.
    pub fn damage(&self) -> Option<Difference> {
        let request = |call: &Call| sha256_hex(&[call.turn.request_json.as_bytes()]);
        let changed = |call: &Call, what: &str, recorded: Option<&str>, replayed: Option<&str>| Difference {
            turn: call.turn.turn_index,
            attempt: call.turn.attempt,
            culprit: format!("record: {what} changed in the database"),
            place: Place {
                path: String::new(),
                recorded: recorded.map_or_else(|| "as usual".to_owned(), |digest| format!("sha256 {digest}")),
                replayed: replayed.map_or_else(|| "as usual".to_owned(), |digest| format!("sha256 {digest}")),
            },
        };
        if let Some(call) = self.calls.iter().find(|call| request(call) != call.turn.request_sha256) {
            let (then, now) = (call.turn.request_sha256.as_str(), request(call));
            return Some(changed(call, "the recorded request was", Some(then), Some(&now)));
        }
        let now = self.held_to.sha256.as_deref();
        let call = self.calls.iter().find(|call| call.begun.held_to.as_deref() != now)?;
        Some(changed(call, "the terms of the run were", call.begun.held_to.as_deref(), now))
    }

    /// What this provider's model was said to take, where that was written down.
    pub fn window_tokens(&self, provider: &str) -> Option<u64> {
        let mut of_it = self.calls.iter().filter(|call| call.turn.provider == provider);
        of_it.find_map(|call| call.begun.window_tokens)
    }

    /// The configuration with the places of then: an agent is told where it works, and which program has our tools.
    pub fn in_its_place(&self, config: Arc<Config>) -> Arc<Config> {
        let Some(terms) = self.terms() else { return config };
        let mut config = (*config).clone();
        if let Some(tools) = terms.tool_server {
            config.program = tools.program.into();
        }
        // `WORKSPACE/personas/ID`.
        let folder = PathBuf::from(terms.folder);
        if let Some(workspace) = folder.parent().and_then(Path::parent) {
            config.workspace = workspace.to_owned();
        }
        let personas = config.personas.iter().cloned().map(|persona| match persona.id == self.run.persona {
            true => Persona { folder: folder.clone(), ..persona },
            false => persona,
        });
        // They were all here before, with the addresses that they had.
        if let Ok(personas) = Personas::new(personas.collect()) {
            config.personas = personas;
        }
        Arc::new(config)
    }

    /// What an agent was told first; `None`: no agent was asked.
    fn terms(&self) -> Option<AgentTerms> {
        /// As much of an agent's request as is needed.
        #[derive(Deserialize)]
        struct Told {
            #[serde(alias = "agent")]
            terms: AgentTerms,
        }
        let of_agents = self.calls.iter().filter(|call| call.begun.session.is_some());
        let mut told = of_agents.filter_map(|call| {
            let told: Told = serde_json::from_str(&call.turn.request_json).ok()?;
            Some(told.terms)
        });
        told.next()
    }

    /// Where an agent's program was, as its requests have it; anything where there was none.
    pub fn program(&self, provider: &str) -> PathBuf {
        /// As much of an agent's request as is needed.
        #[derive(Deserialize)]
        struct Started {
            argv: Vec<String>,
        }
        let of_it = self.calls.iter().filter(|call| call.turn.provider == provider);
        let of_agents = of_it.filter(|call| call.begun.session.is_some());
        let mut programs = of_agents.filter_map(|call| {
            serde_json::from_str::<Started>(&call.turn.request_json).ok()?.argv.into_iter().next()
        });
        programs.next().unwrap_or_else(|| "/nowhere".to_owned()).into()
    }
}

impl Call {
    fn of(turn: StoredTurn) -> Result<Self, Fault> {
        if let Some(at) = turn.pruned_at {
            return Err(Fault::ThrownAway(at));
        }
        let older = || Fault::Unverifiable(OLDER.to_owned());
        let changed =
            |what: &str| Fault::Unverifiable(format!("{what} of turn {} cannot be read", turn.turn_index));
        let begun = serde_json::from_str(turn.begun_json.as_deref().ok_or_else(older)?);
        let begun = begun.map_err(|_| changed("the beginning"))?;
        let ended = turn.ended_json.as_deref().map(serde_json::from_str).transpose();
        let ended = ended.map_err(|_| changed("the end"))?;
        let response = turn.response_json.as_deref().map(serde_json::from_str).transpose();
        let response = response.map_err(|_| changed("the response"))?;
        Ok(Self { begun, ended, response, turn })
    }
}

/// As they were made: rows are listed by turn, and a repair of a later attempt may have asked an earlier turn again.
fn in_order(mut calls: Vec<Call>) -> Vec<Call> {
    calls.sort_by_key(|call| call.begun.found_calls);
    calls
}

fn people(mail: &StoredMessage) -> Vec<String> {
    let recipients: serde_json::Value = serde_json::from_str(&mail.recipients_json).unwrap_or_default();
    let to = recipients["to"].as_array().into_iter().flatten();
    to.filter_map(|address| address.as_str().map(str::to_owned)).collect()
}
