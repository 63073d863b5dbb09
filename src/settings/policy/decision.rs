//! Decision on a call, and its effect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyEffect {
    /// The call is made.
    Allow,
    /// A mail waits as a draft until an owner sends it; a call that sends none is asked about, as `ask`.
    Draft,
    /// The owner is asked first.
    Ask,
    /// The call is refused, and the model is told so.
    Deny,
    /// The tool is not offered.
    Hide,
}

impl PolicyEffect {
    /// Reports whether the call may come about.
    pub fn may_happen(self) -> bool {
        matches!(
            self,
            PolicyEffect::Allow | PolicyEffect::Draft | PolicyEffect::Ask
        )
    }

    pub fn as_str(self) -> &'static str {
        match self {
            PolicyEffect::Allow => "allow",
            PolicyEffect::Draft => "draft",
            PolicyEffect::Ask => "ask",
            PolicyEffect::Deny => "deny",
            PolicyEffect::Hide => "hide",
        }
    }
}

/// Decision on a call, as recorded with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyDecision {
    pub effect: PolicyEffect,
    /// Rule that decided; `None`: the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Stable word for the reason; empty where the table allows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Reason as a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}
