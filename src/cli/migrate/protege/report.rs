//! The outcome of a migration, as it is told.

use super::findings::{FindingKind, MigrationFinding};
use super::history::MigratedLetters;
use super::personas::SourcePersona;
use super::target::{MigratedFile, MigratedSecret, MigrationOutcome};
use crate::cli::CommandContext;
use crate::cli::screen;
use schemars::JsonSchema;
use serde::Serialize;

/// A persona that comes over.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MigratedPersona {
    pub id: String,
    pub address: String,
    pub aliases: Vec<String>,
    /// What became of its letters; with `--dry-run` the rows alone are counted.
    pub letters: MigratedLetters,
}

impl MigratedPersona {
    pub fn of(persona: &SourcePersona, letters: MigratedLetters) -> Self {
        Self {
            id: persona.id.to_string(),
            address: persona.address.to_string(),
            aliases: persona.aliases.iter().map(ToString::to_string).collect(),
            letters,
        }
    }
}

/// Everything that a migration found and did.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProtegeReport {
    /// `true`: nothing was written.
    pub dry_run: bool,
    pub personas: Vec<MigratedPersona>,
    pub files: Vec<MigratedFile>,
    pub secrets: Vec<MigratedSecret>,
    pub findings: Vec<MigrationFinding>,
}

/// Headings of the findings, in the order in which they are told.
const HEADINGS: [(FindingKind, &str); 4] = [
    (FindingKind::Broken, "cannot be read, and was left out"),
    (
        FindingKind::Kept,
        "is here already in another form, and stays",
    ),
    (
        FindingKind::Changed,
        "comes over, and means something else here",
    ),
    (FindingKind::NoCounterpart, "has no counterpart here"),
];

/// Shows the files and their differences, before anything is written.
pub fn tell_files(context: &CommandContext, report: &ProtegeReport) -> anyhow::Result<()> {
    if context.json() {
        return Ok(());
    }
    for file in &report.files {
        context.screen.line(format!(
            "{:<10}{}",
            word(file.outcome, report.dry_run),
            screen::one_line(&file.path)
        ))?;
        for line in &file.difference {
            context
                .screen
                .line(format!("{:<10}{}", "", screen::printable(line)))?;
        }
    }
    for secret in &report.secrets {
        context.screen.line(format!(
            "{:<10}.secrets: {}",
            word(secret.outcome, report.dry_run),
            secret.name
        ))?;
    }
    Ok(())
}

fn word(outcome: MigrationOutcome, is_dry: bool) -> &'static str {
    match outcome {
        MigrationOutcome::Written if is_dry => "to write",
        MigrationOutcome::Written => "write",
        MigrationOutcome::Unchanged => "is here",
        MigrationOutcome::Kept => "kept",
    }
}

/// Tells the rest: letters, findings, the next step.
pub fn tell_end(context: &CommandContext, report: &ProtegeReport) -> anyhow::Result<()> {
    if context.json() {
        return context.screen.json(report);
    }
    let screen = &context.screen;
    for persona in &report.personas {
        let MigratedLetters {
            rows,
            received,
            own,
            duplicates,
            refused,
            empty,
            synthetic,
        } = persona.letters;
        let address = screen::one_line(&persona.address);
        screen.line(match report.dry_run {
            true => format!("{}: {address}, {rows} rows of mail", persona.id),
            false => format!(
                "{}: {address}, {received} letters received and {own} of its own are new, {duplicates} were here, {refused} could not be \
                 taken, {empty} had no words, {synthetic} were prompts of schedules",
                persona.id
            ),
        })?;
    }
    for (kind, heading) in HEADINGS {
        let mut of_kind = report
            .findings
            .iter()
            .filter(|finding| finding.kind == kind)
            .peekable();
        if of_kind.peek().is_some() {
            screen.heading(format!("\n{heading}"))?;
        }
        for finding in of_kind {
            let line = finding
                .line
                .map(|line| format!(":{line}"))
                .unwrap_or_default();
            let place = screen::one_line(&finding.place);
            screen.line(format!(
                "{place}{line}: {}",
                screen::one_line(&finding.what)
            ))?;
            screen.line(format!("  {}", finding.remedy))?;
        }
    }
    screen.line(match report.dry_run || report.files.is_empty() {
        true => "\nnothing was written",
        false => "\nnothing was answered or sent; `attache config check` shows what is in force, `attache setup` sets the ways in and out",
    })?;
    Ok(())
}
