//! One call to a provider that owns its loop: observed, recorded, stopped where it leaves its tier
//! or its bounds.
//!
//! Every call to a tool of the agent's own is committed as it is seen, with one result, whatever
//! becomes of the agent. Calls of our tools are not recorded here, but by `attache mcp serve`.

use super::observed_calls::{AgentEnd, ObservedCalls, stored};
use super::options::is_session_id;
use crate::config::Tier;
use crate::domain::ErrorClass;
use crate::providers::child::process;
use crate::providers::contract::accumulate::Accumulator;
use crate::providers::{
    AgentOptions, Block, CallContext, Event, FinishReason, Phase, ProviderError, Response,
    TokenUsage,
};
use crate::runs::budget::run_spending::RunSpending;
use crate::runs::env::file_guards::{self, GuardOrder};
use crate::runs::error::RunError;
use crate::runs::model_call::fallback::Route;
use crate::runs::record::outbox::Outbox;
use crate::runs::state::{LoopState, RunInput};
use crate::store::files::workspace::WorkspaceQuota;
use crate::store::{SessionKey, Unanswered};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time in addition to the grace period of an adapter's program; then the stream is dropped.
const GRACE_PERIOD: Duration = Duration::from_secs(1);
/// Silence of an agent after which its workspace is looked at: it may be filling it.
const QUOTA_CHECKED_AFTER: Duration = Duration::from_secs(5);
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
    state: &mut LoopState<'_>,
    encoded: &str,
    context: CallContext,
) -> Result<Response, ProviderError> {
    let LoopState {
        input,
        route,
        spending,
        outbox,
        ..
    } = state;
    let (Some(options), Some(key)) = (route.agent.options.clone(), route.agent.key.clone()) else {
        let message = "an agent was called without terms";
        return Err(ProviderError::new(
            ErrorClass::Config,
            Phase::Config,
            message,
        ));
    };
    let order = GuardOrder {
        working: options.workspace.clone(),
        writes: options.tier >= Tier::Write,
        quota: WorkspaceQuota::from(&input.deps.config.limits),
    };
    input
        .deps
        .env
        .guard(input.run, input.persona, &order)
        .await
        .map_err(unguarded)?;
    let asked = context.cancel.clone();
    let stop = asked.child_token();
    let mut events = route.present.provider.stream(
        encoded,
        CallContext {
            cancel: stop.clone(),
            ..context
        },
    );
    let mut watch = Watch::new(input, &route.present, spending, options, key);
    let end = watch.follow(&mut events, &asked).await;
    // A call that left its tier is dropped at once, unless the agent must be asked to end.
    let is_asked = match &end {
        Ok(AgentEnd::Finished(_)) | Err(_) => false,
        Ok(AgentEnd::Disallowed(_)) => !route.present.provider.ends_when_dropped(),
        Ok(AgentEnd::Limit(_) | AgentEnd::Changed(_) | AgentEnd::OverQuota(_)) => true,
    };
    if is_asked {
        stop.cancel();
        watch.listen_on(&mut events).await;
    }
    // Kills a process that has not ended by itself.
    drop(events);
    let released = input
        .deps
        .env
        .release(input.run, input.persona, order.quota)
        .await;
    let end = match released {
        Ok(changes) if !changes.undone.is_empty() => {
            Ok(AgentEnd::Changed(file_guards::named(&changes.undone)))
        }
        // Of an agent that may not write, the owner has filled it.
        Ok(changes) => match changes.over_quota.filter(|_| order.writes) {
            Some(message) => Ok(AgentEnd::OverQuota(message)),
            None => end,
        },
        Err(error) => Err(unguarded(error)),
    };
    watch.finish(spending, outbox, end).await
}

/// Observed state of one agent's call.
struct Watch<'s> {
    input: &'s RunInput<'s>,
    options: AgentOptions,
    session_key: SessionKey,
    session: Option<String>,
    calls: ObservedCalls<'s>,
    /// Answers of models inside this call, and their usage, as far as the agent reports them.
    rounds: u32,
    used: TokenUsage,
    /// Time that an adapter may take to end after a cancellation.
    grace_period: Duration,
    text: String,
    model: String,
}

