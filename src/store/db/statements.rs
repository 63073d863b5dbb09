//! Texts of several statements, taken apart: each is prepared alone, and PostgreSQL wants the parameters that this one names, no
//! others.

use super::sql_text::SqlText;
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// A statement of a text.
#[derive(Debug, Clone)]
pub(super) struct SqlStatement {
    /// Its parameters are numbered from 1.
    pub sql: SqlStr,
    /// For each parameter, its place among the values of the text, from 0.
    pub values: Vec<usize>,
    /// With the parameters of the whole text.
    pub text: String,
}

/// What was taken apart, by the address and length of a text that lives as long as the program.
pub(super) type KnownTexts<T> = LazyLock<RwLock<HashMap<(usize, usize), T>>>;

static KNOWN: KnownTexts<Arc<[SqlStatement]>> = LazyLock::new(RwLock::default);

/// Returns the statements of a text in order.
pub(super) fn statements(text: &SqlText) -> Arc<[SqlStatement]> {
    kept(&KNOWN, text, |text, _| take_apart(text).into())
}

/// Makes something of a text: once, where the text lives as long as the program.
pub(super) fn kept<T: Clone>(
    known: &KnownTexts<T>,
    text: &SqlText,
    make: impl Fn(&str, bool) -> T,
) -> T {
    let SqlText::Static(fixed) = text else {
        return make(text.as_str(), false);
    };
    let key = (fixed.as_ptr().addr(), fixed.len());
    let found = known.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = found.get(&key) {
        return found.clone();
    }
    drop(found);
    let made = make(fixed, true);
    let mut found = known.write().unwrap_or_else(PoisonError::into_inner);
    found.entry(key).or_insert(made).clone()
}

pub(super) fn take_apart(text: &str) -> Vec<SqlStatement> {
    let mut pieces = Vec::new();
    let mut piece = Unfinished::default();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' => quoted(rest, first),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '$' => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                if let Ok(number) = rest[1..=digits].parse::<usize>() {
                    piece.parameter(number);
                    piece.text.push_str(&rest[..=digits]);
                    rest = &rest[1 + digits..];
                    continue;
                }
                1
            }
            ';' => {
                pieces.extend(std::mem::take(&mut piece).finish());
                rest = &rest[1..];
                continue;
            }
            other => other.len_utf8(),
        };
        piece.sql.push_str(&rest[..length]);
        piece.text.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    pieces.extend(piece.finish());
    pieces
}

/// Returns the length in bytes of the quoted text at the beginning; a doubled mark begins the next
/// one, which is as good.
fn quoted(text: &str, mark: char) -> usize {
    text[1..].find(mark).map_or(text.len(), |end| end + 2)
}

/// A statement while its text is read.
#[derive(Default)]
struct Unfinished {
    sql: String,
    values: Vec<usize>,
    text: String,
}

impl Unfinished {
    fn parameter(&mut self, number: usize) {
        let value = number.saturating_sub(1);
        let place = self.values.iter().position(|known| *known == value);
        let place = place.unwrap_or_else(|| {
            self.values.push(value);
            self.values.len() - 1
        });
        self.sql.push_str(&format!("${}", place + 1));
    }

    /// Returns the statement, unless its text is empty.
    fn finish(self) -> Option<SqlStatement> {
        let is_empty = self.sql.trim().is_empty();
        (!is_empty).then(|| SqlStatement {
            sql: AssertSqlSafe(self.sql).into_sql_str(),
            values: self.values,
            text: self.text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_has_the_parameters_that_it_names() {
        let text = "INSERT INTO t VALUES ($3, ';$1', $1 ->> '$.a', $3); -- of $2; and more\n\
            SELECT \"a;b\" FROM t WHERE x = $2 AND y = 'it''s $4';\n  ";
        let pieces = take_apart(text);
        let found: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.sql.as_str().trim(), piece.values.as_slice()))
            .collect();
        assert_eq!(
            found,
            [
                (
                    "INSERT INTO t VALUES ($1, ';$1', $2 ->> '$.a', $1)",
                    [2, 0].as_slice()
                ),
                (
                    "-- of $2; and more\nSELECT \"a;b\" FROM t WHERE x = $1 AND y = 'it''s $4'",
                    [1].as_slice()
                ),
            ]
        );
    }

    #[test]
    fn a_fixed_text_is_taken_apart_once() {
        let text = SqlText::Static("SELECT 1; SELECT 2");
        let (first, again) = (statements(&text), statements(&text));
        assert!(Arc::ptr_eq(&first, &again) && first.len() == 2);
    }
}
