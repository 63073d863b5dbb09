//! A connection to a file of SQLite that executes a statement on the thread that calls it: no statement waits for another thread
//! to wake. Who may not be held up by a slow disk, the writer above all, has a thread of its own.

mod error;
mod pool;
pub mod row;

pub use error::StatementError;
pub use pool::{FilePool, FileReader};

use super::argument::Argument;
use super::sql_text::SqlText;
use super::statements::statements;
use crate::clock::{Clock, SystemClock};
use error::failed;
use row::FileRow;
use rusqlite::types::{ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OpenFlags};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Prepared statements kept per connection; more than there are SQL constants.
pub const STATEMENTS_CACHED: usize = 256;
/// Time from which on a statement counts as slow: the next execution of it lets other tasks of its thread go on elsewhere.
const SLOW: Duration = Duration::from_millis(2);

/// How a file is opened, and what was learnt of its statements.
#[derive(Clone)]
pub struct FileOptions {
    pub path: PathBuf,
    pub access: FileAccess,
    /// Settings of each connection.
    pub pragmas: Vec<(&'static str, &'static str)>,
    /// Addresses and lengths of slow statements.
    pub slow: Arc<Mutex<HashSet<(usize, usize)>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    Write,
    /// Writes nothing, and may write the log's index.
    Read,
    /// Reads where nothing can be written, not even that.
    ReadOnly,
    /// The same, where the file has no log (sqlite.org/wal.html#readonly).
    Immutable,
}

impl FileOptions {
    pub fn new(
        path: &Path,
        access: FileAccess,
        pragmas: Vec<(&'static str, &'static str)>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            access,
            pragmas,
            slow: Arc::default(),
        }
    }

    /// Opens a connection. The file exists.
    pub fn open(&self) -> Result<FileConnection, sqlx::Error> {
        let access = match self.access {
            FileAccess::Write | FileAccess::Read => OpenFlags::SQLITE_OPEN_READ_WRITE,
            FileAccess::ReadOnly | FileAccess::Immutable => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = match self.access {
            FileAccess::Immutable => {
                let name = self.path.to_string_lossy();
                // sqlite.org/uri.html
                let name = name
                    .replace('%', "%25")
                    .replace('?', "%3f")
                    .replace('#', "%23");
                let uri = format!("file:{name}?immutable=1");
                Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
            }
            _ => Connection::open_with_flags(&self.path, flags),
        };
        let conn = conn.map_err(failed)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
        for (name, value) in &self.pragmas {
            let set = conn.pragma_update(None, name, value);
            set.map_err(failed)?;
        }
        if self.access == FileAccess::Read {
            conn.pragma_update(None, "query_only", "ON")
                .map_err(failed)?;
        }
        Ok(FileConnection {
            conn,
            slow: self.slow.clone(),
            queued: [false; 2],
        })
    }
}

/// A connection to a file.
pub struct FileConnection {
    conn: Connection,
    slow: Arc<Mutex<HashSet<(usize, usize)>>>,
    /// Kinds of work that the open transaction has queued.
    pub(super) queued: [bool; 2],
}

impl FileConnection {
    /// Executes statements in order, gives each row to `read`, and ends where that wants no more. Returns the number of rows
    /// written.
    pub(super) fn run(
        &mut self,
        sql: &SqlText,
        arguments: &[Argument],
        read: impl FnMut(FileRow) -> ControlFlow<()>,
    ) -> Result<u64, sqlx::Error> {
        // What was put together at run time has an address of its own each time.
        let key = match sql {
            SqlText::Static(text) => Some((text.as_ptr().addr(), text.len())),
            SqlText::Built(_) => None,
        };
        let is_slow = key.is_some_and(|key| self.slow_statements().contains(&key));
        if is_slow && can_move() {
            return tokio::task::block_in_place(|| self.execute(sql, arguments, read));
        }
        // What it really takes: a clock of a test stands still.
        let clock = SystemClock::new();
        let done = self.execute(sql, arguments, read);
        if clock.monotonic() > SLOW {
            self.slow_statements().extend(key);
        }
        done
    }

