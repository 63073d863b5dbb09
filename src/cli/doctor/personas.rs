//! Personas whose mail is in the database and whose folder is gone. What is wrong in the folders that are there is a problem
//! of the configuration.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::store::PersonaRecords;
use std::path::Path;

/// A persona with rows and without a folder.
pub struct GonePersona {
    pub records: PersonaRecords,
}

static CHECKS: &[InstallCheck<[GonePersona]>] = &[at_work, gone];

/// `moving`: a persona on its way to or from another cell, whose folder goes before its rows.
pub fn examine(workspace: &Path, records: Option<Vec<PersonaRecords>>) -> ExaminedArea {
    let folder =
        |records: &PersonaRecords| workspace.join("personas").join(records.persona.as_str());
    let gone = records
        .into_iter()
        .flatten()
        .filter(|records| !folder(records).exists());
    let gone: Vec<GonePersona> = gone.map(|records| GonePersona { records }).collect();
    ExaminedArea::of(CHECKS, gone.as_slice())
}

fn finding(
    of: &GonePersona,
    severity: FindingSeverity,
    what: String,
    remedy: String,
) -> InstallFinding {
    let file = format!("personas/{}", of.records.persona);
    InstallFinding::new(FindingArea::Personas, severity, what, remedy).of_file(file)
}

fn at_work(all: &[GonePersona]) -> Vec<InstallFinding> {
    let found = all.iter().filter(|of| of.records.open_runs > 0).map(|of| {
        let what = format!(
            "its folder is gone, and {} of its runs wait: each fails when it is taken up",
            of.records.open_runs
        );
        let remedy = format!(
            "put the folder back, from a backup for example, or cancel them (`attache runs list --persona {}`)",
            of.records.persona
        );
        finding(of, FindingSeverity::Fault, what, remedy)
    });
    found.collect()
}

fn gone(all: &[GonePersona]) -> Vec<InstallFinding> {
    let found = all.iter().filter(|of| of.records.open_runs == 0).map(|of| {
        let what = "its mail is in the database, and its folder is gone".to_owned();
        let remedy = "put the folder back if it is missed; if the persona was removed on purpose, nothing is to do".to_owned();
        finding(of, FindingSeverity::Note, what, remedy)
    });
    found.collect()
}
