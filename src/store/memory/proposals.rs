//! Memory as a duty of the owner's reads it: all entries of a persona in use, of whomever they are; and what such a duty has
//! proposed.
//!
//! Only tools that declare `whole_memory` come here, and only duties that name them are offered these. What they make waits for
//! the owner (`change`).

use super::listing::SOURCES_OF_MEMORY;
use super::record::{MemoryEntry, MemorySource};
use crate::domain::{MemoryProposal, MemoryStatus, RunId, Timestamp};
use crate::store::sql::json_list;
use crate::store::{PersonaStore, Result};

const WHOLE_MEMORY: &str = "
    SELECT m.* FROM memory m WHERE m.persona_id = $1 AND m.status = 'active' AND (m.valid_to IS NULL OR m.valid_to > $4)
      AND ($2 IS NULL OR (m.scope, m.scope_key, m.number) > (SELECT l.scope, l.scope_key, l.number FROM memory l WHERE l.id = $2))
    ORDER BY m.scope, m.scope_key, m.number LIMIT $3";
const MEMORY_IN_USE: &str = "
    SELECT m.* FROM jsonb_each($2) w CROSS JOIN memory m
    WHERE m.id = w.value AND m.persona_id = $1 AND m.status = 'active' ORDER BY w.key";
/// Proposals that name an entry of `$1` and wait, or were rejected.
const PROPOSALS_FOR: &str = "
    SELECT p.status, p.proposes, count(*) AS entries FROM jsonb_each($1) w
      CROSS JOIN memory_replaces r CROSS JOIN memory p
    WHERE p.id = r.memory_id AND r.replaced_id = w.value AND p.status IN ('proposed', 'rejected') GROUP BY p.id";

/// All entries of a persona.
#[derive(Clone)]
pub struct WholeMemory {
    persona: PersonaStore,
}

/// Whether a change of entries may be proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalState {
    New,
    /// A proposal for one of them waits.
    Waits,
    /// The owner has rejected it.
    Rejected,
}

impl PersonaStore {
    /// Returns the handle of all entries; for tools that declare it.
    pub fn whole_memory(&self) -> WholeMemory {
        WholeMemory {
            persona: self.clone(),
        }
    }
}

impl WholeMemory {
    /// Returns entries in use, in the order of their scopes and numbers, after the entry with that id.
    pub async fn page(
        &self,
        after: Option<&str>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<MemoryEntry>> {
        self.persona
            .store
            .all(WHOLE_MEMORY, (&self.persona.persona, after, limit, now))
            .await
    }

    /// Returns entries in use with these ids, each with what it rests on.
    pub async fn entries(&self, ids: &[String]) -> Result<Vec<(MemoryEntry, Vec<MemorySource>)>> {
        let (persona, ids) = (&self.persona, json_list(ids.iter()));
        let entries: Vec<MemoryEntry> = persona.all(MEMORY_IN_USE, (&persona.persona, ids)).await?;
        let mut found = Vec::new();
        for entry in entries {
            let sources = persona.all(SOURCES_OF_MEMORY, &entry.id).await?;
            found.push((entry, sources));
        }
        Ok(found)
    }

    /// Returns whether this change of these entries may be proposed.
    pub async fn proposal_state(
        &self,
        proposal: MemoryProposal,
        ids: &[String],
    ) -> Result<ProposalState> {
        let rows = self
            .persona
            .store
            .rows(PROPOSALS_FOR, json_list(ids.iter()))
            .await?;
        let waits = |status: &str| status == MemoryStatus::Proposed.as_str();
        if rows.iter().any(|row| waits(row.get("status"))) {
            return Ok(ProposalState::Waits);
        }
        let is_rejected = rows.iter().any(|row| {
            let all = usize::try_from(row.get::<i64>("entries")).unwrap_or_default();
            row.get::<&str>("proposes") == proposal.as_str() && all == ids.len()
        });
        Ok(match is_rejected {
            true => ProposalState::Rejected,
            false => ProposalState::New,
        })
    }

    /// Returns the number of entries that a run has written or proposed.
    pub async fn written_by(&self, run: &RunId) -> Result<u32> {
        self.persona.memory_written_by(run).await
    }
}
