//! Numbers that a database gives to new rows: they go on behind the highest that the source has given.

use super::error::TransferError;
use super::shape::TableShape;
use crate::store::db::{self, Connection, Row, Sql};
use std::collections::BTreeMap;

/// The highest numbers that were given, also those of rows that are gone.
const GIVEN: Sql = Sql::pair(
    "SELECT name AS of_table, seq AS highest FROM sqlite_sequence",
    "
    SELECT c.relname::TEXT AS of_table, s.last_value AS highest
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relnamespace = current_schema()::REGNAMESPACE
      JOIN pg_sequences s ON pg_get_serial_sequence(quote_ident(c.relname), a.attname::TEXT)
        = quote_ident(s.schemaname) || '.' || quote_ident(s.sequencename)
    WHERE a.attidentity <> '' AND a.attname <> 'rowid' AND s.last_value IS NOT NULL",
);
/// In SQLite most tables go on behind their highest row.
const GO_ON: &str = "
    DELETE FROM sqlite_sequence WHERE name = $1;
    INSERT INTO sqlite_sequence (name, seq) SELECT name, $2 FROM sqlite_schema
      WHERE type = 'table' AND name = $1 AND sql LIKE '%AUTOINCREMENT%'";
/// What is older than the oldest event was pruned.
static FEED_PRUNED: &str =
    "UPDATE feed_pruned SET through = coalesce((SELECT min(seq) - 1 FROM feed), 0)";

/// Has the target number its next rows.
pub(super) async fn go_on(
    source: &mut Connection,
    target: &mut Connection,
    tables: &[TableShape],
) -> Result<(), TransferError> {
    let given = source.rows(GIVEN, ()).await?;
    let pair = |row: &Row| (row.get("of_table"), row.get("highest"));
    let given: BTreeMap<String, i64> = given.iter().map(pair).collect();
    if target.postgres().is_none() {
        for (table, highest) in given {
            target.exec(GO_ON, (table, highest)).await?;
        }
        return Ok(());
    }
    for table in tables {
        for column in table.columns.iter().filter(|column| column.is_identity) {
            let highest = given.get(&table.name).copied().unwrap_or(0);
            go_on_behind(target, &table.name, &column.name, highest).await?;
        }
    }
    target.exec(FEED_PRUNED, ()).await?;
    Ok(())
}

/// Has PostgreSQL number the next rows of a table behind the highest that it has, and behind `given`.
pub(super) async fn go_on_behind(
    conn: &mut Connection,
    table: &str,
    column: &str,
    given: i64,
) -> Result<(), db::Error> {
    let sql = format!(
        "SELECT setval(pg_get_serial_sequence('\"{table}\"', '{column}'), greatest(n.last, 1), n.last > 0)
         FROM (SELECT greatest(coalesce(max(\"{column}\"), 0), $1) AS last FROM \"{table}\") n"
    );

    conn.rows(Sql::built(sql), given).await?;
    Ok(())
}
