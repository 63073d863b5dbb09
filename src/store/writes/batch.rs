//! Batches of writes of one kind that wait together and share their statements (decision D-01). A
//! refused write leaves nothing behind, so that the writes need no savepoints of their own.

use crate::store::db::{Connection, Scope};
use crate::store::postgres::refusal::of_write;
use crate::store::sqlite::refusal::is_broken;
use crate::store::writes::job::{Job, JobOutcome};
use crate::store::writes::refusal::CommitRefusal;
use crate::store::{Result, Store, StoreError};
use futures_util::future::BoxFuture;
use std::any::Any;
use tokio::sync::oneshot;

/// Most writes of one batch.
pub const ROWS_MAX: usize = 64;

/// A write that can share its statements with others of its kind.
pub trait Together: Sized + Send + Sync + 'static {
    type Confirmed: Send + 'static;

    /// Rows that the write must have for itself.
    fn scope(&self) -> Scope;

    /// Stores the writes and returns a result for each, in order. A write with an error must have
    /// changed nothing; an error for all undoes all.
    fn store<'a>(conn: &'a mut Connection, writes: &'a [Self]) -> BoxFuture<'a, BatchResult<Self>>;
}

pub type BatchResult<W> = Result<Vec<Result<<W as Together>::Confirmed>>>;

impl Store {
    /// Stores a write together with the waiting writes of its kind; resolves after it is on disk.
    pub(in crate::store) async fn write_together<W: Together>(
        &self,
        write: W,
    ) -> Result<W::Confirmed> {
        let (caller, answer) = oneshot::channel();
        let batch = Batch {
            writes: vec![write],
            callers: vec![caller],
            answers: Err(StoreError::Closed),
        };
        self.submit(Box::new(batch), answer).await?
    }
}

struct Batch<W: Together> {
    writes: Vec<W>,
    callers: Vec<oneshot::Sender<Result<W::Confirmed>>>,
    answers: BatchResult<W>,
}

impl<W: Together> Job for Batch<W> {
    fn run<'a>(&'a mut self, conn: &'a mut Connection) -> BoxFuture<'a, JobOutcome> {
        Box::pin(async move {
            self.answers = W::store(conn, &self.writes).await.map_err(of_write);
            match &self.answers {
                Ok(_) => JobOutcome::Keep,
                Err(error) if is_broken(error) => JobOutcome::Broken,
                Err(_) => JobOutcome::RollBack,
            }
        })
    }

    fn scope(&self) -> Scope {
        let scopes = self.writes.iter().map(W::scope);
        scopes.reduce(Scope::and).unwrap_or(Scope::Rows)
    }

    fn answer(self: Box<Self>, committed: std::result::Result<(), CommitRefusal>) {
        let answers = match (self.answers, committed) {
            (Ok(answers), Ok(())) => answers,
            (_, Err(group)) => self
                .callers
                .iter()
                .map(|_| Err(group.clone().into()))
                .collect(),
            (Err(own), Ok(())) => {
                let own = CommitRefusal::from(sqlx::Error::from(own));
                self.callers
                    .iter()
                    .map(|_| Err(own.clone().into()))
                    .collect()
            }
        };
        for (caller, answer) in self.callers.into_iter().zip(answers) {
            // A caller that disconnected does not undo a commit.
            let _gone = caller.send(answer);
        }
    }

    fn absorb(&mut self, next: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let is_alike = (&*next as &dyn Any).is::<Self>();
        if !is_alike || self.writes.len() >= ROWS_MAX {
            return Some(next);
        }
        if let Ok(next) = (next as Box<dyn Any>).downcast::<Self>() {
            self.writes.extend(next.writes);
            self.callers.extend(next.callers);
        }
        None
    }

    fn is_absorbable(&self) -> bool {
        true
    }
}
