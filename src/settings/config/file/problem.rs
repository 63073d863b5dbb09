//! Problems of a configuration: position, message and hint.

use serde::Serialize;
use std::fmt;

/// Maximum number of names that a hint lists when none is near.
const NAMES_LISTED_MAX: usize = 12;

/// One problem of one file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// Path below the workspace.
    pub file: String,
    /// Line and column, from 1, when the problem has a position in the file.
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// Dotted path such as `outbound.tls` or `listeners[0].address`; empty for the file as a whole.
    pub path: String,
    /// Message in lower case without full stop, input in backticks.
    pub message: String,
    /// The correct form, if known.
    pub hint: Option<String>,
}

impl Problem {
    /// Builds a problem of a file as a whole.
    pub fn in_file(file: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            file: file.to_owned(),
            line: None,
            column: None,
            path: String::new(),
            message,
            hint: None,
        }
    }
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// Suggests the name nearest to the typed one, or else gives another hint.
    #[must_use]
    pub fn did_you_mean_or(self, typed: &str, names: &[&str], hint: &str) -> Self {
        match nearest(typed, names) {
            Some(name) => self.hint(format!("did you mean `{name}`? Else {hint}")),
            None => self.hint(hint),
        }
    }
    /// Suggests the name nearest to the typed one, or lists the names when none is near.
    #[must_use]
    pub fn did_you_mean<'n>(self, typed: &str, names: impl IntoIterator<Item = &'n str>) -> Self {
        let names = names.into_iter().collect::<Vec<_>>();
        match nearest(typed, &names) {
            Some(name) => self.hint(format!("did you mean `{name}`?")),
            None if names.is_empty() => self,
            None if names.len() > NAMES_LISTED_MAX => {
                let first = names[..NAMES_LISTED_MAX].join(", ");
                self.hint(format!(
                    "there are: {first}, and {} more",
                    names.len() - NAMES_LISTED_MAX
                ))
            }
            None => self.hint(format!("there are: {}", names.join(", "))),
        }
    }
}

/// The name that a typing error most likely means, if one is near enough.
pub fn nearest<'n>(typed: &str, names: &[&'n str]) -> Option<&'n str> {
    let typed = typed.to_ascii_lowercase().replace('-', "_");
    let distance = |name: &str| {
        strsim::damerau_levenshtein(&typed, &name.to_ascii_lowercase().replace('-', "_"))
    };
    let best = names.iter().map(|name| (distance(name), *name)).min()?;
    // A third of the characters may differ, and at least one.
    let near = best.0 <= (best.1.chars().count() / 3).max(1);
    near.then_some(best.1)
}

impl fmt::Display for Problem {
    /// Formats ``configs/gateway.json:12:7: outbound.tsl: unknown key; did you mean `tls`?``
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

/// Every problem of every file, ordered by file and position. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    pub problems: Vec<Problem>,
}

impl ConfigErrors {
    /// Sorts the problems; `None` when there are none.
    pub fn from_problems(mut problems: Vec<Problem>) -> Option<Self> {
        problems.sort();
        problems.dedup();
        (!problems.is_empty()).then_some(Self { problems })
    }
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [only] => write!(f, "{only}"),
            many => {
                write!(f, "the configuration has {} problems", many.len())?;
                many.iter()
                    .try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name_and_nonsense_does_not() {
        let names = ["tls", "port", "host", "connections_max"];
        assert_eq!(nearest("tsl", &names), Some("tls"));
        assert_eq!(nearest("connection-max", &names), Some("connections_max"));
        assert_eq!(nearest("colour", &names), None);
    }
}
