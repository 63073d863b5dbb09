//! Classes of failed statements and commits of PostgreSQL
//! (postgresql.org/docs/current/errcodes-appendix.html).

use crate::store::StoreError;
use sqlx::postgres::PgDatabaseError;
use std::sync::Arc;

/// Of these the transaction may be tried again: a deadlock, a lock or a statement that took too
/// long, and a server that shuts down, starts, or has no room for a connection, for memory, or on
/// its disk.
static PASSING: &[&str] = &[
    "40001", "40P01", "55P03", "57014", "57P01", "57P02", "57P03", "25P03", "53", "08",
];

/// Returns the error of a write for its caller: nothing is stored, and where the connection was lost
/// or the server could not go on, a retry may succeed.
pub fn of_write(error: StoreError) -> StoreError {
    match error {
        StoreError::Sql(error) if is_passing(&error) => StoreError::NotCommitted(Arc::new(error)),
        other => other,
    }
}

/// Reports whether a transaction that failed by this error may succeed when it is tried again.
pub fn is_passing(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => {
            let error = error.try_downcast_ref::<PgDatabaseError>();
            error.is_some_and(|error| {
                let code = error.code();
                PASSING.iter().any(|passing| code.starts_with(passing))
            })
        }
        _ => is_lost(error),
    }
}

/// Reports whether the connection is lost, so that nobody knows what the server did last.
pub fn is_lost(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed
    )
}

/// Reports whether a question had no answer in time: the server is stopped, or the network swallows what it says.
pub fn is_unanswered(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut)
}

/// Returns what an operator does about a server that cannot be used, by what it says.
pub fn server_remedy(error: &sqlx::Error) -> &'static str {
    let code = match error {
        sqlx::Error::Database(error) => error.code().unwrap_or_default(),
        _ => Default::default(),
    };
    match (&*code, error) {
        ("53100", _) => {
            "the disk of the server is full: make room there; mail waits at its senders meanwhile"
        }
        ("53300", _) => {
            "the server has no room for another connection: raise `max_connections` there, or end other programs; mail waits at \
             its senders meanwhile"
        }
        ("57P03", _) => {
            "the server starts or ends: ask again in a moment; mail waits at its senders meanwhile"
        }
        ("3D000", _) => {
            "the server has no database of that name: CREATE DATABASE NAME TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"
        }
        (code, _) if code.starts_with("28") => {
            "the server does not let this user in: see user and password of `ATTACHE_DATABASE_URL`, and `pg_hba.conf` there"
        }
        (_, sqlx::Error::Protocol(_) | sqlx::Error::Tls(_)) => {
            "what answers at that address speaks otherwise: a proxy whose server is away, another program, or a server \
             without TLS (`sslmode` in the address); mail waits at its senders meanwhile"
        }
        (_, sqlx::Error::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => {
            "see whether the server is stopped or the network to it is cut; mail waits at its senders meanwhile, and everything goes on \
             by itself when it answers"
        }
        _ => {
            "see that the server runs and lets this user in (`psql` with the same address says more); mail waits \
             at its senders meanwhile"
        }
    }
}
