//! The heartbeat of a node: it extends the node's lease by the server's clock, and brings back how it is with the other nodes.

use super::away::ServerAway;
use super::hints::QueueHints;
use super::lane::CLOCK_OFF_MAX_MS;
use super::lanes::Lanes;
use super::url::{DatabaseUrl, Session};
use crate::clock::Clock;
use crate::config::environment;
use crate::store::OpenError;
use crate::store::db::{Connection, query};
use crate::store::nodes::join::{END_SESSIONS, LEAVE};
use crate::store::sql::to_ms;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// `$1`: epoch. `$2`: length of the lease in milliseconds. `$3`: this machine's clock less the server's. Gives no row where
/// the node was buried.
static BEAT: &str = "
    UPDATE nodes SET expires_ms = server_ms() + $2, clock_off_ms = $3 WHERE epoch = $1
    RETURNING server_ms() AS server_ms, drain_asked_at IS NOT NULL AS is_drained,
      (SELECT string_agg(n.epoch::TEXT, ',') FROM nodes n) AS present,
      EXISTS (SELECT 1 FROM nodes n WHERE n.expires_ms <= server_ms() AND n.epoch <> $1) AS has_expired";

/// Length of a lease, unless the environment says another: a node that cannot be heard for that long is given up.
const LEASE: Duration = Duration::from_secs(10);
/// Bounds of a length that the environment says.
const LEASE_BOUNDS: (u64, u64) = (2, 60);
/// Number of heartbeats within the length of a lease.
const BEATS_PER_LEASE: u32 = 10;

/// Nodes of the database, as the last heartbeat found them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodesSeen {
    /// Epochs of the nodes that have a row.
    pub present: BTreeSet<i64>,
    /// `true`: the lease of one of them has expired, and not because the server was away.
    pub has_expired: bool,
    /// `true`: an operator asks this node to end.
    pub is_drained: bool,
    /// `true`: the last heartbeat came through.
    pub is_heard: bool,
    /// `true`: this machine's clock is off, and nothing is stored.
    pub has_wrong_clock: bool,
}

/// Returns the length of a lease: the environment may say it, in seconds.
///
/// Errors: [`OpenError::LeaseSeconds`].
pub(super) fn lease() -> Result<Duration, OpenError> {
    lease_of(environment("ATTACHE_NODE_LEASE_SECONDS").as_deref())
}

fn lease_of(said: Option<&str>) -> Result<Duration, OpenError> {
    let Some(said) = said.filter(|said| !said.is_empty()) else {
        return Ok(LEASE);
    };
    let seconds = said.parse().ok();
    let bounded = seconds.filter(|seconds| (LEASE_BOUNDS.0..=LEASE_BOUNDS.1).contains(seconds));
    bounded
        .map(Duration::from_secs)
        .ok_or(OpenError::LeaseSeconds)
}

/// The heartbeat of this process's node.
pub struct LeaseHeartbeat {
    url: DatabaseUrl,
    epoch: i64,
    seen: watch::Receiver<NodesSeen>,
    /// Aborted when this is dropped.
    beating: Mutex<JoinSet<()>>,
}

impl LeaseHeartbeat {
    /// Starts it. Lanes take no write any more when the node has no row.
    pub fn start(
        (url, away): (&DatabaseUrl, ServerAway),
        (epoch, lease): (i64, Duration),
        clock: Arc<dyn Clock>,
        lanes: Lanes,
    ) -> Self {
        let (sender, seen) = watch::channel(NodesSeen::default());
        let node = BeatingNode {
            url: url.clone(),
            away,
            epoch,
            lease,
            clock,
            lanes,
            conn: None,
            beats_in_a_row: 0,
            clock_off_ms: 0,
        };
        let mut beating = JoinSet::new();
        beating.spawn(node.beat_until_gone(sender));
        Self {
            url: url.clone(),
            epoch,
            seen,
            beating: Mutex::new(beating),
        }
    }

    /// Returns what the last heartbeat found, and each later one.
    pub fn seen(&self) -> watch::Receiver<NodesSeen> {
        self.seen.clone()
    }

    /// Returns the hints that other nodes send, from the connection on that their reader makes.
    pub fn hints(&self) -> QueueHints {
        QueueHints::new(self.url.clone(), self.epoch)
    }

    /// Stops it and removes the row of the node, after its last write.
    pub async fn leave(&self) {
        let mut beating =
            std::mem::take(&mut *self.beating.lock().unwrap_or_else(PoisonError::into_inner));
        beating.shutdown().await;
        let left = async {
            let mut conn = self.url.connect(Session::WriteAsNode(self.epoch)).await?;
            query(LEAVE).bind(self.epoch).exec(&mut conn).await?;
            conn.close().await
        };
        if let Err(error) = left.await {
            tracing::debug!(%error, "this node did not leave; its lease expires");
        }
    }
}

