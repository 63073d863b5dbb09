//! Every text of every table, looked through for words of a person.

use crate::store::memory::erase::TEXT_COLUMNS;
use crate::store::{Result, Store};
use crate::text::quotations::Quotations;
use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, Row};
use std::collections::BTreeMap;

impl Store {
    /// Counts the rows that quote, as `table.column`.
    pub async fn quoting_places(&self, quotations: &Quotations) -> Result<BTreeMap<String, u64>> {
        let mut places = BTreeMap::new();
        let columns = sqlx::query(TEXT_COLUMNS).fetch_all(self.readers()).await?;
        for row in &columns {
            let (table, column): (String, String) = (row.get("table_name"), row.get("column_name"));
            // Both names come from the schema.
            let sql = format!(
                "SELECT CAST(\"{column}\" AS BLOB) AS words FROM \"{table}\" WHERE \"{column}\" IS NOT NULL"
            );
            let mut rows = sqlx::query(AssertSqlSafe(sql)).fetch(self.readers());
            let mut count = 0;
            while let Some(row) = rows.try_next().await? {
                let words: &[u8] = row.get("words");
                count += u64::from(quotations.are_in(&String::from_utf8_lossy(words)));
            }
            if count > 0 {
                places.insert(format!("{table}.{column}"), count);
            }
        }
        Ok(places)
    }
}
