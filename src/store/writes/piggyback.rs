//! Claims that ride on another transaction: the one that queues a run or a mail makes the claim too, so both are one commit. What
//! was claimed is known to whoever waits for the claim, never to the caller who queued.

use crate::store::Result;
use crate::store::db::QueuedWork;
use crate::store::writes::job::Job;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Claims that wait for a transaction, at most one of each kind.
#[derive(Clone, Default)]
pub struct PiggybackClaims(Arc<Mutex<Places>>);

type Places = [Option<Box<dyn Job>>; 2];

impl PiggybackClaims {
    pub fn place(&self, work: QueuedWork, claim: Box<dyn Job>) {
        self.places()[work as usize] = Some(claim);
    }

    pub fn take(&self, work: QueuedWork) -> Option<Box<dyn Job>> {
        self.places()[work as usize].take()
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim that waits for such a transaction until it is made or dropped.
pub struct PiggybackClaim<T> {
    work: QueuedWork,
    claims: PiggybackClaims,
    answer: oneshot::Receiver<Result<Vec<T>>>,
}

impl<T> PiggybackClaim<T> {
    pub fn new(
        work: QueuedWork,
        claims: PiggybackClaims,
        answer: oneshot::Receiver<Result<Vec<T>>>,
    ) -> Self {
        Self {
            work,
            claims,
            answer,
        }
    }

    /// Resolves when the claim has been made; never without a claim. Dropped before that, it has taken nothing.
    pub async fn made(piggyback: &mut Option<Self>) -> Result<Vec<T>> {
        let Some(claim) = piggyback else {
            return std::future::pending().await;
        };
        let claimed = (&mut claim.answer).await;
        *piggyback = None;
        // It panicked, or the database was closed.
        claimed.unwrap_or_else(|_| Ok(Vec::new()))
    }

    /// Takes the claim back, or waits for what it is claiming just now.
    pub async fn end(piggyback: &mut Option<Self>) -> Result<Vec<T>> {
        match piggyback {
            Some(claim) => {
                // Its sender goes with it, or the answer would be waited for without end.
                drop(claim.claims.take(claim.work));
                Self::made(piggyback).await
            }
            None => Ok(Vec::new()),
        }
    }
}

impl<T> Drop for PiggybackClaim<T> {
    fn drop(&mut self) {
        drop(self.claims.take(self.work));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::db::{Connection, Scope, raw_sql};
    use crate::store::sqlite::log::Log;
    use crate::store::sqlite::writer::GroupWriter;
    use crate::store::writes::commit_signal::CommitSignal;
    use crate::store::writes::job::Write;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use std::time::Duration;
    use tokio::time::timeout;

    /// A writer with a table of work, and a claim that takes all of it.
    struct Place {
        writer: GroupWriter,
        piggyback: Option<PiggybackClaim<String>>,
    }

    impl Place {
        async fn new() -> Self {
            let mut conn = Connection::in_memory().await;
            let tables = "CREATE TABLE work (name TEXT, claimed INTEGER NOT NULL DEFAULT 0);
                CREATE TABLE parents (id INTEGER PRIMARY KEY);
                CREATE TABLE children (parent INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)";
            raw_sql(tables).execute(&mut conn).await.expect("tables");
            let writer =
                GroupWriter::start(conn, None, Log::new(None, None), CommitSignal::default())
                    .expect("a writer");
            Self {
                writer,
                piggyback: None,
            }
        }

        fn piggyback(&mut self, work: QueuedWork) {
            let (reply, answer) = oneshot::channel();
            let claim = job(reply, |conn| {
                let sql = "UPDATE work SET claimed = 1 WHERE claimed = 0 RETURNING name";
                async move { conn.all::<String>(sql, ()).await }.boxed()
            });
            let claims = self.writer.piggyback.clone();
            claims.place(work, claim);
            self.piggyback = Some(PiggybackClaim::new(work, claims, answer));
        }

        /// Writes, and notes queued work of a kind.
        async fn write(&self, sql: &'static str, queued: Option<QueuedWork>) -> Result<()> {
            let (reply, answer) = oneshot::channel();
            let write = job(reply, move |conn| {
                async move {
                    raw_sql(sql).execute(conn).await?;
                    queued
                        .into_iter()
                        .for_each(|queued| conn.note_queued(queued));
                    Ok(())
                }
                .boxed()
            });
            self.writer.submit(write, answer).await?
        }

        async fn made(&mut self) -> Result<Vec<String>> {
            let made = PiggybackClaim::made(&mut self.piggyback);
            timeout(Duration::from_secs(20), made)
                .await
                .expect("a claim without another write")
        }

        async fn claimed(&self) -> i64 {
            let (reply, answer) = oneshot::channel();
            let read = job(reply, |conn| {
                let sql = "SELECT count(*) FROM work WHERE claimed = 1";
                async move { conn.one(sql, ()).await }.boxed()
            });
            let answer = self.writer.submit(read, answer).await;
            answer.expect("an answer").expect("a count")
        }
    }

    fn job<T, F>(reply: oneshot::Sender<Result<T>>, work: F) -> Box<dyn Job>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        Box::new(Write::new(Scope::Rows, work, reply))
    }

    const LETTER: &str = "INSERT INTO work (name) VALUES ('letter')";

    #[tokio::test]
    async fn the_transaction_that_queues_work_claims_it() {
        let mut place = Place::new().await;
        place.piggyback(QueuedWork::Run);
        for other in [None, Some(QueuedWork::Mail)] {
            place.write(LETTER, other).await.expect("stored");
        }
        assert_eq!(place.claimed().await, 0);
        let queued = place.write(LETTER, Some(QueuedWork::Run));
        queued.await.expect("stored");
        let claimed = place.made().await.expect("names");
        assert_eq!(claimed, ["letter"; 3]);
        assert!(place.piggyback.is_none());
    }

    #[tokio::test]
    async fn a_claim_that_was_taken_back_or_dropped_takes_nothing() {
        let mut place = Place::new().await;
        for is_dropped in [false, true] {
            place.piggyback(QueuedWork::Run);
            match is_dropped {
                true => place.piggyback = None,
                false => {
                    let ended = timeout(
                        Duration::from_secs(20),
                        PiggybackClaim::end(&mut place.piggyback),
                    );
                    let nothing = ended.await.expect("no wait without end").expect("nothing");
                    assert!(nothing.is_empty());
                }
            }
            let queued = place.write(LETTER, Some(QueuedWork::Run));
            queued.await.expect("stored");
            assert_eq!(place.claimed().await, 0);
        }
    }

    #[tokio::test]
    async fn a_claim_of_a_transaction_that_was_not_stored_is_an_error_and_undone() {
        let mut place = Place::new().await;
        place.piggyback(QueuedWork::Run);
        let orphan = "INSERT INTO work (name) VALUES ('letter'); INSERT INTO children VALUES (1)";
        let refused = place.write(orphan, Some(QueuedWork::Run)).await;
        assert!(refused.is_err());
        assert!(place.made().await.is_err());
        assert_eq!(place.claimed().await, 0);
    }
}
