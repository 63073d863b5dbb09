//! A connection that executes writes, one transaction each.

use super::lock::{BEGIN_FUNCTION, Locks, NodeLease};
use super::refusal::{is_lost, is_passing, is_unanswered};
use super::url::{DatabaseUrl, Session};
use crate::store::db::{Connection, Scope, unanswered};
use crate::store::search::index_words::IndexWords;
use crate::store::writes::job::{Job, JobOutcome};
use crate::store::writes::power_cut::PowerCut;
use crate::store::writes::refusal::{CommitRefusal, Halt};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// Greatest difference of clocks with which instants of several machines are still in order.
pub const CLOCK_OFF_MAX_MS: i64 = 2000;
/// Pause between two tries.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// A connection that executes writes; it is made when there is one, and anew when it is lost.
pub(super) struct Lane {
    url: DatabaseUrl,
    session: Session,
    settings: LaneSettings,
    conn: Option<Connection>,
    words: IndexWords,
}

/// Settings that all lanes of a process have.
#[derive(Clone)]
pub(super) struct LaneSettings {
    /// Epoch of the node, whose row must be in the database; `None` for a command beside an engine.
    pub node: Option<i64>,
    /// `false` in controls of tests.
    pub takes_locks: Arc<AtomicBool>,
    /// This machine's clock less that of the server, in milliseconds, at the last heartbeat.
    pub clock_off_ms: Arc<AtomicI64>,
}

/// End of a write's transaction.
pub(super) enum LaneEnd {
    /// The next write may begin.
    Ready,
    /// No write may begin any more.
    Halted(Halt),
    /// The server is away, and those who wait are told now: each would wait as long again.
    Away(CommitRefusal),
    /// The power is cut: no caller is answered any more.
    PowerCut,
}

impl Lane {
    pub fn new((url, session): (DatabaseUrl, Session), settings: LaneSettings) -> Self {
        Self {
            url,
            session,
            settings,
            conn: None,
            words: IndexWords::default(),
        }
    }

    /// Executes a write, and answers its caller.
    pub async fn execute(&mut self, mut job: Box<dyn Job>, cut: Option<PowerCut>) -> LaneEnd {
        let mut conn = match self.begin(&job.scope()).await {
            Ok(conn) => conn,
            Err(refusal) => {
                let is_away = matches!(&refusal, CommitRefusal::Refused(error) if is_lost(error));
                let end = answer(job, Err(refusal.clone()));
                return if is_away { LaneEnd::Away(refusal) } else { end };
            }
        };
        let ran = AssertUnwindSafe(job.run(&mut conn)).catch_unwind().await;
        let outcome = ran.unwrap_or_else(|_bug| {
            // Its caller is answered `Closed`; the lane must outlive it, or nothing would be stored
            // any more.
            tracing::error!("a write panicked and is undone");
            JobOutcome::RollBack
        });
        if outcome != JobOutcome::Keep {
            let undone = statement(&mut conn, "ROLLBACK").await;
            let end = answer(job, Ok(()));
            return match undone {
                Ok(()) => {
                    self.conn = Some(conn);
                    end
                }
                Err(error) if is_unanswered(&error) => LaneEnd::Away(error.into()),
                Err(_) => end,
            };
        }
        // The words by which a letter is found are stored with it.
        if let Err(error) = self.words.before_commit(&mut conn).await {
            tracing::error!(%error, "the words of a letter cannot be stored; its write is undone");
            return answer(job, Err(error.into()));
        }
        match cut {
            None => {}
            Some(PowerCut::BeforeCommit(_)) => return cut_short(&mut conn, "ROLLBACK").await,
            Some(PowerCut::AfterCommit(_)) => return cut_short(&mut conn, "COMMIT").await,
            Some(PowerCut::BrokenDisk(_)) => {
                let error = std::io::Error::other("a broken disk");
                let halt = Halt::Failed(Arc::new(error.into()));
                return answer(job, Err(halt.into()));
            }
        }
        crate::crash::crash_point!("W1");
        let committed = statement(&mut conn, "COMMIT").await;
        crate::crash::crash_point!("W2", committed.is_ok());
        match committed {
            Ok(()) => {
                self.conn = Some(conn);
                answer(job, Ok(()))
            }
            Err(error) if is_lost(&error) => {
                tracing::error!(%error, "the database did not answer a commit, and whether it is stored is unknown");
                let error = Arc::new(error);
                answer(job, Err(CommitRefusal::Unanswered(error.clone())));
                match is_unanswered(&error) {
                    true => LaneEnd::Away(CommitRefusal::Refused(error)),
                    false => LaneEnd::Ready,
                }
            }
            Err(error) => {
                tracing::error!(%error, "the database refused a transaction");
                answer(job, Err(error.into()))
            }
        }
    }

