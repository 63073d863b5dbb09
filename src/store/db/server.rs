//! A connection to a server of PostgreSQL that waits for no answer without end, and the pool of those that read.
//!
//! A server that is stopped, or whose packets are swallowed, closes no connection: only a clock of this side tells. A
//! connection with a question that was not answered is never used again, because the answer may still come.
//!
//! Not here: where the server is, and the settings of a session (`postgres::url`).

use super::column::Row;
use super::text_functions::{BeginFunction, FunctionsMade};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, unfold};
use futures_util::{StreamExt, TryStreamExt};
use sqlx::Connection as _;
use sqlx::postgres::{PgArguments, PgConnection, Postgres};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Most connections that read at once.
const READERS_MAX: usize = 8;
/// Pause between two tries to connect to a server that starts.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Time that the end of a connection may take.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// A connection, and how long it waits for an answer.
pub struct ServerConnection {
    /// `None` once it has ended.
    conn: Option<PgConnection>,
    answer_max: Duration,
    /// `true`: it was asked, and has not answered yet.
    is_asked: bool,
    /// Functions of texts; `None` where it makes none.
    functions: Option<FunctionsMade>,
    /// `true`: a statement since the last time may have written texts that are searched by their words.
    has_texts: bool,
    /// Pool to which it returns.
    pool: Option<(ServerPool, OwnedSemaphorePermit)>,
    /// `true`: it was used before, and was not asked whether it lives.
    is_presumed: bool,
}

impl ServerConnection {
    pub fn new(conn: PgConnection, answer_max: Duration) -> Self {
        Self {
            conn: Some(conn),
            answer_max,
            is_asked: false,
            functions: None,
            has_texts: false,
            pool: None,
            is_presumed: false,
        }
    }

    /// Makes a function by which transactions begin, functions of the texts that were executed so far, and of later ones when it
    /// is called again, between two transactions.
    pub async fn make_functions(
        &mut self,
        begin: &'static BeginFunction,
    ) -> Result<(), sqlx::Error> {
        let mut functions = self.functions.take().unwrap_or_default();
        let made = self.answered(|conn| {
            Box::pin(async move {
                functions.make(conn, begin).await?;
                Ok(functions)
            })
        });
        self.functions = Some(made.await?);
        Ok(())
    }

    /// Reports whether it has the function by which transactions begin.
    pub fn begins_by_function(&self) -> bool {
        let functions = self.functions.as_ref();
        functions.is_some_and(FunctionsMade::can_begin)
    }

    /// Notes the session of the server in which a transaction has begun; `None`: one without the function for it.
    pub fn note_session(&mut self, session: Option<i32>) {
        match (&mut self.functions, session) {
            (Some(functions), Some(session)) => functions.note_session(session),
            (Some(functions), None) => functions.forgo(),
            (None, _) => {}
        }
    }

    /// Returns whether texts may have been written since the last time, and forgets it.
    pub fn take_texts(&mut self) -> bool {
        std::mem::take(&mut self.has_texts)
    }

    /// Notes that texts were written, or wait for their words since an earlier transaction.
    pub fn note_texts(&mut self, are_written: bool) {
        self.has_texts |= are_written;
    }

    pub(super) fn functions(&self) -> Option<FunctionsMade> {
        self.functions.clone()
    }

    /// Waits for answers so long from now on, for statements that read or change whole tables.
    pub fn wait_up_to(&mut self, answer_max: Duration) {
        self.answer_max = answer_max;
    }

    /// Returns the connection as the library has it, whose answers are waited for without end.
    pub fn unbounded(&mut self) -> Option<&mut PgConnection> {
        self.conn.as_mut()
    }

