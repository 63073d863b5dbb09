//! `attache doctor`: examines an installation, and whether its records agree.
//!
//! It looks and changes nothing, also beside a serving engine: it takes no lock and makes no migration. `--fix` mends modes.
//! Each area gathers what it finds and judges it by pure functions:
//!
//! - `finding`: what is wrong, where, what to do; `configuration`: what `config check` finds
//! - `listeners`, `certificates`, `clock`, `disk`: the machine; `servers`, `dns`: others, with `--online`
//! - `database`, `modes`, `engine`, `backups`: the files below `data`
//! - `personas`, `programs`: what runs need
//! - `records`: the audit of the database, in plain `doctor` as a quick look
//!
//! Absent on purpose: repairs of anything but modes.

mod finding;
mod configuration;
mod listeners;
mod certificates;
mod clock;
mod disk;
mod database;
mod modes;
mod engine;
mod personas;
mod programs;
mod servers;
mod dns;
mod backups;
mod records;

use super::config::CheckReport;
use super::screen::{Screen, progress};
use super::{CommandContext, Exit, refuse};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, ImapMailbox};
use crate::domain::Timestamp;
use crate::http::{ExaminedInstallation, InstallationExaminer, InstallationFinding};
use crate::store::audit::{Audit, AuditScope};
use crate::store::{DatabasePlace, EngineAtWork, engine_at_work};
use crate::text::plural;
use anyhow::Context as _;
use database::DatabaseState;
use finding::{ExaminedArea, FindingSeverity, InstallFinding};
use futures_util::future::{BoxFuture, join};
use modes::MendedMode;
use records::{AuditRecord, MadeAudit};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Examine the installation and its records, and say what to do; exits with 1 when there is a fault
#[derive(clap::Args)]
#[command(
    after_help = "It looks and changes nothing, beside a serving engine too; without --online nothing leaves this machine. \
                  A fault does not work, or loses mail; a warning works, and will not for long."
)]
pub struct Doctor {
    /// Only the records, and all of them: every check of the database, however long that takes
    #[arg(long)]
    audit: bool,
    /// Without reading pages and hashing mail
    #[arg(long)]
    quick: bool,
    /// Also that nothing is left open: holds after `attache drain`, while no engine serves
    #[arg(long)]
    at_rest: bool,
    /// Also ask others: log in to the mail server and mailboxes, ask providers for their models and name servers for your records
    #[arg(long)]
    online: bool,
    /// Take the rights of other users from files below `data` and `personas`, and from the programs that the configuration names; nothing else is changed
    #[arg(long)]
    fix: bool,
}

impl Doctor {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.find_workspace()?;
        match self.audit {
            true => audit(context, self.scope()).await,
            false => examine(context, &self).await,
        }
    }

    fn scope(&self) -> AuditScope {
        AuditScope {
            bytes: !self.quick,
            at_rest: self.at_rest,
        }
    }
}

/// Examines the records alone, and the room for more of them.
async fn audit(context: &CommandContext, scope: AuditScope) -> anyhow::Result<Exit> {
    let place = DatabasePlace::of(&context.workspace)?;
    place.refuse_leftovers()?;
    if !place.is_made() {
        return refuse(
            Exit::NoInput,
            "there is no database yet",
            "the first start of an engine makes it",
        );
    }
    let state = DatabaseState::of(&context.workspace, &[]).await;
    let made = make_audit(context, scope, &state, true).await?;
    records::note_audit(context, &made);
    let engine = engine_at_work(&context.workspace).map(|engine| engine.pid);
    let findings = &made.findings;
    if context.json() {
        context
            .screen
            .json(&AuditRecord::new(&made, engine.as_deref()))?;
    } else {
        records::print(context, &made, engine.as_deref())?;
        let disk = disk::examine(&context.workspace, context.config().ok().as_ref());
        let faults = disk.findings.iter();
        for finding in faults.filter(|one| one.severity == FindingSeverity::Fault) {
            context.screen.line(&finding.what)?;
        }
        let checks = plural(findings.made, "check");
        context.screen.line(match findings.broken.len() {
            0 => format!("{checks}, nothing is wrong"),
            wrong => format!("{checks}, {wrong} of them broken"),
        })?;
    }
    Ok(match findings.broken.is_empty() {
        true => Exit::Ok,
        false => Exit::Failed,
    })
}

