//! What a run that is executed once more reads and does outside of its journal: nothing but what is on the record.

use super::Tape;
use crate::harness::context::{self, Sources};
use crate::harness::desk::RunError;
use crate::harness::gate::{Gate, Verdict};
use crate::harness::ledger::{Assembled, CallOrder, Hands, Order};
use crate::harness::resolvers::record::Seen;
use crate::store::{ClaimedRun, StepKind, StoreError};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use std::sync::Arc;

impl Hands for Arc<Tape> {
    fn assemble<'a>(&'a self, order: Order<'a>) -> BoxFuture<'a, Result<Assembled, RunError>> {
        Box::pin(async move {
            let coming = self.next_call()..self.attempt.calls.end;
            let context = coming.into_iter().find_map(|call| self.record.context_of(call));
            let Some(context) = context else { return Err(StoreError::Closed.into()) };
            let sources = Sources {
                persona: order.persona,
                reads: &context.reads,
                subject: order.subject,
                now: context.now,
            };
            let profile = (order.run.profile.as_str(), order.profile);
            let (allowed, budget) = (order.allowed_tokens, order.budget_tokens);
            match context::assemble(sources, profile, allowed, budget).await {
                Ok((context, report)) => Ok(Assembled { context, report, seen: Seen::default() }),
                Err(error) => {
                    let culprit = error.to_string();
                    Err(self.differs(culprit, "a context", "none").into())
                }
            }
        })
    }

    fn persona_text(&self, _run: &ClaimedRun) -> Result<String, RunError> {
        // For the key of a session, and the session is known.
        Ok(String::new())
    }

    fn foresee<'a>(&'a self, _gate: &'a Gate<'_>, order: CallOrder<'a>) -> BoxFuture<'a, Option<Value>> {
        ready(self.recorded(StepKind::Call, order.id).and_then(|(_, step)| step.begun())).boxed()
    }

    fn call<'a>(
        &'a self,
        _gate: &'a Gate<'_>,
        order: CallOrder<'a>,
    ) -> BoxFuture<'a, Result<Verdict, RunError>> {
        let known = self.recorded(StepKind::Result, order.id).map(|(_, step)| step.payload_json.clone());
        // Without a result the attempt was cut off in the middle of this call.
        ready(known.map(Verdict::Known).ok_or(RunError::Store(StoreError::Closed))).boxed()
    }
}
