//! The keys of a responsibility that bound the calls of its runs: length, temperature, turns, tool
//! calls, times.

use super::cron::shortened;
use super::front::{FileError, fault};
use super::front_matter::FrontMatter;
use crate::config::spell;
use crate::domain::{RunSettings, Temperature};
use std::time::Duration;

/// Parses the settings of runs.
pub(super) fn parse(front_matter: &FrontMatter<'_>) -> Result<RunSettings, FileError> {
    let count = |key: &str, max: u32| front_matter.count(key, max);
    Ok(RunSettings {
        max_output_tokens: count("max_output_tokens", RunSettings::OUTPUT_TOKENS_MAX)?,
        temperature: temperature(front_matter)?,
        max_tool_turns: count("max_tool_turns", RunSettings::TURNS_MAX)?,
        tool_calls_max: count("tool_calls_max", RunSettings::TOOL_CALLS_MAX)?,
        duration_max: span(front_matter, "duration_max")?,
        call_timeout: span(front_matter, "call_timeout")?,
        idle_timeout: span(front_matter, "idle_timeout")?,
    })
}

fn span(front_matter: &FrontMatter<'_>, key: &str) -> Result<Option<Duration>, FileError> {
    let Some((line, span)) = front_matter.span(key)? else {
        return Ok(None);
    };
    let (min, max) = (RunSettings::SPAN_MIN, RunSettings::SPAN_MAX);
    if (min..=max).contains(&span) {
        return Ok(Some(span));
    }
    let (min, max) = (spell(min), spell(max));
    let problem = format!(
        "`{key}` is `{}`; write a duration from `{min}` to `{max}`",
        spell(span)
    );
    Err(fault(line, problem))
}

fn temperature(front_matter: &FrontMatter<'_>) -> Result<Option<Temperature>, FileError> {
    let Some((line, text)) = front_matter.text("temperature")? else {
        return Ok(None);
    };
    let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number = text.parse().ok().filter(|_| is_plain(&text));
    let problem = || {
        format!(
            "`temperature` is `{}`; write a number from 0 to 2, such as `0.3`",
            shortened(&text)
        )
    };
    let read = number.and_then(Temperature::from_number).map(Some);
    read.ok_or_else(|| fault(line, problem()))
}
