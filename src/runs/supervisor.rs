//! One call to a provider that owns its loop: observed, recorded, stopped where it leaves its tier
//! or its bounds.
//!
//! Every call to a tool of the agent's own is committed as it is seen, with one result, whatever
//! becomes of the agent. Calls of our tools are not recorded here, but by `attache mcp serve`.

use super::deps::RunError;
use super::sessions;
use super::work::Work;
use super::{guards, tool_policy};
use crate::config::Tier;
use crate::domain::{ErrorClass, StopReason};
use crate::providers::child::process;
use crate::providers::contract::accumulate::Accumulator;
use crate::providers::{
    AgentOptions, Block, CallContext, Event, FinishReason, Phase, ProviderError, Response,
    TokenUsage, ToolArgs,
};
use crate::store::{
    Executor, JournalEntry, NewCall, SessionKey, Step, StepKind, StoreError, Unanswered,
};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time in addition to the grace period of an adapter's program; then the stream is dropped.
const GRACE_PERIOD: Duration = Duration::from_secs(1);
/// Most names in a sentence for the operator.
const NAMES_MAX: usize = 6;

const NOT_FINISHED: Unanswered = Unanswered {
    code: "not_finished",
    message: "the agent ended without saying how this call ended",
};
const STOPPED: Unanswered = Unanswered {
    code: "outcome_unknown",
    message: "the agent ended in the middle of this call; it may or may not have taken effect",
};

/// Makes the call and waits for its end.
pub async fn complete(
    work: &mut Work<'_>,
    encoded: &str,
    context: CallContext,
) -> Result<Response, ProviderError> {
    let (Some(options), Some(key)) = (work.agent.options.clone(), work.agent.key.clone()) else {
        let message = "an agent was called without terms";
        return Err(ProviderError::new(
            ErrorClass::Config,
            Phase::Config,
            message,
        ));
    };
    work.deps
        .env
        .guard(work.run, work.persona, options.tier)
        .await
        .map_err(unguarded)?;
    let asked = context.cancel.clone();
    let stop = asked.child_token();
    let mut events = work.route.provider.stream(
        encoded,
        CallContext {
            cancel: stop.clone(),
            ..context
        },
    );
    let mut watch = Watch::new(work, options, key);
    let end = watch.follow(work, &mut events, &asked).await;
    // A call that left its tier is dropped at once, unless the agent must be asked to end.
    let is_asked = match &end {
        Ok(End::Finished(_)) | Err(_) => false,
        Ok(End::Disallowed(_)) => !work.route.provider.ends_when_dropped(),
        Ok(End::Limit(_) | End::Changed(_)) => true,
    };
    if is_asked {
        stop.cancel();
        watch.listen_on(work, &mut events).await;
    }
    // Kills a process that has not ended by itself.
    drop(events);
    let end = match work.deps.env.release(work.run, work.persona).await {
        Ok(changed) if changed.is_empty() => end,
        Ok(changed) => Ok(End::Changed(guards::named(&changed))),
        Err(error) => Err(unguarded(error)),
    };
    watch.finish(work, end).await
}

/// Reason why an agent was stopped.
enum End {
    Finished(Box<Response>),
    /// It called a tool that its tier does not permit.
    Disallowed(String),
    /// It changed these files, which no agent may change.
    Changed(String),
    /// It reached a bound of the run.
    Limit(FinishReason),
}

/// A call that has no result yet.
struct Open {
    agent_id: String,
    id: String,
    name: String,
}

/// Observed state of one agent's call.
struct Watch {
    options: AgentOptions,
    /// Prefix of our own tools in the agent's names, where it may call them.
    ours: Option<String>,
    session_key: SessionKey,
    session: Option<String>,
    open: Vec<Open>,
    /// Open calls of our own tools, by the agent's names.
    open_ours: Vec<String>,
    calls: u32,
    failures: u32,
    /// Answers of models inside this call, and their usage, as far as the agent reports them.
    rounds: u32,
    used: TokenUsage,
    /// Time that an adapter may take to end after a cancellation.
    grace_period: Duration,
    /// Tools beyond reading that it called.
    acts: Vec<String>,
    text: String,
    model: String,
}

impl Watch {
    fn new(work: &Work<'_>, options: AgentOptions, session_key: SessionKey) -> Self {
        let ours = options
            .tool_server
            .as_ref()
            .map(|server| format!("mcp__{}__", server.name));
        let settings = work.deps.config.inference.providers.get(&work.route.name);
        let grace = settings
            .and_then(|settings| settings.agent.stop_grace)
            .unwrap_or(process::GRACE);
        Self {
            options,
            ours,
            session_key,
            session: None,
            open: Vec::new(),
            open_ours: Vec::new(),
            calls: 0,
            failures: 0,
            rounds: 0,
            used: TokenUsage::default(),
            grace_period: grace + GRACE_PERIOD,
            acts: Vec::new(),
            text: String::new(),
            model: work.route.model.clone(),
        }
    }

