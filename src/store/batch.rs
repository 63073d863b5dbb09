//! Writes of one kind that wait together and are done by the same statements (decision D-41), where one that is refused
//! leaves nothing behind, so that they need no savepoints of their own.

use super::bulk::ROWS_MAX;
use super::refusal::{Refusal, is_broken};
use super::writer::{Job, Outcome};
use super::{Result, Store, StoreError};
use futures_util::future::BoxFuture;
use sqlx::SqliteConnection;
use std::any::Any;
use tokio::sync::oneshot;

/// A write of such a kind.
pub(super) trait Together: Sized + Send + Sync + 'static {
    type Answer: Send + 'static;

    /// Stores them and gives an answer for each, in their order. One that is answered by an error must have changed
    /// nothing; an error for all undoes all.
    fn store<'a>(conn: &'a mut SqliteConnection, writes: &'a [Self]) -> BoxFuture<'a, Answers<Self>>;
}

pub(super) type Answers<W> = Result<Vec<Result<<W as Together>::Answer>>>;

impl Store {
    /// Stores a write with those of its kind that wait beside it; resolves after it is on disk.
    pub(super) async fn write_together<W: Together>(&self, write: W) -> Result<W::Answer> {
        let (caller, answer) = oneshot::channel();
        let batch = Batch { writes: vec![write], callers: vec![caller], answers: Err(StoreError::Closed) };
        self.submit(Box::new(batch), answer).await?
    }
}

struct Batch<W: Together> {
    writes: Vec<W>,
    callers: Vec<oneshot::Sender<Result<W::Answer>>>,
    answers: Answers<W>,
}

impl<W: Together> Job for Batch<W> {
    fn run<'a>(&'a mut self, conn: &'a mut SqliteConnection) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            self.answers = W::store(conn, &self.writes).await;
            match &self.answers {
                Ok(_) => Outcome::Keep,
                Err(error) if is_broken(error) => Outcome::Broken,
                Err(_) => Outcome::RollBack,
            }
        })
    }

    fn answer(self: Box<Self>, committed: std::result::Result<(), Refusal>) {
        let answers = match (self.answers, committed) {
            (Ok(answers), Ok(())) => answers,
            (_, Err(group)) => self.callers.iter().map(|_| Err(group.clone().into())).collect(),
            (Err(own), Ok(())) => {
                let own = match own {
                    StoreError::Sql(error) => Refusal::from(error),
                    other => Refusal::from(sqlx::Error::Decode(Box::new(other))),
                };
                self.callers.iter().map(|_| Err(own.clone().into())).collect()
            }
        };
        for (caller, answer) in self.callers.into_iter().zip(answers) {
            // A caller that went away does not undo what is committed.
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
