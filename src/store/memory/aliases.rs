//! Addresses that the owner has said belong to one person: its entries of memory stand under one of them.
//!
//! Only memory knows of persons. Threads, letters and the policy go by addresses.

use super::change::OwnerChange;
use super::record::NewMemory;
use super::write::require_limit;
use crate::domain::{ContactAliases, MemoryScope, Timestamp};
use crate::store::db::{Connection, Row, Scope};
use crate::store::{Result, Store, StoreError};
use serde::Serialize;

const CONTACT_ALIASES: &str =
    "SELECT address, person, since, said_by FROM contact_aliases ORDER BY person, address";
const ADD_ALIAS: &str = "
    INSERT INTO contact_aliases (address, person, since, said_by) VALUES ($1, $2, $3, $4)
    ON CONFLICT (address) DO UPDATE SET person = excluded.person, since = excluded.since, said_by = excluded.said_by";
/// Aliases of an address that becomes an alias itself go to its person.
const MOVE_ALIASES: &str = "UPDATE contact_aliases SET person = $2 WHERE person = $1";
const PERSON_OF_ADDRESS: &str = "SELECT person FROM contact_aliases WHERE address = $1";
const REMOVE_ALIAS: &str = "DELETE FROM contact_aliases WHERE address = $1";
/// Entries under an address that another one takes over, all or those that `$2` has said; changes that are proposed name
/// entries that are replaced by this, and stay.
const ENTRIES_OF_ADDRESS: &str = "
    SELECT * FROM memory WHERE scope = 'contact' AND scope_key = $1 AND ($2 IS NULL OR said_by = $2) AND proposes IS NULL
      AND status IN ('proposed', 'active', 'rejected') ORDER BY persona_id, number";

/// An address of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContactAlias {
    /// Key of the address.
    pub address: String,
    /// Key of the address under which the person's entries stand.
    pub person: String,
    pub since: Timestamp,
    /// User who said so.
    pub said_by: String,
}

impl Store {
    /// Returns all aliases, those of one person together.
    pub async fn contact_aliases(&self) -> Result<Vec<ContactAlias>> {
        let rows = self.rows(CONTACT_ALIASES, ());
        rows.await?.iter().map(Row::to).collect()
    }

    /// Returns which address belongs to which person.
    pub async fn persons(&self) -> Result<ContactAliases> {
        let aliases = self.contact_aliases().await?.into_iter();
        Ok(aliases.map(|alias| (alias.address, alias.person)).collect())
    }

    /// Has an address belong to the person of another one, and its entries stand there, each as a new row in the place
    /// of the old one. Returns their number. `by`: the user.
    ///
    /// Errors: [`StoreError::WrongState`] where the other address belongs to this one; [`StoreError::MemoryFull`] where the
    /// person would have more entries than one may. Then nothing is changed.
    pub async fn add_contact_alias(&self, address: &str, person: &str, by: &str) -> Result<usize> {
        let (address, named) = (address.to_owned(), person.to_owned());
        let (by, clock) = (by.to_owned(), self.clock().clone());
        transact!(self, Scope::Engine, |conn| {
            let now = clock.now();
            let person = person_of(conn, &named).await?;
            if person == address {
                return Err(StoreError::WrongState {
                    kind: "address",
                    id: named,
                    state: format!("an address of `{address}`"),
                    hint: "`attache memory alias` lists which address stands for which person",
                });
            }

            conn.exec(MOVE_ALIASES, (&address, &person)).await?;

            conn.exec(ADD_ALIAS, (&address, &person, now, &by)).await?;
            let entries = conn
                .rows(ENTRIES_OF_ADDRESS, (&address, None::<&str>))
                .await?;
            for row in &entries {
                let new_id = clock.new_id();
                hand_over(conn, row, &new_id, &person, &by, now).await?;
            }
            Ok(entries.len())
        })
        .await
    }

    /// Has an address stand for itself again; what was said from it goes back to it. Returns the number of these entries;
    /// `None` where it was no alias.
    ///
    /// Errors: [`StoreError::MemoryFull`] where the address has as many entries as one may have.
    pub async fn remove_contact_alias(&self, address: &str, by: &str) -> Result<Option<usize>> {
        let (address, by, clock) = (address.to_owned(), by.to_owned(), self.clock().clone());
        transact!(self, Scope::Engine, |conn| {
            let now = clock.now();
            let person = person_of(conn, &address).await?;
            if conn.exec(REMOVE_ALIAS, &address).await? == 0 {
                return Ok(None);
            }
            let entries = conn.rows(ENTRIES_OF_ADDRESS, (&person, &address)).await?;
            for row in &entries {
                let new_id = clock.new_id();
                hand_over(conn, row, &new_id, &address, &by, now).await?;
            }
            Ok(Some(entries.len()))
        })
        .await
    }
}

/// Returns the address under which the entries of an address stand.
async fn person_of(conn: &mut Connection, address: &str) -> Result<String> {
    let person: Option<String> = conn.maybe(PERSON_OF_ADDRESS, address).await?;
    Ok(person.unwrap_or_else(|| address.to_owned()))
}

/// Puts an entry under another address: another row in its place, with its own words and state.
async fn hand_over(
    conn: &mut Connection,
    row: &Row,
    new_id: &str,
    person: &str,
    by: &str,
    now: Timestamp,
) -> Result<()> {
    let change = OwnerChange {
        entry: row.to()?,
        by,
        now,
    };
    let new = NewMemory {
        scope: MemoryScope::Contact(person.to_owned()),
        ..change.anew(conn).await?
    };
    let run = change.entry.created_run.as_ref();
    let run = run.filter(|_| change.entry.created_by == "model");
    change
        .put_in_place(conn, new_id, "moved", &new, run)
        .await?;
    require_limit(conn, &change.entry.persona, &new.scope).await
}

from_row!(ContactAlias {
    address,
    person,
    since,
    said_by
});
