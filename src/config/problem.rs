//! What is wrong with a configuration: where, what, and what would be right.

use serde::Serialize;
use std::fmt;

/// One thing that is wrong in one file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// Path below the workspace.
    pub file: String,
    /// Line and column, from 1, when the problem has a place in the file.
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// Such as `outbound.tls` or `listeners[0].address`; empty for the file as a whole.
    pub path: String,
    /// What is wrong: lower case, no full stop, input in backticks.
    pub message: String,
    /// What would be right, when we know.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    /// `configs/gateway.json:12:7: outbound.tsl: unknown key; did you mean `tls`?`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, ":{line}:{column}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// Every problem of every file, ordered by file and place. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    pub problems: Vec<Problem>,
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [only] => write!(f, "{only}"),
            many => {
                write!(f, "the configuration has {} problems", many.len())?;
                many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}
