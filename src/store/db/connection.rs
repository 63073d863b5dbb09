//! A connection, and the pool of those that read.

use super::column::Row;
use super::file::{FileConnection, FilePool, FileReader};
use super::server::{ServerConnection, ServerPool};
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use std::sync::Arc;

/// A connection to the database of the store.
pub enum Connection {
    /// Of the engine: its statements are executed where they are called.
    File(FileHandle),
    /// Of what opens, copies or looks over a file, by a thread of its own.
    Sqlite(SqliteConnection),
    Postgres(ServerConnection),
}

/// Work that a transaction can queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuedWork {
    Run,
    Mail,
}

/// A connection to a file: of its own, or of a pool, to which it returns.
pub enum FileHandle {
    Own(FileConnection),
    Pooled(FileReader),
}

impl FileHandle {
    pub fn conn(&mut self) -> Result<&mut FileConnection, sqlx::Error> {
        match self {
            FileHandle::Own(conn) => Ok(conn),
            FileHandle::Pooled(reader) => reader.conn(),
        }
    }
}

impl Connection {
    /// Reports whether it is one to a file.
    pub fn is_sqlite(&self) -> bool {
        !matches!(self, Connection::Postgres(_))
    }

    /// Returns the connection of PostgreSQL, for what only PostgreSQL has. Its answers are waited for without end.
    pub fn postgres(&mut self) -> Option<&mut PgConnection> {
        match self {
            Connection::File(_) | Connection::Sqlite(_) => None,
            Connection::Postgres(conn) => conn.unbounded(),
        }
    }

    /// Notes that the open transaction queues work. A server is told of it otherwise.
    pub fn note_queued(&mut self, work: QueuedWork) {
        if let Connection::File(FileHandle::Own(conn)) = self {
            conn.queued[work as usize] = true;
        }
    }

    /// Returns whether work of a kind was queued since the last time, and forgets it.
    pub fn take_queued(&mut self, work: QueuedWork) -> bool {
        match self {
            Connection::File(FileHandle::Own(conn)) => {
                std::mem::take(&mut conn.queued[work as usize])
            }
            _ => false,
        }
    }

    /// Returns whether statements on a server may have written texts that are searched by their words since the last time, and
    /// forgets it.
    pub fn take_texts(&mut self) -> bool {
        match self {
            Connection::File(_) | Connection::Sqlite(_) => false,
            Connection::Postgres(conn) => conn.take_texts(),
        }
    }

    /// Returns the number of rows that an engine's connection to a file has changed since it was opened.
    pub fn total_changes(&mut self) -> u64 {
        match self {
            Connection::File(file) => file.conn().map_or(0, |conn| conn.total_changes()),
            Connection::Sqlite(_) | Connection::Postgres(_) => 0,
        }
    }

    /// Closes the connection, and waits for it.
    pub async fn close(self) -> Result<(), sqlx::Error> {
        match self {
            Connection::File(FileHandle::Own(conn)) => conn.close(),
            Connection::File(FileHandle::Pooled(reader)) => match reader.into_own() {
                Some(conn) => conn.close(),
                None => Ok(()),
            },
            Connection::Sqlite(conn) => sqlx::Connection::close(conn).await,
            Connection::Postgres(conn) => conn.close().await,
        }
    }
}

#[cfg(test)]
impl Connection {
    /// Opens an empty database in memory.
    pub async fn in_memory() -> Self {
        use super::file::{FileAccess, FileOptions};
        let options = FileOptions::new(
            std::path::Path::new(":memory:"),
            FileAccess::Write,
            Vec::new(),
        );
        options.open().expect("a database").into()
    }
}

impl From<FileConnection> for Connection {
    fn from(conn: FileConnection) -> Self {
        Connection::File(FileHandle::Own(conn))
    }
}

impl From<SqliteConnection> for Connection {
    fn from(conn: SqliteConnection) -> Self {
        Connection::Sqlite(conn)
    }
}

impl From<ServerConnection> for Connection {
    fn from(conn: ServerConnection) -> Self {
        Connection::Postgres(conn)
    }
}

/// Connections that read.
#[derive(Clone)]
pub enum Pool {
    File(FilePool),
    Postgres(ServerPool),
}

impl Pool {
    /// Returns a connection when one is free.
    pub async fn acquire(&self) -> Result<Connection, sqlx::Error> {
        match self {
            Pool::File(pool) => {
                let reader = pool.acquire().await?;
                Ok(Connection::File(FileHandle::Pooled(reader)))
            }
            Pool::Postgres(pool) => Ok(pool.acquire().await?.into()),
        }
    }

    /// Resolves when reads have failed for so long that the disk counts as gone, with the last failure.
    pub async fn failing(&self) -> Arc<sqlx::Error> {
        match self {
            Pool::File(pool) => pool.failed.go_on().await,
            // A server that is away comes back.
            Pool::Postgres(_) => std::future::pending().await,
        }
    }

    /// Closes the connections, when those who have one have returned it.
    pub async fn close(&self) {
        match self {
            Pool::File(pool) => pool.close().await,
            Pool::Postgres(pool) => pool.close().await,
        }
    }
}

statements!(Connection, (&'c mut self), self);
statements!(@ Connection, (&'c mut self), self, exec -> u64);
statements!(@ Pool, (&'c self), self, rows -> Vec<Row>);
statements!(@ Pool, (&'c self), self, all<T> -> Vec<T>);
statements!(@ Pool, (&'c self), self, one<T> -> T);

/// Where a statement is executed: on a connection, or on any of a pool.
pub enum ConnectionSource<'c> {
    Connection(&'c mut Connection),
    Pool(&'c Pool),
}

impl<'c> From<&'c mut Connection> for ConnectionSource<'c> {
    fn from(conn: &'c mut Connection) -> Self {
        ConnectionSource::Connection(conn)
    }
}

impl<'c> From<&'c Pool> for ConnectionSource<'c> {
    fn from(pool: &'c Pool) -> Self {
        ConnectionSource::Pool(pool)
    }
}
