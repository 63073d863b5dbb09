//! What an owner does with an entry: each act is one commit, one event, and can be undone.

use super::listing::MEMORY_ENTRY;
use super::record::MemoryEntry;
use super::write::{MemoryAuthor, event, hand_pin_on, is_of_alias, require_limit};
use crate::domain::{
    MEMORY_RESTORABLE, MemoryProposal, MemoryScope, MemoryStatus, Readers, Timestamp, Trust,
};
use crate::store::db::{self, Connection, Scope};
use crate::store::sql::{from_json, timestamp, to_json};
use crate::store::{Result, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The last event of an entry that says what was before it.
const LAST_CHANGE: &str = "
    SELECT act, before_json, at FROM memory_events WHERE memory_id = $1 AND before_json IS NOT NULL ORDER BY seq DESC LIMIT 1";
const PUT_MEMORY_STATE: &str = "
    UPDATE memory SET status = $2, readers_json = $3, audience_json = $4, superseded_by = $5, trust = $6 WHERE id = $1";
/// An entry that the owner brings into use counts as used now, and a last day that is over does not count any more.
const REVIVE_MEMORY: &str = "
    UPDATE memory SET last_used_at = $2, valid_to = CASE WHEN valid_to <= $2 THEN NULL ELSE valid_to END WHERE id = $1";
/// Entries that one has replaced, or would; and those that it keeps out of use.
const REPLACED_IDS: &str = "
    SELECT supersedes AS id FROM memory WHERE id = $1 AND supersedes IS NOT NULL
    UNION SELECT replaced_id FROM memory_replaces WHERE memory_id = $1 ORDER BY 1";
const KEPT_OUT_BY: &str = "
    SELECT id FROM memory WHERE superseded_by = $1 AND status IN ('superseded', 'expired') ORDER BY id";
const TRUST_OF_SOURCES: &str = "
    SELECT m.trust FROM memory_sources s JOIN messages m ON m.id = s.message_id WHERE s.memory_id = $1";
const PIN_MEMORY: &str = "UPDATE memory SET pinned = $2 WHERE id = $1 AND pinned <> $2";

/// Act of an owner on an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryAct {
    /// It is used from now on; with `for_everybody`, in every run of the persona.
    Approve {
        for_everybody: bool,
    },
    /// It says this from now on, in the owner's words.
    Edit {
        text: String,
    },
    Reject {
        why: String,
    },
    /// The last change of it is undone.
    Restore,
    /// It does not expire for want of use.
    Pin,
    Unpin,
}

/// What an owner says of entries of a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryVerdict {
    /// Numbers in the digest; empty: all that wait.
    pub places: Vec<u32>,
    pub act: MemoryAct,
    /// Id for the entry that an edit makes.
    pub new_id: String,
}

/// State of an entry that an act changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntryState {
    pub(super) status: MemoryStatus,
    pub(super) readers: Readers,
    pub(super) audience: Option<BTreeSet<String>>,
    pub(super) superseded_by: Option<String>,
    pub(super) trust: Trust,
}

impl EntryState {
    pub(super) fn of(entry: &MemoryEntry) -> Self {
        Self {
            status: entry.status,
            readers: entry.readers.clone(),
            audience: entry.audience.clone(),
            superseded_by: entry.superseded_by.clone(),
            trust: entry.trust,
        }
    }
}

/// State before an event of a run, which names the status alone.
#[derive(Deserialize)]
struct RecordedState {
    status: MemoryStatus,
    readers: Option<Readers>,
    #[serde(default)]
    audience: Option<BTreeSet<String>>,
    superseded_by: Option<String>,
    trust: Option<Trust>,
}

impl Store {
    /// Carries out an act and returns the id of the entry that is in force behind it. `by`: the user.
    ///
    /// Errors: [`StoreError::Missing`]; [`StoreError::WrongState`] where the entry does not allow it.
    pub async fn change_memory(&self, id: &str, act: MemoryAct, by: &str) -> Result<String> {
        let (id, by, clock) = (id.to_owned(), by.to_owned(), self.clock().clone());
        let (now, new_id) = (clock.now(), clock.new_id());
        transact!(self, Scope::persona_of("memory", &id), |conn| carry_out(
            conn,
            (&id, &act, &new_id),
            &by,
            now
        )
        .await)
        .await
    }
}

