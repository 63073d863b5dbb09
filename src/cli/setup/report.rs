//! The outcome of a setup: what servers said, records to publish, what changes, what comes next.

use super::draft::{SECRETS, WorkspaceDraft};
use crate::cli::{CommandContext, screen};
use crate::config::{Config, SmtpListener, TransportSettings};
use crate::gateway::dns_records::{CheckedRecord, RecordState};
use crate::text::line_diff::line_diff;
use serde::Serialize;

/// Outcome of the check of one part.
#[derive(Serialize)]
pub struct SetupCheck {
    part: &'static str,
    state: SetupCheckState,
    /// The servers' words.
    said: Vec<String>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum SetupCheckState {
    Good,
    /// `--offline`: nobody was asked.
    Skipped,
    /// It was refused, and is kept all the same.
    Unchecked,
}

impl SetupCheck {
    pub fn good(part: &'static str, said: Vec<String>) -> Self {
        Self {
            part,
            state: SetupCheckState::Good,
            said,
        }
    }
    pub fn skipped(part: &'static str) -> Self {
        Self {
            part,
            state: SetupCheckState::Skipped,
            said: Vec::new(),
        }
    }
    pub fn unchecked(part: &'static str) -> Self {
        Self {
            part,
            state: SetupCheckState::Unchecked,
            said: Vec::new(),
        }
    }
}

/// Everything that a setup found and did.
#[derive(Serialize, Default)]
pub struct SetupReport {
    checks: Vec<SetupCheck>,
    pub records: Vec<CheckedRecord>,
    files: Vec<ReportedFile>,
    /// Names of the secrets that are put into `.secrets`.
    secrets: Vec<String>,
    #[serde(skip)]
    changes_secrets: bool,
}

/// A file that is written.
#[derive(Serialize)]
struct ReportedFile {
    path: String,
    is_new: bool,
}

impl SetupReport {
    /// Tells a check at once.
    pub fn add(&mut self, context: &CommandContext, check: SetupCheck) -> anyhow::Result<()> {
        if !context.json() {
            let lines = match check.state {
                SetupCheckState::Good => check.said.clone(),
                SetupCheckState::Skipped => vec!["not asked, because of --offline".to_owned()],
                SetupCheckState::Unchecked => vec!["kept without a good check".to_owned()],
            };
            for line in lines {
                let line = screen::one_line(&line);
                context.screen.line(format!("{:<9}{line}", check.part))?;
            }
        }
        self.checks.push(check);
        Ok(())
    }

    /// Takes back the check of a part that is asked again.
    pub fn forget(&mut self, part: &str) {
        self.checks.retain(|check| check.part != part);
    }

    /// Tells which records are published, and which should be.
    pub fn tell_records(&self, context: &CommandContext) -> anyhow::Result<()> {
        if context.json() {
            return Ok(());
        }
        for checked in &self.records {
            let (name, purpose) = (&checked.record.name, checked.record.purpose.as_str());
            let message = screen::one_line(&checked.message);
            let state = match checked.state {
                RecordState::Good => "good",
                RecordState::Missing => "missing",
                RecordState::Different => "different",
                RecordState::Unasked => "not known",
            };
            let line = format!("{:<9}{purpose} of {name}: {state}: {message}", "DNS");
            context.screen.line(line)?;
            if checked.is_good() {
                continue;
            }
            for there in &checked.published {
                let there = screen::one_line(there);
                context
                    .screen
                    .line(format!("{:<11}there is  {there}", ""))?;
            }
            if let Some(line) = checked.record.zone_line() {
                context.screen.line(format!("{:<11}publish   {line}", ""))?;
            }
            let why = &checked.record.why;
            context.screen.line(format!("{:<11}because   {why}", ""))?;
        }
        Ok(())
    }

