//! Journal of hooks: each program that was asked about a run, and its answer.

use crate::domain::{HookDecision, HookEvent, RunId, Timestamp};
use crate::store::journal::writer::OWN_RUN;
use crate::store::runs::fence::{RunKey, fenced};
use crate::store::{PersonaStore, Result, Store};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Answer of one hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookCall {
    pub event: HookEvent,
    /// Tool that it was asked about; empty for an occasion of the run.
    pub tool: String,
    pub hook: String,
    /// SHA-256 in hex over its command line and the files of the workspace that it names.
    pub hook_sha256: String,
    pub decision: HookDecision,
    pub reason: String,
    pub took_ms: u64,
    pub at: Timestamp,
}

const RECORD_HOOK: &str = "
    INSERT INTO hook_calls (persona_id, run_id, event, tool, hook_id, hook_sha256, decision, reason, took_ms, asked_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
const HOOKS_OF_RUN: &str = "
    SELECT event, tool, hook_id, hook_sha256, decision, reason, took_ms, asked_at FROM hook_calls
    WHERE run_id = $1 ORDER BY seq";

impl PersonaStore {
    /// Records the answer of a hook.
    ///
    /// Errors: [`crate::store::StoreError::WrongState`] when the run is no longer this engine's. An answer about a run that
    /// has ended changes nothing and is not fenced.
    pub async fn record_hook(&self, key: &RunKey, call: HookCall) -> Result<()> {
        let (persona, key, epoch) = (self.persona.clone(), key.clone(), self.store.epoch());
        transact!(self, |conn| {
            if call.event != HookEvent::AfterRun {
                let is_ours = conn
                    .maybe_row(OWN_RUN, (&key.run, epoch, &persona))
                    .await?
                    .is_some();
                fenced(u64::from(is_ours), key.run.as_str())?;
            }

            conn.exec(
                RECORD_HOOK,
                (
                    &persona,
                    &key.run,
                    &call.event,
                    &call.tool,
                    &call.hook,
                    &call.hook_sha256,
                    &call.decision,
                    &call.reason,
                    i64::try_from(call.took_ms).unwrap_or(i64::MAX),
                    call.at,
                ),
            )
            .await?;
            Ok(())
        })
        .await
    }
}

impl Store {
    /// Returns the answers of hooks to a run, in order.
    pub async fn hooks_of_run(&self, run: &RunId) -> Result<Vec<HookCall>> {
        self.all(HOOKS_OF_RUN, run).await
    }
}

from_row!(HookCall {
    event,
    tool,
    hook: "hook_id",
    hook_sha256,
    decision,
    reason,
    took_ms,
    at: "asked_at"
});
