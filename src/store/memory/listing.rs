//! Memory as its owner sees it, across personas and people. No run comes here: runs have
//! [`super::audience::AudienceMemory`].

use super::record::{MemoryEntry, MemorySource};
use crate::domain::{MemoryStatus, MessageId, PersonaId, Timestamp};
use crate::store::list_page::known;
use crate::store::sql::json_list;
use crate::store::{Result, Store, StoreError};
use schemars::JsonSchema;
use serde::Serialize;

const MEMORY_LIST: &str = "
    SELECT * FROM memory WHERE ($1 IS NULL OR persona_id = $1) AND ($2 IS NULL OR status = $2)
      AND ($3 IS NULL OR (scope = 'contact' AND scope_key IN (SELECT value FROM jsonb_each($3))))
      AND ($5 IS NULL OR (created_at, number, id) < ($5, $6, $7))
    ORDER BY created_at DESC, number DESC, id DESC LIMIT $4";
const PLACE_OF_ENTRY: &str = "SELECT created_at, number FROM memory WHERE id = $1";
const MEMORY_OF_MESSAGE: &str = "
    SELECT DISTINCT m.id FROM memory_sources s CROSS JOIN memory m
    WHERE m.id = s.memory_id AND s.message_id = $1 AND ($2 IS NULL OR m.persona_id = $2) ORDER BY m.id";
const MEMORY_SINCE: &str = "
    SELECT id FROM memory WHERE created_at >= $1 AND ($2 IS NULL OR persona_id = $2) ORDER BY id";
pub const MEMORY_ENTRY: &str = "SELECT * FROM memory WHERE id = $1";
const MEMORY_ENDING: &str = "SELECT id FROM memory WHERE lower(substr(id, length(id) - length($1) + 1)) = lower($1) ORDER BY id DESC LIMIT $2";
pub const SOURCES_OF_MEMORY: &str = "
    SELECT message_id, part, quote_start, quote_end, quote FROM memory_sources WHERE memory_id = $1
    ORDER BY message_id, quote_start";
const REPLACED_BY_PROPOSAL: &str =
    "SELECT replaced_id FROM memory_replaces WHERE memory_id = $1 ORDER BY replaced_id";
const EVENTS_OF_MEMORY: &str = "
    SELECT act, actor, who, why, before_json, at FROM memory_events WHERE memory_id = $1 ORDER BY seq";

/// Selection of entries.
#[derive(Debug, Clone, Default)]
pub struct MemoryFilter {
    pub persona: Option<PersonaId>,
    pub status: Option<MemoryStatus>,
    /// Key of a correspondent's address; their other addresses count, too.
    pub contact: Option<String>,
    /// Only entries behind this one.
    pub after: Option<String>,
    pub limit: u32,
}

/// One change of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemoryEvent {
    pub act: String,
    /// `model`, `owner` or `engine`.
    pub actor: String,
    /// Run or user.
    pub who: String,
    pub why: String,
    pub at: Timestamp,
}

/// An entry with what it rests on and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemoryDossier {
    #[serde(flatten)]
    pub entry: MemoryEntry,
    pub sources: Vec<MemorySource>,
    /// Ids of the entries that it replaces, or would.
    pub replaces: Vec<String>,
    pub events: Vec<MemoryEvent>,
}

impl Store {
    /// Returns entries, the newest first.
    pub async fn memory_entries(&self, filter: &MemoryFilter) -> Result<Vec<MemoryEntry>> {
        let contact = match &filter.contact {
            Some(address) => Some(self.persons().await?.with_others([address.clone()].into())),
            None => None,
        };
        let after = filter.after.as_deref();
        let place = known(after, self.maybe_row(PLACE_OF_ENTRY, after).await?)?;
        let place = place.map(|row| (row.get::<String>("created_at"), row.get::<i64>("number")));
        let (created_at, number) = place.unzip();
        self.all(
            MEMORY_LIST,
            (
                &filter.persona,
                filter.status,
                contact.map(|addresses| json_list(addresses.iter())),
                filter.limit,
                created_at,
                number,
                after,
            ),
        )
        .await
    }

    /// Returns the ids of entries that rest on a letter.
    pub async fn memory_of_message(
        &self,
        message: &MessageId,
        persona: Option<&PersonaId>,
    ) -> Result<Vec<String>> {
        self.all(MEMORY_OF_MESSAGE, (message, persona)).await
    }

    /// Returns the ids of entries that were written since an instant.
    pub async fn memory_since(
        &self,
        since: Timestamp,
        persona: Option<&PersonaId>,
    ) -> Result<Vec<String>> {
        self.all(MEMORY_SINCE, (since, persona)).await
    }

    /// Returns an entry with its sources and changes. Errors: [`StoreError::Missing`].
    pub async fn memory_dossier(&self, id: &str) -> Result<MemoryDossier> {
        let entry = self.maybe(MEMORY_ENTRY, id).await?;
        Ok(MemoryDossier {
            entry: entry.ok_or_else(|| StoreError::missing("memory", id))?,
            sources: self.all(SOURCES_OF_MEMORY, id).await?,
            replaces: self.all(REPLACED_BY_PROPOSAL, id).await?,
            events: self.all(EVENTS_OF_MEMORY, id).await?,
        })
    }

    /// Returns the id that ends like this. Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_memory(&self, piece: &str) -> Result<String> {
        let mut found: Vec<String> = self.all(MEMORY_ENDING, (piece, 2)).await?;
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(StoreError::missing("memory", piece)),
            _ => Err(StoreError::Ambiguous {
                kind: "memory",
                piece: piece.to_owned(),
                found,
            }),
        }
    }
}

from_row!(MemorySource {
    message: "message_id",
    part,
    start: "quote_start",
    end: "quote_end",
    quote
});

from_row!(MemoryEvent {
    act,
    actor,
    who,
    why,
    at
});
