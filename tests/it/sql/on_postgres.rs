//! Every statement of the store prepares on PostgreSQL, too, in its own text where it has one; except what is SQLite's alone.

use super::both::Database;
use super::source::{statements_of_postgres, statements_of_the_store};
use super::{Statement, read_statements};
use attache::store::text_of_postgres;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, SqlSafeStr};

/// Statements that only SQLite executes: its file, its log, its index of words and its own tables.
const SQLITE_ALONE: &[&str] = &[
    "backup::COPY",
    "before_upgrade::COPY_BYTES",
    "before_upgrade::LOOK_OVER",
    "identity::DATABASE_FILE",
    "index_merge::INDEX_LETTERS",
    "index_merge::MERGE_LETTER_INDEXES",
    "index_merge::NEWEST_LETTERS",
    "log::COPY_BACK",
    "log::CUT",
    "log::LOG_LENGTH",
    "mark::RAISE_MARK",
    "mod::BEGIN",
    "mod::BEGIN_ANEW",
    "mod::CHECKPOINT",
    "numbers::GO_ON",
    "open::DATABASE_BYTES",
    "rewrite::CUT_LOG",
    "shape::COLUMNS_OF_FILE",
    "upgrade_check::PAGES",
    "versions::HAS_TABLES",
    "versions::IS_NEW",
    "whole::FRESH_PAGES",
];
/// `indeterminate_datatype` and `ambiguous_parameter`: PostgreSQL has read the statement, and would be told the type with the
/// value.
const NO_TYPE: [&str; 2] = ["42P18", "42P08"];

#[tokio::test]
async fn every_statement_of_the_store_prepares_on_postgresql() {
    let Some(mut database) = Database::make("statements").await else {
        return;
    };
    // As sqlx makes it.
    let migrations = "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY)";
    database.conn.execute(migrations).await.expect("made");
    let mut refused = Vec::new();
    let statements = statements_of_the_store().into_iter();
    for statement in statements.chain(statements_of_postgres()) {
        let refusal = refusal(&mut database.conn, &statement).await;
        match (refusal, SQLITE_ALONE.contains(&statement.name.as_str())) {
            (Some(error), false) => refused.push(format!("{}: {error}", statement.name)),
            (None, true) => {
                refused.push(format!("{}: take it out of the list", statement.name));
            }
            _ => {}
        }
    }
    assert!(refused.is_empty(), "\n{}\n", refused.join("\n"));
    database.drop().await;
}

#[tokio::test]
async fn a_statement_that_only_sqlite_reads_does_not_prepare() {
    let Some(mut database) = Database::make("misspelt").await else {
        return;
    };
    let source = r##"
        const GLOB: &str = "SELECT id FROM runs WHERE id GLOB $1";
        const SECOND: &str = "DELETE FROM runs WHERE id = 'a;b'; DELETE FROM runns";
        const NUMBER: &str = "SELECT id FROM runs WHERE seq IN (SELECT value FROM json_each($1))";
        const PAIR: Sql = Sql::pair("SELECT 1", "SELECT idd FROM runs WHERE id = $1");
        const GOOD: &str = "SELECT id FROM runs WHERE $1 IS NULL OR id = 'a;b'; SELECT $2";
    "##;
    for statement in read_statements("sample", source) {
        let refusal = refusal(&mut database.conn, &statement).await;
        let is_good = statement.name == "sample::GOOD";
        assert_eq!(
            refusal.is_none(),
            is_good,
            "{}: {refusal:?}",
            statement.name
        );
    }
    database.drop().await;
}

/// Why one of the statements of a text does not prepare.
async fn refusal(conn: &mut PgConnection, statement: &Statement) -> Option<sqlx::Error> {
    let text = statement.postgres.as_ref().unwrap_or(&statement.sql);
    for sql in pieces(text) {
        let sql = AssertSqlSafe(sql).into_sql_str();
        let Err(error) = conn.prepare(sql).await else {
            continue;
        };
        let code = error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code);
        if !code.is_some_and(|code| NO_TYPE.contains(&&*code)) {
            return Some(error);
        }
    }
    None
}

/// The statements of a text as PostgreSQL gets them: they end outside of quotes.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let (mut pieces, mut quote) = (vec![String::new()], None);
    for c in text.chars() {
        match (quote, c) {
            (None, ';') => {
                pieces.push(String::new());
                continue;
            }
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
    }
    pieces.retain(|piece| !piece.trim().is_empty());
    pieces.iter().map(|piece| text_of_postgres(piece)).collect()
}
