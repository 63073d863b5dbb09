//! A connection, and the pool of those that read.

use super::column::Row;
use super::server::{ServerConnection, ServerPool};
use crate::store::sqlite::read_health::FailedReads;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{Sqlite, SqliteConnection, SqlitePool};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A connection to the database of the store.
pub enum Connection {
    Sqlite(SqliteHandle),
    Postgres(ServerConnection),
}

/// A connection to a file: of its own, or of a pool, to which it returns.
pub enum SqliteHandle {
    Own(SqliteConnection),
    Pooled(PoolConnection<Sqlite>),
}

impl Deref for SqliteHandle {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        match self {
            SqliteHandle::Own(conn) => conn,
            SqliteHandle::Pooled(conn) => conn,
        }
    }
}

impl DerefMut for SqliteHandle {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        match self {
            SqliteHandle::Own(conn) => conn,
            SqliteHandle::Pooled(conn) => conn,
        }
    }
}

impl Connection {
    /// Returns the connection of SQLite, for what only SQLite has.
    pub fn sqlite(&mut self) -> Option<&mut SqliteConnection> {
        match self {
            Connection::Sqlite(conn) => Some(conn),
            Connection::Postgres(_) => None,
        }
    }

    /// Returns the connection of PostgreSQL, for what only PostgreSQL has. Its answers are waited for without end.
    pub fn postgres(&mut self) -> Option<&mut PgConnection> {
        match self {
            Connection::Sqlite(_) => None,
            Connection::Postgres(conn) => conn.unbounded(),
        }
    }

    /// Closes the connection, and waits for it.
    pub async fn close(self) -> Result<(), sqlx::Error> {
        match self {
            Connection::Sqlite(SqliteHandle::Own(conn)) => sqlx::Connection::close(conn).await,
            Connection::Sqlite(SqliteHandle::Pooled(conn)) => conn.close().await,
            Connection::Postgres(conn) => conn.close().await,
        }
    }
}

#[cfg(test)]
impl Connection {
    /// Opens an empty database in memory.
    pub async fn in_memory() -> Self {
        let conn = <SqliteConnection as sqlx::Connection>::connect("sqlite::memory:").await;
        conn.expect("a database").into()
    }
}

impl From<SqliteConnection> for Connection {
    fn from(conn: SqliteConnection) -> Self {
        Connection::Sqlite(SqliteHandle::Own(conn))
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
    Sqlite(SqlitePool, Arc<FailedReads>),
    Postgres(ServerPool),
}

impl Pool {
    /// Returns a connection when one is free.
    pub async fn acquire(&self) -> Result<Connection, sqlx::Error> {
        match self {
            Pool::Sqlite(pool, failed) => {
                let conn = failed.noted(pool.acquire().await)?;
                Ok(Connection::Sqlite(SqliteHandle::Pooled(conn)))
            }
            Pool::Postgres(pool) => Ok(pool.acquire().await?.into()),
        }
    }

    /// Resolves when reads have failed for so long that the disk counts as gone, with the last failure.
    pub async fn failing(&self) -> Arc<sqlx::Error> {
        match self {
            Pool::Sqlite(_, failed) => failed.go_on().await,
            // A server that is away comes back.
            Pool::Postgres(_) => std::future::pending().await,
        }
    }

    /// Closes the connections, when those who have one have returned it.
    pub async fn close(&self) {
        match self {
            Pool::Sqlite(pool, _) => pool.close().await,
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
