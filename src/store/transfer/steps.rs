//! A transfer, step by step: begin, copy, index, compare, audit, end. A caller that stops in between has changed nothing in the
//! source, and the next transfer begins the target anew.

use super::canonical::{ReplacedNul, TableDigest};
use super::error::TransferError;
use super::load::{copy_table, digest_of, read_by_keys};
use super::numbers::go_on;
use super::place::TransferPlace;
use super::shape::Shapes;
use super::source::TransferSource;
use super::target::TransferTarget;
use super::triggers::RestingTriggers;
use crate::clock::Clock;
use crate::store::OpenError;
use crate::store::audit::{AuditScope, Manner, examine};
use crate::store::db::{self, Connection, Sql};
use crate::store::search::index_merge::index_words_alone;
use crate::store::search::index_words;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// PostgreSQL plans by statistics that it has not gathered yet. It warns of each table of its own that an ordinary role may not
/// look at.
static GATHER_STATISTICS: &str =
    "SET client_min_messages = error; ANALYZE; RESET client_min_messages";

/// A transfer that was begun.
pub enum BegunTransfer {
    Open(Box<Transfer>),
    /// An earlier one had died before its last step, which is done now.
    Ended {
        from: String,
        to: String,
    },
}

/// All rows of a workspace's database on their way to another.
pub struct Transfer {
    source: TransferSource,
    target: TransferTarget,
    shapes: Shapes,
    resting: RestingTriggers,
    copied: Vec<TableDigest>,
    replaced: ReplacedNul,
    /// Violations that the source has, by the names of the checks.
    known: BTreeMap<&'static str, u64>,
    clock: Arc<dyn Clock>,
}