    /// Returns a connection in a transaction that has its locks. A server that is away is waited for as long as for an answer;
    /// then the caller is told to try again.
    async fn begin(&mut self, scope: &Scope) -> Result<Connection, CommitRefusal> {
        let mut last = None;
        let begun = timeout(self.url.write_max(), self.begin_again(scope, &mut last)).await;
        let refusal = match begun {
            Ok(Ok(conn)) => return Ok(conn),
            Ok(Err(refusal)) => refusal,
            Err(_elapsed) => last.unwrap_or_else(|| unanswered(self.url.write_max()).into()),
        };
        if let CommitRefusal::Refused(error) = &refusal {
            tracing::error!(%error, "the database does not begin a transaction");
        }
        Err(refusal)
    }

    async fn begin_again(
        &mut self,
        scope: &Scope,
        last: &mut Option<CommitRefusal>,
    ) -> Result<Connection, CommitRefusal> {
        loop {
            let refusal = match self.try_begin(scope).await {
                Ok(conn) => return Ok(conn),
                Err(refusal) => refusal,
            };
            match &refusal {
                CommitRefusal::Refused(error) if is_passing(error) => {
                    tracing::warn!(%error, "the database is away; it is tried again");
                }
                CommitRefusal::NoLease => {
                    tracing::debug!(
                        "the lease of this node has expired; a heartbeat is waited for"
                    );
                }
                _ => return Err(refusal),
            }
            *last = Some(refusal);
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }

    async fn try_begin(&mut self, scope: &Scope) -> Result<Connection, CommitRefusal> {
        let off_ms = self.settings.clock_off_ms.load(Ordering::Relaxed);
        if off_ms.abs() > CLOCK_OFF_MAX_MS {
            return Err(CommitRefusal::ClockOff(off_ms));
        }
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.url.connect(self.session).await?,
        };
        if let (Connection::Postgres(conn), true) = (&mut conn, self.makes_functions()) {
            conn.make_functions(&BEGIN_FUNCTION).await?;
        }
        let locks = match self.settings.takes_locks.load(Ordering::Relaxed) {
            true => Locks::of(scope, &mut conn).await?,
            false => Locks::none(),
        };
        match locks.begin(&mut conn, self.settings.node).await? {
            NodeLease::Held => Ok(conn),
            NodeLease::Expired => {
                statement(&mut conn, "ROLLBACK").await?;
                self.conn = Some(conn);
                Err(CommitRefusal::NoLease)
            }
            NodeLease::Gone => Err(Halt::Buried.into()),
        }
    }

    /// Reports whether its connection may write.
    fn makes_functions(&self) -> bool {
        !matches!(self.session, Session::Read | Session::ReadAll)
    }

    /// Closes the connection in order.
    pub async fn close(self) {
        if let Some(conn) = self.conn
            && let Err(error) = conn.close().await
        {
            tracing::warn!(%error, "closing the database");
        }
    }
}

async fn statement(conn: &mut Connection, text: &'static str) -> Result<(), sqlx::Error> {
    crate::store::db::raw_sql(text).execute(conn).await
}

async fn cut_short(conn: &mut Connection, last: &'static str) -> LaneEnd {
    let _nobody_hears = statement(conn, last).await;
    LaneEnd::PowerCut
}

fn answer(job: Box<dyn Job>, committed: Result<(), CommitRefusal>) -> LaneEnd {
    let end = match &committed {
        Err(CommitRefusal::Halted(halt)) => LaneEnd::Halted(halt.clone()),
        _ => LaneEnd::Ready,
    };
    job.answer(committed);
    end
}
