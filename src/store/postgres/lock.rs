//! Locks that a write takes first, for as long as its transaction lasts
//! (postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS).
//!
//! What one writer is in SQLite, one writer for each persona is here: every transaction shares the
//! lock of the whole database, and has those of its scope for itself. A scope that needs everything
//! has the first for itself, too. Locks are taken in the order of their numbers, so that no two writes
//! wait for each other.

use crate::domain::{PersonaId, sha256_hex};
use crate::store::db::{
    BeginFunction, Connection, Scope, ServerConnection, Sql, named_by, raw_sql,
};
use crate::store::sql::json_list;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Executor, Row, SqlSafeStr};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::LazyLock;

/// First numbers of our locks, so that other programs may have locks in the same database: of the
/// whole database (`ATTE` in ASCII), of personas, of mailboxes, of claims, of grants.
const WHOLE: i32 = 0x4154_5445;
const PERSONA: i32 = WHOLE + 1;
const MAILBOX: i32 = WHOLE + 2;
const CLAIMS: i32 = WHOLE + 3;
pub const GRANTS: i32 = WHOLE + 4;

/// Locks what the parts of the engine's account may spend, by [`GRANTS`]. Whoever has it may lock all parts; others have one
/// each, and wait for no other.
pub static LOCK_GRANTS: &str = "SELECT pg_advisory_xact_lock(CAST($1 AS INTEGER), 0)";

/// Locks the budget accounts of a provider call, before a text changes them in whatever order.
pub const ACCOUNTS_OF_CALL: &str = "
    SELECT a.scope FROM budget_accounts a JOIN (SELECT p.value ->> 'scope' AS scope, p.value ->> 'owner' AS owner,
        p.value ->> 'period' AS period FROM budget_reservations h, json_each(h.accounts_json) p
      WHERE h.run_id = $1 AND h.turn_index = $2 AND h.attempt = $3) w
      ON a.scope = w.scope AND a.owner = w.owner AND a.period = w.period
      ORDER BY a.scope, a.owner, a.period FOR UPDATE OF a";
/// Those of a call for vectors.
pub const ACCOUNTS_OF_EMBEDDING_CALL: &str = "
    SELECT a.scope FROM budget_accounts a JOIN (SELECT p.value ->> 'scope' AS scope, p.value ->> 'owner' AS owner,
        p.value ->> 'period' AS period FROM embedding_calls c, json_each(c.accounts_json) p
      WHERE c.id = $1 AND c.state = 'open') w
      ON a.scope = w.scope AND a.owner = w.owner AND a.period = w.period
      ORDER BY a.scope, a.owner, a.period FOR UPDATE OF a";

/// Takes the locks of a write, reads the lease of a node after them, and tells whether texts wait for their words, with plans that
/// are kept; a function of the connection.
pub static BEGIN_FUNCTION: LazyLock<BeginFunction> = LazyLock::new(|| {
    let name = &*BEGIN_NAME;
    BeginFunction {
        definition: format!(
            "CREATE OR REPLACE FUNCTION pg_temp.{name}{};
             PREPARE {name} (BOOLEAN, INT[], INT[], BIGINT) AS
               SELECT pg_temp.{name}($1, $2, $3, $4) AS is_leased, pg_backend_pid() AS session,
                 EXISTS (SELECT 1 FROM letter_words WHERE words IS NULL)
                   OR EXISTS (SELECT 1 FROM knowledge_fts WHERE words IS NULL) AS has_texts",
            *BEGIN_DEFINITION
        ),
    }
});
static BEGIN_NAME: LazyLock<String> = LazyLock::new(|| named_by(&BEGIN_DEFINITION));
static BEGIN_DEFINITION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "(is_alone BOOLEAN, classes INT[], numbers INT[], node BIGINT)
         RETURNS BOOLEAN LANGUAGE plpgsql AS $attache$
         DECLARE
           is_leased BOOLEAN;
         BEGIN
           IF is_alone THEN
             PERFORM pg_advisory_xact_lock({WHOLE}, 0);
           ELSE
             PERFORM pg_advisory_xact_lock_shared({WHOLE}, 0);
           END IF;
           FOR at IN 1 .. coalesce(array_length(classes, 1), 0) LOOP
             PERFORM pg_advisory_xact_lock(classes[at], numbers[at]);
           END LOOP;
           SELECT n.expires_ms > server_ms() INTO is_leased FROM nodes n WHERE n.epoch = node;
           RETURN is_leased;
         END $attache$"
    )
});

/// State of a node's lease at the begin of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeLease {
    Held,
    Expired,
    /// Another node has taken its work over.
    Gone,
}

/// Locks of a write.
pub(super) struct Locks {
    is_alone: bool,
    /// First and second number of each.
    own: BTreeSet<(i32, i32)>,
}

impl Locks {
    /// No locks but the shared one of the database, for controls in tests.
    pub fn none() -> Self {
        Self {
            is_alone: false,
            own: BTreeSet::new(),
        }
    }

