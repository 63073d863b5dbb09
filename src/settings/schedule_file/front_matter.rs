//! The entries of a front matter by their keys, each parsed as its key requires.

use super::cron::shortened;
use super::front::{FileError, FrontEntry, FrontValue, fault};
use super::nearest::{did_you_mean, hint};
use crate::config::TypedDuration;
use std::time::Duration;

/// Every key that a responsibility may have.
pub const KEYS: &[&str] = &[
    "name",
    "schedule",
    "at",
    "every",
    "timezone",
    "enabled",
    "catch_up",
    "catch_up_window",
    "overlap",
    "jitter",
    "grace",
    "budget",
    "budget_usd",
    "model",
    "provider",
    "tools",
    "profile",
    "deliver_to",
    "output_schema",
    "retries",
    "plan",
    "max_output_tokens",
    "temperature",
    "max_tool_turns",
    "tool_calls_max",
    "duration_max",
    "call_timeout",
    "idle_timeout",
    "reply",
    "proposed_by",
];

/// The entries, all with known keys.
pub(super) struct FrontMatter<'a> {
    entries: &'a [FrontEntry],
}

impl<'a> FrontMatter<'a> {
    pub fn from_entries(entries: &'a [FrontEntry]) -> Result<Self, FileError> {
        if let Some(entry) = entries
            .iter()
            .find(|entry| !KEYS.contains(&entry.key.as_str()))
        {
            let meant = did_you_mean(&entry.key, KEYS.iter().copied());
            let meant = if meant.is_empty() {
                format!("; there are: {}", KEYS.join(", "))
            } else {
                meant
            };
            return Err(fault(
                entry.line,
                format!("unknown key `{}`{meant}", shortened(&entry.key)),
            ));
        }
        Ok(Self { entries })
    }

    pub fn get(&self, key: &str) -> Option<&'a FrontEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub fn line(&self, key: &str) -> Option<usize> {
        self.get(key).map(|entry| entry.line)
    }

    /// Returns one text, trimmed and not empty, with its line.
    pub fn text(&self, key: &str) -> Result<Option<(usize, String)>, FileError> {
        let Some(entry) = self.get(key) else {
            return Ok(None);
        };
        let line = entry.value.line;
        match &entry.value.value {
            FrontValue::Text(text) if text.trim().is_empty() => {
                Err(fault(line, format!("`{key}` is empty")))
            }
            FrontValue::Text(text) if text.trim().contains(char::is_control) => Err(fault(
                line,
                format!("`{key}` contains a control character; write it on one line"),
            )),
            FrontValue::Text(text) => Ok(Some((line, text.trim().to_owned()))),
            FrontValue::Nothing => Err(fault(
                line,
                format!("`{key}` has no value; leave the line out, or write one"),
            )),
            FrontValue::List(_) => Err(fault(
                entry.line,
                format!("`{key}` is a list; write one value"),
            )),
            FrontValue::Map(_) => Err(fault(
                entry.line,
                format!("`{key}` has nested values; write one value, in quotes if it has a colon"),
            )),
        }
    }

    /// Returns a list of texts, each with its line.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<(usize, String)>>, FileError> {
        let Some(entry) = self.get(key) else {
            return Ok(None);
        };
        let FrontValue::List(nodes) = &entry.value.value else {
            return Err(fault(
                entry.line,
                format!("`{key}` is a list: write `{key}: [one, two]`, or `[]` for none"),
            ));
        };
        let texts = nodes.iter().map(|node| match &node.value {
            FrontValue::Text(text) => Ok((node.line, text.trim().to_owned())),
            _ => Err(fault(node.line, format!("`{key}` lists names only"))),
        });
        texts.collect::<Result<_, _>>().map(Some)
    }

    /// Returns `true` or `false`.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, FileError> {
        let Some((line, word)) = self.text(key)? else {
            return Ok(None);
        };
        match word.as_str() {
            "true" | "True" | "TRUE" => Ok(Some(true)),
            "false" | "False" | "FALSE" => Ok(Some(false)),
            other => Err(fault(
                line,
                format!("`{key}` is `{}`; write `true` or `false`", shortened(other)),
            )),
        }
    }

    /// Returns one of several words.
    pub fn word<T>(
        &self,
        key: &str,
        words: &[&str],
        read: fn(&str) -> Option<T>,
    ) -> Result<Option<T>, FileError> {
        let Some((line, word)) = self.text(key)? else {
            return Ok(None);
        };
        let unknown = || {
            fault(
                line,
                format!("`{key}` is `{}`{}", shortened(&word), hint(&word, words)),
            )
        };
        read(&word).map(Some).ok_or_else(unknown)
    }

    /// Returns a duration with its line.
    pub fn span(&self, key: &str) -> Result<Option<(usize, Duration)>, FileError> {
        let Some((line, text)) = self.text(key)? else {
            return Ok(None);
        };
        match TypedDuration::try_from(text.clone()) {
            Ok(TypedDuration(span)) => Ok(Some((line, span))),
            Err(_) => {
                let problem = format!(
                    "`{key}` is `{}`; write one number and its unit, such as `30s`, `5m`, `2h` or `7d`",
                    shortened(&text)
                );
                Err(fault(line, problem))
            }
        }
    }

    /// Returns a whole number from 1 to `max`.
    pub fn count(&self, key: &str, max: u32) -> Result<Option<u32>, FileError> {
        match (self.number(key, max)?, self.line(key)) {
            (Some(0), Some(line)) => {
                let problem = format!("`{key}` is `0`; write a whole number from 1 to {max}");
                Err(fault(line, problem))
            }
            (number, _) => Ok(number),
        }
    }

    /// Returns a whole number up to `max`.
    pub fn number(&self, key: &str, max: u32) -> Result<Option<u32>, FileError> {
        let Some((line, text)) = self.text(key)? else {
            return Ok(None);
        };
        let number = text
            .parse()
            .ok()
            .filter(|number| *number <= max && text.bytes().all(|b| b.is_ascii_digit()));
        let problem = || {
            format!(
                "`{key}` is `{}`; write a whole number from 0 to {max}",
                shortened(&text)
            )
        };
        number.map(Some).ok_or_else(|| fault(line, problem()))
    }
}
