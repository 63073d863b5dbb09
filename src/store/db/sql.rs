//! Text of a statement, or its two.

use super::sql_text::SqlText;
use super::text_functions::{PostgresText, statements_of_postgres};
use sqlx::SqlStr;
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

/// Text of a statement, with parameters `$1`, `$2`, …: one that both databases read, or one for
/// each.
#[derive(Debug, Clone)]
pub struct Sql {
    sqlite: SqlText,
    /// `None` where it is the text of SQLite.
    postgres: Option<SqlText>,
}

impl Sql {
    /// Takes a text that both databases read, in a constant.
    pub const fn same(text: &'static str) -> Self {
        Self {
            sqlite: SqlText::Static(text),
            postgres: None,
        }
    }

    /// Pairs texts that mean the same, where no text is read by both.
    pub const fn pair(sqlite: &'static str, postgres: &'static str) -> Self {
        Self {
            sqlite: SqlText::Static(sqlite),
            postgres: Some(SqlText::Static(postgres)),
        }
    }

    /// Takes a text that was put together at run time, from our own texts and names of tables and
    /// columns. A value is never part of it: values are bound.
    pub fn built(text: String) -> Self {
        Self {
            sqlite: SqlText::Built(text.into()),
            postgres: None,
        }
    }

    /// Pairs texts that were put together as by [`Sql::built`].
    pub fn built_pair(sqlite: String, postgres: String) -> Self {
        Self {
            sqlite: SqlText::Built(sqlite.into()),
            postgres: Some(SqlText::Built(postgres.into())),
        }
    }

    /// Takes a text that both databases read, and one that PostgreSQL executes before it, with the
    /// same parameters; once in the life of a program that keeps the result.
    pub fn preceded_on_postgres(first: &'static str, text: &'static str) -> Self {
        Self {
            sqlite: SqlText::Static(text),
            postgres: Some(SqlText::Static(format!("{first};{text}").leak())),
        }
    }

    /// Joins two texts, once in the life of a program that keeps the result; the parameters of the
    /// second are numbered on.
    pub fn chained(first: impl Into<Sql>, second: impl Into<Sql>) -> Self {
        let (first, second) = (first.into(), second.into());
        let sqlite = chain(first.sqlite.as_str(), second.sqlite.as_str());
        let are_pairs = first.postgres.is_some() || second.postgres.is_some();
        let postgres = are_pairs.then(|| chain(first.postgres_text(), second.postgres_text()));
        Self {
            sqlite: SqlText::Static(sqlite.leak()),
            postgres: postgres.map(|text| SqlText::Static(text.leak())),
        }
    }

    /// Returns the text for SQLite.
    pub(super) fn sqlite(self) -> SqlStr {
        self.sqlite.into_sql_str()
    }

    pub(super) fn sqlite_text(&self) -> &SqlText {
        &self.sqlite
    }

    /// Returns the statements for PostgreSQL, which executes one at a time.
    pub(super) fn postgres(&self) -> Arc<PostgresText> {
        statements_of_postgres(self.postgres.as_ref().unwrap_or(&self.sqlite))
    }

    /// Returns the text for PostgreSQL, for statements that are not prepared.
    pub(super) fn into_postgres(self) -> SqlStr {
        self.postgres.unwrap_or(self.sqlite).into_sql_str()
    }

    fn postgres_text(&self) -> &str {
        self.postgres.as_ref().unwrap_or(&self.sqlite).as_str()
    }
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Self {
        Self::same(text)
    }
}

impl From<&Sql> for Sql {
    fn from(sql: &Sql) -> Self {
        sql.clone()
    }
}

impl From<&LazyLock<Sql>> for Sql {
    fn from(sql: &LazyLock<Sql>) -> Self {
        LazyLock::force(sql).clone()
    }
}

/// Joins two texts; the parameters of the second are numbered on.
fn chain(first: &str, second: &str) -> String {
    let by = numbers(first).max().unwrap_or(0);
    let mut pieces = second.split('$');
    let mut text = format!("{first};{}", pieces.next().unwrap_or_default());
    for piece in pieces {
        let end = piece
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(piece.len());
        match piece[..end].parse::<usize>() {
            Ok(number) => {
                let _infallible = write!(text, "${}{}", number + by, &piece[end..]);
            }
            // A JSON path, such as `$.owner`.
            Err(_) => {
                let _infallible = write!(text, "${piece}");
            }
        }
    }
    text
}

/// Returns the parameter numbers in a text, in order.
fn numbers(text: &str) -> impl Iterator<Item = usize> {
    let digits = |piece: &str| {
        piece
            .split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    text.split('$').skip(1).filter_map(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_texts_parameters_are_numbered_on_paths_left_alone() {
        let first = "UPDATE a SET b = $2 WHERE c = $1";
        assert_eq!(
            chain(first, "SELECT $1, $10"),
            format!("{first};SELECT $3, $12")
        );
        assert_eq!(
            chain(first, "SELECT $1 ->> '$.owner'"),
            format!("{first};SELECT $3 ->> '$.owner'")
        );
    }

    #[test]
    fn a_pair_stays_a_pair_when_it_is_joined() {
        let pair = Sql::pair("SELECT $1", "SELECT $1::bigint");
        let both = Sql::chained("DELETE FROM t WHERE a = $1", pair);
        let one = "DELETE FROM t WHERE a = $1;SELECT $2";
        assert_eq!(both.sqlite.as_str(), one);
        assert_eq!(both.postgres_text(), format!("{one}::bigint"));
    }
}
