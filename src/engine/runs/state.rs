//! State of the loop of one run: its input, the conversation so far, and the entries still to be
//! committed.

use super::model_call::fallback::{FallbackChain, Route};
use super::stubs::with_stubs;
use crate::config::{Budget, Persona, SettingsInForce, Spending};
use crate::context::resolvers::Subject;
use crate::domain::{DeliverTo, ReplyMode, Trigger, Withheld};
use crate::providers::contract::retry;
use crate::providers::{
    Block, FinishReason, Message, Parameter, ProviderError, Request, Response, Role, ToolChoice,
    ToolSpec,
};
use crate::runs::agents::notes;
use crate::runs::agents::options::AgentState;
use crate::runs::approvals::plan;
use crate::runs::budget::counters::Counters;
use crate::runs::chat::answer_stream::AnswerStream;
use crate::runs::deps::RunDeps;
use crate::runs::error::RunError;
use crate::runs::label::RunLabel;
use crate::runs::model_call::answer_form::AnswerForm;
use crate::runs::provider_health::Moment;
use crate::runs::record::call_record::{
    Begun, BlockedBy, Claim, ModelLimits, RULES, amounts, millis,
};
use crate::runs::said::letter::NoLetter;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::store::{
    ApprovalOfRun, AssembledContext, ClaimedRun, DigestedText, JournalEntry, MessageOutcome,
    NewOutbound, RunOptionsInForce, Step, StoreError, SummaryInputs,
};
use crate::tools::{RegisteredTool, ToolClass};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Note to a model whose call its own vendor could not parse.
const UNREADABLE_CALL: &str = "[engine] Your last tool call could not be read, and nothing was executed. Write it \
    again, with arguments that are one JSON object, or answer in words.";

/// Dependencies, input and progress of a run.
pub struct LoopState<'a> {
    pub deps: &'a RunDeps,
    pub run: &'a ClaimedRun,
    pub persona: &'a Persona,
    pub subject: Subject,
    pub run_options: RunOptionsInForce,
    /// Form that the answer must have; `None`: any text.
    pub form: Option<AnswerForm>,
    /// Route of the next call.
    pub route: Route<'a>,
    /// Fallbacks.
    pub chain: FallbackChain<'a>,
    pub agent: AgentState,
    pub tools: Vec<Arc<RegisteredTool>>,
    /// Permissions of the run, by what it has read so far.
    pub label: RunLabel,
    pub cancel: &'a CancellationToken,
    /// Answers while they are made, for whoever watches the run.
    pub stream: AnswerStream,
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
    /// Questions to the owner of earlier attempts.
    pub approvals: Vec<ApprovalOfRun>,
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
    /// What the input is made of, where it is to be summarised.
    pub to_summarise: Option<SummaryInputs>,
    /// Reason not to ask the model: its answer could not be sent.
    pub unasked: Option<Withheld>,
    /// `true`: the model was told once that its last text is no letter.
    pub is_corrected: bool,
    /// Why the last text is a draft for the owner, and no mail.
    pub no_letter: Option<NoLetter>,
    /// MailBounds on tokens and money at the start of the run, each with its origin.
    pub(super) spending: Spending,
    pub(super) budget: Budget,
    pub(super) began: Duration,
    pub(super) elapsed: Duration,
    /// Raised output limit, where an answer of this route needed more than is configured.
    pub(super) output_tokens_max: Option<u32>,
    /// Parameters that the last request left out.
    pub(super) without: Vec<Parameter>,
    /// Parts of requests that a provider refused in this run and that other runs may send: kinds of files, which are described
    /// in words from then on, and tools until an answer without them has come.
    pub refused_here: Vec<Parameter>,
    /// What was known of the first model when the attempt began.
    pub limits: ModelLimits,
    /// Window of the present model as an error named it, in this run or before.
    pub learnt_window: Option<u64>,
    /// Tools that are not offered, because the window has no room for them.
    pub unoffered: Vec<String>,
    /// Reasons why calls were not made since the last one that was.
    pub blocked_by: Vec<BlockedBy>,
    /// `true`: the configuration is in the database, under its digest.
    pub is_config_kept: bool,
    /// Exact body of the last request that was committed.
    pub last_request: Option<DigestedText>,
    /// Number of calls in the journal when the attempt began.
    pub(super) found_calls: u32,
}

