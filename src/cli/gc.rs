//! `attache gc`: deletes old data, kind by kind, also beside a working engine.
//!
//! It also empties the records of runs that have ended since their owner erased what they held.
//!
//! Deletes only kinds for which an age was given, and nothing that an open row still needs;
//! `store/gc.rs` describes each kind and the rows that are never deleted.

use super::args::instant;
use super::{Command, CommandContext, Exit, Failure, screen};
use crate::domain::Timestamp;
use crate::replay::fork;
use crate::store::gc::{KINDS, Pruned, PrunedKind};
use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;

pub struct Gc;

impl Command for Gc {
    fn clap(&self) -> clap::Command {
        let kinds = KINDS
            .iter()
            .map(|kind| format!("{:12} {}\n", kind.name, kind.says))
            .collect::<String>();
        clap::Command::new("gc")
            .about("Throw away what is old: recorded requests, raw letters, bytes of mails that were sent")
            .after_help(format!("Kinds:\n{kinds}"))
            .arg(
                Arg::new("older-than")
                    .long("older-than")
                    .value_name("AGE")
                    .required(true)
                    .help("Only what is older: `90d`, 2026-11-20 (midnight UTC), or 2026-11-20T09:00:00Z"),
            )
            .arg(
                Arg::new("kind")
                    .long("kind")
                    .value_name("KIND")
                    .action(ArgAction::Append)
                    .value_delimiter(',')
                    .value_parser(PossibleValuesParser::new(KINDS.iter().map(|kind| kind.name)))
                    .help("Only this kind; may be given again [default: all]"),
            )
            .arg(
                Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("Only say what would go"),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(prune_kind(context, args))
    }
}

async fn prune_kind(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let age = args
        .get_one::<String>("older-than")
        .map_or("", String::as_str);
    let before = instant(age)?;
    let dry = args.get_flag("dry-run");
    require_past(before, store.clock().now(), age)?;
    let named: Vec<&str> = args
        .get_many::<String>("kind")
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let wanted = KINDS
        .iter()
        .filter(|kind| named.is_empty() || named.contains(&kind.name));
    let mut done: Vec<(&PrunedKind, Pruned)> = Vec::new();
    for kind in wanted {
        let mut pruned = store.prune_kind(kind, before, dry).await?;
        if kind.has_folders() {
            let kept = store.forks_kept(before).await?;
            pruned.bytes += fork::sweep(&context.workspace, &kept, before, dry)
                .context("removing folders of forks")?;
        }
        done.push((kind, pruned));
    }
    if !dry {
        while store.redact_ended_runs().await? > 0 {}
        let rows: u64 = done.iter().map(|(_, pruned)| pruned.rows).sum();
        store
            .note_maintenance("gc", format!("{rows} rows older than {before}"))
            .await?;
    }
    if context.json() {
        let kind = |(kind, pruned): &(&PrunedKind, Pruned)| PrunedRecord {
            kind: kind.name,
            rows: pruned.rows,
            bytes: pruned.bytes,
        };
        context.screen.json(&PruneRecord {
            before,
            dry_run: dry,
            kinds: done.iter().map(kind).collect(),
        })?;
        return Ok(Exit::Ok);
    }
    let row = |(kind, pruned): &(&PrunedKind, Pruned)| {
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
    let message = format!("`{typed}` is in the future, and everything is older");
    Err(Failure::new(Exit::Usage, message)
        .hint("name an age, such as `90d`, or a day that is over"))
}

/// Outcome of a pruning.
#[derive(Serialize)]
struct PruneRecord {
    before: Timestamp,
    dry_run: bool,
    kinds: Vec<PrunedRecord>,
}

/// Pruned rows of one kind.
#[derive(Serialize)]
struct PrunedRecord {
    kind: &'static str,
    rows: u64,
    bytes: u64,
}
