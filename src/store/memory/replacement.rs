//! Another row in the place of an entry: in the owner's words, or for another correspondent.

use super::change::{EntryState, OwnerChange};
use super::listing::SOURCES_OF_MEMORY;
use super::record::NewMemory;
use super::write::{event, hand_pin_on, insert, require_room};
use crate::domain::{MemoryScope, MemoryStatus, Readers, RunId, Trust};
use crate::store::Result;
use crate::store::db::Connection;
use std::collections::BTreeSet;

impl OwnerChange<'_> {
    /// Writes the entry anew as the owner's word; the old one stays, superseded.
    pub(super) async fn rewrite(
        &self,
        conn: &mut Connection,
        (new_id, act): (&str, &str),
        (scope, text, readers, audience): (MemoryScope, String, Readers, Option<BTreeSet<String>>),
    ) -> Result<String> {
        if scope != self.entry.scope {
            require_room(conn, &self.entry.persona, &scope).await?;
        }
        let new = NewMemory {
            scope,
            text,
            status: MemoryStatus::Active,
            trust: Trust::Owner,
            readers,
            audience,
            ..self.anew(conn).await?
        };
        self.put_in_place(conn, new_id, act, &new, None).await
    }

    /// Returns the entry as another row would have it. It keeps its place: when it was said and confirmed.
    pub(super) async fn anew(&self, conn: &mut Connection) -> Result<NewMemory> {
        let old = &self.entry;
        let sources = conn.all(SOURCES_OF_MEMORY, &old.id).await?;
        Ok(NewMemory {
            scope: old.scope.clone(),
            kind: old.kind,
            text: old.text.clone(),
            status: old.status,
            trust: old.trust,
            readers: old.readers.clone(),
            audience: old.audience.clone(),
            said_by: old.said_by.clone(),
            said_at: old.said_at,
            valid_to: old.valid_to,
            supersedes: Some(old.id.clone()),
            proposes: None,
            replaces: Vec::new(),
            confirmed_at: Some(old.confirmed_at),
            sources,
        })
    }

    /// Puts a new row in the place of the entry, which stays, superseded. `run`: the run whose words it has; `None`: the
    /// owner's.
    pub(super) async fn put_in_place(
        &self,
        conn: &mut Connection,
        new_id: &str,
        act: &str,
        new: &NewMemory,
        run: Option<&RunId>,
    ) -> Result<String> {
        let old = &self.entry;
        insert(conn, (&old.persona, new_id), (new, run), self.now).await?;
        if old.status == MemoryStatus::Proposed && new.status == MemoryStatus::Active {
            self.take_places(conn, new_id).await?;
        }
        hand_pin_on(conn, &old.id, new_id).await?;
        event(conn, new_id, ("added", None), self.author(""), self.now).await?;
        let state = EntryState {
            status: MemoryStatus::Superseded,
            superseded_by: Some(new_id.to_owned()),
            ..EntryState::of(old)
        };
        self.put(conn, (act, ""), &state).await?;
        Ok(new_id.to_owned())
    }
}
