//! State of the loop of one run, in five values: its input, the route of its calls, the conversation, what it has spent, and the
//! entries still to be committed.

use super::model_call::fallback::RouteState;
use crate::config::{Persona, SettingsInForce};
use crate::context::resolvers::Subject;
use crate::domain::{DeliverTo, ReplyMode, RunOptions, Trigger};
use crate::providers::contract::retry;
use crate::providers::{Block, Message, ProviderError, Request, Response, ToolChoice, ToolSpec};
use crate::runs::agents::notes;
use crate::runs::budget::run_spending::RunSpending;
use crate::runs::chat::answer_stream::AnswerStream;
use crate::runs::deps::RunDeps;
use crate::runs::label::RunLabel;
use crate::runs::model_call::answer_form::AnswerForm;
use crate::runs::record::call_record::{Begun, Claim, RULES, amounts, millis};
use crate::runs::record::outbox::Outbox;
use crate::runs::said::conversation::RunConversation;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::store::{ClaimedRun, RunOptionsInForce};
use crate::tools::{RegisteredTool, ToolClass};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Everything that an attempt at a run works with.
pub struct LoopState<'a> {
    pub input: RunInput<'a>,
    pub route: RouteState<'a>,
    pub conversation: RunConversation,
    pub spending: RunSpending,
    pub outbox: Outbox<'a>,
}

/// The run, its persona, and what it may use.
pub struct RunInput<'a> {
    pub deps: &'a RunDeps,
    pub run: &'a ClaimedRun,
    pub persona: &'a Persona,
    pub subject: Subject,
    pub run_options: RunOptionsInForce,
    /// Form that the answer must have; `None`: any text.
    pub form: Option<AnswerForm>,
    pub tools: Vec<Arc<RegisteredTool>>,
    /// Tools that are not offered, because the window has no room for them.
    pub unoffered: Vec<String>,
    /// Permissions of the run, by what it has read so far.
    pub label: RunLabel,
    pub cancel: &'a CancellationToken,
    /// Answers while they are made, for whoever watches the run.
    pub stream: AnswerStream,
}

impl RunInput<'_> {
    pub fn options(&self) -> &RunOptions {
        &self.run_options.run_options
    }

    pub fn tool(&self, name: &str) -> Option<&RegisteredTool> {
        let mut tools = self.tools.iter().map(AsRef::as_ref);
        tools.find(|tool| tool.name() == name)
    }

    /// Returns the settings of a call to this provider.
    pub fn settings(&self, provider: &str) -> SettingsInForce {
        let whose = (self.persona, self.options());
        let inference = &self.deps.config.inference;
        inference.settings_in_force(whose, self.run.trigger, provider)
    }

    /// Returns the most tokens of an answer: those of the settings, and less in a small window.
    pub fn answer_tokens_max(&self, route: &RouteState<'_>) -> u32 {
        let settings = self.settings(&route.present.name);
        let configured = settings.max_output_tokens.value;
        let bounded = |window| retry::answer_tokens_max(window, u64::from(configured));
        let bounded = route.window_tokens().map(bounded);
        bounded.map_or(configured, |tokens| {
            u32::try_from(tokens).unwrap_or(configured)
        })
    }

    /// Reports whether the program that asks bounds the length of the answer: it wants a cut text and none that goes on.
    pub fn is_bounded_by_program(&self) -> bool {
        self.run.trigger == Trigger::Chat && self.options().settings.max_output_tokens.is_some()
    }

    pub fn reply(&self) -> ReplyMode {
        self.persona.reply_under(self.options())
    }

    /// Reports whether the persona's letters leave by a tool alone.
    pub fn answers_by_tool_only(&self) -> bool {
        self.reply() == ReplyMode::ToolOnly
    }

    /// Reports whether the last text of this run is a letter that a person reads.
    pub fn writes_letter(&self) -> bool {
        let is_mail = matches!(
            self.run.trigger,
            Trigger::Email | Trigger::Schedule | Trigger::Manual
        );
        is_mail && self.form.is_none() && self.options().deliver_to != DeliverTo::Store
    }
}

