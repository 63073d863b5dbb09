//! `commands` in `configs/gateway.json`: commands of owners in the first line of a letter. There is no switch: a command
//! does nothing that its owner could not do at the keyboard.

use crate::config::values::section::*;

/// Longest `age_max`: with it, letters kept back by somebody could be used for a day.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Commands of owners in the first line of a letter.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CommandSettings {
    /// Longest time between the signing of a letter and its arrival for its command to change anything; at most a day.
    #[serde(with = "TypedDuration")]
    pub age_max: Duration,
    /// Most answers to commands that a persona sends in an hour; later commands are carried out without an answer.
    #[schemars(range(min = 1))]
    pub answers_per_hour_max: u32,
}

impl Default for CommandSettings {
    fn default() -> Self {
        Self {
            age_max: Duration::from_secs(3600),
            answers_per_hour_max: 20,
        }
    }
}

/// Checks the section. Problems go to the context.
pub fn check(settings: &CommandSettings, place: &mut CheckPlace<'_, '_>) {
    if settings.age_max > AGE_MAX || settings.age_max.is_zero() {
        place.refuse(
            "age_max",
            "must be between 1s and 24h",
            "an older letter may be a copy that somebody kept",
        );
    }
    if settings.answers_per_hour_max == 0 {
        place.complain("answers_per_hour_max", "must be 1 or more");
    }
}
