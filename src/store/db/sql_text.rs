//! One text of a statement.

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};
use std::sync::Arc;

/// A text, and whether it lives as long as the program: then what is made of it can be kept.
#[derive(Debug, Clone)]
pub(super) enum SqlText {
    Static(&'static str),
    Built(Arc<str>),
}

impl SqlText {
    pub fn as_str(&self) -> &str {
        match self {
            SqlText::Static(text) => text,
            SqlText::Built(text) => text,
        }
    }

    pub fn into_sql_str(self) -> SqlStr {
        match self {
            SqlText::Static(text) => SqlStr::from_static(text),
            SqlText::Built(text) => AssertSqlSafe(text).into_sql_str(),
        }
    }
}
