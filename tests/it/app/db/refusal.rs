//! Writes that a database is made to refuse, as a full disk would.

use super::connection::Connection;
use sqlx::AssertSqlSafe;

impl Connection {
    /// Refuses what changes rows of a table (`INSERT ON feed`) that meet a condition on `new`, until
    /// [`Connection::allow`]. One of that name is made once in a database.
    pub async fn refuse(&mut self, name: &str, change: &str, when: &str) {
        let sql = match self {
            Self::Sqlite(_) => format!(
                "CREATE TRIGGER {name} BEFORE {change} WHEN {when} BEGIN SELECT RAISE(ABORT, '{name}'); END"
            ),
            Self::Postgres(_) => format!(
                "CREATE FUNCTION tests.{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                   IF {when} THEN RAISE EXCEPTION '{name}'; END IF; RETURN new; END $$;
                 CREATE TRIGGER {name} BEFORE {change} FOR EACH ROW EXECUTE FUNCTION tests.{name}()"
            ),
        };
        self.execute(AssertSqlSafe(sql)).await.expect("a trigger");
    }

    /// Takes back a refusal on a table.
    pub async fn allow(&mut self, name: &str, table: &str) {
        let sql = match self {
            Self::Sqlite(_) => format!("DROP TRIGGER {name}"),
            Self::Postgres(_) => format!("DROP TRIGGER {name} ON {table}"),
        };
        self.execute(AssertSqlSafe(sql)).await.expect("it is there");
    }
}
