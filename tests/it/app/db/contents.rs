//! Everything that a database holds, as bytes to compare.

use super::connection::Connection;
use super::query::{query, query_scalar};
use sqlx::AssertSqlSafe;

/// Every row, but for leases of nodes, which a heartbeat extends: of SQLite the pages of a copy without the header, whose counters change; of PostgreSQL the texts of the rows.
pub async fn every_row(conn: &mut Connection) -> Vec<u8> {
    if let Connection::Sqlite(_) = conn {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let copy = folder.path().join("copy.db");
        let into = query("VACUUM INTO $1").bind(copy.display().to_string());
        into.execute(conn).await.expect("a copy");
        // It moves on with the first write after the log was copied back, also by a write that changes nothing else.
        let mut copied = Connection::file(&copy).await;
        let mark = copied.execute("UPDATE engine SET mark = 0");
        mark.await.expect("the number of the copy");
        drop(copied);
        return std::fs::read(copy).expect("the copy").split_off(100);
    }
    let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'nodes' ORDER BY tablename";
    let tables: Vec<String> = query_scalar(tables).fetch_all(conn).await.expect("tables");
    let mut contents = Vec::new();
    for table in tables {
        let rows = format!("SELECT t::text FROM {table} t ORDER BY 1");
        let rows = query_scalar::<String>(AssertSqlSafe(rows));
        for row in rows.fetch_all(conn).await.expect("rows") {
            contents.extend(format!("{table} {row}\n").into_bytes());
        }
    }
    contents
}
