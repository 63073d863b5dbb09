//! Reads and effects of a replayed run outside of its journal: from the record alone.

use super::RecordedEnv;
use crate::context::resolvers::record::ReadLog;
use crate::context::{self, Sources};
use crate::runs::deps::RunError;
use crate::runs::run_store::{Assembled, CallOrder, Env, Order};
use crate::runs::tool_policy::{ToolCallContext, Verdict};
use crate::store::{ClaimedRun, StepKind, StoreError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use std::sync::Arc;

impl Env for Arc<RecordedEnv> {
    fn assemble<'a>(&'a self, order: Order<'a>) -> BoxFuture<'a, Result<Assembled, RunError>> {
        Box::pin(async move {
            let coming = self.next_call()..self.attempt.calls.end;
            let context = coming
                .into_iter()
                .find_map(|call| self.record.context_of(call));
            let Some(context) = context else {
                return Err(StoreError::Closed.into());
            };
            let sources = Sources {
                persona: order.persona,
                reads: &context.reads,
                subject: order.subject,
                now: context.now,
            };
            let profile = (order.run.profile.as_str(), order.profile);
            let (allowed, budget) = (order.allowed_tokens, order.budget_tokens);
            match context::assemble(sources, profile, allowed, budget).await {
                Ok((context, report)) => Ok(Assembled {
                    context,
                    report,
                    seen: ReadLog::default(),
                }),
                Err(error) => {
                    let cause = error.to_string();
                    Err(self.differs(cause, "a context", "none").into())
                }
            }
        })
    }

    fn persona_text(&self, _run: &ClaimedRun) -> Result<String, RunError> {
        // For the key of a session, which the record has.
        Ok(String::new())
    }

    fn expected_effects<'a>(
        &'a self,
        _ctx: &'a ToolCallContext<'_>,
        order: CallOrder<'a>,
    ) -> BoxFuture<'a, Option<Value>> {
        ready(
            self.recorded(StepKind::Call, order.id)
                .and_then(|(_, step)| step.begun()),
        )
        .boxed()
    }

    fn call<'a>(
        &'a self,
        _ctx: &'a ToolCallContext<'_>,
        order: CallOrder<'a>,
    ) -> BoxFuture<'a, Result<Verdict, RunError>> {
        let known = self
            .recorded(StepKind::Result, order.id)
            .map(|(_, step)| step.payload_json.clone());
        // Without a result the attempt was interrupted in this call.
        ready(
            known
                .map(Verdict::Known)
                .ok_or(RunError::Store(StoreError::Closed)),
        )
        .boxed()
    }
}
