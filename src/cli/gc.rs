//! `attache gc`: deletes old data, kind by kind, also beside a working engine.
//!
//! It also empties the records of runs that have ended since their owner erased what they held.
//!
//! Deletes only kinds for which an age was given, and nothing that an open row still needs;
//! `store/gc.rs` describes each kind and the rows that are never deleted.

use super::args::instant;
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::config::spell;
use crate::domain::Timestamp;
use crate::replay::fork;
use crate::store::gc::{KINDS, Pruned, PrunedKind};
use crate::store::{RetentionPass, Store, give_up_spare_room};
use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// Throw away what is old: recorded requests, raw letters, bytes of mails that were sent
#[derive(clap::Args)]
#[command(after_help = format!(
    "Kinds:\n{}",
    KINDS.iter().map(|kind| format!("{:12} {}\n", kind.name, kind.says)).collect::<String>()
))]
pub struct Gc {
    /// Only what is older: `90d`, 2026-11-20 (midnight UTC), or 2026-11-20T09:00:00Z
    #[arg(long, value_name = "AGE", required_unless_present_any = ["configured", "report"])]
    older_than: Option<String>,
    /// Only this kind; may be given again [default: all]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(KINDS.iter().map(|kind| kind.name))
    )]
    kind: Vec<String>,
    /// Each kind by its age in `retention` of configs/keeping.json, as the engine does it by itself
    #[arg(long, conflicts_with_all = ["older_than", "kind"])]
    configured: bool,
    /// Only say when the engine last went over each kind, and what went
    #[arg(long, conflicts_with_all = ["older_than", "kind", "configured", "dry_run"])]
    report: bool,
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}

impl Gc {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        if give_up_spare_room(context.require_workspace()?) {
            screen::remark(
                "the disk is full: the spare room of `data` is given up, so that rows can be deleted",
            );
        }
        let store = context.shared_store().await?;
        let ages = match self.older_than {
            Some(_) => BTreeMap::new(),
            None => configured(context)?,
        };
        if self.report {
            return report(context, &store, &ages).await;
        }
        let dry = self.dry_run;
        let done = match &self.older_than {
            Some(age) => {
                let before = instant(age)?;
                require_past(before, store.clock().now(), age)?;
                let is_named = |kind: &&PrunedKind| {
                    self.kind.is_empty() || self.kind.iter().any(|name| name == kind.name)
                };
                let wanted = KINDS.iter().filter(is_named).map(|kind| (kind, before));
                prune_all(context, &store, wanted, dry).await?
            }
            None => {
                let now = store.clock().now();
                let aged =
                    |kind: &'static PrunedKind| Some((kind, now.minus(*ages.get(kind.name)?)));
                prune_all(context, &store, KINDS.iter().filter_map(aged), dry).await?
            }
        };
        if !dry {
            while store.redact_ended_runs().await? > 0 {}
        }
        print(context, &done, dry)
    }
}

/// A kind with the instant before which its rows go, and what went.
type DonePrune = (&'static PrunedKind, Timestamp, Pruned);

/// Returns the ages of the configuration.
fn configured(context: &CommandContext) -> anyhow::Result<BTreeMap<&'static str, Duration>> {
    let kinds = context.config()?.keeping.retention.kinds();
    let aged = kinds
        .into_iter()
        .filter_map(|(kind, age)| Some((kind, age?)));
    Ok(aged.collect())
}

async fn prune_all(
    context: &CommandContext,
    store: &Store,
    wanted: impl Iterator<Item = (&'static PrunedKind, Timestamp)>,
    dry: bool,
) -> anyhow::Result<Vec<DonePrune>> {
    let mut done = Vec::new();
    for (kind, before) in wanted {
        let mut pruned = store.prune_kind(kind, before, dry).await?;
        if kind.has_folders() {
            let kept = store.forks_kept(before).await?;
            pruned.bytes += fork::sweep(&context.workspace, &kept, before, dry)
                .context("removing folders of forks")?;
        }
        done.push((kind, before, pruned));
    }
    Ok(done)
}

fn print(context: &CommandContext, done: &[DonePrune], dry: bool) -> anyhow::Result<Exit> {
    if context.json() {
        let kind = |(kind, before, pruned): &DonePrune| {
            json!({
                "kind": kind.name,
                "before": before,
                "rows": pruned.rows,
                "bytes": pruned.bytes,
            })
        };
        let before = done.iter().map(|(_, before, _)| *before).max();
        context.screen.json(&json!({
            "before": before,
            "dry_run": dry,
            "kinds": done.iter().map(kind).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Ok);
    }
    let row = |(kind, _, pruned): &DonePrune| {
        vec![
            kind.name.to_owned(),
            pruned.rows.to_string(),
            pruned.bytes.to_string(),
            kind.says.to_owned(),
        ]
    };
    context.screen.table(
        &["KIND", "ROWS", "BYTES", "WHAT"],
        &done.iter().map(row).collect::<Vec<_>>(),
    )?;
    match dry {
        true => screen::remark("nothing was changed"),
        false => screen::remark(
            "the room is used again, and the file does not shrink: stop the engine and put an `attache backup` in its \
             place, without the old `-wal` and `-shm`, to make it small",
        ),
    }
    Ok(Exit::Ok)
}

/// Refuses an instant in the future: everything is older.
fn require_past(before: Timestamp, now: Timestamp, typed: &str) -> Result<(), Failure> {
    if before <= now {
        return Ok(());
    }
    refuse(
        Exit::Usage,
        format!("`{typed}` is in the future, and everything is older"),
        "name an age, such as `90d`, or a day that is over",
    )
}

/// A kind with its age and its last pass.
#[derive(Serialize)]
struct RetentionRecord {
    kind: &'static str,
    /// `null`: it stays.
    age: Option<String>,
    last: Option<RetentionPass>,
}

/// Prints every kind.
async fn report(
    context: &CommandContext,
    store: &Store,
    ages: &BTreeMap<&'static str, Duration>,
) -> anyhow::Result<Exit> {
    let mut kinds = Vec::new();
    for kind in KINDS {
        kinds.push(RetentionRecord {
            kind: kind.name,
            age: ages.get(kind.name).copied().map(spell),
            last: store.retention_pass(kind.name).await?,
        });
    }
    context.report(&kinds, |screen| {
        let rows: Vec<Vec<String>> = kinds.iter().map(RetentionRecord::cells).collect();
        screen.table(
            &["KIND", "AGE", "LAST PASS", "ROWS", "BYTES", "ROWS IN ALL"],
            &rows,
        )?;
        Ok(())
    })
}

impl RetentionRecord {
    fn cells(&self) -> Vec<String> {
        let age = self.age.clone().unwrap_or_else(|| "stays".to_owned());
        let mut cells = vec![self.kind.to_owned(), age];
        match &self.last {
            None => cells.extend(["never", "0", "0", "0"].map(str::to_owned)),
            Some(pass) => cells.extend([
                match pass.finished {
                    Some(finished) => finished.to_string(),
                    None => "at work".to_owned(),
                },
                pass.pass_rows.to_string(),
                pass.pass_bytes.to_string(),
                pass.total_rows.to_string(),
            ]),
        }
        cells
    }
}
