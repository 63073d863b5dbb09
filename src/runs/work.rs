//! State of one run at work: its input, the conversation so far, and the entries still to be
//! committed.

use super::as_of;
use super::budget;
use super::call_record::{Begun, BlockedBy, Claim, RULES, amounts, millis};
use super::counters::Counters;
use super::deps::{RunDeps, RunError};
use super::label::RunLabel;
use super::route::{Chain, Route};
use super::run_store::{Assembled, Moment, Order};
use super::send_limits;
use super::sessions::{self, AgentState};
use super::structured::{self, Form};
use super::tool_policy::ToolCallContext;
use super::trim;
use crate::config::{Budget, Persona, Spending};
use crate::context::resolvers::Subject;
use crate::context::resolvers::words::WordsRead;
use crate::domain::{ErrorClass, Usage, Withheld};
use crate::providers::contract::retry::input_tokens_max;
use crate::providers::{
    Block, FinishReason, Message, Parameter, ProviderError, Request, Response, Role, ToolChoice,
    ToolSpec,
};
use crate::store::{
    AssembledContext, ClaimedRun, JournalEntry, JournalSoFar, MessageOutcome, NewOutbound,
    RunOptionsInForce, Step, StoreError,
};
use crate::tools::RegisteredTool;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Note to a model whose call its own vendor could not parse.
const UNREADABLE_CALL: &str = "[engine] Your last tool call could not be read, and nothing was executed. Write it \
    again, with arguments that are one JSON object, or answer in words.";

/// Dependencies, input and progress of a run.
pub struct Work<'a> {
    pub deps: &'a RunDeps,
    pub run: &'a ClaimedRun,
    pub persona: &'a Persona,
    pub subject: Subject,
    pub run_options: RunOptionsInForce,
    /// Form that the answer must have; `None`: any text.
    pub form: Option<Form>,
    /// Route of the next call.
    pub route: Route<'a>,
    /// Fallbacks.
    pub chain: Chain<'a>,
    pub agent: AgentState,
    pub tools: Vec<Arc<RegisteredTool>>,
    /// Permissions of the run, by what it has read so far.
    pub label: RunLabel,
    pub cancel: &'a CancellationToken,
    /// First request; later ones are this one with more messages.
    pub first: Request,
    /// Context that is not yet committed; it is committed with the first turn.
    pub fresh_context: Option<AssembledContext>,
    /// Conversation after the first request.
    pub said: Vec<Message>,
    /// Calls whose results are left out of requests, because the input was too long.
    pub stubbed: BTreeSet<String>,
    /// Last answer of an earlier attempt, whose calls may be open.
    pub resumed: Option<Response>,
    /// Steps of earlier attempts.
    pub known_steps: Vec<Step>,
    /// Highest attempt per turn of earlier attempts.
    pub turn_attempts: HashMap<u32, u32>,
    pub counters: Counters,
    /// Entries of the next commit.
    pub pending: Vec<JournalEntry>,
    pub mails_sent: usize,
    /// `true`: some mail of this run answered the trigger.
    pub replied: bool,
    /// `true`: the next call is made even where its provider is paused.
    pub insists: bool,
    /// Reason not to ask the model: its answer could not be sent.
    pub unasked: Option<Withheld>,
    /// Bounds on tokens and money at the start of the run, each with its origin.
    spending: Spending,
    budget: Budget,
    began: Duration,
    elapsed: Duration,
    /// Raised output limit, where an answer of this route needed more than is configured.
    output_tokens_max: Option<u32>,
    /// Parameters that the last request left out.
    without: Vec<Parameter>,
    /// Reasons why calls were not made since the last one that was.
    pub blocked_by: Vec<BlockedBy>,
    /// `true`: the configuration is in the database, under its digest.
    pub is_config_kept: bool,
    /// Number of calls in the journal when the attempt began.
    found_calls: u32,
}

