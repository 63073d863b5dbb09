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
pub(in crate::store) fn of_write(error: StoreError) -> StoreError {
    match error {
        StoreError::Sql(error) if is_passing(&error) => StoreError::NotCommitted(Arc::new(error)),
        other => other,
    }
}

/// Reports whether a transaction that failed by this error may succeed when it is tried again.
pub(in crate::store) fn is_passing(error: &sqlx::Error) -> bool {
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
pub(in crate::store) fn is_lost(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed
    )
}
