//! Reasons why rows were not moved.

use crate::store::{OpenError, StoreError, db};

/// Reason why the rows of a database were not moved to another. The source is as it was.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// Source and target are both files, or both on servers.
    #[error("the rows are in {from} already, a database of the same kind as {to}")]
    SameKind { from: String, to: String },
    /// The workspace has no database.
    #[error("this workspace has no database whose rows could be moved")]
    NoSource,
    /// The target has rows that this program did not put there in an earlier attempt.
    #[error("the target, {place}, is not empty: it has rows in `{table}`")]
    NotEmpty { place: String, table: String },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of the target could not be removed.
    #[error("cannot begin the target anew")]
    Remove(#[source] std::io::Error),
    /// The two databases do not have the same tables.
    #[error("the two databases differ in their tables: {what}")]
    Tables { what: String },
    /// A key of a row has the character NUL, which PostgreSQL cannot hold, and would be another key without it.
    #[error("the key of the row {row} has a NUL, which no text of PostgreSQL can have")]
    NulInKey { row: String },
    /// A value is not of the type of its column.
    #[error("the value of `{column}` in the row {row} cannot be moved")]
    Value { row: String, column: String },
    /// A row cannot be read, for example because a text is no UTF-8.
    #[error("the row after {after} cannot be read")]
    Row {
        after: String,
        #[source]
        source: db::Error,
    },
    /// What stands in the target is not what was read from the source.
    #[error("the target differs from the source in {}", tables.join(", "))]
    Differs { tables: Vec<String> },
    /// The target breaks invariants that the source keeps.
    #[error("the audit of the target finds what the source does not have: {}", checks.join(", "))]
    Audit { checks: Vec<String> },
}

impl From<db::Error> for TransferError {
    fn from(error: db::Error) -> Self {
        StoreError::from(error).into()
    }
}
