//! One run on the desk: what it was told, what was said so far, what is still to be committed.

use super::as_of;
use super::circumstances::{Begun, Claim, Hindrance, RULES, amounts, millis};
use super::desk::{Bench, RunError};
use super::gate::Gate;
use super::label::RunLabel;
use super::ledger::{Assembled, Moment, Order};
use super::meter::Meter;
use super::providers::retry::input_tokens_max;
use super::providers::{
    Block, Message, Parameter, ProviderError, Request, Response, Role, Stop, ToolChoice, ToolSpec,
};
use super::purse;
use super::quota;
use super::resolvers::Subject;
use super::resolvers::words::WordsRead;
use super::route::{Chain, Route};
use super::sessions::{self, AgentState};
use super::structured::{self, Form};
use super::trim;
use crate::config::{Budget, Persona, Spending};
use crate::domain::{ErrorClass, Usage, Withheld};
use crate::store::{
    AssembledContext, ClaimedRun, Entry, Fate, HeldTo, JournalSoFar, NewOutbound, Step, StoreError,
};
use crate::tools::Tool;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What a model is told whose call its own vendor could not read.
const UNREADABLE_CALL: &str = "[engine] Your last tool call could not be read, and nothing was executed. Write it \
    again, with arguments that are one JSON object, or answer in words.";

/// Everything a run is worked on with, and how far it has come.
pub struct Work<'a> {
    pub desk: &'a Bench,
    pub run: &'a ClaimedRun,
    pub persona: &'a Persona,
    pub subject: Subject,
    pub held_to: HeldTo,
    /// The form that the answer must have; `None`: any text will do.
    pub form: Option<Form>,
    /// Where the next call goes.
    pub route: Route<'a>,
    /// Where it may go instead.
    pub chain: Chain<'a>,
    pub agent: AgentState,
    pub tools: Vec<&'static dyn Tool>,
    /// What the run may do, by what it has read so far.
    pub label: RunLabel,
    pub cancel: &'a CancellationToken,
    /// The first request; later ones are this one with more messages.
    pub first: Request,
    /// Not yet committed: rides with the first turn.
    pub fresh_context: Option<AssembledContext>,
    /// What was said after the first request.
    pub said: Vec<Message>,
    /// Calls whose results are left out of requests, because the input was too long.
    pub stubbed: BTreeSet<String>,
    /// The last answer of an earlier attempt, whose calls may be open.
    pub resumed: Option<Response>,
    /// Steps of earlier attempts.
    pub known_steps: Vec<Step>,
    /// Highest attempt per turn of earlier attempts.
    pub turn_attempts: HashMap<u32, u32>,
    pub meter: Meter,
    /// Committed with the next thing that must be committed.
    pub pending: Vec<Entry>,
    pub mails_sent: usize,
    /// Some mail of this run answered the trigger.
    pub replied: bool,
    /// The next call is made even where its provider rests.
    pub insists: bool,
    /// Why the model need not be asked: its answer could not be sent.
    pub unasked: Option<Withheld>,
    /// The bounds on tokens and money as the run began, and where they were said.
    spending: Spending,
    budget: Budget,
    began: Duration,
    elapsed: Duration,
    /// Room for an answer, where an answer of this route needed more than is configured.
    output_tokens_max: Option<u32>,
    /// What the last request to be made leaves out.
    without: Vec<Parameter>,
    /// What kept calls from being made since the last one that was.
    pub hindrances: Vec<Hindrance>,
    /// The configuration is in the database, under its digest.
    pub is_config_kept: bool,
    /// Calls in the journal as the work began.
    found_calls: u32,
}