    /// Asks, and waits for the answer.
    ///
    /// Errors: also [`unanswered`], at once where an earlier question was not answered.
    pub async fn answered<'c, T>(
        &'c mut self,
        ask: impl FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        let Some(conn) = self.conn.as_mut().filter(|_| !self.is_asked) else {
            return Err(unanswered(self.answer_max));
        };
        self.is_asked = true;
        let answer = timeout(self.answer_max, ask(conn)).await;
        let answer = answer.map_err(|_elapsed| unanswered(self.answer_max))?;
        self.is_asked = false;
        answer
    }

    /// Asks, and returns the rows of the answer one after the other; each is waited for.
    pub fn rows<'c>(
        &'c mut self,
        query: sqlx::query::Query<'static, Postgres, PgArguments>,
    ) -> BoxStream<'c, Result<Row, sqlx::Error>> {
        let answer_max = self.answer_max;
        let Some(conn) = self.conn.as_mut().filter(|_| !self.is_asked) else {
            return futures_util::stream::iter([Err(unanswered(answer_max))]).boxed();
        };
        self.is_asked = true;
        let rows = query.fetch(conn).map_ok(Row::Postgres).boxed();
        unfold(Some((rows, &mut self.is_asked)), move |open| async move {
            let (mut rows, is_asked) = open?;
            match timeout(answer_max, rows.next()).await {
                Ok(Some(row)) => {
                    // What the server refused, it has answered.
                    if row.is_err() {
                        *is_asked = false;
                    }
                    Some((row, Some((rows, is_asked))))
                }
                Ok(None) => {
                    *is_asked = false;
                    None
                }
                Err(_elapsed) => Some((Err(unanswered(answer_max)), None)),
            }
        })
        .boxed()
    }

    /// Ends the connection in order, unless the server does not answer.
    pub async fn close(mut self) -> Result<(), sqlx::Error> {
        match self.conn.take() {
            Some(conn) if !self.is_asked => {
                let closed = timeout(CLOSE_MAX, conn.close()).await;
                closed.unwrap_or(Ok(()))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        let (Some((pool, place)), Some(conn)) = (self.pool.take(), self.conn.take()) else {
            return;
        };
        if !self.is_asked && !pool.0.places.is_closed() {
            pool.idle().push(conn);
        }
        drop(place);
    }
}

/// Returns the error of a question that the server did not answer in time.
pub fn unanswered(answer_max: Duration) -> sqlx::Error {
    let why = format!(
        "the server did not answer within {} s",
        answer_max.as_secs_f64()
    );
    io::Error::new(io::ErrorKind::TimedOut, why).into()
}

/// Makes connections to the server.
type Connector = dyn Fn() -> BoxFuture<'static, Result<PgConnection, sqlx::Error>> + Send + Sync;

/// Connections that read: made when they are needed, and kept.
#[derive(Clone)]
pub struct ServerPool(Arc<PoolParts>);

struct PoolParts {
    connect: Box<Connector>,
    answer_max: Duration,
    places: Arc<Semaphore>,
    idle: Mutex<Vec<PgConnection>>,
}

impl ServerPool {
    /// `answer_max`: time that getting a connection may take, and each answer on it.
    pub fn new(connect: Box<Connector>, answer_max: Duration) -> Self {
        Self(Arc::new(PoolParts {
            connect,
            answer_max,
            places: Arc::new(Semaphore::new(READERS_MAX)),
            idle: Mutex::default(),
        }))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<PgConnection>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads on any connection. One that the server has ended since it was used is no failure: another is asked.
    pub async fn read<T>(
        &self,
        ask: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        let mut conn = self.acquired(true).await?;
        match conn.answered(&ask).await {
            Err(error) if conn.is_presumed && has_ended(&error) => {
                // Not returned to the pool.
                conn.is_asked = true;
                drop(conn);
                self.acquire().await?.answered(&ask).await
            }
            answer => answer,
        }
    }

    /// Returns a connection that answers, when one is free.
    pub async fn acquire(&self) -> Result<ServerConnection, sqlx::Error> {
        self.acquired(false).await
    }

    /// Returns a connection, when one is free. `presumes`: one that was used before is not asked whether it answers.
    async fn acquired(&self, presumes: bool) -> Result<ServerConnection, sqlx::Error> {
        let answer_max = self.0.answer_max;
        let mut refused = None;
        let found = timeout(answer_max, self.free(&mut refused, presumes)).await;
        match found {
            Ok(found) => found,
            Err(_elapsed) => Err(refused.unwrap_or_else(|| unanswered(answer_max))),
        }
    }

    async fn free(
        &self,
        refused: &mut Option<sqlx::Error>,
        presumes: bool,
    ) -> Result<ServerConnection, sqlx::Error> {
        let place = self.0.places.clone().acquire_owned().await;
        let place = place.map_err(|_closed| sqlx::Error::PoolClosed)?;
        let (conn, is_presumed) = loop {
            let Some(mut idle) = self.take_idle() else {
                break (self.connected(refused).await?, false);
            };
            if presumes {
                break (idle, true);
            }
            // The server may have ended it meanwhile.
            if idle.ping().await.is_ok() {
                break (idle, false);
            }
        };
        let mut conn = ServerConnection::new(conn, self.0.answer_max);
        conn.pool = Some((self.clone(), place));
        conn.is_presumed = is_presumed;
        Ok(conn)
    }

    fn take_idle(&self) -> Option<PgConnection> {
        self.idle().pop()
    }

    /// Connects. A server that refuses connections may be starting, and is tried again until the caller's time is over.
    async fn connected(
        &self,
        refused: &mut Option<sqlx::Error>,
    ) -> Result<PgConnection, sqlx::Error> {
        loop {
            match (self.0.connect)().await {
                Err(error) if is_starting(&error) => *refused = Some(error),
                connected_or_failed => return connected_or_failed,
            }
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
    }

    /// Closes the connections, when those who have one have returned it.
    pub async fn close(&self) {
        let all = u32::try_from(READERS_MAX).unwrap_or_default();
        let _given_up = timeout(self.0.answer_max, self.0.places.acquire_many(all)).await;
        self.0.places.close();
        while let Some(conn) = self.take_idle() {
            let _silent = timeout(CLOSE_MAX, conn.close()).await;
        }
    }
}

/// Reports whether the server has ended the connection: not that it does not answer.
fn has_ended(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() != io::ErrorKind::TimedOut,
        sqlx::Error::Database(error) => {
            // Of an administrator, a crash, a start.
            matches!(error.code().as_deref(), Some("57P01" | "57P02" | "57P03"))
        }
        _ => false,
    }
}

/// Reports whether nobody listens there, or a server that starts, only reads yet or has no room for another connection.
pub fn is_starting(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        sqlx::Error::Database(error) => {
            let code = error.code();
            matches!(code.as_deref(), Some("57P03" | "53300"))
        }
        _ => false,
    }
}
