//! Every statement of the store prepares on PostgreSQL, too, but for those that are about SQLite itself.

use super::both::Database;
use super::source::{read_statements, statements_of_the_store};
use sqlx::postgres::{PgConnection, PgDatabaseError};
use sqlx::{AssertSqlSafe, Executor};

/// Statements of SQLite alone, by the beginning of their names, and why.
const OF_SQLITE: &[(&str, &str)] = &[
    ("backup::", "a copy of the file"),
    ("before_upgrade::COPY_BYTES", "pages of the file"),
    ("before_upgrade::LOOK_OVER", "pages of the file"),
    ("foreign_database::", "a file of another program"),
    ("index_merge::", "segments of FTS5"),
    (
        "letter_parts::STORE_PARTS",
        "its savepoint is no prepared statement",
    ),
    (
        "letter_parts::UNDO_PARTS",
        "its savepoint is no prepared statement",
    ),
    ("log::", "the write-ahead log"),
    (
        "migrations::DROP_OLD_INDEX",
        "an index that PostgreSQL never had",
    ),
    ("mod::", "transactions of the writer"),
    ("open::DATABASE_BYTES", "pages of the file"),
    ("redaction::SECURE_DELETE", "pages of the file"),
    ("redaction::FAST_DELETE", "pages of the file"),
    ("rewrite::", "pages of the file"),
    ("upgrade_check::", "a file that is not opened for work"),
    ("versions::IS_NEW", "a file that is not opened for work"),
    (
        "versions::NAMES_VERSIONS",
        "a file that is not opened for work",
    ),
    ("whole::FRESH_PAGES", "pages of the file"),
];

/// `indeterminate_datatype`: the program says the types of its parameters, and this test does not.
const UNTYPED: &str = "42P18";

#[tokio::test]
async fn every_statement_of_the_store_prepares_on_postgresql() {
    let Some(mut database) = Database::make("statements").await else {
        return;
    };
    let of_sqlx = "CREATE TABLE _sqlx_migrations (version BIGINT)";
    database.conn.execute(of_sqlx).await.expect("a table");
    let mut complaints = Vec::new();
    let mut used = Vec::new();
    for statement in statements_of_the_store() {
        let text = statement.postgres.as_ref().unwrap_or(&statement.sql);
        let refusal = refusal(&mut database.conn, text).await;
        let of_sqlite = OF_SQLITE
            .iter()
            .find(|(begin, _)| statement.name.starts_with(begin));
        match (refusal, of_sqlite) {
            (Some(error), None) => complaints.push(format!("{}: {error}", statement.name)),
            (Some(_), Some((begin, _))) => used.push(*begin),
            (None, _) => {}
        }
    }
    database.drop().await;
    let stale = OF_SQLITE.iter().filter(|(begin, _)| !used.contains(begin));
    complaints.extend(stale.map(|(begin, _)| format!("{begin}: all of it prepares: take it out")));
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[tokio::test]
async fn a_statement_that_only_sqlite_reads_does_not_prepare_on_postgresql() {
    let Some(mut database) = Database::make("control").await else {
        return;
    };
    let sample = r#"const A: &str = "SELECT id FROM runs WHERE id GLOB $1"; const B: &str = "SELECT 1; DELETE FROM runns";"#;
    for statement in read_statements("sample", sample) {
        let refusal = refusal(&mut database.conn, &statement.sql).await;
        assert!(refusal.is_some(), "{}", statement.name);
    }
    database.drop().await;
}

/// Why a statement of a text does not prepare.
async fn refusal(conn: &mut PgConnection, text: &str) -> Option<String> {
    for (number, sql) in statements(text).into_iter().enumerate() {
        let prepare = format!("PREPARE statement_{number} AS {sql}");
        let prepared = conn.execute(AssertSqlSafe(prepare)).await;
        conn.execute("DEALLOCATE ALL").await.expect("nothing kept");
        let Err(error) = prepared else { continue };
        let code = error
            .as_database_error()
            .and_then(|error| error.try_downcast_ref::<PgDatabaseError>())
            .map(PgDatabaseError::code);
        if code != Some(UNTYPED) {
            return Some(error.to_string());
        }
    }
    None
}

/// The statements of a text, each with parameters numbered from 1, as the store takes them apart.
fn statements(text: &str) -> Vec<String> {
    let mut statements = vec![(String::new(), Vec::new())];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (sql, numbers) = statements.last_mut().expect("one");
        let length = match first {
            '\'' | '"' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let digits = rest.bytes().skip(1).take_while(u8::is_ascii_digit);
        let digits = digits.count();
        match first {
            ';' => statements.push((String::new(), Vec::new())),
            '$' if digits > 0 => {
                let number = &rest[1..=digits];
                let place = numbers.iter().position(|known| *known == number);
                let place = place.unwrap_or_else(|| {
                    numbers.push(number);
                    numbers.len() - 1
                });
                sql.push_str(&format!("${}", place + 1));
                rest = &rest[1 + digits..];
                continue;
            }
            _ => sql.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    let texts = statements.into_iter().map(|(sql, _)| sql);
    texts.filter(|sql| !sql.trim().is_empty()).collect()
}