impl<'a> Work<'a> {
    /// Loads the subject of the run; assembles its context, or continues from its journal.
    pub async fn begin(
        deps: &'a RunDeps,
        run: &'a ClaimedRun,
        cancel: &'a CancellationToken,
    ) -> Result<Work<'a>, RunError> {
        let persona = deps.persona(&run.persona)?;
        let run_options = deps.options_of(run).await?;
        let (route, chain) = Chain::of(deps, persona, &run_options.run_options)?;
        let about = deps
            .run_store
            .trigger_message(run, &deps.config.gateway.owners)
            .await?;
        let sent = about.sent;
        let subject = Subject::of(run.trigger, about);
        let label = RunLabel::of(&subject);
        let tools = deps.tools(persona, &run_options.run_options, label);
        let first = blank(deps, &route, &tools);
        let (spending, budget) = budget::bounds(deps, run, persona);
        let mut work = Work {
            deps,
            run,
            tools,
            label,
            persona,
            subject,
            form: Form::of(&run_options)?,
            run_options,
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
            counters: Counters::default(),
            pending: Vec::new(),
            mails_sent: 0,
            replied: false,
            insists: run.is_retried,
            unasked: None,
            spending,
            budget,
            began: deps.clock.monotonic(),
            elapsed: run.worked,
            output_tokens_max: None,
            without: Vec::new(),
            blocked_by: Vec::new(),
            is_config_kept: false,
            found_calls: 0,
        };
        let journal = match run.has_journal {
            true => deps.run_store.journal_so_far(run).await?,
            false => JournalSoFar::default(),
        };
        match &journal.first_request_json {
            Some(json) => work.resume(json, &journal)?,
            None => {
                work.unasked = send_limits::unasked(&work.ctx(), sent);
                if work.unasked.is_none() {
                    let budget = work.context_budget();
                    work.assemble(budget, None).await?;
                }
            }
        }
        Ok(work)
    }

    /// Returns the context budget: what the configuration allows, or the model's window where it is
    /// known to be smaller.
    fn context_budget(&self) -> usize {
        let allowed = self.budget().context_tokens_max;
        let answer = u64::from(self.first.max_output_tokens);
        match self
            .route
            .window_tokens()
            .and_then(|window| input_tokens_max(window, answer))
        {
            Some(fitting) => allowed.min(trim::context_tokens_max(self, fitting)),
            None => allowed,
        }
    }

    /// Assembles the context within that many tokens; `note` is for its report.
    pub async fn assemble(
        &mut self,
        budget_tokens: usize,
        note: Option<String>,
    ) -> Result<(), RunError> {
        let profile = self
            .deps
            .config
            .context
            .get(&self.run.profile)
            .ok_or_else(|| RunError::Fatal {
                class: ErrorClass::Config,
                message: format!(
                    "no context profile `{}` in configs/context.json",
                    self.run.profile
                ),
            })?;
        let order = Order {
            run: self.run,
            persona: self.persona,
            subject: &self.subject,
            profile,
            allowed_tokens: self.budget().context_tokens_max,
            budget_tokens,
            now: self.deps.clock.now(),
        };
        let Assembled {
            context,
            mut report,
            seen,
        } = self.deps.env.assemble(order).await?;
        report.note = note;
        let sources = as_of::sources(&self.deps.config, &order, seen, &report).map_err(json_bug)?;
        self.first.system = context.system();
        self.first.messages = context.messages();
        let words = context.words(&self.deps.tools);
        self.label = self.label.having_read(words);
        let kept = Kept {
            request: self.first.clone(),
            stubbed: self.stubbed.clone(),
            words,
        };
        self.fresh_context = Some(AssembledContext {
            request_json: to_json(&kept)?,
            report_json: to_json(&report)?,
            limits_json: budget::limits_json(&self.spending),
            sources,
        });
        Ok(())
    }

    /// Resumes an earlier attempt at its last commit. Model and tools are today's: an operator who
    /// edits `configs/inference.json` and retries the run wants the new settings.
    fn resume(&mut self, first_json: &str, journal: &JournalSoFar) -> Result<(), RunError> {
        let Kept {
            request,
            stubbed,
            words,
        } = from_json(first_json)?;
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
        self.counters.turns = u32::try_from(journal.answers.len()).unwrap_or(u32::MAX);
        let mut answers = journal.answers.iter().peekable();
        while let Some((_, json)) = answers.next() {
            let response: Response = from_json(json)?;
            self.counters.usage = self.counters.usage.plus(Usage::from(response.usage));
            match answers.peek() {
                // Every earlier answer has all its results, or the next turn would not have
                // started.
                Some(_) => {
                    let results = super::calls::known_blocks(self, &response);
                    let note = structured::replayed(self, &response);
                    self.append(response, results);
                    self.said.extend(note);
                }
                // A refusal ended the run with its own commit: a retry asks again.
                None if response.stop == FinishReason::Refused => {}
                None if structured::is_given_up(self, &response) => {}
                None => self.resumed = Some(response),
            }
        }
        Ok(())
    }

    /// Appends an answer that is not the last, with the results of its calls.
    pub fn append(&mut self, response: Response, results: Vec<Block>) {
        self.counters.note(&response.stop, &results);
        let is_unreadable = response.stop == FinishReason::MalformedCall && results.is_empty();
        self.said.push(Message {
            role: Role::Assistant,
            blocks: response.blocks,
        });
        self.said.push(Message {
            role: Role::User,
            blocks: results,
        });
        self.said
            .extend(is_unreadable.then(|| Message::user(UNREADABLE_CALL)));
    }

    /// Returns the context in which a tool call is checked and executed.
    pub fn ctx(&self) -> ToolCallContext<'_> {
        ToolCallContext {
            deps: self.deps,
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

    /// Counts a mail that was queued in this run.
    pub fn count_mail(&mut self, mail: &NewOutbound) {
        self.mails_sent += 1;
        self.replied |= mail.place.is_none();
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns the working time of this run over all its attempts, as of the last
    /// [`Self::look_at_clock`].
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Reads the clock. All decisions until the next reading use this time, which is recorded.
    pub fn look_at_clock(&mut self, moment: Moment) {
        let worked = self.deps.provider_health.worked(self.began, moment);
        // In the precision of the record.
        self.elapsed = Duration::from_millis(millis(self.run.worked + worked));
    }

    /// Returns the time left until that working time, from now. For timeouts of a call only: no
    /// decision may depend on it.
    pub fn left_until(&self, until: Duration) -> Duration {
        let worked = self.deps.clock.monotonic().saturating_sub(self.began);
        until.saturating_sub(self.run.worked + worked)
    }

    /// Returns the number of attempts of a turn so far, over all attempts of the run.
    pub fn attempts_of(&self, turn_index: u32) -> u32 {
        self.turn_attempts.get(&turn_index).copied().unwrap_or(0)
    }

    /// Returns the number of the next attempt of a turn.
    pub fn next_attempt(&mut self, turn_index: u32) -> u32 {
        let attempts = self.turn_attempts.entry(turn_index).or_insert(0);
        *attempts += 1;
        *attempts
    }

    /// Reports whether a refusal goes to a fallback.
    pub fn takes_refusals_elsewhere(&self) -> bool {
        self.deps.config.inference.fallback_on_refusal && self.chain.has_more()
    }

    /// Leaves a failed provider for the next of the chain, for the rest of the run.
    pub fn fall_back(&mut self, error: ProviderError, retry_in: Option<Duration>) {
        let (run, class, from) = (&self.run.id, error.class, self.route.to_string());
        let message = error.message.clone();
        if let Some(next) = self.chain.fail_over(&self.route, error, retry_in) {
            tracing::warn!(%run, %from, to = %next, %class, error = message, "falling back to another provider");
            self.route = next;
            self.output_tokens_max = None;
        }
    }

    /// Raises the output limit of this route, for the rest of the run.
    pub fn lengthen(&mut self, max_output_tokens: u32) {
        self.output_tokens_max = Some(max_output_tokens);
    }

    /// Returns the circumstances of the next call.
    pub fn begun(&self) -> Begun {
        Begun {
            found_calls: self.found_calls,
            found_steps: u32::try_from(self.known_steps.len()).unwrap_or(u32::MAX),
            rules: RULES,
            config: self.deps.config.snapshot.sha256().to_owned(),
            run_options: self.run_options.sha256.clone(),
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
            session: self
                .agent
                .options
                .as_ref()
                .map(|options| options.session.clone()),
            blocked_by: self.blocked_by.clone(),
        }
    }

    /// Returns the conversation since the first request, as the model sees it.
    pub fn said_for_model(&self) -> Vec<Message> {
        trim::with_stubs(&self.said, &self.stubbed)
    }

    /// Sets the parameters that the next requests leave out. A failure is judged by those of its
    /// own request, whatever other runs learn meanwhile.
    pub fn leave_out(&mut self) {
        self.without = self.deps.provider_health.without(&self.route);
    }

    /// Returns the next request: the whole conversation so far.
    pub fn request(&self, tool_choice: ToolChoice, note: Option<String>) -> Request {
        let mut request = self.first.clone();
        request.model.clone_from(&self.route.model);
        request.agent = self.agent.options.clone();
        request.max_output_tokens = self.output_tokens_max.unwrap_or(request.max_output_tokens);
        request.tool_choice = tool_choice;
        request.without.clone_from(&self.without);
        request
            .system
            .extend(request.agent.as_ref().and_then(sessions::where_to_write));
        request.messages.extend(self.said_for_model());
        request
            .messages
            .extend(sessions::done_before(&self.known_steps).map(Message::user));
        request.messages.extend(note.map(Message::user));
        if let Some(form) = &self.form {
            form.ask(&mut request, self.route.structured());
        }
        request
    }

    /// Commits everything pending together with `entry`. An entry that a budget account could not
    /// pay is pending again.
    pub async fn commit(&mut self, entry: Option<JournalEntry>) -> Result<(), RunError> {
        let mut entries = std::mem::take(&mut self.pending);
        entries.extend(entry);
        if entries.is_empty() {
            return Ok(());
        }
        let has_mail = entries.iter().any(
            |entry| matches!(entry, JournalEntry::Mail(mail) if matches!(mail.outcome, MessageOutcome::Send { .. })),
        );
        let settles = |entry: &JournalEntry| {
            matches!(
                entry,
                JournalEntry::TurnAnswered(_) | JournalEntry::TurnFailed(_)
            )
        };
        let gives_back = entries.iter().any(settles);
        let entries = Arc::new(entries);
        if let Err(error) = self.deps.run_store.journal(self.run, entries.clone()).await {
            if matches!(error, StoreError::BudgetExhausted(_)) {
                self.pending = Arc::unwrap_or_clone(entries);
            }
            return Err(error.into());
        }
        crate::crash::crash_point!(
            "R6",
            entries
                .iter()
                .any(|entry| matches!(entry, JournalEntry::TurnAnswered(_)))
        );
        crate::crash::crash_point!(
            "R9",
            entries.iter().any(
                |entry| matches!(entry, JournalEntry::Step(s) if s.kind == crate::store::StepKind::Result)
            )
        );
        crate::crash::crash_point!("O1", has_mail);
        if has_mail {
            self.deps.mail_queued.notify_one();
        }
        if gives_back {
            self.deps.given_back.notify_waiters();
        }
        Ok(())
    }
}

/// State of an earlier attempt that a resumed run needs.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Normalised first request.
    #[serde(flatten)]
    request: Request,
    /// Calls whose results are left out.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    stubbed: BTreeSet<String>,
    /// Trust of the texts in the context besides the run's own letter.
    #[serde(default, skip_serializing_if = "WordsRead::is_nothing")]
    words: WordsRead,
}

