//! The slot that a run came of, and what it is held to by it, as people and programs read it.

use super::timeline::plural;
use crate::domain::DeliverTo;
use crate::store::{HeldTo, SlotOfRun};
use serde::{Deserialize, Serialize};

/// The slot of a run of a responsibility. Of its terms those are absent that are as usual.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotRecord {
    pub responsibility: String,
    pub slot_at: String,
    /// `scheduled` or `manual`.
    pub kind: String,
    /// Asked first, instead of the persona's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The only tools, of those that the persona may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    pub deliver_to: Destination,
    /// Attempts after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// The answer is held to a schema.
    pub has_output_schema: bool,
}

/// Where the answer goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    Owners,
    People(Vec<String>),
    Thread(String),
    Store,
}

impl From<SlotOfRun> for SlotRecord {
    fn from(slot: SlotOfRun) -> Self {
        let SlotOfRun { responsibility, slot_at, kind, held_to: HeldTo { output_schema, run_terms, .. } } =
            slot;
        Self {
            responsibility,
            slot_at: slot_at.to_string(),
            kind,
            provider: run_terms.provider,
            model: run_terms.model,
            tools: run_terms.tools,
            deliver_to: match run_terms.deliver_to {
                DeliverTo::Owners => Destination::Owners,
                DeliverTo::People(people) => {
                    Destination::People(people.iter().map(ToString::to_string).collect())
                }
                DeliverTo::Thread(thread) => Destination::Thread(thread.to_string()),
                DeliverTo::Store => Destination::Store,
            },
            retries: run_terms.retries,
            has_output_schema: output_schema.is_some(),
        }
    }
}

impl SlotRecord {
    /// `2026-11-20T09:05:00.000Z of Report (scheduled)`
    pub fn named(&self) -> String {
        format!("{} of {} ({})", self.slot_at, self.responsibility, self.kind)
    }

    /// What the run is held to that is not as usual; empty when nothing is.
    pub fn terms(&self) -> String {
        let model = match (&self.provider, &self.model) {
            (Some(provider), Some(model)) => Some(format!("asks {provider}/{model}")),
            (Some(name), None) | (None, Some(name)) => Some(format!("asks {name}")),
            (None, None) => None,
        };
        let tools = self.tools.as_ref().map(|tools| match tools.is_empty() {
            true => "uses no tools".to_owned(),
            false => format!("uses only {}", tools.join(", ")),
        });
        let answer = match &self.deliver_to {
            Destination::Owners => None,
            Destination::People(people) => Some(format!("its answer goes to {}", people.join(", "))),
            Destination::Thread(thread) => Some(format!("its answer goes into thread {thread}")),
            Destination::Store => Some("its answer is only stored".to_owned()),
        };
        let form = self.has_output_schema.then(|| "its answer fits a schema".to_owned());
        let tries = self.retries.map(|retries| match retries {
            0 => "never tried again".to_owned(),
            _ => format!("tried again at most {}", plural(retries, "time")),
        });
        let told: Vec<String> = [model, tools, answer, form, tries].into_iter().flatten().collect();
        told.join("; ")
    }
}