    /// Handles the agent's events until it ends or must be stopped.
    async fn follow(
        &mut self,
        work: &Work<'_>,
        events: &mut BoxStream<'_, Result<Event, ProviderError>>,
        asked: &CancellationToken,
    ) -> Result<End, ProviderError> {
        let mut accumulator = Accumulator::default();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = overdue(asked, self.grace_period) => {
                    let message = "the call was cancelled";
                    return Err(ProviderError::new(ErrorClass::Cancelled, Phase::MidStream, message));
                }
            };
            let Some(event) = event.transpose()? else {
                return accumulator
                    .finish()
                    .map(|response| End::Finished(Box::new(response)));
            };
            accumulator.push(event.clone())?;
            if let Some(end) = self.see(work, event).await? {
                return Ok(end);
            }
        }
    }

    async fn see(&mut self, work: &Work<'_>, event: Event) -> Result<Option<End>, ProviderError> {
        match event {
            Event::Started { model, .. } => self.model = model,
            Event::TextDelta(text) => self.text.push_str(&text),
            Event::Session(id) => self.begin_session(work, id).await?,
            Event::ObservedCall { id, name, args } => {
                return self.called(work, id, name, args).await;
            }
            Event::ObservedResult {
                id,
                content,
                is_error,
            } => {
                self.answered(work, &id, &content, is_error).await?;
                return Ok(self.failed_too_often(work));
            }
            Event::Round { usage, goes_on } => {
                self.rounds += 1;
                self.used = self.used.plus(usage);
                return Ok(self.used_up().filter(|_| goes_on).map(End::Limit));
            }
            Event::Denied { name, args, reason } => {
                let id = self.record(work, &name, &args).await?;
                let payload = tool_policy::failure(&name, "denied", &reason);
                self.close(work, id, name, payload).await?;
                self.failures += 1;
                return Ok(self.failed_too_often(work));
            }
            Event::Notice(notice) => tracing::info!(run = %work.run.id, notice, "the agent says"),
            Event::ThinkingDelta(_) | Event::ToolCall { .. } | Event::Finished(_) => {}
        }
        Ok(None)
    }

    fn failed_too_often(&self, work: &Work<'_>) -> Option<End> {
        let is_over =
            work.counters.tool_failures + self.failures >= work.budget().tool_failures_max;
        (is_over && self.failures > 0).then_some(End::Limit(FinishReason::LimitToolFailures))
    }

    /// Returns the bound of this call that its models have reached.
    fn used_up(&self) -> Option<FinishReason> {
        let spent = self.used.cost_micros.unwrap_or(0);
        if self.options.cost_micros_max.is_some_and(|max| spent >= max) {
            return Some(FinishReason::LimitCost);
        }
        (self.rounds >= self.options.turns_max).then_some(FinishReason::LimitTurns)
    }

    async fn begin_session(&mut self, work: &Work<'_>, id: String) -> Result<(), ProviderError> {
        if !sessions::is_session_id(&id) {
            tracing::warn!(run = %work.run.id, "the agent named its session in a way that cannot be used again");
            return Ok(());
        }
        if self.session.as_ref() != Some(&id) {
            work.deps
                .run_store
                .session_seen(work.run, &self.session_key, &id, None)
                .await
                .map_err(stored)?;
            self.session = Some(id);
        }
        Ok(())
    }

    async fn called(
        &mut self,
        work: &Work<'_>,
        agent_id: String,
        name: String,
        args: ToolArgs,
    ) -> Result<Option<End>, ProviderError> {
        if self.open.iter().any(|open| open.agent_id == agent_id)
            || self.open_ours.contains(&agent_id)
        {
            return Ok(None);
        }
        self.calls += 1;
        let is_over = work.counters.tool_calls + self.calls > work.budget().tool_calls_max;
        if self
            .ours
            .as_ref()
            .is_some_and(|prefix| name.starts_with(prefix))
        {
            self.open_ours.push(agent_id);
            return Ok(is_over.then_some(End::Limit(FinishReason::LimitToolCalls)));
        }
        let id = self.record(work, &name, &args).await?;
        let needs = work.route.provider.needs(&name, &args);
        if needs > self.options.tier {
            let why = format!(
                "stopped: the tier `{}` does not allow this call",
                self.options.tier.as_str()
            );
            self.close(
                work,
                id,
                name.clone(),
                tool_policy::failure(&name, ErrorClass::DisallowedTool.as_str(), &why),
            )
            .await?;
            self.acted(&name);
            return Ok(Some(End::Disallowed(name)));
        }
        if needs > Tier::ReadOnly {
            self.acted(&name);
        }
        if is_over {
            let why = "stopped: this run has used up the number of tool calls it may make";
            self.close(
                work,
                id,
                name.clone(),
                tool_policy::failure(&name, "limit", why),
            )
            .await?;
            return Ok(Some(End::Limit(FinishReason::LimitToolCalls)));
        }
        self.open.push(Open { agent_id, id, name });
        Ok(None)
    }

    fn acted(&mut self, name: &str) {
        if !self.acts.iter().any(|known| known == name) {
            self.acts.push(name.to_owned());
        }
    }

    async fn answered(
        &mut self,
        work: &Work<'_>,
        agent_id: &str,
        content: &str,
        is_error: bool,
    ) -> Result<(), ProviderError> {
        if let Some(at) = self.open_ours.iter().position(|id| id == agent_id) {
            // Our tool server has recorded the call.
            self.open_ours.swap_remove(at);
            self.failures += u32::from(is_error);
            return Ok(());
        }
        // A second result is ignored.
        let Some(at) = self.open.iter().position(|open| open.agent_id == agent_id) else {
            return Ok(());
        };
        self.failures += u32::from(is_error);
        let Open { id, name, .. } = self.open.swap_remove(at);
        let content = bounded(content, work);
        let payload = match is_error {
            true => tool_policy::failure(&name, "failed", &content),
            false => json!({ "ok": true, "result": content }).to_string(),
        };
        self.close(work, id, name, payload).await
    }

    async fn record(
        &self,
        work: &Work<'_>,
        name: &str,
        args: &ToolArgs,
    ) -> Result<String, ProviderError> {
        let mut payload_json = tool_policy::call_payload(args, None);
        if payload_json.len() > work.deps.config.limits.tool_result_bytes_max {
            let shortened = bounded(&payload_json, work);
            payload_json = json!({ "args": { "shortened": shortened } }).to_string();
        }
        let call = NewCall {
            executor: Executor::Agent,
            tool_name: name.to_owned(),
            payload_json,
        };
        work.deps
            .run_store
            .record_call(work.run, call)
            .await
            .map_err(stored)
    }

    async fn close(
        &self,
        work: &Work<'_>,
        id: String,
        name: String,
        payload_json: String,
    ) -> Result<(), ProviderError> {
        let result = Step {
            kind: StepKind::Result,
            executor: Executor::Agent,
            tool_name: name,
            tool_call_id: id,
            payload_json,
        };
        work.deps
            .run_store
            .journal(work.run, vec![JournalEntry::Step(result)].into())
            .await
            .map_err(stored)
    }

    /// Handles late events: an agent that was asked to end may still report results of its calls.
    async fn listen_on(
        &mut self,
        work: &Work<'_>,
        events: &mut BoxStream<'_, Result<Event, ProviderError>>,
    ) {
        let grace_period = self.grace_period;
        let listening = async {
            while let Some(Ok(event)) = events.next().await {
                if let Event::ObservedResult {
                    id,
                    content,
                    is_error,
                } = event
                    && self.answered(work, &id, &content, is_error).await.is_err()
                {
                    return;
                }
            }
        };
        // A call without a result in time gets one that says so.
        let _in_time = tokio::time::timeout(grace_period, listening).await;
    }

    /// Closes open calls, updates the counters, and returns the outcome.
    async fn finish(
        mut self,
        work: &mut Work<'_>,
        end: Result<End, ProviderError>,
    ) -> Result<Response, ProviderError> {
        let why = if matches!(end, Ok(End::Finished(_))) {
            NOT_FINISHED
        } else {
            STOPPED
        };
        let closed = work
            .deps
            .run_store
            .close_calls(work.run, why)
            .await
            .map_err(stored);
        work.counters.tool_calls += self.calls;
        work.counters.tool_failures += self.failures;
        let mails = self.catch_up(work).await;
        let end = closed
            .and(mails)
            .and_then(|mails| end.map(|end| (end, mails)));
        match end {
            Ok((End::Finished(response), _)) => self.finished(work, *response).await,
            Ok((End::Limit(stop), _)) => Ok(self.partial(stop)),
            Ok((End::Disallowed(name), _)) => {
                let tier = self.options.tier.as_str();
                let message = format!(
                    "the agent called `{name}`, which its tier `{tier}` does not allow; it was stopped"
                );
                Err(ProviderError {
                    acted: true,
                    ..ProviderError::new(ErrorClass::DisallowedTool, Phase::MidStream, message)
                })
            }
            Ok((End::Changed(files), _)) => {
                let message = format!(
                    "while the agent worked {files} changed, which no agent may change; it was put back, and nothing that \
                     the agent said is sent"
                );
                Err(ProviderError {
                    acted: true,
                    ..ProviderError::new(ErrorClass::DisallowedTool, Phase::MidStream, message)
                })
            }
            Err(error) => Err(self.blamed(work, error)),
        }
    }

    /// Counts the mails that the agent sent through our tools meanwhile as mails of this run.
    async fn catch_up(&mut self, work: &mut Work<'_>) -> Result<(), ProviderError> {
        let (mails, replied) = work
            .deps
            .run_store
            .mails_so_far(work.run)
            .await
            .map_err(stored)?;
        let mails = mails as usize;
        if mails > work.mails_sent {
            self.acted("send_email");
            work.deps.mail_queued.notify_one();
        }
        (work.mails_sent, work.replied) = (mails, replied);
        Ok(())
    }

    async fn finished(
        &self,
        work: &Work<'_>,
        response: Response,
    ) -> Result<Response, ProviderError> {
        if let Some(id) = &self.session {
            let usage = response
                .session_usage
                .as_ref()
                .and_then(|used| serde_json::to_string(used).ok());
            let kept = work
                .deps
                .run_store
                .session_seen(work.run, &self.session_key, id, Some(usage))
                .await;
            kept.map_err(stored)?;
        }
        Ok(response)
    }

    /// Returns the text so far as a partial answer. An agent that has not reported its usage counts
    /// as having used its whole budget.
    fn partial(self, stop: FinishReason) -> Response {
        let reported = (self.rounds > 0).then_some(self.used.cost_micros).flatten();
        let cost_micros = reported.or(self.options.cost_micros_max);
        Response {
            blocks: vec![Block::text(self.text)],
            stop,
            usage: TokenUsage {
                estimated: true,
                cost_micros,
                ..self.used
            },
            model_served: self.model,
            provider_request_id: None,
            breakdown: Vec::new(),
            session_usage: None,
        }
    }

    /// Adds to an error what the agent had done, because then only an operator may decide to do it
    /// again.
    fn blamed(&self, work: &Work<'_>, error: ProviderError) -> ProviderError {
        if self.acts.is_empty() || error.class == ErrorClass::Cancelled {
            return error;
        }
        let names: Vec<String> = self
            .acts
            .iter()
            .take(NAMES_MAX)
            .map(|name| format!("`{name}`"))
            .collect();
        let more = if self.acts.len() > NAMES_MAX {
            " and others"
        } else {
            ""
        };
        let message = format!(
            "the agent had called {}{more} before it failed, so it is not asked again by itself: {}",
            names.join(", "),
            error.message
        );
        tracing::warn!(run = %work.run.id, acts = self.acts.len(), "an agent failed after it had acted");
        ProviderError {
            acted: true,
            message: message.chars().take(500).collect(),
            ..error
        }
    }
}

