//! Settings of the calls and bounds of the runs of letters to an address, under the keys that a responsibility has.

use crate::config::file::duration::{TypedDuration, spell};
use crate::config::file::{Document, child};
use crate::config::values::check_context::CheckContext;
use crate::domain::{RunSettings, Temperature};
use serde::Serialize;
use serde_json::{Map, Value};

/// Settings as typed; those that are left out are the persona's.
#[derive(Debug, Clone, Copy)]
pub struct TypedLetterSettings {
    pub max_output_tokens: Option<u32>,
    pub temperature: Option<f64>,
    pub max_tool_turns: Option<u32>,
    pub tool_calls_max: Option<u32>,
    pub duration_max: Option<TypedDuration>,
    pub call_timeout: Option<TypedDuration>,
    pub idle_timeout: Option<TypedDuration>,
}

/// Resolves the settings of the rule at this pointer. Problems go to the context.
pub fn resolve(
    (file, pointer): (&Document, &str),
    typed: TypedLetterSettings,
    ctx: &mut CheckContext<'_>,
) -> RunSettings {
    let mut span = |key: &str, typed: Option<TypedDuration>| {
        let span = typed?.0;
        let (min, max) = (RunSettings::SPAN_MIN, RunSettings::SPAN_MAX);
        if !(min..=max).contains(&span) {
            let message = format!("`{}` is out of range", spell(span));
            let hint = format!("write a duration from `{}` to `{}`", spell(min), spell(max));
            ctx.refuse(file, child(pointer, key), message, hint);
        }
        Some(span)
    };
    RunSettings {
        max_output_tokens: typed.max_output_tokens,
        temperature: typed.temperature.and_then(Temperature::of),
        max_tool_turns: typed.max_tool_turns,
        tool_calls_max: typed.tool_calls_max,
        duration_max: span("duration_max", typed.duration_max),
        call_timeout: span("call_timeout", typed.call_timeout),
        idle_timeout: span("idle_timeout", typed.idle_timeout),
    }
}

/// The settings of a rule, for `attache config show`.
#[derive(Serialize)]
struct ShownLetterSettings {
    max_output_tokens: Option<u32>,
    temperature: Option<f64>,
    max_tool_turns: Option<u32>,
    tool_calls_max: Option<u32>,
    duration_max: Option<String>,
    call_timeout: Option<String>,
    idle_timeout: Option<String>,
}

/// JSON of the settings under their keys.
pub fn show(settings: &RunSettings) -> Map<String, Value> {
    let shown = ShownLetterSettings {
        max_output_tokens: settings.max_output_tokens,
        temperature: settings.temperature.map(Temperature::number),
        max_tool_turns: settings.max_tool_turns,
        tool_calls_max: settings.tool_calls_max,
        duration_max: settings.duration_max.map(spell),
        call_timeout: settings.call_timeout.map(spell),
        idle_timeout: settings.idle_timeout.map(spell),
    };
    match serde_json::to_value(shown) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}
