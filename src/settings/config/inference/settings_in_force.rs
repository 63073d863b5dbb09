//! The settings in force for the calls of one run, of all that the levels set.
//!
//! The nearest level wins: the duty or the persona's rule for such letters, the persona, the block
//! of the provider that is asked, `configs/inference.json`. A program that asks by OpenAI's API lowers the length of answers only.

use super::budgets::{Budget, DURATION_MAX, TOOL_CALLS_MAX, TURNS_MAX};
use super::{Inference, TypedTimeouts, default_output_tokens};
use crate::config::file::duration::spell;
use crate::config::persona::Persona;
use crate::domain::{Origin, RunOptions, RunSettings, Trigger};
use serde_json::{Value, json};
use std::time::Duration;

/// A setting in force, and the level that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
}

/// Settings in force for the calls of a run to one provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SettingsInForce {
    pub max_output_tokens: Setting<u32>,
    /// `None`: the provider's own.
    pub temperature: Setting<Option<f32>>,
    pub max_tool_turns: Setting<u32>,
    pub tool_calls_max: Setting<u32>,
    pub duration_max: Setting<Duration>,
    pub call_timeout: Setting<Duration>,
    pub idle_timeout: Setting<Duration>,
}

impl Inference {
    /// Returns the settings in force for the calls of a run to this provider.
    pub fn settings_in_force(
        &self,
        (persona, options): (&Persona, &RunOptions),
        trigger: Trigger,
        provider: &str,
    ) -> SettingsInForce {
        let near = match trigger {
            Trigger::Email | Trigger::Chat | Trigger::Summary => Origin::Letter,
            Trigger::Schedule | Trigger::Manual => Origin::Responsibility,
        };
        let block = self.providers.get(provider);
        let block = block.map_or_else(RunSettings::default, |settings| settings.settings);
        let levels = Levels([
            (near, options.settings),
            (Origin::Persona, persona.settings),
            (Origin::Provider, block),
        ]);
        let usual = TypedTimeouts::default();
        // A program that asks may have less than the others say, and never more.
        let (asked, levels_of_output) = match trigger {
            Trigger::Chat => (options.settings.max_output_tokens, levels.without_nearest()),
            _ => (None, levels),
        };
        let max_output_tokens = levels_of_output.or(
            |of| of.max_output_tokens,
            self.max_output_tokens,
            default_output_tokens(),
        );
        SettingsInForce {
            max_output_tokens: match asked {
                Some(value) if value < max_output_tokens.value => Setting {
                    value,
                    origin: near,
                },
                _ => max_output_tokens,
            },
            temperature: levels.or(
                |of| of.temperature.map(|number| Some(number.value())),
                self.temperature,
                None,
            ),
            max_tool_turns: levels.or(|of| of.max_tool_turns, self.budget.turns_max, TURNS_MAX),
            tool_calls_max: levels.or(
                |of| of.tool_calls_max,
                self.budget.tool_calls_max,
                TOOL_CALLS_MAX,
            ),
            duration_max: levels.or(|of| of.duration_max, self.budget.duration_max, DURATION_MAX),
            call_timeout: levels.or(|of| of.call_timeout, self.call_timeout, usual.call),
            idle_timeout: levels.or(|of| of.idle_timeout, self.idle_timeout, usual.idle),
        }
    }
}

/// Levels from near to far, without the file that every engine has.
#[derive(Clone, Copy)]
struct Levels([(Origin, RunSettings); 3]);

impl Levels {
    fn without_nearest(self) -> Self {
        let [(near, _), others @ ..] = self.0;
        let [persona, provider] = others;
        Self([(near, RunSettings::default()), persona, provider])
    }

    /// Returns the value of the nearest level, else that of the file, else the default.
    fn or<T: PartialEq>(
        &self,
        of: impl Fn(&RunSettings) -> Option<T>,
        of_file: T,
        usual: T,
    ) -> Setting<T> {
        let set = |(origin, level): &(Origin, RunSettings)| {
            let origin = *origin;
            of(level).map(|value| Setting { value, origin })
        };
        self.0.iter().find_map(set).unwrap_or_else(|| Setting {
            origin: match of_file == usual {
                true => Origin::Default,
                false => Origin::Global,
            },
            value: of_file,
        })
    }
}

impl SettingsInForce {
    /// Returns the bounds of the run: these, and those of the file.
    pub fn applied(&self, budget: &Budget) -> Budget {
        Budget {
            turns_max: self.max_tool_turns.value,
            tool_calls_max: self.tool_calls_max.value,
            duration_max: self.duration_max.value,
            ..budget.clone()
        }
    }

    /// Returns each setting with its value as in a file, and its origin.
    pub fn listed(&self) -> Vec<(&'static str, Value, Origin)> {
        let number = |setting: Setting<u32>| (json!(setting.value), setting.origin);
        let span = |setting: Setting<Duration>| (json!(spell(setting.value)), setting.origin);
        // The decimal that was typed, not the nearest binary fraction.
        let decimal = |number: f32| (f64::from(number) * 1e6).round() / 1e6;
        let temperature = json!(self.temperature.value.map(decimal));
        let temperature = (temperature, self.temperature.origin);
        let all = [
            ("max_output_tokens", number(self.max_output_tokens)),
            ("temperature", temperature),
            ("max_tool_turns", number(self.max_tool_turns)),
            ("tool_calls_max", number(self.tool_calls_max)),
            ("duration_max", span(self.duration_max)),
            ("timeouts.call", span(self.call_timeout)),
            ("timeouts.idle", span(self.idle_timeout)),
        ];
        let flat = |(name, (value, origin))| (name, value, origin);
        all.into_iter().map(flat).collect()
    }
}
