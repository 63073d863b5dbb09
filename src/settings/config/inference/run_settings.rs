//! Settings of calls and bounds of runs that a persona or the block of a provider may set.

use crate::config::values::section::*;
use crate::domain::{RunSettings, Temperature};

/// Timeouts of the calls of one persona or provider; those left out are as in `timeouts` of
/// `configs/inference.json`.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedOwnTimeouts {
    /// Maximum time without data from a provider.
    idle: Option<TypedDuration>,
    /// Maximum duration of a provider call.
    call: Option<TypedDuration>,
}

/// Settings of a block or persona: as typed, with the timeouts of this pair.
pub fn resolve(
    typed: RunSettings,
    timeouts: Option<TypedOwnTimeouts>,
    place: &mut CheckPlace<'_, '_>,
) -> RunSettings {
    let timeouts = timeouts.unwrap_or_default();
    let settings = RunSettings {
        call_timeout: timeouts.call.map(|span| span.0),
        idle_timeout: timeouts.idle.map(|span| span.0),
        ..typed
    };
    for (path, span) in [
        ("budget/duration_max", settings.duration_max),
        ("timeouts/call", settings.call_timeout),
        ("timeouts/idle", settings.idle_timeout),
    ] {
        if span.is_some_and(|span| span.is_zero()) {
            place.complain(path, "must be more than nothing");
        }
    }
    settings
}

/// JSON of the settings of one level, under the keys of its file.
pub fn show(settings: &RunSettings) -> Value {
    json!({
        "max_output_tokens": settings.max_output_tokens,
        "temperature": settings.temperature.map(Temperature::number),
        "timeouts": {
            "idle": settings.idle_timeout.map(spell),
            "call": settings.call_timeout.map(spell),
        },
    })
}
