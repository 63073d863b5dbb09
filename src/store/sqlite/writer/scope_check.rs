//! Check that a write changes rows of its own scope only, for tests.
//!
//! Triggers of the connection refuse a changed row that belongs to a persona outside the scope. Rows
//! that name no persona are not seen, nor is what a write only reads.

use crate::domain::PersonaId;
use crate::store::db::{self, Connection, Scope, Sql};
use crate::store::sql::json_list;

/// Tables that name a persona. The statements here are for tests and touch no row that is kept.
static TABLES_OF_PERSONAS: &str = "
    SELECT t.name AS name FROM sqlite_schema t WHERE t.type = 'table'
      AND EXISTS (SELECT 1 FROM pragma_table_info(t.name) c WHERE c.name = 'persona_id')";
static SCOPE_TABLE: &str = "CREATE TEMP TABLE IF NOT EXISTS write_scope (persona_id TEXT NOT NULL)";
static LEAVE_SCOPE: &str = "DELETE FROM temp.write_scope";
/// A scope without a persona is one, too: the space is the name of none.
static ENTER_SCOPE: &str =
    "INSERT INTO temp.write_scope SELECT value FROM json_each($1) UNION ALL SELECT ' '";

/// Begins the check on a connection.
pub(super) async fn begin(conn: &mut Connection) -> Result<(), db::Error> {
    conn.exec(SCOPE_TABLE, ()).await?;
    let tables: Vec<String> = conn.all(TABLES_OF_PERSONAS, ()).await?;
    for table in tables {
        for (change, row) in [("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")] {
            let trigger = format!(
                "CREATE TEMP TRIGGER IF NOT EXISTS scope_{table}_{change} AFTER {change} ON main.{table}
                 WHEN EXISTS (SELECT 1 FROM write_scope)
                   AND {row}.persona_id NOT IN (SELECT persona_id FROM write_scope)
                 BEGIN SELECT raise(ABORT, 'a write outside its scope: {change} {table}'); END"
            );
            db::raw_sql(Sql::built(trigger)).execute(conn).await?;
        }
    }
    Ok(())
}

/// Sets the scope of the write that comes next in the transaction.
pub(super) async fn enter(conn: &mut Connection, scope: Scope) -> Result<(), db::Error> {
    conn.exec(LEAVE_SCOPE, ()).await?;
    let personas: Vec<String> = match scope {
        Scope::Personas(personas) => personas.iter().map(PersonaId::to_string).collect(),
        Scope::PersonasOf { table, ids } => {
            let personas = format!(
                "SELECT persona_id FROM {table} WHERE id IN (SELECT value FROM json_each($1))"
            );
            let ids = json_list(ids.iter());
            conn.all(Sql::built(personas), ids).await?
        }
        Scope::Mailbox(_) | Scope::Claims | Scope::Rows | Scope::Engine => return Ok(()),
    };
    let personas = json_list(personas.iter());
    conn.exec(ENTER_SCOPE, personas).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::store::Store;
    use std::sync::Arc;

    static INSERT: &str =
        "INSERT INTO halts (persona_id, reason, halted_at) VALUES ($1, 'a test', '')";

    #[tokio::test]
    async fn a_write_outside_its_scope_is_refused_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path(), Arc::new(SystemClock::new()));
        let store = store.await.expect("a database");
        let (porter, clerk) = (PersonaId::parse("porter"), PersonaId::parse("clerk"));
        let (porter, clerk) = (porter.expect("an id"), clerk.expect("an id"));
        let halt = async |scope: Scope, persona: &PersonaId| {
            let persona = persona.to_string();
            let write = transact!(store, scope, |conn| {
                conn.exec(INSERT, persona).await?;
                Ok(())
            });
            write.await.map_err(|error| format!("{error:?}"))
        };
        let unchecked = halt(Scope::persona(&porter), &clerk).await;
        unchecked.expect("nobody has asked for the check");
        store.check_scopes();
        let found = halt(Scope::persona(&clerk), &porter).await;
        let found = found.expect_err("another persona's row");
        assert!(found.contains("outside its scope: INSERT halts"), "{found}");
        halt(Scope::persona(&porter), &porter)
            .await
            .expect("its own row");
        let all = [
            "DELETE FROM halts WHERE persona_id = 'porter'",
            "DELETE FROM halts",
        ];
        for (sql, is_own) in all.into_iter().zip([true, false]) {
            let write = transact!(store, Scope::persona(&porter), |conn| conn
                .exec(sql, ())
                .await);
            assert_eq!(write.await.is_ok(), is_own, "{sql}");
        }
        let nobody = Scope::persona_of("runs", "no such run");
        halt(nobody, &porter).await.expect_err("a scope of nobody");
        halt(Scope::Engine, &porter).await.expect("everything");
    }
}
