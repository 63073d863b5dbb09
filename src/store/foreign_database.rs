//! Databases of other programs: rows as texts, read by the names of their columns.
//!
//! The schema is not known here and nothing is assumed of it. Absent on purpose: writing. A caller opens a copy, because
//! SQLite makes files beside a database that it reads.

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use std::collections::BTreeMap;
use std::path::Path;

pub use sqlx::Error as ForeignDatabaseError;

/// Rows of a page.
const PAGE_ROWS: i64 = 50;
/// Most columns of a table that are read; SQLite bounds the arguments of a function.
const COLUMNS_MAX: usize = 40;
/// Most bytes of a text that are read.
const TEXT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What SQLite finds when it reads every page of the file.
pub(in crate::store) const CHECK: &str = "SELECT quick_check AS verdict FROM pragma_quick_check";
pub(in crate::store) const TABLES: &str =
    "SELECT name AS name FROM sqlite_master WHERE type = 'table'";
pub(in crate::store) const COLUMNS: &str =
    "SELECT name AS name FROM pragma_table_info($1) ORDER BY cid";

/// A database of another program.
pub struct ForeignDatabase {
    conn: SqliteConnection,
}

/// A row as texts; a column that is NULL or holds bytes is absent.
#[derive(Debug, Clone, Default)]
pub struct ForeignRow {
    pub rowid: i64,
    values: BTreeMap<String, String>,
    /// Bytes of the texts that are longer than what is read of them.
    cut: BTreeMap<String, u64>,
}

impl ForeignRow {
    /// Bytes of the column whose text is read, where not all of it was.
    pub fn cut_bytes(&self, columns: &[&str]) -> Option<u64> {
        let read = columns.iter().find(|column| self.text(&[column]).is_some());
        self.cut.get(*read?).copied()
    }

    /// The first of these columns that is there and not blank.
    pub fn text(&self, columns: &[&str]) -> Option<&str> {
        let found = columns.iter().filter_map(|column| self.values.get(*column));
        found
            .map(String::as_str)
            .find(|text| !text.trim().is_empty())
    }
}

impl ForeignDatabase {
    /// Opens a copy that belongs to the caller. Errors: the file is no database, or a damaged one.
    pub async fn open(copy: &Path) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(copy)
            .create_if_missing(false);
        let mut conn = options.connect().await?;
        let verdict: String = sqlx::query(CHECK)
            .fetch_one(&mut conn)
            .await?
            .try_get("verdict")?;
        match verdict.as_str() {
            "ok" => Ok(Self { conn }),
            damaged => Err(sqlx::Error::Protocol(damaged.to_owned())),
        }
    }

    pub async fn tables(&mut self) -> Result<Vec<String>, sqlx::Error> {
        let rows = sqlx::query(TABLES).fetch_all(&mut self.conn).await?;
        rows.iter().map(|row| row.try_get("name")).collect()
    }

    /// The columns of a table; none where there is no such table.
    pub async fn columns(&mut self, table: &str) -> Result<Vec<String>, sqlx::Error> {
        let rows = sqlx::query(COLUMNS)
            .bind(table)
            .fetch_all(&mut self.conn)
            .await?;
        let mut names: Vec<String> = rows
            .iter()
            .map(|row| row.try_get("name"))
            .collect::<Result<_, _>>()?;
        names.truncate(COLUMNS_MAX);
        Ok(names)
    }

    pub async fn count(&mut self, table: &str) -> Result<u64, sqlx::Error> {
        let sql = format!("SELECT count(*) AS rows FROM {}", quoted_name(table));
        let row = sqlx::query(AssertSqlSafe(sql))
            .fetch_one(&mut self.conn)
            .await?;
        Ok(u64::try_from(row.try_get::<i64, _>("rows")?).unwrap_or_default())
    }

    /// The rows behind one, in the order in which they were inserted; an empty page is the end.
    pub async fn page(
        &mut self,
        table: &str,
        columns: &[String],
        behind: Option<i64>,
    ) -> Result<Vec<ForeignRow>, sqlx::Error> {
        let lengths = columns.iter().map(|column| {
            let (text, name) = (column.replace('\'', "''"), quoted_name(column));
            format!(
                "'{text}', CASE WHEN typeof({name}) = 'text' AND octet_length({name}) > {TEXT_BYTES_MAX} THEN octet_length({name}) END"
            )
        });
        let lengths = lengths.collect::<Vec<_>>().join(", ");
        let members = columns.iter().map(|column| {
            let (text, name) = (column.replace('\'', "''"), quoted_name(column));
            // JSON holds no bytes.
            format!("'{text}', CASE typeof({name}) WHEN 'blob' THEN NULL ELSE substr({name}, 1, {TEXT_BYTES_MAX}) END")
        });
        let members = members.collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT rowid AS row_number, CAST(json_object({members}) AS BLOB) AS members,
               json_object({lengths}) AS lengths FROM {}
             WHERE rowid > $1 ORDER BY rowid LIMIT $2",
            quoted_name(table)
        );
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(behind.unwrap_or(i64::MIN))
            .bind(PAGE_ROWS)
            .fetch_all(&mut self.conn)
            .await?;
        rows.iter().map(row_of).collect()
    }
}

fn row_of(row: &sqlx::sqlite::SqliteRow) -> Result<ForeignRow, sqlx::Error> {
    let members: &[u8] = row.try_get("members")?;
    let members: BTreeMap<String, Option<String>> =
        serde_json::from_str(&String::from_utf8_lossy(members))
            .map_err(|error| sqlx::Error::Decode(error.into()))?;
    let lengths: BTreeMap<String, Option<u64>> = serde_json::from_str(row.try_get("lengths")?)
        .map_err(|error| sqlx::Error::Decode(error.into()))?;
    let values = members.into_iter();
    Ok(ForeignRow {
        rowid: row.try_get("row_number")?,
        values: values
            .filter_map(|(name, value)| Some((name, value?)))
            .collect(),
        cut: lengths
            .into_iter()
            .filter_map(|(name, bytes)| Some((name, bytes?)))
            .collect(),
    })
}

/// A name as an identifier of SQL, whatever is in it.
fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
