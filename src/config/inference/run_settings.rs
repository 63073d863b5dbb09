//! Settings of calls and bounds of runs that a persona or the block of a provider may set.

use crate::config::file::duration::{TypedDuration, spell};
use crate::config::file::{Document, child};
use crate::config::values::check_context::CheckContext;
use crate::domain::{RunSettings, Temperature};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

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

/// Settings of one block or persona, as typed.
#[derive(Debug, Clone, Copy, Default)]
pub struct TypedSettings {
    pub max_output_tokens: Option<u32>,
    pub temperature: Option<f64>,
    pub max_tool_turns: Option<u32>,
    pub tool_calls_max: Option<u32>,
    pub duration_max: Option<TypedDuration>,
    pub timeouts: Option<TypedOwnTimeouts>,
}

/// Resolves settings that stand at `at`, the pointer of a block. Problems go to the context.
pub fn resolve(
    file: &Document,
    at: &str,
    typed: TypedSettings,
    ctx: &mut CheckContext<'_>,
) -> RunSettings {
    let timeouts = typed.timeouts.unwrap_or_default();
    let mut span = |keys: [&str; 2], typed: Option<TypedDuration>| {
        let span = typed?.0;
        if span.is_zero() {
            let pointer = child(&child(at, keys[0]), keys[1]);
            ctx.complain(file, &pointer, "must be more than nothing");
        }
        Some(span)
    };
    RunSettings {
        max_output_tokens: typed.max_output_tokens,
        temperature: typed.temperature.and_then(Temperature::of),
        max_tool_turns: typed.max_tool_turns,
        tool_calls_max: typed.tool_calls_max,
        duration_max: span(["budget", "duration_max"], typed.duration_max),
        call_timeout: span(["timeouts", "call"], timeouts.call),
        idle_timeout: span(["timeouts", "idle"], timeouts.idle),
    }
}

/// JSON of the settings of one level, under the keys of its file.
pub fn show(settings: &RunSettings) -> Map<String, Value> {
    let span = |span: Option<Duration>| span.map(spell);
    let shown = ShownSettings {
        max_output_tokens: settings.max_output_tokens,
        temperature: settings.temperature.map(Temperature::number),
        timeouts: ShownTimeouts {
            idle: span(settings.idle_timeout),
            call: span(settings.call_timeout),
        },
    };
    match serde_json::to_value(shown) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

#[derive(Serialize)]
struct ShownSettings {
    max_output_tokens: Option<u32>,
    temperature: Option<f64>,
    timeouts: ShownTimeouts,
}

#[derive(Serialize)]
struct ShownTimeouts {
    idle: Option<String>,
    call: Option<String>,
}
