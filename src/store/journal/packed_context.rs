//! Columns of an assembled context, made before the transaction that stores them.

use crate::store::packing::REPORTS;
use crate::store::sql::json_list;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// What a context leaves in the rows of its run and its turn, beside the packed bodies.
#[derive(Debug, Clone)]
pub struct PackedContext {
    pub report: Vec<u8>,
    pub limits: Vec<u8>,
    /// `run_turns.named_json`.
    pub named_json: String,
    pub facts: ReportFacts,
}

/// What statements ask of a report, which is packed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportFacts {
    pub used_tokens: Option<i64>,
    pub budget_tokens: Option<i64>,
    /// History was shortened or left out.
    pub history_is_cut: bool,
}

/// The fields of a report that statements ask for.
#[derive(Deserialize)]
struct ReportColumns {
    used_tokens: Option<i64>,
    budget_tokens: Option<i64>,
    #[serde(default)]
    entries: Vec<EntryColumns>,
}

#[derive(Deserialize)]
struct EntryColumns {
    #[serde(default)]
    resolver: String,
    #[serde(default)]
    outcome: String,
}

impl PackedContext {
    /// Makes them of a report, the bounds, and the note of sources; the dictionary of the turn names the texts that are `known`.
    pub fn of(
        (report_json, limits_json, note): (&str, &str, &str),
        known: &BTreeSet<String>,
    ) -> Self {
        let pack = |text: &str| REPORTS.pack(text.as_bytes()).into_owned();
        Self {
            report: pack(report_json),
            limits: pack(limits_json),
            named_json: names_beside(note, known),
            facts: ReportFacts::of(report_json),
        }
    }
}

impl ReportFacts {
    /// Reads them; those of a report of another shape are unknown.
    pub fn of(report_json: &str) -> Self {
        let Ok(report) = serde_json::from_str::<ReportColumns>(report_json) else {
            return Self::default();
        };
        let is_cut = |entry: &EntryColumns| {
            entry.resolver == "thread-history"
                && matches!(entry.outcome.as_str(), "trimmed" | "dropped")
        };
        Self {
            used_tokens: report.used_tokens,
            budget_tokens: report.budget_tokens,
            history_is_cut: report.entries.iter().any(is_cut),
        }
    }
}

/// Returns what a note of sources names, as `run_turns.named_json` has it: digests of texts and ids of entries of memory, without
/// those that are `known`, because the dictionary names them.
pub fn names_beside(note: &str, known: &BTreeSet<String>) -> String {
    let note: Value = serde_json::from_str(note).unwrap_or_default();
    let mut names = BTreeSet::new();
    names.extend(note["config"].as_str());
    for read in note["reads"].as_array().into_iter().flatten() {
        digests_in(read, &mut names);
        if read["read"] == "memory" {
            let entries = read["entries"].as_array().into_iter().flatten();
            names.extend(entries.filter_map(Value::as_str));
        }
    }
    names.retain(|name| !known.contains(*name));
    json_list(names.into_iter())
}

/// Collects every member `sha256`, at any depth.
fn digests_in<'v>(value: &'v Value, found: &mut BTreeSet<&'v str>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(digest) if name == "sha256" => {
                        found.insert(digest);
                    }
                    member => digests_in(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| digests_in(item, found)),
        _ => {}
    }
}
