//! `attache doctor`: checks that the records are consistent.
//!
//! It reads and changes nothing, also beside a running engine: it takes no lock and makes no
//! migration.

use super::config::vectors;
use super::screen::progress;
use super::{Command, CommandContext, Exit, Failure};
use crate::config::Problem;
use crate::gateway::intake::free_disk_bytes;
use crate::shell::{CommandLimits, CommandSandbox};
use crate::store::audit::{Audit, AuditScope, Broken, Findings, PendingWork};
use crate::store::working_engine;
use crate::text::plural;
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub struct Doctor;

impl Command for Doctor {
    fn clap(&self) -> clap::Command {
        let flag = |name, help| {
            Arg::new(name)
                .long(name)
                .action(ArgAction::SetTrue)
                .help(help)
        };
        clap::Command::new("doctor")
            .about("Check that the records are consistent; exits with 1 when they are not")
            .after_help("It looks and changes nothing, beside a serving engine too.")
            .arg(flag("audit", "Make every check of the database, which it does anyway"))
            .arg(flag("quick", "Without reading every page and hashing all mail"))
            .arg(flag(
                "at-rest",
                "Also that nothing is left open: holds after `attache drain`, while no engine serves",
            ))
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        let wanted = AuditScope {
            bytes: !args.get_flag("quick"),
            at_rest: args.get_flag("at-rest"),
        };
        Box::pin(audit(context, wanted))
    }
}

