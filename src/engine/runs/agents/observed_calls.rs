//! Calls to tools of an agent's own, as they are seen: each recorded with one result, and none beyond
//! the agent's tier or the bounds of the run.

use crate::config::Tier;
use crate::domain::ErrorClass;
use crate::providers::{
    AgentOptions, FinishReason, Phase, Provider, ProviderError, Response, ToolArgs,
};
use crate::runs::budget::run_spending::RunSpending;
use crate::runs::state::RunInput;
use crate::runs::tool_calls::verdict;
use crate::store::{Executor, JournalEntry, NewCall, Step, StepKind, StoreError};
use crate::text::truncated;
use serde_json::json;

/// Most names in a sentence for the operator.
const NAMES_MAX: usize = 6;

/// Reason why an agent was stopped.
pub enum AgentEnd {
    Finished(Box<Response>),
    /// It called a tool that its tier does not permit.
    Disallowed(String),
    /// It changed these files, which no agent may change.
    Changed(String),
    /// It has filled its workspace; what to do about it.
    OverQuota(String),
    /// It reached a bound of the run.
    Limit(FinishReason),
}

/// A call that has no result yet.
struct UnfinishedCall {
    agent_id: String,
    id: String,
    name: String,
}

/// Observed calls of one agent.
pub struct ObservedCalls<'s> {
    input: &'s RunInput<'s>,
    provider: &'s dyn Provider,
    calls_left: u32,
    failures_left: u32,
    tier: Tier,
    /// Prefix of our own tools in the agent's names, where it may call them.
    ours: Option<String>,
    open: Vec<UnfinishedCall>,
    /// Open calls of our own tools, by the agent's names.
    open_ours: Vec<String>,
    pub count: u32,
    pub failures: u32,
    /// Tools beyond reading that it called.
    acts: Vec<String>,
}

impl<'s> ObservedCalls<'s> {
    pub fn new(
        input: &'s RunInput<'s>,
        provider: &'s dyn Provider,
        spending: &RunSpending,
        options: &AgentOptions,
    ) -> Self {
        let (budget, used) = (&spending.budget, &spending.counters);
        let ours = options
            .tool_server
            .as_ref()
            .map(|server| format!("mcp__{}__", server.name));
        Self {
            input,
            provider,
            calls_left: budget.tool_calls_max.saturating_sub(used.tool_calls),
            failures_left: budget.tool_failures_max.saturating_sub(used.tool_failures),
            tier: options.tier,
            ours,
            open: Vec::new(),
            open_ours: Vec::new(),
            count: 0,
            failures: 0,
            acts: Vec::new(),
        }
    }

    /// Records a call that the agent itself refused.
    pub async fn denied(
        &mut self,
        name: &str,
        args: &ToolArgs,
        reason: &str,
    ) -> Result<(), ProviderError> {
        let id = self.record(name, args).await?;
        let payload = verdict::failure(name, "denied", reason);
        self.close(id, name.to_owned(), payload).await?;
        self.failures += 1;
        Ok(())
    }

    /// Returns the bound on failed calls, if the run has reached it in this call.
    pub fn failed_too_often(&self) -> Option<AgentEnd> {
        let is_over = self.failures >= self.failures_left;
        (is_over && self.failures > 0).then_some(AgentEnd::Limit(FinishReason::LimitToolFailures))
    }

    /// Records a call as it is seen; returns why the agent must be stopped, if it must.
    pub async fn called(
        &mut self,
        agent_id: String,
        name: String,
        args: ToolArgs,
    ) -> Result<Option<AgentEnd>, ProviderError> {
        if self.open.iter().any(|open| open.agent_id == agent_id)
            || self.open_ours.contains(&agent_id)
        {
            return Ok(None);
        }
        self.count += 1;
        let is_over = self.count > self.calls_left;
        if self
            .ours
            .as_ref()
            .is_some_and(|prefix| name.starts_with(prefix))
        {
            self.open_ours.push(agent_id);
            return Ok(is_over.then_some(AgentEnd::Limit(FinishReason::LimitToolCalls)));
        }
        let id = self.record(&name, &args).await?;
        let needs = self.provider.needs(&name, &args);
        if needs > self.tier {
            let why = format!(
                "stopped: the tier `{}` does not allow this call",
                self.tier.as_str()
            );
            self.close(
                id,
                name.clone(),
                verdict::failure(&name, ErrorClass::DisallowedTool.as_str(), &why),
            )
            .await?;
            self.acted(&name);
            return Ok(Some(AgentEnd::Disallowed(name)));
        }
        if needs > Tier::ReadOnly {
            self.acted(&name);
        }
        if is_over {
            let why = "stopped: this run has used up the number of tool calls it may make";
            self.close(id, name.clone(), verdict::failure(&name, "limit", why))
                .await?;
            return Ok(Some(AgentEnd::Limit(FinishReason::LimitToolCalls)));
        }
        self.open.push(UnfinishedCall { agent_id, id, name });
        Ok(None)
    }

    pub fn acted(&mut self, name: &str) {
        if !self.acts.iter().any(|known| known == name) {
            self.acts.push(name.to_owned());
        }
    }

    /// Records the result of a call.
    pub async fn answered(
        &mut self,
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
        let UnfinishedCall { id, name, .. } = self.open.swap_remove(at);
        let content = self.bounded(content);
        let payload = match is_error {
            true => verdict::failure(&name, "failed", &content),
            false => json!({ "ok": true, "result": content }).to_string(),
        };
        self.close(id, name, payload).await
    }

    async fn record(&self, name: &str, args: &ToolArgs) -> Result<String, ProviderError> {
        let mut payload_json = verdict::call_payload(args, None, None);
        if payload_json.len() > self.input.deps.config.limits.tool_result_bytes_max {
            let shortened = self.bounded(&payload_json);
            payload_json = json!({ "args": { "shortened": shortened } }).to_string();
        }
        let call = NewCall {
            executor: Executor::Agent,
            tool_name: name.to_owned(),
            payload_json,
        };
        self.input
            .deps
            .env
            .record_call(self.input.run, call)
            .await
            .map_err(stored)
    }

    async fn close(
        &self,
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
        self.input
            .deps
            .env
            .journal(self.input.run, vec![JournalEntry::Step(result)].into())
            .await
            .map_err(stored)
    }

    /// Adds to an error what the agent had done, because then only an operator may decide to do it
    /// again.
    pub fn blamed(&self, error: ProviderError) -> ProviderError {
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
        tracing::warn!(run = %self.input.run.id, acts = self.acts.len(), "an agent failed after it had acted");
        ProviderError {
            acted: true,
            message: truncated(&message, 500),
            ..error
        }
    }

    /// Cuts a text to the length of one result.
    fn bounded(&self, text: &str) -> String {
        let most = self.input.deps.config.limits.tool_result_bytes_max;
        if text.len() <= most {
            return text.to_owned();
        }
        format!(
            "{}… [cut: {} bytes]",
            &text[..text.floor_char_boundary(most)],
            text.len()
        )
    }
}

/// Returns the error of an agent's call that could not be recorded.
pub fn stored(error: StoreError) -> ProviderError {
    let message = format!("what the agent did cannot be recorded: {error}");
    ProviderError::new(ErrorClass::Store, Phase::MidStream, message)
}
