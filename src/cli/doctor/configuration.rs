//! The configuration: every problem and warning of `attache config check`, in the area that it belongs to, and edits that are
//! not in force.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::cli::config::CheckReport;
use crate::config::Problem;

static CHECKS: &[InstallCheck<CheckReport>] = &[problems, warnings, edits];

pub fn examine(report: &CheckReport) -> ExaminedArea {
    ExaminedArea::of(CHECKS, report)
}

fn problems(report: &CheckReport) -> Vec<InstallFinding> {
    let fault =
        |problem| InstallFinding::of_problem(area_of(problem), FindingSeverity::Fault, problem);
    report.problems.iter().map(fault).collect()
}

fn warnings(report: &CheckReport) -> Vec<InstallFinding> {
    let warning =
        |problem| InstallFinding::of_problem(area_of(problem), FindingSeverity::Warning, problem);
    report.warnings.iter().map(warning).collect()
}

fn edits(report: &CheckReport) -> Vec<InstallFinding> {
    let warning = |says: String, remedy| {
        InstallFinding::new(
            FindingArea::Configuration,
            FindingSeverity::Warning,
            says,
            remedy,
        )
    };
    let found = &report.not_in_force;
    let edit = |file: &String| {
        match found.refused.first() {
            None => warning(
                "was edited, and the engine that works here has not read it yet".to_owned(),
                "`attache reload` has it read now",
            ),
            Some(first) => warning(
                format!(
                    "was edited, and the engine that works here keeps what was good before: {first}"
                ),
                "put right what `attache config check` names",
            ),
        }
        .of_file(file)
    };
    let restart = |setting: &String| {
        let says = format!("an edit counts after a restart: {setting}");
        warning(says, "start the engine anew")
    };
    let files = found.files.iter().map(edit);
    files
        .chain(found.after_restart.iter().map(restart))
        .collect()
}

/// Returns the area of a problem, by the file or the setting that it is about.
fn area_of(problem: &Problem) -> FindingArea {
    let (file, path) = (problem.file.as_str(), problem.path.as_str());
    let is_of = |setting: &str| path.starts_with(setting);
    match file {
        ".secrets" => FindingArea::Keys,
        _ if problem.message.contains("` is not set") => FindingArea::Keys,
        "configs/gateway.json" if is_of("tls") || is_of("outbound.dkim") => {
            FindingArea::Certificates
        }
        "configs/hooks.json" | "configs/mcp.json" | "configs/mcp.lock.json" => {
            FindingArea::Programs
        }
        _ if file.starts_with("configs/tools/") => FindingArea::Programs,
        _ if file == "personas" || file.starts_with("personas/") => FindingArea::Personas,
        _ => FindingArea::Configuration,
    }
}
