//! The task that has the write connection: groups, their savepoints and their commit.

use super::scope_check;
use super::{BEGIN, BEGIN_ANEW, CHECKPOINT, GROUP_SIZE_MAX};
use crate::store::db::{Connection, QueuedWork, raw_sql};
use crate::store::search::index_merge::SearchIndexMerge;
use crate::store::sqlite::identity::FileIdentity;
use crate::store::sqlite::log::Log;
use crate::store::sqlite::refusal;
use crate::store::writes::commit_signal::CommitSignal;
use crate::store::writes::job::{Job, JobOutcome};
use crate::store::writes::piggyback::PiggybackClaims;
use crate::store::writes::power_cut::PowerCut;
use crate::store::writes::refusal::{CommitRefusal, Halt};
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// End of a group without a commit.
enum GroupEnd {
    Failed(CommitRefusal),
    /// The power is cut: no caller is answered any more.
    PowerCut,
}

impl<E: Into<CommitRefusal>> From<E> for GroupEnd {
    fn from(failure: E) -> Self {
        GroupEnd::Failed(failure.into())
    }
}

/// State of the writer's background task.
pub(super) struct WriterTask {
    pub conn: Connection,
    pub log: Log,
    pub merge: SearchIndexMerge,
    pub epoch: Option<i64>,
    pub identity: Option<FileIdentity>,
    pub power_cut: Arc<Mutex<Option<PowerCut>>>,
    pub checks_scopes: Arc<AtomicBool>,
    pub piggyback: PiggybackClaims,
    pub has_triggers: bool,
    pub closing: CancellationToken,
    pub halted: watch::Sender<Option<Halt>>,
    pub commits: CommitSignal,
    /// Rows that the connection has changed since it was opened.
    pub changes: u64,
}

impl WriterTask {
    pub async fn run(mut self, mut waiting: mpsc::Receiver<Box<dyn Job>>) {
        let (mut arrived, mut group) = (
            Vec::with_capacity(GROUP_SIZE_MAX),
            Vec::with_capacity(GROUP_SIZE_MAX),
        );
        let mut commits = 0;
        loop {
            if let Some(halt) = self.log.failed() {
                return self.stop(halt, &mut waiting);
            }
            let closing = self.closing.clone();
            let came = tokio::select! {
                biased;
                () = closing.cancelled(), if !waiting.is_closed() => {
                    // Writes that were sent before are still done.
                    waiting.close();
                    continue;
                }
                came = timeout(self.log.grace_period(), waiting.recv_many(&mut arrived, GROUP_SIZE_MAX)) => came,
                () = self.log.worked() => continue,
            };
            let Ok(came) = came else {
                self.log.rest();
                continue;
            };
            match came {
                0 if closing.is_cancelled() => return self.leave().await,
                0 => return self.close().await,
                _ => commits += 1,
            }
            arrived.drain(..).for_each(|job| gather(&mut group, 0, job));
            let cut = *self
                .power_cut
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let cut = cut.filter(|cut| cut.strikes(commits));
            let ended = self.commit_group(&mut group, &mut waiting, cut).await;
            let committed = match ended {
                Ok(()) => Ok(()),
                Err(GroupEnd::PowerCut) => return self.close().await,
                Err(GroupEnd::Failed(refusal)) => Err(refusal),
            };
            if committed.is_err() {
                // The transaction may be open or already rolled back; either way the next group
                // starts clean.
                let _already_closed = raw_sql("ROLLBACK").execute(&mut self.conn).await;
            }
            if let Err(CommitRefusal::Halted(halt)) = &committed {
                // Before any caller is answered, so that the next caller gets the same error.
                waiting.close();
                self.halted.send_replace(Some(halt.clone()));
            }
            group
                .drain(..)
                .for_each(|job| job.answer(committed.clone()));
            match committed {
                // Closing the connection would try the disk once more: the last connection copies
                // the log. Nor may the log be copied into a file that has another's name.
                Err(CommitRefusal::Halted(Halt::Failed(_) | Halt::Moved(_))) => {
                    return std::mem::forget(self.conn);
                }
                Err(CommitRefusal::Halted(_)) => return self.close().await,
                _ => {
                    if self.conn.is_sqlite() {
                        self.log.after_group(&mut self.conn).await;
                    }
                }
            }
        }
    }

