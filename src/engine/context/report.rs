//! Context report: the contribution of each resolver and what became of it; stored with the run.
//!
//! Two reports of what should be one context show where they first differ:
//! [`ContextReport::cause`].

use crate::domain::TextLabel;
use serde::{Deserialize, Serialize};

/// Contributions of the resolvers, and what became of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextReport {
    pub profile: String,
    pub budget_tokens: usize,
    /// Estimated tokens of the part that was sent.
    pub used_tokens: usize,
    /// Reason why the context was shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub entries: Vec<ReportEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportEntry {
    pub resolver: String,
    /// File, thread or message of the piece; empty when the resolver gave nothing.
    pub source: String,
    pub bytes: usize,
    pub tokens: usize,
    pub outcome: EntryOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Digest of the part that was sent; `None` when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Lowest trust of its authors, and who may read it; results of earlier calls have labels of their own.
    #[serde(default, skip_serializing_if = "TextLabel::is_nothing")]
    pub label: TextLabel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryOutcome {
    Used,
    Trimmed,
    Dropped,
    Empty,
    /// The source exists and could not be used.
    #[serde(rename = "left_out")]
    LeftOut,
}

/// Resolver that made a context differ from another one, and the difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextCause {
    /// A resolver's name; `profile`, when the steps themselves differ.
    pub resolver: String,
    /// File, thread or message of the resolver, where there is one.
    pub source: String,
    /// Difference for an operator: the recorded value and the present one.
    pub what: String,
}

impl ContextReport {
    /// Returns the cause: the first entry of `again` that differs from this report.
    pub fn cause(&self, again: &ContextReport) -> Option<ContextCause> {
        if self == again {
            return None;
        }
        let pairs = self.entries.iter().zip(&again.entries);
        if let Some((was, is)) = pairs.into_iter().find(|(was, is)| was != is) {
            return Some(was.against(is));
        }
        let common = self.entries.len().min(again.entries.len());
        let lone = |entry: &ReportEntry, what: &str| ContextCause {
            resolver: entry.resolver.clone(),
            source: entry.source.clone(),
            what: what.to_owned(),
        };
        Some(
            match (self.entries.get(common), again.entries.get(common)) {
                (Some(gone), _) => lone(gone, "contributed this then, and not any more"),
                (None, Some(new)) => lone(new, "did not contribute this then"),
                (None, None) => ContextCause {
                    resolver: "profile".to_owned(),
                    source: again.profile.clone(),
                    what: format!(
                        "`{}` within {} tokens then, `{}` within {} now",
                        self.profile, self.budget_tokens, again.profile, again.budget_tokens
                    ),
                },
            },
        )
    }
}

impl ReportEntry {
    /// Describes the difference of `is` from this entry.
    fn against(&self, is: &ReportEntry) -> ContextCause {
        if self.resolver != is.resolver {
            let what = format!("`{}` stood here then", self.resolver);
            return ContextCause {
                resolver: is.resolver.clone(),
                source: is.source.clone(),
                what,
            };
        }
        let what = if self.source != is.source {
            format!("came from `{}` then, from `{}` now", self.source, is.source)
        } else if self.outcome != is.outcome {
            format!(
                "was {} then, is {} now",
                self.outcome.as_str(),
                is.outcome.as_str()
            )
        } else if self.bytes != is.bytes {
            format!("gave {} bytes then, {} now", self.bytes, is.bytes)
        } else {
            "gave other words of the same length".to_owned()
        };
        ContextCause {
            resolver: self.resolver.clone(),
            source: self.source.clone(),
            what,
        }
    }
}

impl EntryOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            EntryOutcome::Used => "used",
            EntryOutcome::Trimmed => "trimmed",
            EntryOutcome::Dropped => "dropped",
            EntryOutcome::Empty => "empty",
            EntryOutcome::LeftOut => "left_out",
        }
    }
}
