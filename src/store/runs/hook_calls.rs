//! Journal of hooks: each program that was asked about a run, and its answer.

use crate::domain::{HookDecision, HookEvent, RunId, Timestamp};
use crate::store::db::{self, Row};
use crate::store::journal::writer::OWN_RUN;
use crate::store::runs::fence::{RunKey, fenced};
use crate::store::sql::instant;
use crate::store::{PersonaStore, Result, Store, StoreError};
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

pub(in crate::store) const RECORD_HOOK: &str = "
    INSERT INTO hook_calls (persona_id, run_id, event, tool, hook_id, hook_sha256, decision, reason, took_ms, asked_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
pub(in crate::store) const HOOKS_OF_RUN: &str = "
    SELECT event, tool, hook_id, hook_sha256, decision, reason, took_ms, asked_at FROM hook_calls
    WHERE run_id = $1 ORDER BY seq";

impl PersonaStore {
    /// Records the answer of a hook.
    ///
    /// Errors: [`crate::store::StoreError::WrongState`] when the run is no longer this engine's. An answer about a run that
    /// has ended changes nothing and is not fenced.
    pub async fn record_hook(&self, key: &RunKey, call: HookCall) -> Result<()> {
        let (persona, key, epoch) = (self.persona.clone(), key.clone(), self.store.epoch());
        self.write(move |conn| {
            Box::pin(async move {
                if call.event != HookEvent::AfterRun {
                    let own = db::query(OWN_RUN)
                        .bind(key.run.as_str())
                        .bind(epoch)
                        .bind(persona.as_str());
                    let is_ours = own.fetch_optional(&mut *conn).await?.is_some();
                    fenced(u64::from(is_ours), key.run.as_str())?;
                }
                let row = db::query(RECORD_HOOK)
                    .bind(persona.as_str())
                    .bind(key.run.as_str())
                    .bind(call.event.as_str())
                    .bind(&call.tool)
                    .bind(&call.hook)
                    .bind(&call.hook_sha256)
                    .bind(call.decision.as_str())
                    .bind(&call.reason)
                    .bind(i64::try_from(call.took_ms).unwrap_or(i64::MAX))
                    .bind(call.at.to_string());
                row.execute(conn).await?;
                Ok(())
            })
        })
        .await
    }
}

impl Store {
    /// Returns the answers of hooks to a run, in order.
    pub async fn hooks_of_run(&self, run: &RunId) -> Result<Vec<HookCall>> {
        let rows = db::query(HOOKS_OF_RUN)
            .bind(run.as_str())
            .fetch_all(self.readers())
            .await?;
        rows.iter().map(hook_call).collect()
    }
}

fn hook_call(row: &Row) -> Result<HookCall> {
    let unreadable = || StoreError::Unreadable { what: "hook call" };
    Ok(HookCall {
        event: HookEvent::parse(row.get("event")).ok_or_else(unreadable)?,
        tool: row.get("tool"),
        hook: row.get("hook_id"),
        hook_sha256: row.get("hook_sha256"),
        decision: HookDecision::parse(row.get("decision")).ok_or_else(unreadable)?,
        reason: row.get("reason"),
        took_ms: row.get::<i64>("took_ms").unsigned_abs(),
        at: instant(row.get("asked_at"))?,
    })
}
