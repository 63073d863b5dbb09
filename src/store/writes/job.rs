//! A write of the store, as the writer's queue holds it.

use crate::store::db::{Connection, Scope};
use crate::store::postgres::refusal::of_write;
use crate::store::sqlite::refusal::is_broken;
use crate::store::writes::refusal::CommitRefusal;
use crate::store::{Result, StoreError};
use futures_util::future::BoxFuture;
use std::any::Any;
use tokio::sync::oneshot;

/// A write, as a closure over the connection inside the group's transaction. It must not await
/// anything but statements.
pub trait Job: Any + Send {
    fn run<'a>(&'a mut self, conn: &'a mut Connection) -> BoxFuture<'a, JobOutcome>;
    /// Rows that the write must have for itself.
    fn scope(&self) -> Scope;
    /// Called once, after the group's commit succeeded or failed.
    fn answer(self: Box<Self>, committed: std::result::Result<(), CommitRefusal>);
    /// Absorbs a later write that can be done by the same statements; returns any other.
    fn absorb(&mut self, next: Box<dyn Job>) -> Option<Box<dyn Job>> {
        Some(next)
    }
    /// Reports whether another write may absorb this one.
    fn is_absorbable(&self) -> bool {
        false
    }
}

/// Result of a job for its savepoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    Keep,
    RollBack,
    /// A statement failed with an I/O error of the disk: no further write may be made.
    Broken,
}

pub struct Write<T, F> {
    scope: Scope,
    work: Option<F>,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Write<T, F> {
    pub fn new(scope: Scope, work: F, reply: oneshot::Sender<Result<T>>) -> Self {
        Self {
            scope,
            work: Some(work),
            result: None,
            reply,
        }
    }
}

impl<T, F> Job for Write<T, F>
where
    T: Send + 'static,
    F: for<'c> FnOnce(&'c mut Connection) -> BoxFuture<'c, Result<T>> + Send + 'static,
{
    fn run<'a>(&'a mut self, conn: &'a mut Connection) -> BoxFuture<'a, JobOutcome> {
        Box::pin(async move {
            let Some(work) = self.work.take() else {
                return JobOutcome::RollBack;
            };
            let result = work(conn).await.map_err(of_write);
            let outcome = match &result {
                Ok(_) => JobOutcome::Keep,
                Err(error) if is_broken(error) => JobOutcome::Broken,
                Err(_) => JobOutcome::RollBack,
            };
            self.result = Some(result);
            outcome
        })
    }

    fn scope(&self) -> Scope {
        self.scope.clone()
    }

    fn answer(self: Box<Self>, committed: std::result::Result<(), CommitRefusal>) {
        let answer = match (self.result, committed) {
            (Some(Err(own)), _) => Err(own),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (_, Err(group)) => Err(group.into()),
            (None, Ok(())) => Err(StoreError::Closed),
        };
        // A caller that disconnected (a client hung up) does not undo a commit.
        let _gone = self.reply.send(answer);
    }
}