    /// Returns the locks of a scope. Personas of rows are looked up; a row keeps its persona for ever.
    pub async fn of(scope: &Scope, conn: &mut Connection) -> Result<Self, sqlx::Error> {
        let own = match scope {
            Scope::Engine | Scope::Rows => BTreeSet::new(),
            Scope::Claims => BTreeSet::from([(CLAIMS, 0)]),
            Scope::Mailbox(name) => BTreeSet::from([(MAILBOX, number(name))]),
            Scope::Personas(personas) => {
                let ids = personas.iter().map(PersonaId::as_str);
                ids.map(|id| (PERSONA, number(id))).collect()
            }
            Scope::PersonasOf { table, ids } => {
                let sql = format!(
                    "SELECT DISTINCT persona_id FROM {table} WHERE id IN (SELECT value FROM json_each($1))"
                );
                let ids = json_list(ids.iter());
                let personas: Vec<String> = conn.all(Sql::built(sql), ids).await?;
                personas.iter().map(|id| (PERSONA, number(id))).collect()
            }
        };
        Ok(Self {
            is_alone: *scope == Scope::Engine,
            own,
        })
    }

    /// Begins a transaction that has the locks, and returns how it is with the lease of the node of that epoch. It is
    /// read after the lock of the whole database is had: whoever buries a node has that lock alone.
    pub async fn begin(
        &self,
        conn: &mut Connection,
        node: Option<i64>,
    ) -> Result<NodeLease, sqlx::Error> {
        let Connection::Postgres(conn) = conn else {
            return Ok(NodeLease::Held);
        };
        let by_function = conn.begins_by_function();
        let text = match by_function {
            true => self.call(node),
            false => self.statements(node),
        };
        let rows = match asked(conn, text).await {
            Err(error) if by_function && is_elsewhere(&error) => {
                conn.note_session(None);
                asked(conn, "ROLLBACK".to_owned()).await?;
                asked(conn, self.statements(node)).await?
            }
            rows => rows?,
        };
        let begun = rows.last();
        if let Some(session) = begun.and_then(|row| row.try_get("session").ok()) {
            conn.note_session(Some(session));
        }
        // Texts of an earlier transaction may wait for their words, too.
        conn.note_texts(begun.is_none_or(|row| row.try_get("has_texts").unwrap_or(true)));
        if node.is_none() {
            return Ok(NodeLease::Held);
        }
        // Rows of the locks have another column.
        match rows.last().and_then(|row| row.try_get("is_leased").ok()) {
            Some(true) => Ok(NodeLease::Held),
            Some(false) => Ok(NodeLease::Expired),
            None => Ok(NodeLease::Gone),
        }
    }

    fn statements(&self, node: Option<i64>) -> String {
        let whole = match self.is_alone {
            true => "pg_advisory_xact_lock",
            false => "pg_advisory_xact_lock_shared",
        };
        let mut text = format!("BEGIN; SELECT {whole}({WHOLE}, 0);");
        for (class, number) in &self.own {
            let _infallible = write!(text, " SELECT pg_advisory_xact_lock({class}, {number});");
        }
        if let Some(epoch) = node {
            let _infallible = write!(
                text,
                " SELECT expires_ms > server_ms() AS is_leased FROM nodes WHERE epoch = {epoch}"
            );
        }
        text
    }

    /// Returns the same by [`BEGIN_FUNCTION`], with the session as well.
    fn call(&self, node: Option<i64>) -> String {
        let list = |numbers: Vec<i32>| {
            let numbers: Vec<_> = numbers.iter().map(i32::to_string).collect();
            numbers.join(",")
        };
        let classes = list(self.own.iter().map(|(class, _)| *class).collect());
        let numbers = list(self.own.iter().map(|(_, number)| *number).collect());
        let node = node.map_or_else(|| "NULL".to_owned(), |epoch| epoch.to_string());
        let is_alone = self.is_alone;
        format!(
            "BEGIN; EXECUTE {}({is_alone}, '{{{classes}}}', '{{{numbers}}}', {node})",
            *BEGIN_NAME
        )
    }
}

async fn asked(conn: &mut ServerConnection, text: String) -> Result<Vec<PgRow>, sqlx::Error> {
    let text = AssertSqlSafe(text).into_sql_str();
    conn.answered(|conn| conn.fetch_all(sqlx::raw_sql(text)))
        .await
}

/// Reports whether a session does not have what another one has: a prepared statement, or a function.
fn is_elsewhere(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    matches!(code.as_deref(), Some("26000" | "42883" | "3F000"))
}

/// Takes the lock of the whole database for as long as the connection lasts: no other write begins meanwhile.
pub async fn have_alone(conn: &mut Connection) -> Result<(), sqlx::Error> {
    let sql = format!("SELECT pg_advisory_lock({WHOLE}, 0)");
    raw_sql(Sql::built(sql)).execute(conn).await
}

/// Returns the second number of a name's lock. It is the same in every version of this program; two
/// names with one number only wait for each other.
fn number(name: &str) -> i32 {
    let digest = sha256_hex(&[name.as_bytes()]);
    let head = digest.get(..8).unwrap_or_default();
    u32::from_str_radix(head, 16)
        .unwrap_or_default()
        .cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_in_every_version() {
        assert_eq!(WHOLE, i32::from_be_bytes(*b"ATTE"));
        // The first four bytes of SHA-256 of `abc` (FIPS 180-4, example).
        assert_eq!(number("abc"), 0xba78_16bf_u32.cast_signed());
        assert_ne!(number("porter"), number("clerk"));
    }
}