/// Carries out an act inside the caller's transaction; `new_id` is for the entry that it makes, if it makes one.
pub async fn carry_out(
    conn: &mut Connection,
    (id, act, new_id): (&str, &MemoryAct, &str),
    by: &str,
    now: Timestamp,
) -> Result<String> {
    let row = conn.maybe_row(MEMORY_ENTRY, id).await?;
    let change = OwnerChange {
        entry: row.ok_or_else(|| missing(id))?.to()?,
        by,
        now,
    };
    change.carry_out(conn, (act, new_id)).await
}

fn missing(id: &str) -> StoreError {
    StoreError::missing("memory", id)
}

/// Reports whether an entry in that state counts against the limit of its scope.
fn is_open(status: MemoryStatus) -> bool {
    matches!(status, MemoryStatus::Proposed | MemoryStatus::Active)
}

/// Change of an entry by its owner, inside a transaction.
pub(super) struct OwnerChange<'a> {
    pub(super) entry: MemoryEntry,
    /// User.
    pub(super) by: &'a str,
    pub(super) now: Timestamp,
}

impl OwnerChange<'_> {
    async fn carry_out(
        &self,
        conn: &mut Connection,
        (act, new_id): (&MemoryAct, &str),
    ) -> Result<String> {
        if self.entry.erased_at.is_some() {
            return Err(self.wrong("its text was erased; there is nothing left to change"));
        }
        match (act, self.entry.status) {
            (
                MemoryAct::Approve {
                    for_everybody: true,
                },
                MemoryStatus::Proposed | MemoryStatus::Active,
            ) if !self.is_expiry() => {
                let scope = MemoryScope::Persona;
                let (text, readers) = (self.entry.text.clone(), Readers::Everyone);
                self.rewrite(conn, (new_id, "approved"), (scope, text, readers, None))
                    .await
            }
            (
                MemoryAct::Approve {
                    for_everybody: false,
                },
                MemoryStatus::Proposed,
            ) => self.approve(conn).await,
            (MemoryAct::Approve { .. } | MemoryAct::Edit { .. }, _) if self.is_expiry() => {
                Err(self.wrong(
                    "it proposes to use an entry no longer, and is approved or rejected as it is",
                ))
            }
            (MemoryAct::Approve { .. }, _) => Err(self.wrong(
                "only entries that wait are approved; `attache memory restore` undoes a change",
            )),
            (MemoryAct::Edit { text }, MemoryStatus::Proposed | MemoryStatus::Active) => {
                let (readers, audience) = self.opened();
                let what = (self.entry.scope.clone(), text.clone(), readers, audience);
                self.rewrite(conn, (new_id, "edited"), what).await
            }
            (MemoryAct::Edit { .. }, _) => {
                Err(self.wrong("only entries that wait or are in use are edited"))
            }
            (MemoryAct::Reject { why }, MemoryStatus::Proposed | MemoryStatus::Active) => {
                let state = EntryState {
                    status: MemoryStatus::Rejected,
                    ..EntryState::of(&self.entry)
                };
                self.put(conn, ("rejected", why), &state).await
            }
            (MemoryAct::Reject { .. }, _) => Err(self.wrong("it is not in use")),
            (MemoryAct::Restore, _) => self.restore(conn).await,
            (MemoryAct::Pin, _) => self.pin(conn, ("pinned", true)).await,
            (MemoryAct::Unpin, _) => self.pin(conn, ("unpinned", false)).await,
        }
    }

    fn wrong(&self, hint: &'static str) -> StoreError {
        StoreError::WrongState {
            kind: "memory",
            id: self.entry.id.clone(),
            state: self.entry.status.to_string(),
            hint,
        }
    }

    /// Returns readers and audience with those for whom the owner lets the entry be used: whoever heard it.
    fn opened(&self) -> (Readers, Option<BTreeSet<String>>) {
        let audience = self.entry.audience.clone();
        let people = Readers::Only(audience.clone().unwrap_or_default());
        match self.entry.readers.include(&people, &[]) {
            true => (self.entry.readers.clone(), audience),
            false => (people, audience),
        }
    }

    async fn approve(&self, conn: &mut Connection) -> Result<String> {
        let (readers, audience) = self.opened();
        let state = EntryState {
            status: match self.is_expiry() {
                true => MemoryStatus::Expired,
                false => MemoryStatus::Active,
            },
            readers,
            audience,
            superseded_by: None,
            trust: self.entry.trust.max(self.trust_of_sources(conn).await?),
        };
        self.take_places(conn, &self.entry.id).await?;
        self.put(conn, ("approved", ""), &state).await
    }

    /// Returns the lowest trust of the letters that the entry rests on: with the owner's yes it is worth that, whatever else
    /// its run had read.
    async fn trust_of_sources(&self, conn: &mut Connection) -> Result<Trust> {
        let rows = conn.rows(TRUST_OF_SOURCES, &self.entry.id).await?;
        let trusts = rows.iter().map(|row| Trust::parse_stored(row.get("trust")));
        Ok(trusts.min().unwrap_or(self.entry.trust))
    }

    fn is_expiry(&self) -> bool {
        self.entry.proposes == Some(MemoryProposal::Expire)
    }

    /// Returns the state and the act of entries in whose place this one is.
    fn end_of_replaced(&self) -> (MemoryStatus, &'static str) {
        match self.is_expiry() {
            true => (MemoryStatus::Expired, "expired"),
            false => (MemoryStatus::Superseded, "superseded"),
        }
    }

    /// Takes what the entry replaces out of use, in favour of `new`: the entry, or how its owner has edited it.
    pub(super) async fn take_places(&self, conn: &mut Connection, new: &str) -> Result<()> {
        let (status, act) = self.end_of_replaced();
        for old in self.ids(conn, REPLACED_IDS, &self.entry.id).await? {
            let old = self.other(conn, &old).await?;
            if old.entry.status != MemoryStatus::Active {
                match self.entry.proposes {
                    Some(_) => {
                        return Err(
                            self.wrong("what it would change was changed meanwhile; reject it")
                        );
                    }
                    None => continue,
                }
            }
            let state = EntryState {
                status,
                superseded_by: Some(new.to_owned()),
                ..EntryState::of(&old.entry)
            };
            hand_pin_on(conn, &old.entry.id, new).await?;
            old.put(conn, (act, ""), &state).await?;
        }
        Ok(())
    }

    /// Brings back what an entry keeps out of use, each to its state before, but for this one.
    async fn release(&self, conn: &mut Connection, of: &str) -> Result<()> {
        for id in self.ids(conn, KEPT_OUT_BY, of).await? {
            let last = conn.maybe_row(LAST_CHANGE, &id).await?;
            if let Some(last) = last.filter(|_| id != self.entry.id) {
                let before: RecordedState =
                    from_json(last.get("before_json"), "event of a memory")?;
                self.swap(conn, &id, (before.status, None)).await?;
            }
        }
        Ok(())
    }

    async fn ids(&self, conn: &mut Connection, sql: &'static str, of: &str) -> Result<Vec<String>> {
        conn.all(sql, of).await
    }

    /// Reports whether what the entry replaces is out of use while the entry is in that state.
    fn holds_places(&self, status: MemoryStatus) -> bool {
        match self.is_expiry() {
            true => status == MemoryStatus::Expired,
            false => status == MemoryStatus::Active,
        }
    }

    /// Undoes the last change: of an entry that another one replaced, that one goes out of use; of one that had replaced
    /// another, that one comes back.
    async fn restore(&self, conn: &mut Connection) -> Result<String> {
        if is_of_alias(conn, &self.entry.scope).await? {
            return Err(self.wrong(
                "its address belongs to another one's person; `attache memory alias --remove ADDRESS` comes first",
            ));
        }
        let last = db::query(LAST_CHANGE).bind(&self.entry.id);
        let Some(last) = last.maybe_row(&mut *conn).await? else {
            return match (&self.entry.supersedes, self.entry.status) {
                (Some(old), MemoryStatus::Active) => {
                    let old = self.other(conn, old).await?;
                    Box::pin(old.restore(conn)).await
                }
                _ => Err(self.wrong(
                    "nothing of it was changed; `attache memory reject` takes it out of use",
                )),
            };
        };
        let is_over = last.get::<&str>("act") == "expired"
            && timestamp(&last, "at")?.plus(MEMORY_RESTORABLE) <= self.now;
        if is_over {
            return Err(
                self.wrong("it expired more than 90 days ago, and is not brought back any more")
            );
        }
        let before: RecordedState = from_json(last.get("before_json"), "event of a memory")?;
        let own = || Some(self.entry.id.clone());
        if let Some(new) = &self.entry.superseded_by {
            self.swap(conn, new, (MemoryStatus::Superseded, own()))
                .await?;
            self.release(conn, new).await?;
        }
        let held = self.holds_places(before.status);
        match (held, self.holds_places(self.entry.status)) {
            // What went out of use by itself had released nothing.
            (false, true) if before.status == MemoryStatus::Proposed => {
                self.release(conn, &self.entry.id).await?;
            }
            (true, false) => {
                let (status, _act) = self.end_of_replaced();
                for old in self.ids(conn, REPLACED_IDS, &self.entry.id).await? {
                    self.swap(conn, &old, (status, own())).await?;
                }
            }
            _ => {}
        }
        let state = EntryState {
            status: before.status,
            readers: before.readers.unwrap_or_else(|| self.entry.readers.clone()),
            audience: before.audience.or_else(|| self.entry.audience.clone()),
            superseded_by: before.superseded_by,
            trust: before.trust.unwrap_or(self.entry.trust),
        };
        let restored = self.put(conn, ("restored", ""), &state).await?;
        if is_open(before.status) {
            require_limit(conn, &self.entry.persona, &self.entry.scope).await?;
        }
        Ok(restored)
    }

    /// Returns the other entry of a pair.
    async fn other(&self, conn: &mut Connection, id: &str) -> Result<OwnerChange<'_>> {
        let row = conn.maybe_row(MEMORY_ENTRY, id).await?;
        Ok(OwnerChange {
            entry: row.ok_or_else(|| missing(id))?.to()?,
            by: self.by,
            now: self.now,
        })
    }

    /// Changes the other entry of a pair, unless it is so already.
    async fn swap(
        &self,
        conn: &mut Connection,
        id: &str,
        (status, superseded_by): (MemoryStatus, Option<String>),
    ) -> Result<()> {
        let other = self.other(conn, id).await?;
        if other.entry.erased_at.is_some() || other.entry.status == status {
            return Ok(());
        }
        let state = EntryState {
            status,
            superseded_by,
            ..EntryState::of(&other.entry)
        };
        other.put(conn, ("swapped", ""), &state).await.map(|_id| ())
    }

    /// Pins the entry or takes its pin away; what is so already stays, without an event.
    async fn pin(&self, conn: &mut Connection, (act, is_pinned): (&str, bool)) -> Result<String> {
        let id = &self.entry.id;
        if conn.exec(PIN_MEMORY, (id, is_pinned)).await? > 0 {
            event(conn, id, (act, None), self.author(""), self.now).await?;
        }
        Ok(id.clone())
    }

    pub(super) async fn put(
        &self,
        conn: &mut Connection,
        (act, why): (&str, &str),
        state: &EntryState,
    ) -> Result<String> {
        let id = &self.entry.id;
        conn.exec(
            PUT_MEMORY_STATE,
            (
                id,
                &state.status,
                to_json(&state.readers)?,
                to_json(&state.audience)?,
                &state.superseded_by,
                &state.trust,
            ),
        )
        .await?;
        if state.status == MemoryStatus::Active && self.entry.status != MemoryStatus::Active {
            conn.exec(REVIVE_MEMORY, (id, self.now)).await?;
        }
        let before = to_json(&EntryState::of(&self.entry))?;
        event(conn, id, (act, Some(before)), self.author(why), self.now).await?;
        Ok(id.clone())
    }

    pub(super) fn author<'w>(&'w self, why: &'w str) -> MemoryAuthor<'w> {
        MemoryAuthor {
            actor: "owner",
            who: self.by,
            why,
        }
    }
}