impl<'a> LoopState<'a> {
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
            label: self.label.clone(),
            is_planned: plan::is_first(self.persona, &self.run_options.run_options),
            reply: self.persona.reply_under(&self.run_options.run_options),
            approvals: &self.approvals,
            cancel: self.cancel,
            calls: self.counters.tool_calls,
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

    /// Returns the settings of a call on the present route.
    pub fn settings(&self) -> SettingsInForce {
        let whose = (self.persona, &self.run_options.run_options);
        let inference = &self.deps.config.inference;
        inference.settings_in_force(whose, self.run.trigger, &self.route.name)
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

    /// Returns the working time of this run over all its attempts, as of now. For the record of a run that is parked only.
    pub fn worked(&self) -> Duration {
        self.run.worked + self.deps.clock.monotonic().saturating_sub(self.began)
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
            self.learnt_window = None;
            self.refused_here.retain(|kind| *kind != Parameter::Tools);
            // The next one may take what this one did not.
            self.first.tools = self.tools.iter().map(|tool| spec(tool)).collect();
        }
    }

    /// Reports whether the program that asks bounds the length of the answer: it wants a cut text and none that goes on.
    pub fn is_bounded_by_program(&self) -> bool {
        let settings = &self.run_options.run_options.settings;
        self.run.trigger == Trigger::Chat && settings.max_output_tokens.is_some()
    }

    /// Reports whether the persona's letters leave by a tool alone.
    pub fn answers_by_tool_only(&self) -> bool {
        self.persona.reply_under(&self.run_options.run_options) == ReplyMode::ToolOnly
    }

    /// Reports whether the last text of this run is a letter that a person reads.
    pub fn writes_letter(&self) -> bool {
        let is_mail = matches!(
            self.run.trigger,
            Trigger::Email | Trigger::Schedule | Trigger::Manual
        );
        is_mail
            && self.form.is_none()
            && self.run_options.run_options.deliver_to != DeliverTo::Store
    }

    /// Reports whether somebody waits for a letter and no call of this run has written one yet, not even a draft. By the results
    /// of its calls: the mail itself may have gone out in the commit of an owner's yes.
    pub fn owes_letter(&self) -> bool {
        let mails = |name: &str| {
            let tool = self.tools.iter().find(|tool| tool.name() == name);
            tool.is_some_and(|tool| {
                tool.effects().sends_out && tool.class() == ToolClass::Transactional
            })
        };
        let has_mailed = self.said.iter().flat_map(|message| &message.blocks).any(
            |block| matches!(block, Block::ToolResult { name, is_error: false, .. } if mails(name)),
        );
        self.writes_letter() && !self.replied && !has_mailed
    }

    /// Raises the output limit of this route, for the rest of the run.
    pub fn lengthen(&mut self, max_output_tokens: u32) {
        self.output_tokens_max = Some(max_output_tokens);
    }

    /// Returns the window of the present model in tokens, as far as it is known.
    pub fn window_tokens(&self) -> Option<u64> {
        let known = self.route.window_tokens().into_iter();
        known.chain(self.learnt_window).min()
    }

    /// Returns the most tokens of an answer: those of the settings, and less in a small window.
    pub fn answer_tokens_max(&self) -> u32 {
        let configured = self.settings().max_output_tokens.value;
        let bounded = |window| retry::answer_tokens_max(window, u64::from(configured));
        let bounded = self.window_tokens().map(bounded);
        bounded.map_or(configured, |tokens| {
            u32::try_from(tokens).unwrap_or(configured)
        })
    }

    /// Offers no tools from now on: the present model takes none. The prompts that are rendered from now on speak of none.
    pub fn drop_tools(&mut self) {
        self.subject.tools.clear();
        self.first.tools.clear();
    }