async fn audit(context: &CommandContext, wanted: AuditScope) -> anyhow::Result<Exit> {
    let database = context.require_workspace()?.join("data/attache.db");
    if !database.is_file() {
        let failure = Failure::new(Exit::NoInput, "there is no database yet");
        return Err(failure.hint("the first start of an engine makes it").into());
    }
    let mut audit = Audit::open(&database).await?;
    let findings =
        progress::turning(context, "looking the database over", audit.examine(wanted)).await?;
    let engine = working_engine(&context.workspace);
    let room = Room::below(context);
    let no_commands = no_commands(context).await;
    let warnings = match context.config() {
        Ok(config) => vectors::all(context, &config).await,
        Err(_) => Vec::new(),
    };
    if context.json() {
        let mut record = AuditRecord::new(&findings, wanted, engine.as_deref());
        record.log_bytes = audit.log_bytes();
        record.free_disk_bytes = room.as_ref().map(|room| room.free_bytes);
        record.free_disk_bytes_min = room.as_ref().map(|room| room.kept_bytes);
        record.no_commands = no_commands;
        record.warnings = warnings;
        context.screen.json(&record)?;
    } else {
        print(context, &findings, engine.as_deref())?;
        if let Some(why) = no_commands {
            context
                .screen
                .line(format!("`shell` is offered to no run: {why}"))?;
            context.screen.line(NO_COMMANDS_HINT)?;
        }
        for warning in &warnings {
            context.screen.line(format!("warning: {warning}"))?;
        }
        if let Some(Room {
            free_bytes,
            kept_bytes,
        }) = room.filter(|room| room.free_bytes < room.kept_bytes)
        {
            context.screen.line(format!(
                "letters are refused: the disk below `data` has {free_bytes} bytes free, and \
                 `limits.free_disk_bytes_min` in configs/gateway.json keeps {kept_bytes}"
            ))?;
        }
    }
    Ok(if findings.broken.is_empty() {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

const NO_COMMANDS_HINT: &str = "  hint: install bubblewrap (`apt-get install bubblewrap`), and let its user make user namespaces";

/// Tries the sandbox of commands, if a persona may run some; returns the reason why it cannot be made.
async fn no_commands(context: &CommandContext) -> Option<String> {
    let config = context.config().ok()?;
    config.personas.iter().find(|persona| persona.shell)?;
    let sandbox = CommandSandbox::new(config.program.clone(), CommandLimits::default());
    sandbox.trial().await.err()
}

/// Free disk space for another letter.
struct Room {
    free_bytes: u64,
    kept_bytes: u64,
}

impl Room {
    /// `None` where the configuration or the disk does not tell.
    fn below(context: &CommandContext) -> Option<Self> {
        let kept_bytes = context.config().ok()?.limits.free_disk_bytes_min;
        let free_bytes = free_disk_bytes(&context.workspace.join("data")).ok()?;
        Some(Self {
            free_bytes,
            kept_bytes,
        })
    }
}

fn print(
    context: &CommandContext,
    findings: &Findings,
    engine: Option<&str>,
) -> anyhow::Result<()> {
    for broken in &findings.broken {
        context
            .screen
            .heading(format!("{} {}: {}", broken.group, broken.name, broken.says))?;
        for what in &broken.what {
            context.screen.line(format!("  {what}"))?;
        }
        let unlisted = broken.count - broken.what.len() as u64;
        if unlisted > 0 {
            context.screen.line(format!("  and {unlisted} more"))?;
        }
        context.screen.line(format!("  hint: {}", broken.hint))?;
    }
    let PendingWork {
        runs,
        deliveries,
        calls,
        letters,
    } = findings.pending;
    if letters > 0 {
        let (letters, wait) = (
            plural(letters, "letter"),
            if letters == 1 { "waits" } else { "wait" },
        );
        context.screen.line(format!(
            "{letters} {wait} until a name server says who sent them"
        ))?;
    }
    if engine.is_none() && runs + deliveries + calls > 0 {
        context.screen.line(format!(
            "no engine works here: its next start takes back {}, {} and {}",
            plural(runs, "run"),
            plural(deliveries, "mail"),
            plural(calls, "open call")
        ))?;
    }
    tell_modes(context)?;
    let summary = match findings.broken.len() {
        0 => format!("{}, nothing is wrong", plural(findings.made, "check")),
        wrong => format!("{}, {wrong} of them broken", plural(findings.made, "check")),
    };
    Ok(context.screen.line(summary)?)
}

/// Reports files with too open a mode: new files are for their owner alone, older files keep their
/// mode.
fn tell_modes(context: &CommandContext) -> anyhow::Result<()> {
    let open = ["data", "personas"].map(|folder| open_to_others(&context.workspace.join(folder)));
    let open: Vec<&Path> = open.iter().flatten().map(PathBuf::as_path).collect();
    let Some(first) = open.first() else {
        return Ok(());
    };
    let (count, first) = (
        open.len() as u64,
        first
            .strip_prefix(&context.workspace)
            .unwrap_or(first)
            .display(),
    );
    context.screen.line(format!(
        "other users of this machine may read {}, such as `{first}`",
        plural(count, "file")
    ))?;
    Ok(context
        .screen
        .line("  hint: `chmod -R go= data personas` in the workspace, if they are not meant to")?)
}

/// Files below a folder that the group or others may read or write, if they can reach them at all;
/// at most `OPEN_MAX`.
fn open_to_others(folder: &Path) -> Vec<PathBuf> {
    const OPEN_MAX: usize = 10_000;
    let (mut open, mut left) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(path) = left.pop() {
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        let others = metadata.permissions().mode() & 0o077;
        if metadata.is_file() && others & 0o066 != 0 {
            open.push(path);
        } else if metadata.is_dir() && others != 0 {
            left.extend(
                std::fs::read_dir(&path)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.path()),
            );
        }
        if open.len() >= OPEN_MAX {
            break;
        }
    }
    open.sort();
    open
}

/// Findings of an audit.
#[derive(Serialize)]
struct AuditRecord<'a> {
    ok: bool,
    checks: usize,
    violations: Vec<Violation<'a>>,
    engine_pid: Option<u32>,
    engine_works: bool,
    pending: PendingRecord,
    read_everything: bool,
    bytes_hashed: u64,
    log_bytes: u64,
    free_disk_bytes: Option<u64>,
    free_disk_bytes_min: Option<u64>,
    /// Reason why no command can be run, where a persona may.
    no_commands: Option<String>,
    /// Warnings about vectors of letters.
    warnings: Vec<Problem>,
}

/// A check that failed.
#[derive(Serialize)]
struct Violation<'a> {
    group: &'a str,
    check: &'a str,
    says: &'a str,
    hint: &'a str,
    count: u64,
    what: &'a [String],
}

/// Numbers of open rows.
#[derive(Serialize)]
struct PendingRecord {
    runs: u64,
    deliveries: u64,
    calls: u64,
    letters: u64,
}

impl<'a> AuditRecord<'a> {
    fn new(findings: &'a Findings, wanted: AuditScope, engine: Option<&str>) -> Self {
        let violation = |broken: &'a Broken| Violation {
            group: broken.group,
            check: broken.name,
            says: broken.says,
            hint: broken.hint,
            count: broken.count,
            what: &broken.what,
        };
        let PendingWork {
            runs,
            deliveries,
            calls,
            letters,
        } = findings.pending;
        Self {
            ok: findings.broken.is_empty(),
            checks: findings.made,
            violations: findings.broken.iter().map(violation).collect(),
            engine_pid: engine.and_then(|pid| pid.parse().ok()),
            engine_works: engine.is_some(),
            pending: PendingRecord {
                runs,
                deliveries,
                calls,
                letters,
            },
            read_everything: wanted.bytes,
            bytes_hashed: findings.bytes_hashed,
            log_bytes: 0,
            free_disk_bytes: None,
            free_disk_bytes_min: None,
            no_commands: None,
            warnings: Vec::new(),
        }
    }
}