struct BeatingNode {
    url: DatabaseUrl,
    away: ServerAway,
    epoch: i64,
    lease: Duration,
    clock: Arc<dyn Clock>,
    lanes: Lanes,
    conn: Option<Connection>,
    /// Heartbeats since the last that did not come through. Others are buried only after a lease's length of them: where the
    /// server was away, no node could extend its lease.
    beats_in_a_row: u32,
    clock_off_ms: i64,
}

impl BeatingNode {
    async fn beat_until_gone(mut self, seen: watch::Sender<NodesSeen>) {
        let pause = self.lease / BEATS_PER_LEASE;
        loop {
            // A server that hangs is not waited for: another connection may be answered.
            let beat = tokio::time::timeout(self.lease / 3, self.beat()).await;
            match beat {
                Ok(Ok(Some(found))) => {
                    self.away.answers();
                    seen.send_if_modified(|before| {
                        let is_new = *before != found;
                        *before = found;
                        is_new
                    });
                }
                Ok(Ok(None)) => {
                    tracing::error!(
                        epoch = self.epoch,
                        "the lease of this node expired, and another node has taken its work over"
                    );
                    return self.lanes.bury();
                }
                Ok(Err(error)) => {
                    (self.conn, self.beats_in_a_row) = (None, 0);
                    self.away.is_silent(self.clock.now());
                    seen.send_modify(|found| found.is_heard = false);
                    tracing::warn!(%error, "the lease of this node is not extended; it is tried again");
                }
                Err(_elapsed) => {
                    (self.conn, self.beats_in_a_row) = (None, 0);
                    self.away.is_silent(self.clock.now());
                    seen.send_modify(|found| found.is_heard = false);
                    tracing::warn!(
                        "the database does not answer, and the lease of this node is not extended"
                    );
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Extends the lease. `None`: the node has no row.
    async fn beat(&mut self) -> Result<Option<NodesSeen>, sqlx::Error> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.url.connect(Session::WriteAsNode(self.epoch)).await?,
        };
        let beat = query(BEAT).bind((self.epoch, to_ms(self.lease), self.clock_off_ms));
        let asked_at = self.clock.now();
        let Some(row) = beat.maybe_row(&mut conn).await? else {
            return Ok(None);
        };
        if self.clock.is_of_machine() {
            self.compare_clocks(asked_at.as_millis(), row.try_get("server_ms")?);
        }
        self.beats_in_a_row += 1;
        let has_expired: bool = row.try_get("has_expired")?;
        let has_expired = has_expired && self.beats_in_a_row > BEATS_PER_LEASE;
        if has_expired {
            // Again at each heartbeat: burial may wait for locks of a node that expires a moment later.
            let end = query(END_SESSIONS).bind(None::<&str>);
            end.bind(true).exec(&mut conn).await?;
        }
        self.conn = Some(conn);
        let present: String = row.try_get("present")?;
        Ok(Some(NodesSeen {
            present: present
                .split(',')
                .filter_map(|epoch| epoch.parse().ok())
                .collect(),
            has_expired,
            is_drained: row.try_get("is_drained")?,
            is_heard: true,
            has_wrong_clock: self.clock_off_ms.abs() > CLOCK_OFF_MAX_MS,
        }))
    }

    /// Notes the difference that the server's clock shows: it was read between the question and the answer.
    fn compare_clocks(&mut self, asked_ms: i64, server_ms: i64) {
        let answered_ms = self.clock.now().as_millis();
        let off_ms = match server_ms {
            early if early < asked_ms => asked_ms - early,
            late if late > answered_ms => answered_ms - late,
            _ => 0,
        };
        let (was_off, is_off) = (
            self.clock_off_ms.abs() > CLOCK_OFF_MAX_MS,
            off_ms.abs() > CLOCK_OFF_MAX_MS,
        );
        if is_off && !was_off {
            tracing::error!(
                off_ms,
                "the clock of this machine is not that of the database server; nothing is taken or stored until it is set"
            );
        } else if was_off && !is_off {
            tracing::info!("the clock of this machine is that of the database server again");
        }
        self.clock_off_ms = off_ms;
        self.lanes.note_clock_off(off_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_has_a_length_within_its_bounds_or_the_node_does_not_start() {
        for (said, seconds) in [(None, 10), (Some(""), 10), (Some("2"), 2), (Some("60"), 60)] {
            let lease = lease_of(said).expect("a length");
            assert_eq!(lease, Duration::from_secs(seconds));
        }
        for said in ["1", "61", "ten", "-5", "5s"] {
            assert!(
                matches!(lease_of(Some(said)), Err(OpenError::LeaseSeconds)),
                "{said}"
            );
        }
    }
}