    /// Offers these tools no longer, in whatever follows.
    pub fn leave_tools(&mut self, names: Vec<String>) {
        let is_left = |name: &str| names.iter().any(|left| left == name);
        self.tools.retain(|tool| !is_left(tool.name()));
        self.first.tools.retain(|tool| !is_left(&tool.name));
        self.subject.tools.retain(|name| !is_left(name));
        self.unoffered.extend(names);
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
                is_overtaken: self.run.is_overtaken,
                budget_micros: self.run.budget_micros,
                thread_budget: amounts(self.run.thread_budget),
            },
            asked_ms: millis(self.elapsed),
            without: self.without.clone(),
            window_tokens: self.route.window_tokens(),
            limits: self.limits,
            runs_commands: self.persona.shell && self.deps.env.runs_commands(),
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
        with_stubs(&self.said, &self.stubbed)
    }

    /// Sets the parameters that the next requests leave out. A failure is judged by those of its
    /// own request, whatever other runs learn meanwhile.
    pub fn leave_out(&mut self) {
        self.without = self
            .deps
            .provider_health
            .without(&self.route.name, &self.route.model);
        for kind in &self.refused_here {
            if !self.without.contains(kind) {
                self.without.push(*kind);
            }
        }
    }

    /// Reports whether the last request left this parameter out.
    pub fn without(&self, parameter: Parameter) -> bool {
        self.without.contains(&parameter)
    }

    /// Gives the files of a request that was read from the journal their bytes again.
    pub fn attach_files(&mut self) {
        let found = &self.subject.files;
        let blocks = self
            .first
            .messages
            .iter_mut()
            .flat_map(|message| &mut message.blocks);
        for block in blocks {
            let (digest, bytes) = match block {
                Block::Image(image) => (&image.file.digest, &mut image.bytes),
                Block::Pdf(pdf) => (&pdf.file.digest, &mut pdf.bytes),
                _ => continue,
            };
            let of = found.iter().find(|found| found.sha256 == *digest);
            *bytes = of.map(|found| found.bytes.clone().into());
        }
    }

    /// Returns the next request: the whole conversation so far.
    pub fn request(&self, tool_choice: ToolChoice, note: Option<String>) -> Request {
        let mut request = self.first.clone();
        request.model.clone_from(&self.route.model);
        request.agent = self.agent.options.clone();
        request.max_output_tokens = self
            .output_tokens_max
            .unwrap_or_else(|| self.answer_tokens_max());
        request.temperature = self.settings().temperature.value;
        request.tool_choice = tool_choice;
        request.without.clone_from(&self.without);
        request
            .system
            .extend(request.agent.as_ref().and_then(notes::where_to_work));
        request.messages.extend(self.said_for_model());
        request
            .messages
            .extend(notes::done_before(&self.known_steps).map(Message::user));
        request.messages.extend(note.map(Message::user));
        if let Some(form) = &self.form {
            form.ask(&mut request, self.route.structured());
        }
        request
    }

    /// Commits everything pending together with `entry`. An entry that a budget account could not
    /// pay is pending again, and so is what was to commit with a question for which there is no room.
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
        if let Err(error) = self.deps.env.journal(self.run, entries.clone()).await {
            match error {
                StoreError::BudgetExhausted(_) => self.pending = Arc::unwrap_or_clone(entries),
                StoreError::ApprovalsUsedUp => {
                    self.pending = Arc::unwrap_or_clone(entries);
                    self.pending
                        .retain(|entry| !matches!(entry, JournalEntry::Ask(_)));
                }
                _ => {}
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
            entries
                .iter()
                .any(|entry| matches!(entry, JournalEntry::Step(s) if s.kind == crate::store::StepKind::Result))
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

/// Returns a tool as a model sees it.
pub(super) fn spec(tool: &RegisteredTool) -> ToolSpec {
    ToolSpec {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        input_schema: tool.input_schema().clone(),
    }
}
