//! The records: whether they agree with each other (`attache doctor --audit`).

use super::finding::{FindingArea, FindingSeverity, InstallFinding};
use crate::cli::CommandContext;
use crate::cli::screen::one_line;
use crate::store::audit::{AuditScope, Broken, Findings, PendingWork};
use crate::text::plural;
use serde::Serialize;
use serde_json::{Value, json};

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

/// An audit that was made.
pub struct MadeAudit {
    pub findings: Findings,
    pub scope: AuditScope,
    /// Length of the write-ahead log.
    pub log_bytes: u64,
    /// What to do with the file, where it is damaged.
    pub repair: Option<String>,
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
        self.findings.broken.iter().map(finding).collect()
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
            read_everything: audit.scope.bytes,
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
