//! Thinking of a model before it answers.

use crate::config::values::section::*;

/// Request to think before the answer. Levels are for models that have levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Think {
    Off,
    On,
    Low,
    Medium,
    High,
}

impl Think {
    /// The level in the vendors' common words; `None` for plain on and off.
    pub fn level(self) -> Option<&'static str> {
        match self {
            Think::Off | Think::On => None,
            Think::Low => Some("low"),
            Think::Medium => Some("medium"),
            Think::High => Some("high"),
        }
    }
}
