//! Slot of a run, and the options that it sets, for people and programs.

use crate::domain::DeliverTo;
use crate::domain::PlanMode;
use crate::store::{RunOptionsInForce, SlotOfRun};
use crate::text::plural;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Slot of a responsibility's run. Options that equal the default are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlotRecord {
    pub responsibility: String,
    pub slot_at: String,
    /// `scheduled` or `manual`.
    pub kind: String,
    /// Provider that is asked first, instead of the persona's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Permitted tools, of those that the persona may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    pub deliver_to: Destination,
    /// Attempts after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Whether it proposes a plan first; `None`: as its persona.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanMode>,
    /// `true`: the answer must fit a schema.
    pub has_output_schema: bool,
}

/// Destination of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    Owners,
    Sender,
    People(Vec<String>),
    Thread(String),
    Store,
}

impl From<SlotOfRun> for SlotRecord {
    fn from(slot: SlotOfRun) -> Self {
        let SlotOfRun {
            responsibility,
            slot_at,
            kind,
            run_options:
                RunOptionsInForce {
                    output_schema,
                    run_options,
                    ..
                },
        } = slot;
        Self {
            responsibility,
            slot_at: slot_at.to_string(),
            kind,
            provider: run_options.provider,
            model: run_options.model,
            tools: run_options.tools,
            deliver_to: match run_options.deliver_to {
                DeliverTo::Owners => Destination::Owners,
                DeliverTo::Sender => Destination::Sender,
                DeliverTo::People(people) => {
                    Destination::People(people.iter().map(ToString::to_string).collect())
                }
                DeliverTo::Thread(thread) => Destination::Thread(thread.to_string()),
                DeliverTo::Store => Destination::Store,
            },
            retries: run_options.retries,
            plan: run_options.plan,
            has_output_schema: output_schema.is_some(),
        }
    }
}

impl SlotRecord {
    /// Formats the slot: `2026-11-20T09:05:00.000Z of Report (scheduled)`.
    pub fn named(&self) -> String {
        format!(
            "{} of {} ({})",
            self.slot_at, self.responsibility, self.kind
        )
    }

    /// Formats the options that differ from the default; empty when none does.
    pub fn options(&self) -> String {
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
            Destination::Owners | Destination::Sender => None,
            Destination::People(people) => {
                Some(format!("its answer goes to {}", people.join(", ")))
            }
            Destination::Thread(thread) => Some(format!("its answer goes into thread {thread}")),
            Destination::Store => Some("its answer is only stored".to_owned()),
        };
        let form = self
            .has_output_schema
            .then(|| "its answer fits a schema".to_owned());
        let tries = self.retries.map(|retries| match retries {
            0 => "never tried again".to_owned(),
            _ => format!("tried again at most {}", plural(retries, "time")),
        });
        let plan = self.plan.map(|plan| match plan {
            PlanMode::Ask => "proposes a plan first".to_owned(),
            PlanMode::None => "acts without a plan".to_owned(),
        });
        let phrases: Vec<String> = [model, tools, answer, form, tries, plan]
            .into_iter()
            .flatten()
            .collect();
        phrases.join("; ")
    }
}
