//! The nodes, for an operator.

use crate::domain::Timestamp;
use crate::store::db::{Scope, Sql};
use crate::store::postgres::heartbeat::{LeaseHeartbeat, NodesSeen};
use crate::store::postgres::lane::CLOCK_OFF_MAX_MS;
use crate::store::{Result, Store, StoreError};
use serde::Serialize;
use tokio::sync::watch;

const NODES: Sql = Sql::pair(
    "SELECT epoch, host, workspace, pid, version, roles, started_at, NULL AS lease_ms, clock_off_ms, drain_asked_at,
       (SELECT group_concat(l.name, ',') FROM leases l WHERE l.epoch = nodes.epoch) AS leases
     FROM nodes ORDER BY epoch",
    "SELECT epoch, host, workspace, pid, version, roles, started_at, expires_ms - server_ms() AS lease_ms, clock_off_ms, drain_asked_at,
       (SELECT string_agg(l.name, ',' ORDER BY l.name) FROM leases l WHERE l.epoch = nodes.epoch) AS leases
     FROM nodes ORDER BY epoch",
);
const ASK_TO_DRAIN: &str = "
    UPDATE nodes SET drain_asked_at = coalesce(drain_asked_at, $2) WHERE epoch = $1";
const SET_ROLES: &str = "UPDATE nodes SET roles = $2 WHERE epoch = $1";

/// A node of the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeRecord {
    /// Number of its start.
    pub epoch: i64,
    pub host: String,
    /// Absolute path on its host.
    pub workspace: String,
    pub pid: i64,
    /// Version of its program.
    pub version: String,
    /// What it does; empty: everything.
    pub roles: Vec<String>,
    pub started_at: Timestamp,
    /// Time until another node may take its work over, in milliseconds; negative: it may already. `null` on SQLite.
    pub lease_ms: Option<i64>,
    /// Its clock less that of the server, in milliseconds.
    pub clock_off_ms: i64,
    /// Since when it is to end, because an operator asked.
    pub drain_asked_at: Option<Timestamp>,
    /// Work that it does for all nodes.
    pub leases: Vec<String>,
}

impl NodeRecord {
    /// Reports whether its lease lasts.
    pub fn is_alive(&self) -> bool {
        self.lease_ms.is_none_or(|ms| ms > 0)
    }

    /// Reports whether it stores nothing, because its clock differs from the server's.
    pub fn has_wrong_clock(&self) -> bool {
        self.clock_off_ms.abs() > CLOCK_OFF_MAX_MS
    }
}

impl Store {
    /// Reports whether this engine may be one of several on its database.
    pub fn has_nodes(&self) -> bool {
        self.heartbeat().is_some()
    }

    /// Returns what the last heartbeat found of the nodes, and each later one; `None`: this engine is alone.
    pub fn nodes_seen(&self) -> Option<watch::Receiver<NodesSeen>> {
        self.heartbeat().map(LeaseHeartbeat::seen)
    }

    /// Returns how it is with this node: `well`, or the reason why it stores nothing or ends. An engine that is alone is well.
    pub fn node_state(&self) -> &'static str {
        let Some(seen) = self.nodes_seen() else {
            return "well";
        };
        let seen = seen.borrow();
        match (seen.has_wrong_clock, seen.is_heard, seen.is_drained) {
            (true, _, _) => "wrong_clock",
            (_, false, _) => "not_heard",
            (_, _, true) => "ending",
            (false, true, false) => "well",
        }
    }

    /// Returns the nodes, oldest start first. On SQLite: the engine that was started last.
    pub async fn nodes(&self) -> Result<Vec<NodeRecord>> {
        self.all(NODES, ()).await
    }

    /// Returns the nodes whose leases last; none on SQLite, which has no leases.
    pub(in crate::store) async fn living_nodes(&self) -> Result<Vec<NodeRecord>> {
        let mut nodes = self.nodes().await?;
        nodes.retain(|node| node.lease_ms.is_some() && node.is_alive());
        Ok(nodes)
    }

    /// Asks a node to end in order; it does at its next heartbeat.
    ///
    /// Errors: [`StoreError::Missing`].
    pub async fn ask_node_to_drain(&self, epoch: i64) -> Result<()> {
        let now = self.clock().now().to_string();
        let asked = transact!(self, Scope::Rows, |conn| conn
            .exec(ASK_TO_DRAIN, (epoch, now))
            .await);
        match asked.await? {
            0 => Err(StoreError::missing("node", epoch)),
            _ => Ok(()),
        }
    }

    /// Notes what this node does, for display.
    pub async fn note_roles(&self, roles: String) -> Result<()> {
        let epoch = self.epoch();
        transact!(self, Scope::Rows, |conn| {
            conn.exec(SET_ROLES, (epoch, roles)).await?;
            Ok(())
        })
        .await
    }
}

from_row!(|row| NodeRecord {
    epoch,
    host,
    workspace,
    pid,
    version,
    roles: { list(row.try_get("roles")?) },
    started_at,
    lease_ms,
    clock_off_ms,
    drain_asked_at,
    leases: { list(row.try_get("leases")?) }
});

fn list(text: Option<&str>) -> Vec<String> {
    let words = text.unwrap_or_default().split(',');
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}
