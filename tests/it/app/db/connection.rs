//! A connection to a workspace's database.

use super::query::{Done, raw_sql};
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection as _, PgConnection, SqlSafeStr, SqliteConnection};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// A connection beside those of the engine.
#[derive(Debug)]
pub enum Connection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Connection {
    /// Connects to the database of a workspace, which exists.
    pub async fn open(workspace: &Path) -> Self {
        match crate::app::database::url_of(workspace) {
            Some(url) => Self::at(&url).await,
            None => Self::file(&workspace.join("data/attache.db")).await,
        }
    }

    /// Connects to a file of SQLite.
    pub async fn file(path: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(Duration::from_secs(20));
        Self::Sqlite(options.connect().await.expect("the database"))
    }

    /// Connects to a database of PostgreSQL.
    pub async fn at(url: &str) -> Self {
        let options = PgConnectOptions::from_str(url).expect("a URL of PostgreSQL");
        let options = options
            .application_name("attache-tests")
            .options([("search_path", "public,tests")]);
        Self::Postgres(options.connect().await.expect("the database"))
    }

    /// The text for this database, where the two have no words in common.
    pub fn on(&self, sqlite: &'static str, postgres: &'static str) -> &'static str {
        match self {
            Self::Sqlite(_) => sqlite,
            Self::Postgres(_) => postgres,
        }
    }

    /// Executes one or several statements without arguments.
    pub async fn execute(&mut self, sql: impl SqlSafeStr) -> Result<Done, sqlx::Error> {
        raw_sql(sql).execute(self).await
    }

    /// Begins a transaction that writes.
    pub async fn begin(&mut self) -> Result<Done, sqlx::Error> {
        let begin = match self {
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
            Self::Postgres(_) => "BEGIN",
        };
        self.execute(begin).await
    }

    /// Takes what every write of an engine needs, until the transaction is over.
    pub async fn hold_writes(&mut self) {
        self.begin().await.expect("a transaction");
        if let Self::Postgres(_) = self {
            let lock = "SELECT pg_advisory_xact_lock(1096045637, 0)";
            self.execute(lock).await.expect("the lock");
        }
    }

    /// Whether nobody holds what every write of an engine needs.
    pub async fn may_write(&mut self) -> bool {
        let patience = self.on("PRAGMA busy_timeout = 50", "SET lock_timeout = 50");
        self.execute(patience).await.expect("a setting");
        let asked = self.on(
            "BEGIN IMMEDIATE; ROLLBACK",
            "BEGIN; SELECT pg_advisory_xact_lock(1096045637, 0); ROLLBACK",
        );
        self.execute(asked).await.is_ok()
    }

    /// Lets this connection break what references keep. On PostgreSQL, whose references are triggers, those of the schema are
    /// made to work on, and the role must be a superuser.
    pub async fn unchecked(&mut self) {
        let sql = match self {
            Self::Sqlite(_) => "PRAGMA foreign_keys = OFF",
            Self::Postgres(_) => {
                "DO $$ DECLARE t record; BEGIN
                   FOR t IN SELECT tgrelid::regclass AS of, tgname FROM pg_trigger WHERE NOT tgisinternal LOOP
                     EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', t.of, t.tgname);
                   END LOOP; END $$;
                 SET session_replication_role = replica"
            }
        };
        self.execute(sql).await.expect("no checks");
    }

    pub async fn commit(&mut self) -> Result<Done, sqlx::Error> {
        self.execute("COMMIT").await
    }

    pub async fn close(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(conn) => conn.close().await,
            Self::Postgres(conn) => conn.close().await,
        }
    }
}
