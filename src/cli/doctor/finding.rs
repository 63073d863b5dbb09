//! A finding of `attache doctor`: what is wrong with an installation, where, and what to do.

use crate::config::Problem;
use serde::Serialize;

/// Part of an installation, in the order of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingArea {
    Configuration,
    Keys,
    Listeners,
    Certificates,
    Clock,
    Disk,
    Database,
    Modes,
    Engine,
    Personas,
    Programs,
    Servers,
    Dns,
    Backups,
    Records,
}

impl FindingArea {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Keys => "keys",
            Self::Listeners => "listeners",
            Self::Certificates => "certificates",
            Self::Clock => "clock",
            Self::Disk => "disk",
            Self::Database => "database",
            Self::Modes => "modes",
            Self::Engine => "engine",
            Self::Personas => "personas",
            Self::Programs => "programs",
            Self::Servers => "servers",
            Self::Dns => "dns",
            Self::Backups => "backups",
            Self::Records => "records",
        }
    }
}

/// How bad a finding is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    /// It does not work: letters are lost, refused or not answered, or will be at the next start.
    Fault,
    /// It works, and will not for long, or hardly as meant.
    Warning,
    /// Worth to know.
    Note,
}

impl FindingSeverity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InstallFinding {
    pub area: FindingArea,
    pub severity: FindingSeverity,
    /// Path below the workspace, or an absolute one; `None`: it is of no file.
    pub file: Option<String>,
    /// From 1, where it has a position in the file.
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// In lower case without full stop, values in backticks.
    pub what: String,
    pub remedy: String,
}

impl InstallFinding {
    pub fn new(
        area: FindingArea,
        severity: FindingSeverity,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            area,
            severity,
            file: None,
            line: None,
            column: None,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// Takes over a problem of the configuration.
    pub fn of_problem(area: FindingArea, severity: FindingSeverity, problem: &Problem) -> Self {
        let path = match problem.path.as_str() {
            "" => String::new(),
            path => format!("{path}: "),
        };
        let usual = || match problem.file.contains("/responsibilities/") {
            true => format!(
                "mend it; `attache schedule validate {}` tries it",
                problem.file
            ),
            false => format!("mend it in {}", problem.file),
        };
        Self {
            file: Some(problem.file.clone()),
            line: problem.line,
            column: problem.column,
            ..Self::new(
                area,
                severity,
                format!("{path}{}", problem.message),
                problem.hint.clone().unwrap_or_else(usual),
            )
        }
    }

    /// Sets the file that it is about.
    #[must_use]
    pub fn of_file(self, file: impl Into<String>) -> Self {
        Self {
            file: Some(file.into()),
            ..self
        }
    }

    /// Sets the place of a setting.
    #[must_use]
    pub fn at(self, place: &Problem) -> Self {
        Self {
            file: Some(place.file.clone()),
            line: place.line,
            column: place.column,
            ..self
        }
    }

    /// Formats the place and what is wrong.
    pub fn sentence(&self) -> String {
        let place = match (&self.file, self.line, self.column) {
            (None, ..) => String::new(),
            (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}: "),
            (Some(file), ..) => format!("{file}: "),
        };
        format!("{place}{}", self.what)
    }
}

/// A check: a pure function of what was gathered.
pub type InstallCheck<T> = fn(&T) -> Vec<InstallFinding>;

/// Findings of an area, and the number of its checks.
#[derive(Debug, Default)]
pub struct ExaminedArea {
    pub checks: usize,
    pub findings: Vec<InstallFinding>,
}

impl ExaminedArea {
    /// Makes checks.
    pub fn of<T: ?Sized>(checks: &[InstallCheck<T>], facts: &T) -> Self {
        Self {
            checks: checks.len(),
            findings: checks.iter().flat_map(|check| check(facts)).collect(),
        }
    }
}

/// Puts findings into the order of output: areas with faults first, in an area the worst first. Of two about one place of a
/// file the worse stays.
pub fn ordered(mut findings: Vec<InstallFinding>) -> Vec<InstallFinding> {
    findings.sort_by_key(|one| one.severity);
    let mut kept: Vec<InstallFinding> = Vec::new();
    for finding in findings {
        let is_same_place = |other: &InstallFinding| {
            let place = |one: &InstallFinding| (one.file.clone(), one.line, one.column);
            finding.line.is_some() && other.area != finding.area && place(other) == place(&finding)
        };
        if !kept.iter().any(is_same_place) {
            kept.push(finding);
        }
    }
    let worst = |area: FindingArea| {
        let of_area = kept.iter().filter(|one| one.area == area);
        of_area.map(|one| one.severity).min()
    };
    let keys: Vec<_> = kept
        .iter()
        .map(|one| (worst(one.area), one.area, one.severity))
        .collect();
    let mut keyed: Vec<_> = keys.into_iter().zip(kept).collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, finding)| finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use FindingArea::{Configuration, Disk, Listeners};
    use FindingSeverity::{Fault, Note, Warning};

    fn finding(area: FindingArea, severity: FindingSeverity, line: usize) -> InstallFinding {
        InstallFinding {
            file: Some("configs/gateway.json".to_owned()),
            line: Some(line),
            column: Some(1),
            ..InstallFinding::new(area, severity, "wrong", "mend it")
        }
    }

    #[test]
    fn faults_come_first_and_one_place_has_one_finding() {
        let found = ordered(vec![
            finding(Configuration, Warning, 3),
            finding(Disk, Note, 9),
            finding(Listeners, Fault, 3),
            finding(Disk, Warning, 8),
        ]);
        let short: Vec<_> = found.iter().map(|one| (one.area, one.severity)).collect();
        assert_eq!(short, [(Listeners, Fault), (Disk, Warning), (Disk, Note)]);
    }
}
