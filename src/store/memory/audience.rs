//! Memory as one run may read it: of one persona, for the people around the run.

use super::record::MemoryEntry;
use crate::domain::{
    ContactAliases, MemoryCircle, MemoryScope, MemoryStatus, RunId, Timestamp, sha256_hex,
};
use crate::store::db::Row;
use crate::store::sql::json_list;
use crate::store::{PersonaStore, Result};
use crate::text::likeness::says_the_same;

/// Entries that are active or wait for their owner, of some scopes: `[[scope, key], …]`.
const OPEN_MEMORY: &str = "
    SELECT m.* FROM jsonb_each($2) w CROSS JOIN memory m
    WHERE m.persona_id = $1 AND m.scope = w.value ->> 0 AND m.scope_key = w.value ->> 1
      AND m.status IN ('proposed', 'active') AND (m.status = 'active' OR m.proposes IS NULL)
    ORDER BY m.confirmed_at DESC, m.scope, m.number DESC LIMIT $3";
const MEMORY_OF_RUN: &str =
    "SELECT count(*) FROM memory WHERE created_run = $1 AND persona_id = $2";
const MEMORY_REJECTED: &str = "
    SELECT 1 FROM memory WHERE persona_id = $1 AND scope = $2 AND scope_key = $3 AND text_sha256 = $4
      AND status = 'rejected' LIMIT 1";

/// Entries by their ids, which the record of a run names.
const RECORDED_MEMORY: &str = "
    SELECT m.* FROM jsonb_each($2) w CROSS JOIN memory m WHERE m.id = w.value AND m.persona_id = $1 ORDER BY w.key";

/// Most entries that are read; the limits of all scopes together are lower.
const OPEN_MAX: u32 = 500;

/// Memory for the people around a run. There is no other way from a run to an entry.
#[derive(Clone)]
pub struct AudienceMemory {
    persona: PersonaStore,
    circle: MemoryCircle,
}

/// Open entries in the reach of a run, as its write gate needs them.
#[derive(Debug, Clone)]
pub struct ReachableMemory {
    /// Active entries that the run may show, those that were confirmed last first.
    pub shown: Vec<MemoryEntry>,
    /// Correspondent whose entries the run reads and writes; `None`: it answers nobody by mail.
    pub contact: Option<MemoryScope>,
    /// All open ones, to count and to compare with; nothing of them is told.
    open: Vec<MemoryEntry>,
}

impl ReachableMemory {
    /// Returns the number of open entries of a scope.
    pub fn filled(&self, scope: &MemoryScope) -> usize {
        self.open
            .iter()
            .filter(|entry| entry.scope == *scope)
            .count()
    }

    /// Returns the active entry with an id such as `c3`.
    pub fn find(&self, shown_id: &str) -> Option<&MemoryEntry> {
        self.shown.iter().find(|entry| entry.shown_id() == shown_id)
    }

    /// Returns an active entry that says the same, other than `except`.
    pub fn like(&self, text: &str, except: Option<&str>) -> Option<&MemoryEntry> {
        let mut others = self
            .shown
            .iter()
            .filter(|entry| Some(entry.id.as_str()) != except);
        others.find(|entry| says_the_same(&entry.text, text))
    }

    /// Reports whether an entry of the scope that says the same waits for its owner.
    pub fn is_proposed(&self, scope: &MemoryScope, text: &str) -> bool {
        let waits =
            |entry: &&MemoryEntry| entry.status == MemoryStatus::Proposed && entry.scope == *scope;
        let mut waiting = self.open.iter().filter(waits);
        waiting.any(|entry| says_the_same(&entry.text, text))
    }
}

impl PersonaStore {
    /// Returns entries that a past run was shown, as its record names them. A record is no way to others: it names those
    /// that [`AudienceMemory`] gave.
    pub async fn recorded_memory(&self, ids: &[String]) -> Result<Vec<MemoryEntry>> {
        let rows = self
            .rows(RECORDED_MEMORY, (&self.persona, json_list(ids.iter())))
            .await?;
        let aliases = self.store.persons().await?;
        rows.iter().map(|row| readable(row, &aliases)).collect()
    }

    /// Returns the number of entries that a run has written or proposed.
    pub(in crate::store) async fn memory_written_by(&self, run: &RunId) -> Result<u32> {
        self.one(MEMORY_OF_RUN, (run, &self.persona)).await
    }

    /// Binds the persona's memory to the people around a run.
    pub fn memory(&self, circle: &MemoryCircle) -> AudienceMemory {
        AudienceMemory {
            persona: self.clone(),
            circle: circle.clone(),
        }
    }
}

impl AudienceMemory {
    pub fn circle(&self) -> &MemoryCircle {
        &self.circle
    }

    /// Returns what the run may show and count.
    pub async fn reachable(&self, now: Timestamp) -> Result<ReachableMemory> {
        let aliases = self.persona.store.persons().await?;
        let scopes = self.circle.scopes(&aliases);
        let columns: Vec<(&str, &str)> = scopes.iter().map(MemoryScope::columns).collect();
        let rows = self
            .persona
            .store
            .rows(
                OPEN_MEMORY,
                (
                    &self.persona.persona,
                    serde_json::json!(columns).to_string(),
                    OPEN_MAX,
                ),
            )
            .await?;
        let open = rows.iter().map(|row| readable(row, &aliases));
        let open = open.collect::<Result<Vec<_>>>()?;
        let shown = open.iter().filter(|entry| self.may_show(entry, now));
        Ok(ReachableMemory {
            shown: shown.cloned().collect(),
            contact: self.circle.contact(&aliases),
            open,
        })
    }

    /// Returns active entries that the run may show, those that were confirmed last first.
    pub async fn active(&self, now: Timestamp) -> Result<Vec<MemoryEntry>> {
        Ok(self.reachable(now).await?.shown)
    }

    fn may_show(&self, entry: &MemoryEntry, now: Timestamp) -> bool {
        self.circle.is_known()
            && entry.status == MemoryStatus::Active
            && entry.valid_to.is_none_or(|until| until > now)
            && (self.circle.is_within(entry.audience.as_ref())
                || crate::mutants::is_off("G13.contacts"))
    }

    /// Returns the number of entries that a run has written.
    pub async fn written_by(&self, run: &RunId) -> Result<u32> {
        self.persona.memory_written_by(run).await
    }

    /// Reports whether the owner has rejected an entry of this scope with this text.
    pub async fn was_rejected(&self, scope: &MemoryScope, text: &str) -> Result<bool> {
        let (scope, key) = scope.columns();
        let found: Option<Row> = self
            .persona
            .store
            .maybe_row(
                MEMORY_REJECTED,
                (
                    &self.persona.persona,
                    scope,
                    key,
                    sha256_hex(&[text.as_bytes()]),
                ),
            )
            .await?;
        Ok(found.is_some())
    }
}

/// Reads an entry for a run: whoever may know it may know it at all of their addresses.
fn readable(row: &Row, aliases: &ContactAliases) -> Result<MemoryEntry> {
    let entry: MemoryEntry = row.to()?;
    Ok(MemoryEntry {
        readers: aliases.readers_with_others(entry.readers),
        audience: entry.audience.map(|heard| aliases.with_others(heard)),
        ..entry
    })
}