    async fn commit_group(
        &mut self,
        group: &mut Vec<Box<dyn Job>>,
        waiting: &mut mpsc::Receiver<Box<dyn Job>>,
        cut: Option<PowerCut>,
    ) -> std::result::Result<(), GroupEnd> {
        let ended = self.run_jobs(group, waiting).await;
        if let Err(GroupEnd::Failed(CommitRefusal::Refused(error))) = &ended {
            tracing::error!(%error, writes = group.len(), "the database refused a transaction");
        }
        ended?;
        let writes = self.epoch.map(|_| group.len());
        self.merge.before_commit(&mut self.conn, writes).await?;
        let mark = self.log.before_commit(&mut self.conn).await?;
        if let Some(Err(error)) = self.identity.as_ref().map(FileIdentity::holds) {
            tracing::error!(%error, "the database was moved, replaced or removed; nothing more is stored");
            return Err(Halt::Moved(Arc::new(error)).into());
        }
        crate::crash::crash_point!("W1");
        let committed = match cut {
            None => raw_sql("COMMIT").execute(&mut self.conn).await,
            Some(PowerCut::BrokenDisk(_)) => {
                Err(sqlx::Error::Io(std::io::Error::other("a broken disk")))
            }
            Some(PowerCut::BeforeCommit(_)) => return self.cut_short("ROLLBACK").await,
            Some(PowerCut::AfterCommit(_)) => return self.cut_short("COMMIT").await,
        };
        crate::crash::crash_point!("W2", committed.is_ok());
        if let Err(error) = committed {
            let is_known = refusal::is_harmless(&error);
            tracing::error!(%error, writes = group.len(), stops = !is_known, "the database did not commit");
            return Err(match is_known {
                true => error.into(),
                false => Halt::Failed(Arc::new(error)).into(),
            });
        }
        mark.into_iter().for_each(|mark| self.log.note_mark(mark));
        let changes = self.conn.total_changes();
        if std::mem::replace(&mut self.changes, changes) != changes {
            self.commits.tell();
        }
        Ok(())
    }

    async fn cut_short(&mut self, final_turn: &'static str) -> std::result::Result<(), GroupEnd> {
        let _nobody_hears = raw_sql(final_turn).execute(&mut self.conn).await;
        Err(GroupEnd::PowerCut)
    }

