//! Start of an attempt: loads the subject of the run; assembles its context, or continues from its
//! journal.

use super::model_call::fallback::RouteState;
use super::offered::{self, ToolsOrder};
use super::record::outbox::Outbox;
use super::reply::send_limits;
use super::said::conversation::RunConversation;
use super::state::{LoopState, RunInput, specs};
use super::{assembly, recovery};
use crate::config::SettingsInForce;
use crate::context::resolvers::Subject;
use crate::domain::{DeliverTo, Trigger, sha256_hex};
use crate::providers::{Message, Request, ToolChoice};
use crate::runs::budget::bounds;
use crate::runs::budget::counters::Counters;
use crate::runs::budget::run_spending::RunSpending;
use crate::runs::deps::RunDeps;
use crate::runs::error::RunError;
use crate::runs::hooks::of_run;
use crate::runs::label::RunLabel;
use crate::runs::model_call::answer_form::AnswerForm;
use crate::store::{ClaimedRun, JournalSoFar, Sent};
use crate::tools::{NO_ANSWER, RegisteredTool};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Characters of the key of a thread.
const CACHE_KEY_CHARS: usize = 32;

/// Told to the model of a run that an operator queued again: it goes on with what it read before.
const OVERTAKEN: &str = "[This letter is answered late: letters of this conversation that came after it have been answered meanwhile, \
    and you do not see them here. What it asks for may be settled or taken back. Do nothing that cannot be undone because of it, and \
    say in your answer that it is late.]";

/// Tells the model that letters of its history wait for the same answer.
fn answered_together(letters: u32) -> String {
    format!(
        "[The sender has written {letters} letters in a row that nobody has answered yet: the one above and those right before it in the \
        history. Answer all of them in one mail. Where a later one corrects or takes back an earlier one, the later one counts.]"
    )
}

/// Loads the subject of the run; assembles its context, or continues from its journal.
pub async fn begin<'a>(
    deps: &'a RunDeps,
    run: &'a ClaimedRun,
    cancel: &'a CancellationToken,
) -> Result<LoopState<'a>, RunError> {
    let persona = deps.persona(&run.persona)?;
    let run_options = deps.options_of(run).await?;
    let route = RouteState::of(deps, run, persona, &run_options.run_options)?;
    let owners = &deps.config.gateway.owners;
    let about = deps.env.trigger_message(run, owners).await?;
    let (sent, mut subject) = (about.sent, Subject::of(run.trigger, about));
    let label = RunLabel::of(&subject);
    let journal = journal_of(deps, run).await?;
    deps.env.try_commands(persona).await;
    let order = ToolsOrder {
        run,
        persona,
        options: &run_options.run_options,
        subject: &subject,
        label: &label,
        first_request: journal.first_request_json.as_deref(),
    };
    let mut tools = offered::offered(deps, order).await?;
    let form = AnswerForm::of(&run_options)?;
    // An agent has its own end, and programs and duties wait for a text.
    let may_be_silent = run.trigger == Trigger::Email
        && form.is_none()
        && run_options.run_options.deliver_to != DeliverTo::Store
        && route.present.is_model();
    tools.retain(|tool| may_be_silent || tool.name() != NO_ANSWER);
    subject.tools = tools.iter().map(|tool| tool.name().to_owned()).collect();
    let (bounds, budget, settings) = bounds::bounds(
        deps,
        run,
        persona,
        &run_options.run_options,
        &route.present.name,
    );
    let limits = route.limits;
    let first = blank(&settings, &route.present.model, &tools, cache_key(&subject));
    let mut state = LoopState {
        input: RunInput {
            deps,
            run,
            persona,
            subject,
            run_options,
            form,
            tools,
            unoffered: Vec::new(),
            label,
            cancel,
            stream: deps.env.answer_stream(run),
        },
        route,
        conversation: RunConversation::new(first),
        spending: RunSpending {
            bounds,
            budget,
            counters: Counters::default(),
            worked_before: run.worked,
            began: deps.clock.monotonic(),
            elapsed: run.worked,
        },
        outbox: Outbox::new(deps, run, journal.last_request.clone()),
    };
    // Where nothing but a tool may answer, the refusal is said again.
    if limits.no_tools && !state.input.answers_by_tool_only() {
        state.drop_tools();
    }
    match &journal.first_request_json {
        Some(json) => recovery::resume(&mut state, json, &journal)?,
        None => first_context(&mut state, sent).await?,
    }
    // A run that goes on has it in its first request.
    if run.letters > 1 && journal.first_request_json.is_none() {
        let note = answered_together(run.letters);
        state.conversation.said.push(Message::user(note));
    }
    if run.is_overtaken {
        state.conversation.said.push(Message::user(OVERTAKEN));
    }
    Ok(state)
}

/// Assembles the context of a run that has asked nothing yet, unless no model is to be asked.
async fn first_context(state: &mut LoopState<'_>, sent: Sent) -> Result<(), RunError> {
    if state.input.run.trigger != Trigger::Summary {
        state.outbox.unasked = send_limits::unasked(&state.ctx(), sent);
    }
    if state.outbox.unasked.is_none() {
        of_run::before(
            state.input.deps,
            state.input.run,
            &state.input.subject,
            state.input.cancel,
        )
        .await?;
        let fitting = assembly::input_tokens_max(&state.input, &state.route);
        assembly::assemble(state, fitting, None).await?;
    }
    Ok(())
}

/// Returns the journal of earlier attempts.
async fn journal_of(deps: &RunDeps, run: &ClaimedRun) -> Result<JournalSoFar, RunError> {
    Ok(match run.has_journal {
        true => deps.env.journal_so_far(run).await?,
        false => JournalSoFar::default(),
    })
}

/// Returns a request without messages.
fn blank(
    settings: &SettingsInForce,
    model: &str,
    tools: &[Arc<RegisteredTool>],
    cache_key: String,
) -> Request {
    Request {
        model: model.to_owned(),
        system: Vec::new(),
        messages: Vec::new(),
        past_messages: 0,
        cache_key: Some(cache_key),
        tools: specs(tools),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: settings.max_output_tokens.value,
        temperature: settings.temperature.value,
        output: None,
        without: Vec::new(),
        agent: None,
    }
}

/// Returns the key of the run's thread for the cache of a vendor: the same for each of its letters, and of no use to whoever
/// has it. OpenAI takes 64 characters.
fn cache_key(subject: &Subject) -> String {
    let thread = subject.message.thread.as_str();
    let mut key = sha256_hex(&[b"prompt cache of thread ", thread.as_bytes()]);
    key.truncate(CACHE_KEY_CHARS);
    key
}
