//! The kill switch: a halt stops the runs and the mail of one persona or of all, until it is lifted.
//!
//! It is a row, so it outlives a restart, and every claim asks for it in its own statement
//! (`queue::CLAIM_RUNS`, `deliveries::queue::CLAIM`). Letters are still stored, schedules still fire; both wait. Notices
//! to the owner still go out.
//!
//! Absent on purpose: stopping what is at work (`runs::worker`).

use crate::domain::{PersonaId, Timestamp};
use crate::store::db::Scope;
use crate::store::mail::audit_log::audit;
use crate::store::{Result, Store};
use schemars::JsonSchema;
use serde::Serialize;

pub const HALTS: &str = "SELECT persona_id, reason, halted_at FROM halts ORDER BY persona_id";
/// The first reason stays: a second halt must not hide it.
pub const HALT: &str = "
    INSERT INTO halts (persona_id, reason, halted_at) VALUES ($1, $2, $3) ON CONFLICT (persona_id) DO NOTHING";
pub const LIFT_HALT: &str = "DELETE FROM halts WHERE persona_id = $1";

/// A halt in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PersonaHalt {
    /// `None`: every persona.
    pub persona: Option<PersonaId>,
    /// As typed; may be empty.
    pub reason: String,
    pub halted_at: Timestamp,
}

impl PersonaHalt {
    /// Reports whether the halt stops this persona.
    pub fn stops(&self, persona: &PersonaId) -> bool {
        self.persona.as_ref().is_none_or(|halted| halted == persona)
    }
}

impl Store {
    /// Returns the halts in force, the one of every persona first.
    pub async fn halts(&self) -> Result<Vec<PersonaHalt>> {
        self.all(HALTS, ()).await
    }

    /// Halts a persona, or all; returns `false` when that halt is in force already. From its commit on, nothing is
    /// claimed; an engine stops what it works on within a second.
    pub async fn halt(&self, persona: Option<&PersonaId>, reason: &str) -> Result<bool> {
        let (persona, reason) = (persona.cloned(), reason.to_owned());
        let now = self.clock().now();
        transact!(self, Scope::Engine, |conn| {
            let key = persona.as_ref().map_or("", PersonaId::as_str);
            let insert = conn.exec(HALT, (key, reason, now)).await?;
            let is_new = insert > 0;
            if is_new {
                audit(conn, persona.as_ref(), ("halt", key), "halt:operator", now).await?;
            }
            Ok(is_new)
        })
        .await
    }

    /// Lifts the halt of a persona, or the one of all; returns `false` when there was none. A halt of all does not end when
    /// one persona's is lifted, nor the other way round.
    pub async fn lift_halt(&self, persona: Option<&PersonaId>) -> Result<bool> {
        let (persona, now) = (persona.cloned(), self.clock().now());
        transact!(self, Scope::Engine, |conn| {
            let key = persona.as_ref().map_or("", PersonaId::as_str);
            let lifted = conn.exec(LIFT_HALT, key).await?;
            let was_halted = lifted > 0;
            if was_halted {
                audit(
                    conn,
                    persona.as_ref(),
                    ("halt", key),
                    "resume:operator",
                    now,
                )
                .await?;
            }
            Ok(was_halted)
        })
        .await
    }
}

from_row!(|row| PersonaHalt {
    persona: {
        match row.try_get("persona_id")? {
            "" => None,
            _ => Some(row.try_get("persona_id")?),
        }
    },
    reason,
    halted_at
});
