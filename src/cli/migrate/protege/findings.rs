//! What of the other workspace does not come over as it is, one by one.

use crate::config::Problem;
use schemars::JsonSchema;
use serde::Serialize;

/// Why something is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// It cannot be read, or contradicts itself; the rest goes on.
    Broken,
    /// A file here differs from what would be written, and stays.
    Kept,
    /// It comes over, and means something else here.
    Changed,
    /// There is nothing like it here.
    NoCounterpart,
}

/// One thing that does not come over as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct MigrationFinding {
    pub kind: FindingKind,
    /// File in the other workspace, and the table and row where it is a database.
    pub place: String,
    /// Line, from 1, where there is one.
    pub line: Option<usize>,
    /// What is so.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

/// Remedy for a file of the other workspace.
pub const MEND_THERE: &str = "mend the file there, and say the command again";

/// MigrationFindings in the order in which they came up.
#[derive(Debug, Clone, Default)]
pub struct MigrationFindings(pub Vec<MigrationFinding>);

impl MigrationFindings {
    pub fn add(
        &mut self,
        kind: FindingKind,
        place: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.at(kind, (place.into(), None), what, remedy);
    }

    pub fn at(
        &mut self,
        kind: FindingKind,
        (place, line): (String, Option<usize>),
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let finding = MigrationFinding {
            kind,
            place,
            line,
            what: what.into(),
            remedy: remedy.into(),
        };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    /// Adds what is wrong with a file.
    pub fn broken(&mut self, place: &str, what: impl Into<String>) {
        self.add(FindingKind::Broken, place, what, MEND_THERE);
    }

    /// Returns what was read of a file; what is wrong with it is added.
    pub fn readable<T>(&mut self, place: &str, read: Result<Option<T>, String>) -> Option<T> {
        read.unwrap_or_else(|what| {
            self.broken(place, what);
            None
        })
    }

    /// Adds a problem of a JSON file under this kind.
    pub fn problem(&mut self, kind: FindingKind, problem: Problem) {
        let remedy = problem.hint.unwrap_or_else(|| MEND_THERE.to_owned());
        self.at(kind, (problem.file, problem.line), problem.message, remedy);
    }

    /// Reports whether something at this place was named before.
    pub fn names(&self, place: &str) -> bool {
        self.0.iter().any(|finding| finding.place == place)
    }

    /// Reports whether something could not be read.
    pub fn has_broken(&self) -> bool {
        self.0
            .iter()
            .any(|finding| finding.kind == FindingKind::Broken)
    }
}