impl LoopState<'_> {
    /// Appends an answer that is not the last, with the results of its calls.
    pub fn append(&mut self, response: Response, results: Vec<Block>) {
        self.spending.counters.note(&response.stop, &results);
        self.conversation.append(response, results);
    }

    /// Returns the context in which a tool call is checked and executed.
    pub fn ctx(&self) -> ToolCallContext<'_> {
        let input = &self.input;
        ToolCallContext {
            deps: input.deps,
            run: input.run,
            persona: input.persona,
            subject: &input.subject,
            tools: &input.tools,
            label: input.label.clone(),
            options: input.options(),
            approvals: &self.conversation.approvals,
            cancel: input.cancel,
            calls: self.spending.counters.tool_calls,
            mails_sent: self.outbox.mails_sent,
            replied: self.outbox.replied,
            pending: &self.outbox.pending,
        }
    }

    /// Leaves a failed provider for the next of the chain, for the rest of the run.
    pub fn fall_back(&mut self, error: ProviderError, retry_in: Option<Duration>) {
        if self.route.fall_back(&self.input.run.id, error, retry_in) {
            // The next one may take what this one did not.
            self.conversation.first.tools = specs(&self.input.tools);
        }
    }

    /// Reports whether somebody waits for a letter and no call of this run has written one yet, not even a draft. By the results
    /// of its calls: the mail itself may have gone out in the commit of an owner's yes.
    pub fn owes_letter(&self) -> bool {
        let mails = |name: &str| {
            self.input.tool(name).is_some_and(|tool| {
                tool.effects().sends_out && tool.class() == ToolClass::Transactional
            })
        };
        let has_mailed = self.conversation.blocks().any(
            |block| matches!(block, Block::ToolResult { name, is_error: false, .. } if mails(name)),
        );
        self.input.writes_letter() && !self.outbox.replied && !has_mailed
    }

    /// Offers no tools from now on: the present model takes none. The prompts that are rendered from now on speak of none.
    pub fn drop_tools(&mut self) {
        self.input.subject.tools.clear();
        self.conversation.first.tools.clear();
    }

    /// Offers these tools no longer, in whatever follows.
    pub fn leave_tools(&mut self, names: Vec<String>) {
        let is_left = |name: &str| names.iter().any(|left| left == name);
        let (input, first) = (&mut self.input, &mut self.conversation.first);
        input.tools.retain(|tool| !is_left(tool.name()));
        first.tools.retain(|tool| !is_left(&tool.name));
        input.subject.tools.retain(|name| !is_left(name));
        input.unoffered.extend(names);
    }

    /// Returns the circumstances of the next call.
    pub fn begun(&self) -> Begun {
        let (input, run, route) = (&self.input, self.input.run, &self.route);
        let found_steps = self.conversation.known_steps.len();
        let agent = route.agent.options.as_ref();
        Begun {
            found_calls: self.outbox.found_calls,
            found_steps: u32::try_from(found_steps).unwrap_or(u32::MAX),
            rules: RULES,
            config: input.deps.config.snapshot.sha256().to_owned(),
            run_options: input.run_options.sha256.clone(),
            claim: Claim {
                attempt: run.attempt,
                worked_ms: millis(run.worked),
                is_retried: run.is_retried,
                is_overtaken: run.is_overtaken,
                letters: run.letters,
                budget_micros: run.budget_micros,
                thread_budget: amounts(run.thread_budget),
            },
            asked_ms: millis(self.spending.elapsed),
            without: route.without.clone(),
            window_tokens: route.present.window_tokens(),
            limits: route.limits,
            runs_commands: input.persona.shell && input.deps.env.runs_commands(),
            session: agent.map(|options| options.session.clone()),
            blocked_by: self.outbox.blocked_by.clone(),
        }
    }

    /// Returns the next request: the whole conversation so far.
    pub fn request(&self, tool_choice: ToolChoice, note: Option<String>) -> Request {
        let (conversation, route) = (&self.conversation, &self.route);
        let mut request = conversation.first.clone();
        request.model.clone_from(&route.present.model);
        request.agent = route.agent.options.clone();
        request.max_output_tokens = route
            .output_tokens_max
            .unwrap_or_else(|| self.input.answer_tokens_max(route));
        let settings = self.input.settings(&route.present.name);
        request.temperature = settings.temperature.value;
        request.tool_choice = tool_choice;
        request.without.clone_from(&route.without);
        request
            .system
            .extend(request.agent.as_ref().and_then(notes::where_to_work));
        request.messages.extend(conversation.for_model());
        request
            .messages
            .extend(notes::done_before(&conversation.known_steps).map(Message::user));
        request.messages.extend(note.map(Message::user));
        if let Some(form) = &self.input.form {
            form.ask(&mut request, route.present.capabilities().structured);
        }
        request
    }
}

/// Returns tools as a model sees them.
pub(super) fn specs(tools: &[Arc<RegisteredTool>]) -> Vec<ToolSpec> {
    let spec = |tool: &Arc<RegisteredTool>| ToolSpec {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        input_schema: tool.input_schema().clone(),
    };
    tools.iter().map(spec).collect()
}
