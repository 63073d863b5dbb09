//! Work that one node does for all: a mailbox, the clock of the responsibilities, retention.

use crate::store::db::Scope;
use crate::store::{Result, Store};

/// Gives a row where the node has the lease: nobody had it, or a node that is gone, or this one.
const TAKE_LEASE: &str = "
    INSERT INTO leases (name, epoch, since) VALUES ($1, $2, $3)
      ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, since = excluded.since
      WHERE leases.epoch NOT IN (SELECT n.epoch FROM nodes n) OR leases.epoch = excluded.epoch
    RETURNING epoch";
const RELEASE_LEASE: &str = "DELETE FROM leases WHERE name = $1 AND epoch = $2";
/// Gives 1 where a look without a write says that another node has it.
const IS_LEASED_ELSEWHERE: &str = "
    SELECT EXISTS (SELECT 1 FROM leases l JOIN nodes n ON n.epoch = l.epoch WHERE l.name = $1 AND l.epoch <> $2)";

impl Store {
    /// Reports whether this node does the named work from now on. It does until it releases the lease or is
    /// gone: a node that is gone can write nothing more, so nobody else's work meets its own.
    ///
    /// On SQLite there is one engine, which does all.
    pub async fn take_lease(&self, name: &str) -> Result<bool> {
        if !self.has_nodes() {
            return Ok(true);
        }
        let elsewhere: bool = self.one(IS_LEASED_ELSEWHERE, (name, self.epoch())).await?;
        if elsewhere {
            return Ok(false);
        }
        let (name, epoch) = (name.to_owned(), self.epoch());
        let now = self.clock().now().to_string();
        transact!(self, Scope::Rows, |conn| Ok(conn
            .maybe_row(TAKE_LEASE, (name, epoch, now))
            .await?
            .is_some()))
        .await
    }

    /// Gives up the named work, so that another node may do it.
    pub async fn release_lease(&self, name: &str) -> Result<()> {
        if !self.has_nodes() {
            return Ok(());
        }
        let (name, epoch) = (name.to_owned(), self.epoch());
        transact!(self, Scope::Rows, |conn| {
            conn.exec(RELEASE_LEASE, (name, epoch)).await?;
            Ok(())
        })
        .await
    }
}
