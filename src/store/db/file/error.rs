//! Errors of SQLite, as those of sqlx.

use rusqlite::Error;
use sqlx::error::{DatabaseError, ErrorKind};
use std::borrow::Cow;

/// An error of SQLite, by its extended result code (sqlite.org/rescode.html).
#[derive(Debug, thiserror::Error)]
#[error("(code: {code}) {message}")]
pub struct StatementError {
    pub code: i32,
    message: String,
}

/// Returns the error of a statement.
pub fn failed(error: Error) -> sqlx::Error {
    let (code, message) = match error {
        Error::SqliteFailure(error, message) => {
            let message = message.unwrap_or_else(|| error.to_string());
            (error.extended_code, message)
        }
        other => return sqlx::Error::Decode(Box::new(other)),
    };
    sqlx::Error::Database(Box::new(StatementError { code, message }))
}

impl DatabaseError for StatementError {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.code.to_string().into())
    }

    fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        match self.code {
            1555 | 2067 => ErrorKind::UniqueViolation,
            787 => ErrorKind::ForeignKeyViolation,
            1299 => ErrorKind::NotNullViolation,
            275 => ErrorKind::CheckViolation,
            _ => ErrorKind::Other,
        }
    }
}