async fn make_audit(
    context: &CommandContext,
    scope: AuditScope,
    state: &DatabaseState,
    is_whole: bool,
) -> anyhow::Result<MadeAudit> {
    let spinner = progress::spinner(context, "looking the database over");
    let shown = spinner.clone();
    let audit = Audit::of_workspace(&context.workspace).await?;
    let mut audit = match is_whole {
        true => audit,
        false => audit.at_a_glance().await?,
    }
    .telling(move |step| shown.set_message(format!("looking the database over: {step}")));
    let looking = audit.examine(scope);
    let findings = progress::turning_on(&spinner, looking).await?;
    let config = context.config().ok();
    let repair = || database::repair(&context.workspace, config.as_ref(), state);
    Ok(MadeAudit {
        repair: findings.is_damaged().then(repair),
        findings,
        scope,
        log_bytes: audit.log_bytes(),
        last_whole: records::last_audit(&context.workspace),
    })
}

/// Examines the installation, and its records where they can be read.
async fn examine(context: &CommandContext, wanted: &Doctor) -> anyhow::Result<Exit> {
    let mut modes = modes::gather(&context.workspace);
    let mut mended = Vec::new();
    if wanted.fix {
        mended = modes::mend(&context.workspace, &modes).context("not every mode can be mended")?;
        modes = modes::gather(&context.workspace);
    }
    let engine = engine_at_work(&context.workspace);
    let config = context.config().ok();
    let config = config.as_ref();
    let database = DatabaseState::of(&context.workspace, mailboxes(config)).await;
    let mut areas = installation(context, engine.as_ref(), &database).await;
    areas.push(modes::examine(&modes));
    if !wanted.online {
        areas.push(servers::recorded(&database, engine.is_some()));
    } else {
        let asking = join(
            servers::examine(config, &context.workspace),
            dns::examine(config),
        );
        let asked = progress::turning(context, "asking the servers", asking).await;
        areas.extend(<[ExaminedArea; 2]>::from(asked));
    }
    let made = match database {
        DatabaseState::Opened { .. } => {
            Some(make_audit(context, wanted.scope(), &database, false).await?)
        }
        _ => None,
    };
    let checks = areas.iter().map(|area| area.checks).sum();
    let findings = finding::ordered(areas.into_iter().flat_map(|area| area.findings).collect());
    let engine = engine.map(|engine| engine.pid);
    tell(
        context,
        checks,
        &findings,
        &mended,
        made.as_ref(),
        engine.as_deref(),
    )
}

/// Examines a workspace for the pages of the engine that serves it.
pub struct WorkspaceExaminer {
    context: CommandContext,
}

impl WorkspaceExaminer {
    pub fn of(workspace: &Path) -> Self {
        let nowhere = Screen::new(Box::new(std::io::sink()), false, true);
        Self {
            context: CommandContext {
                workspace: workspace.to_owned(),
                program: "attache".to_owned(),
                screen: Arc::new(nowhere),
            },
        }
    }
}

impl InstallationExaminer for WorkspaceExaminer {
    fn examine(&self) -> BoxFuture<'_, ExaminedInstallation> {
        Box::pin(async move {
            let workspace = &self.context.workspace;
            let engine = engine_at_work(workspace);
            let config = self.context.config().ok();
            let database = DatabaseState::of(workspace, mailboxes(config.as_ref())).await;
            let mut areas = installation(&self.context, engine.as_ref(), &database).await;
            areas.push(modes::examine(&modes::gather(workspace)));
            areas.push(servers::recorded(&database, engine.is_some()));
            let checks = areas.iter().map(|area| area.checks).sum();
            let found = areas.into_iter().flat_map(|area| area.findings).collect();
            let shown = |finding: InstallFinding| InstallationFinding {
                area: finding.area.as_str(),
                severity: finding.severity.as_str(),
                says: finding.sentence(),
                remedy: finding.remedy,
            };
            ExaminedInstallation {
                checks,
                findings: finding::ordered(found).into_iter().map(shown).collect(),
            }
        })
    }
}

