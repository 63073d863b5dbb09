//! A connection, and the pool of those that read.

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnection, PgPool, Postgres};
use sqlx::sqlite::{Sqlite, SqliteConnection, SqlitePool};
use std::ops::{Deref, DerefMut};

/// A connection to the database of the store.
pub(in crate::store) enum Connection {
    Sqlite(Handle<Sqlite>),
    Postgres(Handle<Postgres>),
}

/// A connection of one database: of its own, or of a pool, to which it returns.
pub(in crate::store) enum Handle<D: sqlx::Database> {
    Own(D::Connection),
    Pooled(PoolConnection<D>),
}

impl<D: sqlx::Database> Deref for Handle<D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        match self {
            Handle::Own(conn) => conn,
            Handle::Pooled(conn) => conn,
        }
    }
}

impl<D: sqlx::Database> DerefMut for Handle<D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        match self {
            Handle::Own(conn) => conn,
            Handle::Pooled(conn) => conn,
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

    /// Returns the connection of PostgreSQL, for what only PostgreSQL has.
    pub fn postgres(&mut self) -> Option<&mut PgConnection> {
        match self {
            Connection::Sqlite(_) => None,
            Connection::Postgres(conn) => Some(conn),
        }
    }

    /// Closes the connection, and waits for it.
    pub async fn close(self) -> Result<(), sqlx::Error> {
        match self {
            Connection::Sqlite(Handle::Own(conn)) => sqlx::Connection::close(conn).await,
            Connection::Sqlite(Handle::Pooled(conn)) => conn.close().await,
            Connection::Postgres(Handle::Own(conn)) => sqlx::Connection::close(conn).await,
            Connection::Postgres(Handle::Pooled(conn)) => conn.close().await,
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
        Connection::Sqlite(Handle::Own(conn))
    }
}

impl From<PgConnection> for Connection {
    fn from(conn: PgConnection) -> Self {
        Connection::Postgres(Handle::Own(conn))
    }
}

/// Connections that read.
#[derive(Clone)]
pub(in crate::store) enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

impl Pool {
    /// Returns a connection when one is free.
    pub async fn acquire(&self) -> Result<Connection, sqlx::Error> {
        match self {
            Pool::Sqlite(pool) => Ok(Connection::Sqlite(Handle::Pooled(pool.acquire().await?))),
            Pool::Postgres(pool) => Ok(Connection::Postgres(Handle::Pooled(pool.acquire().await?))),
        }
    }

    /// Closes the connections, when those who have one have returned it.
    pub async fn close(&self) {
        match self {
            Pool::Sqlite(pool) => pool.close().await,
            Pool::Postgres(pool) => pool.close().await,
        }
    }
}

/// Where a statement is executed: on a connection, or on any of a pool.
pub(in crate::store) enum ConnectionSource<'c> {
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