/// Returns the trust of the texts in a run's context, by its stored first request.
pub fn words_of_context(first_request_json: &str) -> Result<WordsRead, RunError> {
    let kept: Kept = from_json(first_request_json)?;
    Ok(kept.words)
}

/// Returns a request without messages.
fn blank(deps: &RunDeps, route: &Route<'_>, tools: &[Arc<RegisteredTool>]) -> Request {
    Request {
        model: route.model.clone(),
        system: Vec::new(),
        messages: Vec::new(),
        tools: tools.iter().map(|tool| spec(tool)).collect(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: deps.config.inference.max_output_tokens,
        temperature: deps.config.inference.temperature,
        output: None,
        without: Vec::new(),
        agent: None,
    }
}

fn spec(tool: &RegisteredTool) -> ToolSpec {
    ToolSpec {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        input_schema: tool.input_schema().clone(),
    }
}

pub fn to_json(value: &impl serde::Serialize) -> Result<String, RunError> {
    serde_json::to_string(value).map_err(json_bug)
}

fn json_bug(error: serde_json::Error) -> RunError {
    RunError::Fatal {
        class: ErrorClass::Config,
        message: error.to_string(),
    }
}

fn from_json<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, RunError> {
    serde_json::from_str(json)
        .map_err(|_| RunError::Store(crate::store::StoreError::Unreadable { what: "journal" }))
}
