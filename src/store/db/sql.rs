//! Text of a statement.

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// Text of a statement, with parameters `$1`, `$2`, ….
#[derive(Debug, Clone)]
pub(in crate::store) struct Sql(SqlStr);

impl Sql {
    /// Takes a text that was put together at run time, from our own texts and names of tables and
    /// columns. A value is never part of it: values are bound.
    pub fn built(text: String) -> Self {
        Self(AssertSqlSafe(text).into_sql_str())
    }

    pub(super) fn sqlite(self) -> SqlStr {
        self.0
    }
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Self {
        Self(SqlStr::from_static(text))
    }
}
