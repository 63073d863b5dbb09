//! The records: whether they agree with each other (`attache doctor --audit`).

use super::finding::{FindingArea, FindingSeverity, InstallFinding};
use crate::cli::CommandContext;
use crate::cli::screen::one_line;
use crate::clock::{Clock, SystemClock};
use crate::domain::Timestamp;
use crate::store::audit::{AuditScope, Broken, Findings, PendingWork};
use crate::text::plural;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// When everything was audited last: a file beside the database, in which an audit changes nothing.
static LAST_AUDIT: &str = "data/last-audit.json";

/// Findings of an audit.
#[derive(Serialize)]
pub struct AuditRecord<'a> {
    ok: bool,
    checks: usize,
    violations: Vec<Violation<'a>>,
    engine_pid: Option<u32>,
    engine_works: bool,
    pending: Value,
    read_everything: bool,
    /// Checks that a quick look did not end.
    unfinished: &'a [&'static str],
    bytes_hashed: u64,
    log_bytes: u64,
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

/// An audit of everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastAudit {
    pub at: Timestamp,
    /// Number of checks that found something.
    pub broken: usize,
}

/// An audit that was made.
pub struct MadeAudit {
    pub findings: Findings,
    pub scope: AuditScope,
    /// Length of the write-ahead log.
    pub log_bytes: u64,
    /// What to do with the file, where it is damaged.
    pub repair: Option<String>,
    /// The last audit of everything that ended here.
    pub last_whole: Option<LastAudit>,
}

impl MadeAudit {
    /// Returns the remedy of a check: of a damaged file no other helps.
    fn hint<'a>(&'a self, broken: &'a Broken) -> &'a str {
        self.repair.as_deref().unwrap_or(broken.hint)
    }

    /// Returns the checks that failed as findings like those of the installation.
    pub fn of_installation(&self) -> Vec<InstallFinding> {
        let finding = |broken: &Broken| {
            let unlisted = broken.unlisted();
            let more = (unlisted > 0).then(|| format!("{unlisted} more"));
            let listed = broken.what.iter().map(|what| one_line(what));
            let what: Vec<String> = listed.chain(more).collect();
            let what = format!("{} (`{}`): {}", broken.says, broken.name, what.join(", "));
            let found = InstallFinding::new(
                FindingArea::Records,
                FindingSeverity::Fault,
                what,
                self.hint(broken),
            );
            found.of_file("data/attache.db")
        };
        let broken = self.findings.broken.iter().map(finding);
        broken.chain(self.unfinished()).collect()
    }

    /// Says which checks a quick look did not end, and when all of them were made.
    fn unfinished(&self) -> Option<InstallFinding> {
        let Findings {
            unfinished, made, ..
        } = &self.findings;
        if unfinished.is_empty() {
            return None;
        }
        let all = unfinished.len() + made;
        let last = match &self.last_whole {
            None => "no audit of everything has ended here yet".to_owned(),
            Some(LastAudit { at, broken: 0 }) => {
                format!("the last audit of everything was at {at}, and nothing was wrong")
            }
            Some(LastAudit { at, broken }) => format!(
                "the last audit of everything was at {at}, with {}",
                plural(*broken, "broken check")
            ),
        };
        let what = format!(
            "this was a quick look at a large database: {} of {all} checks did not read all of it; {last}",
            unfinished.len()
        );
        let remedy = "`attache doctor --audit` reads everything; so does each backup of `configs/keeping.json`";
        Some(InstallFinding::new(
            FindingArea::Records,
            FindingSeverity::Note,
            what,
            remedy,
        ))
    }
}

impl<'a> AuditRecord<'a> {
    pub fn new(audit: &'a MadeAudit, engine: Option<&str>) -> Self {
        let findings = &audit.findings;
        let violation = |broken: &'a Broken| Violation {
            group: broken.group,
            check: broken.name,
            says: broken.says,
            hint: audit.hint(broken),
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
            pending: json!({
                "runs": runs,
                "deliveries": deliveries,
                "calls": calls,
                "letters": letters,
            }),
            read_everything: audit.scope.bytes && findings.unfinished.is_empty(),
            unfinished: &findings.unfinished,
            bytes_hashed: findings.bytes_hashed,
            log_bytes: audit.log_bytes,
        }
    }
}

/// Prints what does not agree, and what is open.
pub fn print(
    context: &CommandContext,
    audit: &MadeAudit,
    engine: Option<&str>,
) -> anyhow::Result<()> {
    let findings = &audit.findings;
    for broken in &findings.broken {
        context
            .screen
            .heading(format!("{} {}: {}", broken.group, broken.name, broken.says))?;
        for what in &broken.what {
            context.screen.line(format!("  {what}"))?;
        }
        let unlisted = broken.unlisted();
        if unlisted > 0 {
            context.screen.line(format!("  and {unlisted} more"))?;
        }
        context
            .screen
            .line(format!("  hint: {}", audit.hint(broken)))?;
    }
    if let Some(note) = audit.unfinished() {
        context.screen.heading(note.area.as_str())?;
        let severity = note.severity.as_str();
        context
            .screen
            .line(format!("  {severity}: {}", note.sentence()))?;
        context.screen.line(format!("  hint: {}", note.remedy))?;
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
    Ok(())
}

/// Returns the last one that ended in a workspace; `None`: none is known.
pub fn last_audit(workspace: &Path) -> Option<LastAudit> {
    serde_json::from_slice(&std::fs::read(workspace.join(LAST_AUDIT)).ok()?).ok()
}

/// Notes an audit of everything, where this can be written without leaving a file of another user among those of the engine. An
/// audit is none the worse for a note that is missing.
pub fn note_audit(context: &CommandContext, made: &MadeAudit) {
    if !made.scope.bytes {
        return;
    }
    let last = LastAudit {
        at: SystemClock::new().now(),
        broken: made.findings.broken.len(),
    };
    let data = context.workspace.join("data");
    let is_ours = data
        .metadata()
        .is_ok_and(|data| data.uid() == rustix::process::geteuid().as_raw());
    let Ok(text) = serde_json::to_vec(&last) else {
        return;
    };
    if is_ours {
        let mut file = OpenOptions::new();
        let file = file.write(true).create(true).truncate(true).mode(0o600);
        let written = file
            .open(context.workspace.join(LAST_AUDIT))
            .and_then(|mut file| file.write_all(&text));
        if let Err(error) = written {
            tracing::debug!(%error, "the time of the audit is not noted");
        }
    }
}