    /// Collects what will be written, and shows the difference of every file that exists.
    pub fn changes(
        &mut self,
        context: &CommandContext,
        draft: &WorkspaceDraft,
    ) -> anyhow::Result<()> {
        let (secrets, _) = draft.new_secrets()?;
        self.secrets = secrets.into_iter().map(str::to_owned).collect();
        self.changes_secrets = !self.secrets.is_empty() && draft.text(SECRETS)?.is_some();
        if self.changes_secrets && !context.json() {
            context.screen.heading("\n.secrets")?;
            for name in &self.secrets {
                context.screen.line(format!("+ {name}=… (not shown)"))?;
            }
        }
        for change in draft.changes()? {
            if let (Some(before), false) = (&change.before, context.json()) {
                context.screen.heading(format!("\n{}", change.path))?;
                for line in line_diff(before, &change.after) {
                    context.screen.line(line.signed())?;
                }
            }
            self.files.push(ReportedFile {
                path: change.path,
                is_new: change.before.is_none(),
            });
        }
        Ok(())
    }

    /// Reports whether a file that exists changes.
    pub fn overwrites(&self) -> bool {
        self.changes_secrets || self.files.iter().any(|file| !file.is_new)
    }

    /// Tells what was written, and the next step.
    pub fn tell_end(
        &self,
        context: &CommandContext,
        draft: &WorkspaceDraft,
        config: &Config,
    ) -> anyhow::Result<()> {
        for name in draft.outvoted() {
            screen::remark(&format!(
                "{name} is in the environment too, and that value is used instead of the one in .secrets"
            ));
        }
        if context.json() {
            context.screen.json(self)?;
            return Ok(());
        }
        for file in &self.files {
            let what = if file.is_new { "wrote" } else { "changed" };
            context.screen.line(format!("{what:<9}{}", file.path))?;
        }
        for name in &self.secrets {
            context
                .screen
                .line(format!("{:<9}.secrets: {name}", "wrote"))?;
        }
        if self.files.is_empty() && self.secrets.is_empty() {
            context
                .screen
                .line("nothing changes: the workspace says all of it already")?;
        }
        for line in next_steps(draft, config, &self.records) {
            context.screen.line(line)?;
        }
        Ok(())
    }
}

/// Reports whether letters come by listeners on this machine alone, and no mail server's results are trusted.
fn hears_only_this_machine(config: &Config) -> bool {
    let listeners = &config.gateway.listeners;
    let is_here = |listener: &SmtpListener| listener.address.is_of_this_machine();
    let elsewhere = !config.gateway.mailboxes.is_empty() || !config.gateway.folders.is_empty();
    !listeners.is_empty()
        && !elsewhere
        && listeners.iter().all(is_here)
        && config.security.authentication.trusted_relays.is_empty()
}

fn next_steps(draft: &WorkspaceDraft, config: &Config, records: &[CheckedRecord]) -> Vec<String> {
    let shown = screen::quoted(&draft.folder.display().to_string());
    let mut steps = vec![String::new()];
    if records.iter().any(|record| !record.is_good()) {
        let is_fetched = config.gateway.listeners.is_empty();
        let yours = if is_fetched {
            "if the domain is yours, "
        } else {
            ""
        };
        steps.push(format!(
            "{yours}publish the records above at the domain's name servers, and run setup again"
        ));
    }
    let owner = config.gateway.owners.first().map(ToString::to_string);
    if let Some(persona) = config.personas.iter().next() {
        steps.push(format!(
            "describe {} in personas/{}/PERSONA.md; start the engine: attache --workspace {shown} serve",
            persona.name, persona.id
        ));
        let from = owner.as_deref().unwrap_or("your own address");
        steps.push(format!(
            "then write to {} from {from}; `attache --workspace {shown} tail` shows what becomes of it",
            persona.address
        ));
        if hears_only_this_machine(config) {
            steps.push(format!(
                "a letter that a program of this machine hands in proves nobody and is filed as unauthenticated: let it come through \
                 a mail server in front, whose results --authserv-id trusts; or ask without a letter: \
                 attache --workspace {shown} ask {} \"Are you there?\"",
                persona.id
            ));
        }
    }
    if matches!(config.gateway.outbound, Some(TransportSettings::Folder(_))) {
        steps.push("answers stay in a folder until `attache setup --out smarthost` names a server that sends".to_owned());
    }
    steps
}