    fn slow_statements(&self) -> MutexGuard<'_, HashSet<(usize, usize)>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn execute(
        &self,
        sql: &SqlText,
        arguments: &[Argument],
        mut read: impl FnMut(FileRow) -> ControlFlow<()>,
    ) -> Result<u64, sqlx::Error> {
        let mut written = 0;
        for piece in statements(sql).iter() {
            let statement = self.conn.prepare_cached(piece.sql.as_str());
            let mut statement = statement.map_err(failed)?;
            for (at, value) in piece.values.iter().enumerate() {
                let bound = match arguments.get(*value) {
                    Some(argument) => statement.raw_bind_parameter(at + 1, argument),
                    None => statement.raw_bind_parameter(at + 1, rusqlite::types::Null),
                };
                bound.map_err(failed)?;
            }
            let is_read = statement.readonly();
            let mut names = None;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(failed)? {
                let statement = row.as_ref();
                let names: &Arc<[String]> = names.get_or_insert_with(|| {
                    let names = statement.column_names().into_iter();
                    names.map(str::to_owned).collect()
                });
                let values = (0..names.len()).map(|at| row.get::<_, Value>(at));
                let values = values.collect::<Result<_, _>>().map_err(failed)?;
                if read(FileRow::new(names.clone(), values)).is_break() {
                    return Ok(written);
                }
            }
            drop(rows);
            if !is_read {
                written += self.conn.changes();
            }
        }
        Ok(written)
    }

    /// Executes statements that are not prepared and have no parameters.
    pub fn execute_batch(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        self.conn.execute_batch(sql).map_err(failed)
    }

    /// Returns the number of rows changed since the connection was opened.
    pub fn total_changes(&self) -> u64 {
        self.conn.total_changes()
    }

    /// Reports whether no transaction is open.
    pub fn is_at_rest(&self) -> bool {
        self.conn.is_autocommit()
    }

    pub fn close(self) -> Result<(), sqlx::Error> {
        self.conn.close().map_err(|(_conn, error)| failed(error))
    }
}

/// Reports whether this thread's other tasks can go on in another one meanwhile.
fn can_move() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

impl ToSql for Argument {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Argument::Integer(value) => value.map_or(ValueRef::Null, ValueRef::Integer),
            Argument::Real(value) => value.map_or(ValueRef::Null, ValueRef::Real),
            Argument::Bool(value) => {
                value.map_or(ValueRef::Null, |is| ValueRef::Integer(is.into()))
            }
            Argument::Text(value) => value
                .as_deref()
                .map_or(ValueRef::Null, |value| ValueRef::Text(value.as_bytes())),
            Argument::SharedText(value) => ValueRef::Text(value.as_bytes()),
            Argument::TextPair(pair) => ValueRef::Text(pair.sqlite.as_bytes()),
            Argument::Bytes(value) => value.as_deref().map_or(ValueRef::Null, ValueRef::Blob),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_statement_that_was_slow_lets_other_tasks_go_on() {
        const SLOW_ONE: SqlText = SqlText::Static(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
            SELECT sum(i) FROM n",
        );
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).build().expect("a runtime");
        let turns = Arc::new(AtomicU64::new(0));
        let counted = turns.clone();
        runtime.spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        });
        let reading = runtime.spawn(async move {
            let memory = FileOptions::new(Path::new(":memory:"), FileAccess::Write, Vec::new());
            let mut conn = memory.open().expect("a database");
            let mut turns_of_others = || {
                let before = turns.load(Ordering::SeqCst);
                let done = conn.run(&SLOW_ONE, &[], |_row| ControlFlow::Continue(()));
                done.expect("a sum");
                turns.load(Ordering::SeqCst) - before
            };
            (turns_of_others(), turns_of_others())
        });
        let (first, second) = runtime.block_on(reading).expect("no panic");
        // The first time is the control: nobody knew.
        assert!(first == 0 && second > 0, "{first}, {second}");
        runtime.shutdown_background();
    }
}
