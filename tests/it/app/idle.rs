//! The idle week: an engine to which nobody writes, and whose schedules are off, asks no model, sends no mail and stores nothing.
//!
//! It is played on a copy of a workspace. What a test left waiting (a retry, a question to the owner, a draft, a notice) has
//! three weeks and a half to end; then a week must be silent, the next or one of the few after it.

use super::database::url_of;
use super::{Workspace, db};
use attache::app::Engine;
use attache::clock::{Clock, ManualClock};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const DAYS_TO_SETTLE: u32 = 24;
/// Of these one must be silent: a digest of memory asks about ten entries a week, and about each of them three times.
const WEEKS_MAX: u32 = 6;
/// Longer than any engine needs for what is due.
const WORK_MAX: Duration = Duration::from_secs(120);
/// Tables that grow while nothing happens, and by how many rows a day at most.
const GROWING: &[(&str, i64)] = &[
    // Of each day on which vectors were wanted and their server was away: the account of the engine and that of the persona.
    ("budget_accounts", 2),
];

/// Reports whether the test that calls has not had its week yet.
pub fn is_first() -> bool {
    thread_local! {
        static HAD_ITS_WEEK: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
    !HAD_ITS_WEEK.replace(true)
}

/// Plays the week on a copy of a workspace, and returns what grew in it: each table with its new rows, beyond what it may.
pub async fn growth(workspace: &Workspace) -> Vec<String> {
    if url_of(workspace.path()).is_some() {
        return Vec::new(); // a copy of the folder would work on the same rows of the server
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    copy(workspace.path(), dir.path());
    let copy = Workspace {
        dir,
        clock: Arc::new(ManualClock::at(workspace.clock.now())),
        scripted: OnceLock::new(),
    };
    // Ids of the copy are none of the test's.
    copy.clock.advance(Duration::from_secs(1));
    let names = attache::cli::name_catalog();
    let Ok(mut config) = attache::config::load(copy.path(), &names) else {
        return Vec::new(); // the test broke it
    };
    config.program = env!("CARGO_BIN_EXE_attache").into();
    let Ok(engine) = Engine::open(config, copy.clock.clone()).await else {
        return Vec::new();
    };
    idle(&copy, &engine, (DAYS_TO_SETTLE, 1)).await;
    let mut grown = Vec::new();
    for _ in 0..WEEKS_MAX {
        let before = rows_of_tables(&copy).await;
        idle(&copy, &engine, (7, 4)).await;
        let after = rows_of_tables(&copy).await;
        let may_grow = |table: &str| GROWING.iter().find(|(known, _)| *known == table);
        let new = after.iter().filter_map(|(table, rows)| {
            let new = rows - before.get(table).copied().unwrap_or(0);
            let most = may_grow(table).map_or(0, |(_, a_day)| 7 * a_day);
            (new > most).then(|| format!("{table}: {new} new rows"))
        });
        grown = new.collect();
        if grown.is_empty() {
            return grown;
        }
    }
    let newest = "SELECT subject FROM messages ORDER BY seq DESC LIMIT 3";
    let mut rows = copy.rows().await;
    let newest: Vec<String> = db::query_scalar(newest)
        .fetch_all(&mut rows)
        .await
        .expect("subjects");
    grown.push(format!("the newest messages: {newest:?}"));
    grown
}

async fn idle(copy: &Workspace, engine: &Engine, (days, steps_a_day): (u32, u32)) {
    for _ in 0..days * steps_a_day {
        copy.clock.advance(DAY / steps_a_day);
        let rest = tokio::time::timeout(WORK_MAX, engine.drain()).await;
        rest.expect("an engine to which nobody writes works for ever")
            .expect("drained");
    }
}

async fn rows_of_tables(copy: &Workspace) -> BTreeMap<String, i64> {
    let mut rows = copy.rows().await;
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let tables: Vec<String> = db::query_scalar(tables)
        .fetch_all(&mut rows)
        .await
        .expect("tables");
    let mut counts = BTreeMap::new();
    for table in tables {
        let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM \"{table}\""));
        let count = db::query_scalar(sql).fetch_one(&mut rows).await;
        counts.insert(table, count.expect("a count"));
    }
    counts
}

/// Copies files and folders; what else a folder holds belongs to programs that work on it.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            std::fs::create_dir_all(&target).expect("a folder");
            let mode = entry.metadata().expect("metadata").permissions();
            copy(&path, &target);
            std::fs::set_permissions(&target, mode).expect("permissions");
        } else if kind.is_file() && !path.to_string_lossy().ends_with("-shm") {
            std::fs::copy(&path, &target).expect("a copy");
        }
    }
}