impl Transfer {
    /// Opens the database of a workspace and the one that its rows go to: `postgres://…`, or the folder of a workspace. The engine
    /// must be stopped.
    ///
    /// Errors: [`TransferError::NotEmpty`] for a target with rows, and those of opening.
    pub async fn begin(
        workspace: &Path,
        to: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<BegunTransfer, TransferError> {
        let to = TransferPlace::typed(to)?;
        let from = TransferPlace::source(workspace, &to)?;
        let mut source = match TransferSource::open(workspace, from.clone(), &*clock).await {
            Err(OpenError::MovedAway { to: there }) if there == to.shown() => {
                return end_earlier(workspace, &from, to, &*clock).await;
            }
            opened => opened?,
        };
        let mut target = TransferTarget::open(workspace, to, &*clock).await?;
        let shapes = match source.conn.postgres() {
            None => Shapes::read(&mut source.conn, &mut target.conn).await?,
            Some(_) => Shapes::read(&mut target.conn, &mut source.conn).await?,
        };
        source.begin().await?;
        let known = violations(&mut source.conn).await?;
        read_by_keys(&mut source.conn, true).await?;
        let mut target = target.make_ready(&from, &shapes, clock.now()).await?;
        let resting = empty(&mut target.conn, &shapes).await?;
        Ok(BegunTransfer::Open(Box::new(Self {
            source,
            target,
            shapes,
            resting,
            copied: Vec::new(),
            replaced: ReplacedNul::default(),
            known,
            clock,
        })))
    }

    /// Returns words for where the rows come from.
    pub fn from(&self) -> String {
        self.source.place.shown()
    }

    /// Returns words for where they go to.
    pub fn to(&self) -> String {
        self.target.place.shown()
    }

    /// Returns the number of tables.
    pub fn tables(&self) -> usize {
        self.shapes.tables.len()
    }

    /// Returns the tables that were copied.
    pub fn copied(&self) -> &[TableDigest] {
        &self.copied
    }

    /// Returns the texts that the target has otherwise.
    pub fn replaced(&self) -> &ReplacedNul {
        &self.replaced
    }

    /// Copies the next table; `None` after the last.
    pub async fn copy_next(&mut self) -> Result<Option<&TableDigest>, TransferError> {
        let Some(shape) = self.shapes.tables.get(self.copied.len()) else {
            return Ok(None);
        };
        let (source, target) = (&mut self.source.conn, &mut self.target.conn);
        let copied = copy_table(source, target, shape, &mut self.replaced).await?;
        self.copied.push(copied);
        Ok(self.copied.last())
    }

    /// Finishes the target behind the last table: its numbers go on, its triggers work, and its words are found.
    pub async fn finish_copy(&mut self) -> Result<(), TransferError> {
        let target = &mut self.target.conn;
        go_on(&mut self.source.conn, target, &self.shapes.tables).await?;
        self.resting.wake(target).await?;
        if target.postgres().is_none() {
            while index_words_alone(target).await? {}
            return Ok(());
        }
        db::raw_sql("COMMIT").execute(target).await?;
        while index_words::make_some(target).await? {}
        db::raw_sql(GATHER_STATISTICS).execute(target).await?;
        Ok(())
    }

    /// Reads all rows of the target, and compares them with those that were read from the source.
    ///
    /// Errors: [`TransferError::Differs`].
    pub async fn compare(&mut self) -> Result<(), TransferError> {
        let mut tables = Vec::new();
        read_by_keys(&mut self.target.conn, true).await?;
        for (shape, copied) in self.shapes.tables.iter().zip(&self.copied) {
            let found = digest_of(&mut self.target.conn, shape).await?;
            if found != *copied {
                let (rows, expected) = (found.rows, copied.rows);
                tables.push(match rows == expected {
                    true => format!("`{}` (a value)", shape.name),
                    false => format!("`{}` ({rows} rows, not {expected})", shape.name),
                });
            }
        }
        read_by_keys(&mut self.target.conn, false).await?;
        match tables.is_empty() && self.copied.len() == self.tables() {
            true => Ok(()),
            false => Err(TransferError::Differs { tables }),
        }
    }

    /// Makes the checks of `attache doctor --audit` on the target; what they find in the source as well stays.
    ///
    /// Errors: [`TransferError::Audit`].
    pub async fn audit(&mut self) -> Result<(), TransferError> {
        let mut found = violations(&mut self.target.conn).await?;
        found.retain(|check, count| self.known.get(check).is_none_or(|known| *count > *known));
        if found.is_empty() {
            return Ok(());
        }
        let checks = found.into_iter();
        let checks = checks.map(|(check, count)| format!("`{check}` ({count})"));
        Err(TransferError::Audit {
            checks: checks.collect(),
        })
    }

    /// Retires the source, and then lets engines work on the target.
    pub async fn end(self) -> Result<(), TransferError> {
        let now = self.clock.now().to_string();
        self.source.retire(&self.target.place, now).await?;
        self.target.release().await
    }
}

/// Does the last step of a transfer that died between the two marks.
async fn end_earlier(
    workspace: &Path,
    from: &TransferPlace,
    to: TransferPlace,
    clock: &dyn Clock,
) -> Result<BegunTransfer, TransferError> {
    let (from, shown) = (from.shown(), to.shown());
    let mut target = TransferTarget::open(workspace, to, clock).await?;
    if !target.is_marked().await? {
        return Err(OpenError::MovedAway { to: shown }.into());
    }
    target.release().await?;
    Ok(BegunTransfer::Ended { from, to: shown })
}

/// Empties the tables, of what the migrations have put there or an earlier attempt has left, and has the triggers rest. On a
/// server that is the begin of the transaction in which all rows come.
async fn empty(conn: &mut Connection, shapes: &Shapes) -> Result<RestingTriggers, TransferError> {
    if conn.postgres().is_none() {
        let resting = RestingTriggers::rest(conn).await?;
        for table in shapes.tables.iter().rev() {
            let delete = Sql::built(format!("DELETE FROM \"{}\"", table.name));
            db::raw_sql(delete).execute(conn).await?;
        }
        return Ok(resting);
    }
    let copied = shapes.tables.iter().map(|table| table.name.as_str());
    let names = copied.chain(shapes.indexes.iter().map(String::as_str));
    let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    let truncate = Sql::built(format!("BEGIN; TRUNCATE {}", names.join(", ")));
    db::raw_sql(truncate).execute(conn).await?;
    RestingTriggers::rest(conn).await
}

/// Returns the number of violations for each check that finds any.
async fn violations(conn: &mut Connection) -> Result<BTreeMap<&'static str, u64>, TransferError> {
    let wanted = AuditScope {
        bytes: false,
        at_rest: false,
    };
    let findings = examine(conn, wanted, &mut Manner::default()).await?;
    let broken = findings.broken.iter();
    Ok(broken.map(|broken| (broken.name, broken.count)).collect())
}
