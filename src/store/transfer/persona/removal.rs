//! The rows of a persona go from a database, in the open transaction: of the old cell at the end of a move, of the new one where
//! an earlier attempt has left them.

use super::money;
use super::objects::OBJECT_COLUMNS;
use crate::domain::PersonaId;
use crate::store::db::{self, Connection, Sql};
use crate::store::persona_tables::{MADE_AGAIN, PERSONA_TABLES};
use crate::store::transfer::TransferError;
use crate::store::transfer::triggers::RestingTriggers;

/// The trigger that refuses what is done here.
static KEEPS_EVENTS: &str = "memory_events_delete";
/// References whose children no index finds, so that each row that goes would have all of them read.
static INDEXES: &[(&str, &str)] = &[
    ("messages", "raw_id"),
    ("events", "message_id"),
    ("delivery_reports", "message_id"),
    ("approvals", "draft_id"),
    ("approval_answers", "digest_id"),
    ("notices", "delivery_id"),
];
/// Notices of this persona that a mail of another one told, and of the engine that a mail of this one told: they were told, and
/// cannot name a mail in another database.
pub(in crate::store) const NOTIFIED: &str = "
    DELETE FROM notices WHERE persona_id = $1
      OR delivery_id IN (SELECT id FROM deliveries WHERE persona_id = $1)";

/// Deletes a persona's rows, with its share of the engine's account. Its objects are deleted by the next engine.
pub(super) async fn remove(
    conn: &mut Connection,
    persona: &PersonaId,
) -> Result<(), TransferError> {
    money::take(conn, persona).await?;
    let resting = RestingTriggers::rest_those(conn, |name| name == KEEPS_EVENTS).await?;
    for (table, column) in INDEXES {
        let index = format!("CREATE INDEX persona_move_{table} ON {table} ({column})");
        db::raw_sql(Sql::built(index)).execute(&mut *conn).await?;
    }
    drop_objects(conn, persona).await?;
    db::query(NOTIFIED)
        .bind(persona.as_str())
        .execute(&mut *conn)
        .await?;
    for table in MADE_AGAIN.iter().chain(PERSONA_TABLES.iter().rev()) {
        let delete = format!("DELETE FROM {} WHERE {}", table.name, table.whose);
        let delete = db::query(Sql::built(delete)).bind(persona.as_str());
        delete.execute(&mut *conn).await?;
    }
    for (table, _) in INDEXES {
        let index = Sql::built(format!("DROP INDEX persona_move_{table}"));
        db::raw_sql(index).execute(&mut *conn).await?;
    }
    resting.wake(conn).await
}

async fn drop_objects(conn: &mut Connection, persona: &PersonaId) -> Result<(), db::Error> {
    for columns in OBJECT_COLUMNS {
        let (table, object) = (columns.table, columns.object);
        let drop = format!(
            "INSERT INTO dropped_objects (name) SELECT {object} FROM {table} WHERE persona_id = $1 AND {object} IS NOT NULL
             ON CONFLICT DO NOTHING"
        );
        let drop = db::query(Sql::built(drop)).bind(persona.as_str());
        drop.execute(&mut *conn).await?;
    }
    Ok(())
}
