//! The file written anew, so that no page and no log holds what rows have lost.
//!
//! SQLite leaves what a row held before in the free space of its page; `VACUUM` writes every page anew
//! (<https://sqlite.org/lang_vacuum.html>), and the log is copied back and cut off.

use crate::store::db::{Connection, FileAccess, FileOptions, Pool, raw_sql};
use crate::store::postgres::url::UNHURRIED;
use crate::store::sqlite::refusal::is_one_of;
use crate::store::{Result, Store, StoreError};

const REWRITE: &str = "VACUUM";
/// Of PostgreSQL: every table anew, each locked meanwhile.
static REWRITE_TABLES: &str = "VACUUM FULL";
static MAY_WRITE: &str = "SET default_transaction_read_only = off";
static UNBOUNDED: &str = "SET statement_timeout = 0";
const CUT_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

impl Store {
    /// Writes the database file anew. `false`: another process is at work on it.
    pub async fn rewrite_file(&self) -> Result<bool> {
        let done = match self.readers() {
            Pool::File(readers) => {
                let options = FileOptions {
                    access: FileAccess::Write,
                    ..readers.options().clone()
                };
                let mut conn = Connection::from(options.open()?);
                let done = rewrite(&mut conn).await;
                conn.close().await?;
                done
            }
            Pool::Postgres(_) => {
                let mut conn = self.unhurried_reader().await?;
                let done = rewrite_tables(&mut conn).await;
                // It is not one that only reads any more, also where that failed.
                conn.close().await?;
                return done.map(|()| true);
            }
        };
        match done {
            Err(error) if is_busy(&error) => Ok(false),
            done => done,
        }
    }

    /// Returns a connection for statements that read whole tables, however long that takes. It is to be closed, or the next
    /// who reads has it.
    pub(in crate::store) async fn unhurried_reader(&self) -> Result<Connection> {
        let Pool::Postgres(readers) = self.readers() else {
            return Ok(self.readers().acquire().await?);
        };
        let mut conn = readers.acquire().await?;
        conn.wait_up_to(UNHURRIED);
        let mut conn = Connection::from(conn);
        raw_sql(UNBOUNDED).execute(&mut conn).await?;
        Ok(conn)
    }
}

async fn rewrite_tables(conn: &mut Connection) -> Result<()> {
    for statement in [MAY_WRITE, REWRITE_TABLES] {
        raw_sql(statement).execute(&mut *conn).await?;
    }
    Ok(())
}

async fn rewrite(conn: &mut Connection) -> Result<bool> {
    conn.exec(REWRITE, ()).await?;
    let cut = conn.row(CUT_LOG, ()).await?;
    Ok(cut.try_get::<i64>("busy")? == 0)
}

/// Reports whether another process reads or writes.
fn is_busy(error: &StoreError) -> bool {
    const BUSY: i32 = 5;
    matches!(error, StoreError::Sql(error) if is_one_of(error, &[BUSY]))
}