impl<'a> Work<'a> {
    /// Loads what the run is about; assembles its context, or goes on from its journal.
    pub async fn begin(
        desk: &'a Bench,
        run: &'a ClaimedRun,
        cancel: &'a CancellationToken,
    ) -> Result<Work<'a>, RunError> {
        let persona = desk.persona(&run.persona)?;
        let held_to = desk.terms_of(run).await?;
        let (route, chain) = Chain::of(desk, persona, &held_to.run_terms)?;
        let about = desk.ledger.trigger_message(run, &desk.config.gateway.owners).await?;
        let sent = about.sent;
        let subject = Subject::of(run.trigger, about);
        let label = RunLabel::of(&subject);
        let tools = desk.tools(persona, &held_to.run_terms, label);
        let first = blank(desk, &route, &tools);
        let (spending, budget) = purse::bounds(desk, run, persona);
        let mut work = Work {
            desk,
            run,
            tools,
            label,
            persona,
            subject,
            form: Form::of(&held_to)?,
            held_to,
            route,
            chain,
            agent: AgentState::default(),
            cancel,
            first,
            fresh_context: None,
            said: Vec::new(),
            stubbed: BTreeSet::new(),
            resumed: None,
            known_steps: Vec::new(),
            turn_attempts: HashMap::new(),
            meter: Meter::default(),
            pending: Vec::new(),
            mails_sent: 0,
            replied: false,
            insists: run.is_retried,
            unasked: None,
            spending,
            budget,
            began: desk.clock.monotonic(),
            elapsed: run.worked,
            output_tokens_max: None,
            without: Vec::new(),
            hindrances: Vec::new(),
            is_config_kept: false,
            found_calls: 0,
        };
        let journal = match run.has_journal {
            true => desk.ledger.journal_so_far(run).await?,
            false => JournalSoFar::default(),
        };
        match &journal.first_request_json {
            Some(json) => work.resume(json, &journal)?,
            None => {
                work.unasked = quota::unasked(&work.gate(), sent);
                if work.unasked.is_none() {
                    let budget = work.context_budget();
                    work.assemble(budget, None).await?;
                }
            }
        }
        Ok(work)
    }

    /// What the configuration allows, or as much as the model is known to take.
    fn context_budget(&self) -> usize {
        let allowed = self.budget().context_tokens_max;
        let answer = u64::from(self.first.max_output_tokens);
        match self.route.window_tokens().and_then(|window| input_tokens_max(window, answer)) {
            Some(fitting) => allowed.min(trim::context_tokens_max(self, fitting)),
            None => allowed,
        }
    }

    /// Assembles the context within that many tokens; `note` is for its report.
    pub async fn assemble(&mut self, budget_tokens: usize, note: Option<String>) -> Result<(), RunError> {
        let profile = self.desk.config.context.get(&self.run.profile).ok_or_else(|| RunError::Fatal {
            class: ErrorClass::Config,
            message: format!("no context profile `{}` in configs/context.json", self.run.profile),
        })?;
        let order = Order {
            run: self.run,
            persona: self.persona,
            subject: &self.subject,
            profile,
            allowed_tokens: self.budget().context_tokens_max,
            budget_tokens,
            now: self.desk.clock.now(),
        };
        let Assembled { context, mut report, seen } = self.desk.hands.assemble(order).await?;
        report.note = note;
        let sources = as_of::sources(&self.desk.config, &order, seen, &report).map_err(json_bug)?;
        self.first.system = context.system();
        self.first.messages = context.messages();
        let words = context.words();
        self.label = self.label.having_read(words);
        let kept = Kept { request: self.first.clone(), stubbed: self.stubbed.clone(), words };
        self.fresh_context = Some(AssembledContext {
            request_json: to_json(&kept)?,
            report_json: to_json(&report)?,
            limits_json: purse::limits_json(&self.spending),
            sources,
        });
        Ok(())
    }

    /// Takes up an earlier attempt where its last commit left it. Model and tools are those of today: whoever mends
    /// `configs/inference.json` and retries the run wants it to use what was mended.
    fn resume(&mut self, first_json: &str, journal: &JournalSoFar) -> Result<(), RunError> {
        let Kept { request, stubbed, words } = from_json(first_json)?;
        self.label = self.label.having_read(words);
        (self.first.system, self.first.messages) = (request.system, request.messages);
        self.stubbed = stubbed;
        if let Some((name, model)) = &journal.answered_by {
            self.route = self.chain.go_on(self.route.clone(), name, model);
        }
        self.known_steps.clone_from(&journal.steps);
        self.found_calls = journal.calls;
        self.turn_attempts = journal.attempts.iter().copied().collect();
        self.mails_sent = journal.mails as usize;
        self.replied = journal.replied;
        self.meter.turns = u32::try_from(journal.answers.len()).unwrap_or(u32::MAX);
        let mut answers = journal.answers.iter().peekable();
        while let Some((_, json)) = answers.next() {
            let response: Response = from_json(json)?;
            self.meter.usage = self.meter.usage.plus(Usage::from(response.usage));
            match answers.peek() {
                // Every earlier answer has all its results, or the next turn would not have started.
                Some(_) => {
                    let results = super::calls::known_blocks(self, &response);
                    let note = structured::replayed(self, &response);
                    self.hear(response, results);
                    self.said.extend(note);
                }
                // A refusal ended the run with its own commit: whoever retries it asks again.
                None if response.stop == Stop::Refused => {}
                None if structured::is_given_up(self, &response) => {}
                None => self.resumed = Some(response),
            }
        }
        Ok(())
    }

    /// An answer that is not the last stands in the conversation, with the results of its calls.
    pub fn hear(&mut self, response: Response, results: Vec<Block>) {
        self.meter.heard(&response.stop, &results);
        let is_unreadable = response.stop == Stop::MalformedCall && results.is_empty();
        self.said.push(Message { role: Role::Assistant, blocks: response.blocks });
        self.said.push(Message { role: Role::User, blocks: results });
        self.said.extend(is_unreadable.then(|| Message::user(UNREADABLE_CALL)));
    }

    /// What a call of a tool is judged and executed with.
    pub fn gate(&self) -> Gate<'_> {
        Gate {
            desk: self.desk,
            run: self.run,
            persona: self.persona,
            subject: &self.subject,
            tools: &self.tools,
            label: self.label,
            cancel: self.cancel,
            mails_sent: self.mails_sent,
            replied: self.replied,
            pending: &self.pending,
        }
    }

    /// A mail was queued in this run.
    pub fn count_mail(&mut self, mail: &NewOutbound) {
        self.mails_sent += 1;
        self.replied |= mail.place.is_none();
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Time spent working on this run, over all its attempts, as of the last [`Self::look_at_clock`].
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Whatever is decided by the time until the next look is decided by the same time, which is written down.
    pub fn look_at_clock(&mut self, moment: Moment) {
        let worked = self.desk.circumstances.worked(self.began, moment);
        // As it is written down.
        self.elapsed = Duration::from_millis(millis(self.run.worked + worked));
    }

    /// How long it is until that working time, now. For bounds on a call only: nothing may be decided by it.
    pub fn left_until(&self, until: Duration) -> Duration {
        let worked = self.desk.clock.monotonic().saturating_sub(self.began);
        until.saturating_sub(self.run.worked + worked)
    }

    /// Tries of a turn so far, over all attempts of the run.
    pub fn attempts_of(&self, turn_index: u32) -> u32 {
        self.turn_attempts.get(&turn_index).copied().unwrap_or(0)
    }

    /// The number of the next try of a turn.
    pub fn next_attempt(&mut self, turn_index: u32) -> u32 {
        let attempts = self.turn_attempts.entry(turn_index).or_insert(0);
        *attempts += 1;
        *attempts
    }

    /// A refusal is not the last word while there is somebody else to ask.
    pub fn takes_refusals_elsewhere(&self) -> bool {
        self.desk.config.inference.fallback_on_refusal && self.chain.has_more()
    }

    /// Leaves a provider that failed for the next of the chain, and stays there for the rest of the run.
    pub fn fall_back(&mut self, error: ProviderError, retry_in: Option<Duration>) {
        let (run, class, from) = (&self.run.id, error.class, self.route.to_string());
        let message = error.message.clone();
        if let Some(next) = self.chain.advance(&self.route, error, retry_in) {
            tracing::warn!(%run, %from, to = %next, %class, error = message, "falling back to another provider");
            self.route = next;
            self.output_tokens_max = None;
        }
    }

    /// Gives the answers of this route that much room, for the rest of the run.
    pub fn lengthen(&mut self, max_output_tokens: u32) {
        self.output_tokens_max = Some(max_output_tokens);
    }

    /// How the next call comes to be made.
    pub fn begun(&self) -> Begun {
        Begun {
            found_calls: self.found_calls,
            found_steps: u32::try_from(self.known_steps.len()).unwrap_or(u32::MAX),
            rules: RULES,
            config: self.desk.config.snapshot.sha256().to_owned(),
            held_to: self.held_to.sha256.clone(),
            claim: Claim {
                attempt: self.run.attempt,
                worked_ms: millis(self.run.worked),
                is_retried: self.run.is_retried,
                budget_micros: self.run.budget_micros,
                thread_budget: amounts(self.run.thread_budget),
            },
            asked_ms: millis(self.elapsed),
            without: self.without.clone(),
            window_tokens: self.route.window_tokens(),
            session: self.agent.terms.as_ref().map(|terms| terms.session.clone()),
            hindrances: self.hindrances.clone(),
        }
    }

    /// What was said since the first request, as the model sees it.
    pub fn said_for_model(&self) -> Vec<Message> {
        trim::with_stubs(&self.said, &self.stubbed)
    }

    /// Settles what the next requests leave out. A failure is judged by what its own request left out, whatever other
    /// runs learn meanwhile.
    pub fn leave_out(&mut self) {
        self.without = self.desk.circumstances.without(&self.route);
    }

    /// The next request: everything said so far.
    pub fn request(&self, tool_choice: ToolChoice, note: Option<String>) -> Request {
        let mut request = self.first.clone();
        request.model.clone_from(&self.route.model);
        request.agent = self.agent.terms.clone();
        request.max_output_tokens = self.output_tokens_max.unwrap_or(request.max_output_tokens);
        request.tool_choice = tool_choice;
        request.without.clone_from(&self.without);
        request.system.extend(request.agent.as_ref().and_then(sessions::where_to_write));
        request.messages.extend(self.said_for_model());
        request.messages.extend(sessions::done_before(&self.known_steps).map(Message::user));
        request.messages.extend(note.map(Message::user));
        if let Some(form) = &self.form {
            form.ask(&mut request, self.route.structured());
        }
        request
    }

    /// Commits everything pending together with `entry`. What a purse could not pay is pending again.
    pub async fn commit(&mut self, entry: Option<Entry>) -> Result<(), RunError> {
        let mut entries = std::mem::take(&mut self.pending);
        entries.extend(entry);
        if entries.is_empty() {
            return Ok(());
        }
        let has_mail = entries
            .iter()
            .any(|entry| matches!(entry, Entry::Mail(mail) if matches!(mail.fate, Fate::Send { .. })));
        let settles = |entry: &Entry| matches!(entry, Entry::TurnAnswered(_) | Entry::TurnFailed(_));
        let gives_back = entries.iter().any(settles);
        let entries = Arc::new(entries);
        if let Err(error) = self.desk.ledger.journal(self.run, entries.clone()).await {
            if matches!(error, StoreError::EmptyPurse(_)) {
                self.pending = Arc::unwrap_or_clone(entries);
            }
            return Err(error.into());
        }
        crate::crash::crash_point!("R6", entries.iter().any(|entry| matches!(entry, Entry::TurnAnswered(_))));
        crate::crash::crash_point!(
            "R9",
            entries
                .iter()
                .any(|entry| matches!(entry, Entry::Step(s) if s.kind == crate::store::StepKind::Result))
        );
        crate::crash::crash_point!("O1", has_mail);
        if has_mail {
            self.desk.mail_queued.notify_one();
        }
        if gives_back {
            self.desk.given_back.notify_waiters();
        }
        Ok(())
    }
}