impl<'s> Watch<'s> {
    fn new(
        input: &'s RunInput<'s>,
        route: &Route<'s>,
        spending: &RunSpending,
        options: AgentOptions,
        session_key: SessionKey,
    ) -> Self {
        let settings = input.deps.config.inference.providers.get(&route.name);
        let grace = settings
            .and_then(|settings| settings.agent.stop_grace)
            .unwrap_or(process::GRACE);
        Self {
            input,
            calls: ObservedCalls::new(input, route.provider, spending, &options),
            options,
            session_key,
            session: None,
            rounds: 0,
            used: TokenUsage::default(),
            grace_period: grace + GRACE_PERIOD,
            text: String::new(),
            model: route.model.clone(),
        }
    }

    /// Handles the agent's events until it ends or must be stopped.
    async fn follow(
        &mut self,
        events: &mut BoxStream<'_, Result<Event, ProviderError>>,
        asked: &CancellationToken,
    ) -> Result<AgentEnd, ProviderError> {
        let mut accumulator = Accumulator::default();
        let overdue = overdue(asked, self.grace_period);
        tokio::pin!(overdue);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = tokio::time::sleep(QUOTA_CHECKED_AFTER) => {
                    match self.over_quota().await {
                        Some(message) => return Ok(AgentEnd::OverQuota(message)),
                        None => continue,
                    }
                }
                () = &mut overdue => {
                    let message = "the call was cancelled";
                    return Err(ProviderError::new(ErrorClass::Cancelled, Phase::MidStream, message));
                }
            };
            let Some(event) = event.transpose()? else {
                return accumulator
                    .finish()
                    .map(|response| AgentEnd::Finished(Box::new(response)));
            };
            self.input.stream.see(&event);
            accumulator.push(event.clone())?;
            if let Some(end) = self.see(event).await? {
                return Ok(end);
            }
        }
    }

    async fn see(&mut self, event: Event) -> Result<Option<AgentEnd>, ProviderError> {
        match event {
            Event::Started { model, .. } => self.model = model,
            Event::TextDelta(text) => self.text.push_str(&text),
            Event::Session(id) => self.begin_session(id).await?,
            Event::ObservedCall { id, name, args } => {
                return self.calls.called(id, name, args).await;
            }
            Event::ObservedResult {
                id,
                content,
                is_error,
            } => {
                self.calls.answered(&id, &content, is_error).await?;
                if let Some(message) = self.over_quota().await {
                    return Ok(Some(AgentEnd::OverQuota(message)));
                }
                return Ok(self.calls.failed_too_often());
            }
            Event::Round { usage, goes_on } => {
                self.rounds += 1;
                self.used = self.used.plus(usage);
                return Ok(self.used_up().filter(|_| goes_on).map(AgentEnd::Limit));
            }
            Event::Denied { name, args, reason } => {
                self.calls.denied(&name, &args, &reason).await?;
                return Ok(self.calls.failed_too_often());
            }
            Event::Notice(notice) => {
                tracing::info!(run = %self.input.run.id, notice, "the agent says");
            }
            Event::ThinkingDelta(_) | Event::ToolCall { .. } | Event::Finished(_) => {}
        }
        Ok(None)
    }

    /// Returns what to do where the agent has filled its workspace.
    async fn over_quota(&self) -> Option<String> {
        if self.options.tier < Tier::Write {
            return None;
        }
        let quota = WorkspaceQuota::from(&self.input.deps.config.limits);
        file_guards::over_quota(self.input.persona, quota).await
    }

    /// Returns the bound of this call that its models have reached.
    fn used_up(&self) -> Option<FinishReason> {
        let spent = self.used.cost_micros.unwrap_or(0);
        if self.options.cost_micros_max.is_some_and(|max| spent >= max) {
            return Some(FinishReason::LimitCost);
        }
        (self.rounds >= self.options.turns_max).then_some(FinishReason::LimitTurns)
    }

    async fn begin_session(&mut self, id: String) -> Result<(), ProviderError> {
        if !is_session_id(&id) {
            tracing::warn!(run = %self.input.run.id, "the agent named its session in a way that cannot be used again");
            return Ok(());
        }
        if self.session.as_ref() != Some(&id) {
            self.input
                .deps
                .env
                .session_seen(self.input.run, &self.session_key, &id, None)
                .await
                .map_err(stored)?;
            self.session = Some(id);
        }
        Ok(())
    }

    /// Handles late events: an agent that was asked to end may still report results of its calls.
    async fn listen_on(&mut self, events: &mut BoxStream<'_, Result<Event, ProviderError>>) {
        let grace_period = self.grace_period;
        let listening = async {
            while let Some(Ok(event)) = events.next().await {
                if let Event::ObservedResult {
                    id,
                    content,
                    is_error,
                } = event
                    && self.calls.answered(&id, &content, is_error).await.is_err()
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
        spending: &mut RunSpending,
        outbox: &mut Outbox<'_>,
        end: Result<AgentEnd, ProviderError>,
    ) -> Result<Response, ProviderError> {
        let why = if matches!(end, Ok(AgentEnd::Finished(_))) {
            NOT_FINISHED
        } else {
            STOPPED
        };
        let closed = self
            .input
            .deps
            .env
            .close_calls(self.input.run, why)
            .await
            .map_err(stored);
        spending.counters.tool_calls += self.calls.count;
        spending.counters.tool_failures += self.calls.failures;
        let mails = self.catch_up(outbox).await;
        let end = closed
            .and(mails)
            .and_then(|mails| end.map(|end| (end, mails)));
        match end {
            Ok((AgentEnd::Finished(response), _)) => self.finished(*response).await,
            Ok((AgentEnd::Limit(stop), _)) => Ok(self.partial(stop)),
            Ok((AgentEnd::Disallowed(name), _)) => {
                let tier = self.options.tier.as_str();
                let message = format!(
                    "the agent called `{name}`, which its tier `{tier}` does not allow; it was stopped"
                );
                Err(ProviderError {
                    acted: true,
                    ..ProviderError::new(ErrorClass::DisallowedTool, Phase::MidStream, message)
                })
            }
            Ok((AgentEnd::Changed(files), _)) => {
                let message = format!(
                    "while the agent worked {files} changed, which no agent may change; it was put back, and nothing that \
                     the agent said is sent"
                );
                Err(ProviderError {
                    acted: true,
                    ..ProviderError::new(ErrorClass::DisallowedTool, Phase::MidStream, message)
                })
            }
            Ok((AgentEnd::OverQuota(message), _)) => {
                let message = format!("the agent was stopped: {message}");
                Err(ProviderError {
                    acted: true,
                    ..ProviderError::new(ErrorClass::DisallowedTool, Phase::MidStream, message)
                })
            }
            Err(error) => Err(self.calls.blamed(error)),
        }
    }

    /// Counts the mails that the agent sent through our tools meanwhile as mails of this run.
    async fn catch_up(&mut self, outbox: &mut Outbox<'_>) -> Result<(), ProviderError> {
        let (mails, replied) = self
            .input
            .deps
            .env
            .mails_so_far(self.input.run)
            .await
            .map_err(stored)?;
        let mails = mails as usize;
        if mails > outbox.mails_sent {
            self.calls.acted("send_email");
            self.input.deps.mail_queued.notify_one();
        }
        (outbox.mails_sent, outbox.replied) = (mails, replied);
        Ok(())
    }

    async fn finished(&self, response: Response) -> Result<Response, ProviderError> {
        if let Some(id) = &self.session {
            let usage = response
                .session_usage
                .as_ref()
                .and_then(|used| serde_json::to_string(used).ok());
            let kept = self
                .input
                .deps
                .env
                .session_seen(self.input.run, &self.session_key, id, Some(usage))
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
}

/// Waits for the end of the grace period after a cancellation.
async fn overdue(asked: &CancellationToken, grace_period: Duration) {
    asked.cancelled().await;
    tokio::time::sleep(grace_period).await;
}

fn unguarded(error: RunError) -> ProviderError {
    let class = match &error {
        RunError::Fatal { class, .. } => *class,
        _ => ErrorClass::Store,
    };
    ProviderError::new(class, Phase::MidStream, error.to_string())
}