    /// Runs every job of the group in one open transaction. The first needs no savepoint, because
    /// undoing it is undoing everything; each later one has its own.
    async fn run_jobs(
        &mut self,
        group: &mut Vec<Box<dyn Job>>,
        waiting: &mut mpsc::Receiver<Box<dyn Job>>,
    ) -> std::result::Result<(), GroupEnd> {
        if self.checks_scopes.load(Ordering::Relaxed) && !self.has_triggers {
            scope_check::begin(&mut self.conn).await?;
            self.has_triggers = true;
        }
        self.execute(if self.epoch.is_some() {
            BEGIN
        } else {
            "BEGIN IMMEDIATE"
        })
        .await?;
        let mut in_savepoint = false;
        // Absorbed writes count too, so that no caller waits for a group without end.
        let (mut done, mut taken) = (0, group.len());
        while done < group.len() {
            if self.has_triggers {
                let scope = group[done].scope();
                scope_check::enter(&mut self.conn, scope).await?;
            }
            let ran = AssertUnwindSafe(group[done].run(&mut self.conn))
                .catch_unwind()
                .await;
            let outcome = ran.unwrap_or_else(|_bug| {
                // Its caller is answered `Closed`; the writer must outlive it, or nothing would be
                // stored any more.
                tracing::error!("a write panicked and is undone");
                JobOutcome::RollBack
            });
            done += 1;
            // Writes that arrived meanwhile join the group: one fsync for all.
            if done == group.len() {
                while taken < GROUP_SIZE_MAX
                    && let Ok(job) = waiting.try_recv()
                {
                    taken += 1;
                    gather(group, done, job);
                }
            }
            if done == group.len() {
                for work in [QueuedWork::Run, QueuedWork::Mail] {
                    if self.conn.take_queued(work) {
                        group.extend(self.piggyback.take(work));
                    }
                }
            }
            let is_last = done == group.len();
            let between = match (outcome, in_savepoint, is_last) {
                (JobOutcome::Broken, ..) => {
                    tracing::error!(
                        "a statement met an I/O error; the database is not used any more"
                    );
                    let error = std::io::Error::other("a statement met an I/O error");
                    return Err(Halt::Failed(Arc::new(error.into())).into());
                }
                (JobOutcome::Keep, _, true) => continue,
                (JobOutcome::Keep, false, false) => "SAVEPOINT job",
                (JobOutcome::Keep, true, false) => "RELEASE job; SAVEPOINT job",
                (JobOutcome::RollBack, false, true) => "ROLLBACK; BEGIN IMMEDIATE",
                (JobOutcome::RollBack, false, false) if self.epoch.is_some() => BEGIN_ANEW,
                (JobOutcome::RollBack, false, false) => "ROLLBACK; BEGIN IMMEDIATE; SAVEPOINT job",
                (JobOutcome::RollBack, true, true) => "ROLLBACK TO job",
                (JobOutcome::RollBack, true, false) => {
                    "ROLLBACK TO job; RELEASE job; SAVEPOINT job"
                }
            };
            self.execute(between).await?;
            in_savepoint = !is_last;
        }
        Ok(())
    }

    /// Executes a text; the epoch that it returns must be ours.
    async fn execute(&mut self, text: &'static str) -> std::result::Result<(), GroupEnd> {
        let said = raw_sql(text).fetch_optional(&mut self.conn).await?;
        match (said.map(|row| row.get::<i64>("epoch")), self.epoch) {
            (Some(found), Some(ours)) if found != ours => {
                tracing::error!(ours, found, "another engine has taken this workspace over");
                Err(Halt::Fenced { epoch: found }.into())
            }
            _ => Ok(()),
        }
    }

    /// Stops for good, while no caller waits for an answer.
    fn stop(self, halt: Halt, waiting: &mut mpsc::Receiver<Box<dyn Job>>) {
        tracing::error!("the log could not be copied back; the next engine copies all of it");
        waiting.close();
        self.halted.send_replace(Some(halt));
        // As after a commit that failed.
        std::mem::forget(self.conn);
    }

    /// Closes the database in order: no log is left, unless another connection still reads it.
    async fn leave(mut self) {
        self.log.close().await;
        let left = raw_sql(CHECKPOINT).execute(&mut self.conn).await;
        // A reader cannot copy the log, and need not.
        if let (Err(error), Some(_engine)) = (left, self.epoch) {
            tracing::warn!(%error, "the log stays beside the database; the next start reads it");
        }
        self.close().await;
    }

    async fn close(mut self) {
        self.log.close().await;
        if let Err(error) = self.conn.close().await {
            tracing::warn!(%error, "closing the database");
        }
    }
}

/// Adds a write to the group: absorbed by a similar write that has not begun, or as the last.
fn gather(group: &mut Vec<Box<dyn Job>>, begun: usize, mut job: Box<dyn Job>) {
    if job.is_absorbable() {
        for earlier in &mut group[begun..] {
            match earlier.absorb(job) {
                None => return,
                Some(other) => job = other,
            }
        }
    }
    group.push(job);
}