/// What a resumed run goes on from.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The normalised first request.
    #[serde(flatten)]
    request: Request,
    /// Calls whose results are left out.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    stubbed: BTreeSet<String>,
    /// Whose words the context holds beside the run's own letter.
    #[serde(default, skip_serializing_if = "WordsRead::is_nothing")]
    words: WordsRead,
}

/// Whose words a run's context holds, by its first request as it is kept.
pub fn words_of_context(first_request_json: &str) -> Result<WordsRead, RunError> {
    let kept: Kept = from_json(first_request_json)?;
    Ok(kept.words)
}

/// A request in which nothing was said yet.
fn blank(desk: &Bench, route: &Route<'_>, tools: &[&'static dyn Tool]) -> Request {
    Request {
        model: route.model.clone(),
        system: Vec::new(),
        messages: Vec::new(),
        tools: tools.iter().map(|tool| spec(*tool)).collect(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: desk.config.inference.max_output_tokens,
        temperature: desk.config.inference.temperature,
        output: None,
        without: Vec::new(),
        agent: None,
    }
}

fn spec(tool: &dyn Tool) -> ToolSpec {
    ToolSpec {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        input_schema: tool.input_schema(),
    }
}

pub fn to_json(value: &impl serde::Serialize) -> Result<String, RunError> {
    serde_json::to_string(value).map_err(json_bug)
}

fn json_bug(error: serde_json::Error) -> RunError {
    RunError::Fatal { class: ErrorClass::Config, message: error.to_string() }
}

fn from_json<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, RunError> {
    serde_json::from_str(json)
        .map_err(|_| RunError::Store(crate::store::StoreError::Unreadable { what: "journal" }))
}