/// Returns the stop reason of an agent's partial answer.
pub fn limit_reached(stop: &FinishReason) -> Option<StopReason> {
    match stop {
        FinishReason::LimitTurns => Some(StopReason::LimitTurns),
        FinishReason::LimitCost => Some(StopReason::LimitCost),
        FinishReason::LimitToolCalls => Some(StopReason::LimitToolCalls),
        FinishReason::LimitToolFailures => Some(StopReason::LimitToolFailures),
        _ => None,
    }
}

/// Adds the sentence that marks a partial answer as such.
pub fn honest(text: &str, limit: StopReason) -> String {
    let what = match limit {
        StopReason::LimitTurns => "turns",
        StopReason::LimitCost => "money",
        StopReason::LimitToolFailures => "failed tool calls",
        StopReason::LimitTokens => "tokens",
        StopReason::LimitTime => "time",
        _ => "tool calls",
    };
    let sentence =
        format!("[This answer is incomplete: its run had used up the {what} it may use.]");
    match text.trim() {
        "" => sentence,
        text => format!("{text}\n\n{sentence}"),
    }
}

/// Waits for the end of the grace period after a cancellation.
async fn overdue(asked: &CancellationToken, grace_period: Duration) {
    asked.cancelled().await;
    tokio::time::sleep(grace_period).await;
}

/// Cuts a text to the length of one result.
fn bounded(text: &str, work: &Work<'_>) -> String {
    let most = work.deps.config.limits.tool_result_bytes_max;
    if text.len() <= most {
        return text.to_owned();
    }
    format!(
        "{}… [cut: {} bytes]",
        &text[..text.floor_char_boundary(most)],
        text.len()
    )
}

fn unguarded(error: RunError) -> ProviderError {
    ProviderError::new(ErrorClass::Store, Phase::MidStream, error.to_string())
}

fn stored(error: StoreError) -> ProviderError {
    let message = format!("what the agent did cannot be recorded: {error}");
    ProviderError::new(ErrorClass::Store, Phase::MidStream, message)
}
