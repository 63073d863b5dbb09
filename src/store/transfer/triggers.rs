//! Triggers of the target, which rest while rows come: what they would compute comes with the rows.
//!
//! Those of the indexes of words go on, for these indexes are not copied: they are other tables on each database.

use super::error::TransferError;
use crate::store::db::{self, Connection, Row, Sql};

/// Triggers that name a text to an index of words, or put it there.
pub(super) static OF_INDEXES: &[&str] = &[
    "knowledge_fts_insert",
    "letter_part_texts_insert",
    "letter_words_insert",
];

/// All triggers; `sql` makes it anew where it has to be dropped.
const TRIGGERS: Sql = Sql::pair(
    "SELECT name, tbl_name AS of_table, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name",
    "
    SELECT t.tgname::TEXT AS name, c.relname::TEXT AS of_table, '' AS sql
    FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::REGNAMESPACE ORDER BY t.tgname",
);

/// Triggers that rest.
pub(super) struct RestingTriggers(Vec<Resting>);

struct Resting {
    name: String,
    of_table: String,
    sql: String,
}

impl RestingTriggers {
    /// Has the triggers of a database rest.
    pub async fn rest(conn: &mut Connection) -> Result<Self, TransferError> {
        Self::rest_those(conn, |name| !OF_INDEXES.contains(&name)).await
    }

    /// Has the triggers of these names rest.
    pub async fn rest_those(
        conn: &mut Connection,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, TransferError> {
        let triggers = conn.rows(TRIGGERS, ()).await?;
        let resting = |row: &Row| Resting {
            name: row.get("name"),
            of_table: row.get("of_table"),
            sql: row.get("sql"),
        };
        let mut triggers: Vec<Resting> = triggers.iter().map(resting).collect();
        triggers.retain(|trigger| is_wanted(&trigger.name));
        for Resting { name, of_table, .. } in &triggers {
            // SQLite cannot switch a trigger off.
            let sql = Sql::built_pair(
                format!("DROP TRIGGER \"{name}\""),
                format!("ALTER TABLE \"{of_table}\" DISABLE TRIGGER \"{name}\""),
            );
            db::raw_sql(sql).execute(conn).await?;
        }
        Ok(Self(triggers))
    }

    /// Has them work again.
    pub async fn wake(&self, conn: &mut Connection) -> Result<(), TransferError> {
        for trigger in &self.0 {
            let Resting {
                name,
                of_table,
                sql,
            } = trigger;
            let sql = Sql::built_pair(
                sql.clone(),
                format!("ALTER TABLE \"{of_table}\" ENABLE TRIGGER \"{name}\""),
            );
            db::raw_sql(sql).execute(conn).await?;
        }
        Ok(())
    }
}