async fn installation(
    context: &CommandContext,
    engine: Option<&EngineAtWork>,
    database: &DatabaseState,
) -> Vec<ExaminedArea> {
    let (workspace, now) = (context.workspace.as_path(), SystemClock::new().now());
    let config = context.config().ok();
    let config = config.as_ref();
    let records = database.records();
    let nodes = records.map_or(&[][..], |records| records.nodes.as_slice());
    vec![
        configuration::examine(&CheckReport::of(context).await),
        listeners::examine(config, engine.and_then(|engine| process(workspace, engine))),
        certificates::examine(config, now),
        clock::examine(now, records.and_then(|records| records.newest_at)),
        disk::examine(workspace, config),
        database::examine(workspace, database, config),
        engine::examine(workspace, engine, nodes, now, config),
        personas::examine(workspace, records.map(|records| records.personas.clone())),
        programs::examine(config).await,
        backups::examine(&backup_facts(config, database, now)),
    ]
}

fn mailboxes(config: Option<&Config>) -> &[ImapMailbox] {
    config.map_or(&[][..], |config| &config.gateway.mailboxes)
}

/// Returns process and user of the engine: its lock is its own.
fn process(workspace: &Path, engine: &EngineAtWork) -> Option<(u32, u32)> {
    let lock = workspace.join("data/engine.lock").metadata().ok()?;
    Some((engine.pid.parse().ok()?, lock.uid()))
}

fn backup_facts(
    config: Option<&Config>,
    database: &DatabaseState,
    now: Timestamp,
) -> backups::BackupFacts {
    backups::BackupFacts {
        last: database
            .records()
            .and_then(|records| records.last_backup.clone()),
        every: config
            .and_then(|config| config.keeping.backup.as_ref())
            .map(|backup| backup.every),
        now,
    }
}

/// Prints everything, and says by the exit code whether there is a fault.
fn tell(
    context: &CommandContext,
    checks: usize,
    findings: &[InstallFinding],
    mended: &[MendedMode],
    audit: Option<&MadeAudit>,
    engine: Option<&str>,
) -> anyhow::Result<Exit> {
    let of_records = audit.map(MadeAudit::of_installation).unwrap_or_default();
    let count = |severity| {
        let all = findings.iter().chain(&of_records);
        all.filter(|one| one.severity == severity).count()
    };
    let faults = count(FindingSeverity::Fault);
    let checks = checks + audit.map_or(0, |audit| audit.findings.made);
    let exit = if faults == 0 { Exit::Ok } else { Exit::Failed };
    if context.json() {
        context.screen.json(&json!({
            "ok": faults == 0,
            "checks": checks,
            "findings": &[findings, &of_records].concat(),
            "mended": mended,
            "records": audit.map(|audit| AuditRecord::new(audit, engine)),
        }))?;
        return Ok(exit);
    }
    for mode in mended {
        let MendedMode {
            file,
            before,
            after,
        } = mode;
        context
            .screen
            .line(format!("mended: {file} had mode {before}, and has {after}"))?;
    }
    let mut area = None;
    for finding in findings {
        if area.replace(finding.area) != Some(finding.area) {
            context.screen.heading(finding.area.as_str())?;
        }
        let severity = finding.severity.as_str();
        context
            .screen
            .line(format!("  {severity}: {}", finding.sentence()))?;
        context.screen.line(format!("  hint: {}", finding.remedy))?;
    }
    if let Some(audit) = audit {
        records::print(context, audit, engine)?;
    }
    let wrong = match (faults, count(FindingSeverity::Warning)) {
        (0, 0) => "nothing is wrong".to_owned(),
        (0, warnings) => plural(warnings, "warning"),
        (faults, 0) => plural(faults, "fault"),
        (faults, warnings) => format!(
            "{}, {}",
            plural(faults, "fault"),
            plural(warnings, "warning")
        ),
    };
    context
        .screen
        .line(format!("{}, {wrong}", plural(checks, "check")))?;
    Ok(exit)
}
