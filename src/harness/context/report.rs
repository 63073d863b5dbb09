//! The context report: what each resolver contributed and what became of it; stored with the run.
//!
//! Two reports of what should be the same context tell where it stopped being the same: [`ContextReport::culprit`].

use serde::{Deserialize, Serialize};

/// What each resolver contributed and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextReport {
    pub profile: String,
    pub budget_tokens: usize,
    /// Estimated tokens of what was sent.
    pub used_tokens: usize,
    /// Why it is shorter than it would be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub entries: Vec<ReportEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportEntry {
    pub resolver: String,
    /// File, thread or message it came from; empty when it gave nothing.
    pub source: String,
    pub bytes: usize,
    pub tokens: usize,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Digest of what was sent of it; `None` when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Used,
    Trimmed,
    Dropped,
    Empty,
    /// It is there and could not be used.
    #[serde(rename = "left_out")]
    LeftOut,
}

/// Who made a context differ from another one, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Culprit {
    /// A resolver's name; `profile`, when the steps themselves differ.
    pub resolver: String,
    /// Its file, thread or message, where there is one.
    pub source: String,
    /// For people: what was, and what is.
    pub what: String,
}

impl ContextReport {
    /// The first entry of `again` that is not as it was here.
    pub fn culprit(&self, again: &ContextReport) -> Option<Culprit> {
        if self == again {
            return None;
        }
        let pairs = self.entries.iter().zip(&again.entries);
        if let Some((was, is)) = pairs.into_iter().find(|(was, is)| was != is) {
            return Some(was.against(is));
        }
        let common = self.entries.len().min(again.entries.len());
        let lone = |entry: &ReportEntry, what: &str| Culprit {
            resolver: entry.resolver.clone(),
            source: entry.source.clone(),
            what: what.to_owned(),
        };
        Some(match (self.entries.get(common), again.entries.get(common)) {
            (Some(gone), _) => lone(gone, "contributed this then, and not any more"),
            (None, Some(new)) => lone(new, "did not contribute this then"),
            (None, None) => Culprit {
                resolver: "profile".to_owned(),
                source: again.profile.clone(),
                what: format!(
                    "`{}` within {} tokens then, `{}` within {} now",
                    self.profile, self.budget_tokens, again.profile, again.budget_tokens
                ),
            },
        })
    }
}

impl ReportEntry {
    /// How `is` differs from this.
    fn against(&self, is: &ReportEntry) -> Culprit {
        if self.resolver != is.resolver {
            let what = format!("`{}` stood here then", self.resolver);
            return Culprit { resolver: is.resolver.clone(), source: is.source.clone(), what };
        }
        let what = if self.source != is.source {
            format!("came from `{}` then, from `{}` now", self.source, is.source)
        } else if self.outcome != is.outcome {
            format!("was {} then, is {} now", self.outcome.as_str(), is.outcome.as_str())
        } else if self.bytes != is.bytes {
            format!("gave {} bytes then, {} now", self.bytes, is.bytes)
        } else {
            "gave other words of the same length".to_owned()
        };
        Culprit { resolver: self.resolver.clone(), source: self.source.clone(), what }
    }
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Used => "used",
            Outcome::Trimmed => "trimmed",
            Outcome::Dropped => "dropped",
            Outcome::Empty => "empty",
            Outcome::LeftOut => "left_out",
        }
    }
}
