//! Options of a responsibility besides its schedule, as JSON in its rows. Default values are left
//! out, so that a row written before an option existed keeps its meaning.

use crate::domain::{
    Address, CatchUp, DeliverTo, Overlap, PlanMode, ReplyMode, RunId, RunOptions, RunSettings,
    SlotOptions, Temperature, ThreadId, Timestamp, Trigger, sha256_hex,
};
use crate::store::sql::timestamp;
use crate::store::{PersonaStore, Result, StoreError};
use serde_json::{Map, Value, json};
use std::time::Duration;

const UNREADABLE: StoreError = StoreError::Unreadable {
    what: "terms of a responsibility",
};

/// Options of a run at the time when its slot fired or its letter came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunOptionsInForce {
    /// JSON Schema of the run's answer.
    pub output_schema: Option<String>,
    pub run_options: RunOptions,
    /// Digest of the options in the row; `None`: all options have their defaults.
    pub sha256: Option<String>,
}

impl RunOptionsInForce {
    /// Returns the options of a run of letters without any of its own.
    pub fn of_letters() -> Self {
        Self {
            run_options: RunOptions::for_letters(),
            ..Self::default()
        }
    }
}

/// The slot of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotOfRun {
    pub responsibility: String,
    pub slot_at: Timestamp,
    /// `scheduled` or `manual`.
    pub kind: String,
    pub run_options: RunOptionsInForce,
}

const SLOT_OF_RUN: &str = "
    SELECT d.name, s.slot_at, s.kind, s.output_schema, s.run_options_json FROM responsibility_slots s
    JOIN responsibilities d ON d.id = s.responsibility_id WHERE s.run_id = $1 AND s.persona_id = $2";

const OPTIONS_OF_LETTER: &str = "
    SELECT profile, output_schema, run_options_json FROM runs WHERE id = $1 AND persona_id = $2";

impl PersonaStore {
    /// Returns the slot of a run; `None`: no responsibility started it.
    pub async fn slot_of_run(&self, run: &RunId) -> Result<Option<SlotOfRun>> {
        let Some(row) = self.maybe_row(SLOT_OF_RUN, (run, &self.persona)).await? else {
            return Ok(None);
        };
        let options: Option<String> = row.get("run_options_json");
        let options = options.filter(|options| options != "{}");
        Ok(Some(SlotOfRun {
            responsibility: row.get("name"),
            slot_at: timestamp(&row, "slot_at")?,
            kind: row.get("kind"),
            run_options: RunOptionsInForce {
                output_schema: row.get("output_schema"),
                run_options: options
                    .as_deref()
                    .map(run_options)
                    .transpose()?
                    .unwrap_or_default(),
                sha256: options.map(|options| sha256_hex(&[options.as_bytes()])),
            },
        }))
    }

    /// Returns the options of a run with this trigger: those of its slot, of the rule for its letter, or of the program that asked.
    pub async fn options_of_run(&self, run: &RunId, trigger: Trigger) -> Result<RunOptionsInForce> {
        match trigger {
            Trigger::Email => self.options_of_row(run).await,
            Trigger::Chat => {
                let found = self.options_of_row(run).await?;
                let has_any = found.sha256.is_some() || found.output_schema.is_some();
                Ok(Some(found).filter(|_| has_any).unwrap_or_default())
            }
            Trigger::Schedule | Trigger::Manual | Trigger::Summary => {
                let slot = self.slot_of_run(run).await?;
                Ok(slot.map(|slot| slot.run_options).unwrap_or_default())
            }
        }
    }

    async fn options_of_row(&self, run: &RunId) -> Result<RunOptionsInForce> {
        let row = self
            .maybe_row(OPTIONS_OF_LETTER, (run, &self.persona))
            .await?;
        let Some(row) = row else {
            return Ok(RunOptionsInForce::default());
        };
        let options: Option<String> = row.get("run_options_json");
        let usual = RunOptions {
            profile: row.get("profile"),
            ..RunOptions::for_letters()
        };
        Ok(RunOptionsInForce {
            output_schema: row.get("output_schema"),
            run_options: match &options {
                Some(json) => parsed(json, usual)?,
                None => usual,
            },
            sha256: options.map(|options| sha256_hex(&[options.as_bytes()])),
        })
    }
}

/// Formats the options as JSON: keys `catch_up`, `catch_up_window_ms`, `overlap`, `jitter_ms`,
/// `grace_ms`, `proposed_by`.
pub fn slot_options_json(options: &SlotOptions) -> String {
    let usual = slot_map(&SlotOptions::default());
    without(slot_map(options), &usual)
}

fn slot_map(options: &SlotOptions) -> Map<String, Value> {
    Map::from_iter([
        ("catch_up".to_owned(), options.catch_up.as_str().into()),
        ("catch_up_window_ms".to_owned(), ms(options.catch_up_window)),
        ("overlap".to_owned(), options.overlap.as_str().into()),
        ("jitter_ms".to_owned(), ms(options.jitter)),
        ("grace_ms".to_owned(), ms(options.grace)),
        (
            "proposed_by".to_owned(),
            options.proposed_by.as_ref().map(RunId::as_str).into(),
        ),
    ])
}

pub fn slot_options(json: &str) -> Result<SlotOptions> {
    let said: Map<String, Value> = serde_json::from_str(json).map_err(|_| UNREADABLE)?;
    let usual = SlotOptions::default();
    let word = |key: &str| {
        said.get(key)
            .map(|value| value.as_str().ok_or(UNREADABLE))
            .transpose()
    };
    let span = |key: &str, usual: Duration| match said.get(key) {
        Some(value) => value.as_u64().map(Duration::from_millis).ok_or(UNREADABLE),
        None => Ok(usual),
    };
    Ok(SlotOptions {
        catch_up: match word("catch_up")? {
            Some(word) => CatchUp::parse(word).ok_or(UNREADABLE)?,
            None => usual.catch_up,
        },
        catch_up_window: span("catch_up_window_ms", usual.catch_up_window)?,
        overlap: match word("overlap")? {
            Some(word) => Overlap::parse(word).ok_or(UNREADABLE)?,
            None => usual.overlap,
        },
        jitter: span("jitter_ms", usual.jitter)?,
        grace: span("grace_ms", usual.grace)?,
        proposed_by: word("proposed_by")?.map(|id| RunId::new(id.to_owned())),
    })
}

/// Formats the options as JSON: keys `profile`, `provider`, `model`, `tools`, `deliver_to`,
/// `retries`, `plan`, `reply`, and those of the settings.
pub fn run_options_json(options: &RunOptions) -> String {
    let usual = run_map(&RunOptions::default());
    without(run_map(options), &usual)
}

/// Formats the options of the run of a letter; `None`: they are the defaults.
pub fn letter_options_json(options: &RunOptions) -> Option<String> {
    let usual = RunOptions {
        profile: options.profile.clone(),
        ..RunOptions::for_letters()
    };
    Some(without(run_map(options), &run_map(&usual))).filter(|json| json != "{}")
}

fn run_map(options: &RunOptions) -> Map<String, Value> {
    let deliver_to = match &options.deliver_to {
        DeliverTo::Owners => json!("owners"),
        DeliverTo::Sender => json!("sender"),
        DeliverTo::People(people) => {
            json!({ "people": people.iter().map(Address::to_string).collect::<Vec<_>>() })
        }
        DeliverTo::Thread(thread) => json!({ "thread": thread.as_str() }),
        DeliverTo::Store => json!("store"),
    };
    let settings = settings_map(&options.settings);
    let members = [
        ("profile".to_owned(), options.profile.as_str().into()),
        ("provider".to_owned(), options.provider.as_deref().into()),
        ("model".to_owned(), options.model.as_deref().into()),
        (
            "tools".to_owned(),
            options
                .tools
                .as_ref()
                .map_or(Value::Null, |tools| json!(tools)),
        ),
        ("deliver_to".to_owned(), deliver_to),
        (
            "retries".to_owned(),
            options.retries.map_or(Value::Null, Value::from),
        ),
        ("plan".to_owned(), options.plan.map(PlanMode::as_str).into()),
        (
            "reply".to_owned(),
            options.reply.map(ReplyMode::as_str).into(),
        ),
    ];
    members.into_iter().chain(settings).collect()
}

pub fn run_options(json: &str) -> Result<RunOptions> {
    parsed(json, RunOptions::default())
}

/// Parses options; those that are left out are as in `usual`.
fn parsed(json: &str, usual: RunOptions) -> Result<RunOptions> {
    let said: Map<String, Value> = serde_json::from_str(json).map_err(|_| UNREADABLE)?;
    let text = |key: &str| {
        said.get(key)
            .map(|value| value.as_str().ok_or(UNREADABLE))
            .transpose()
    };
    let texts = |value: &Value| -> Result<Vec<String>> {
        let list = value.as_array().ok_or(UNREADABLE)?;
        list.iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or(UNREADABLE))
            .collect()
    };
    Ok(RunOptions {
        profile: text("profile")?.map_or(usual.profile, str::to_owned),
        provider: text("provider")?.map(str::to_owned),
        model: text("model")?.map(str::to_owned),
        tools: said.get("tools").map(texts).transpose()?,
        deliver_to: match said.get("deliver_to") {
            None => usual.deliver_to,
            Some(Value::String(word)) if word == "store" => DeliverTo::Store,
            Some(Value::String(word)) if word == "owners" => DeliverTo::Owners,
            Some(Value::Object(to)) => match (to.get("people"), to.get("thread")) {
                (Some(people), None) => {
                    let people = texts(people)?.into_iter().map(|text| Address::parse(&text));
                    DeliverTo::People(
                        people
                            .collect::<std::result::Result<_, _>>()
                            .map_err(|_| UNREADABLE)?,
                    )
                }
                (None, Some(Value::String(thread))) => {
                    DeliverTo::Thread(ThreadId::new(thread.clone()))
                }
                _ => return Err(UNREADABLE),
            },
            Some(_) => return Err(UNREADABLE),
        },
        retries: count(&said, "retries")?,
        plan: match text("plan")? {
            None => None,
            Some(word) => Some(PlanMode::parse(word).ok_or(UNREADABLE)?),
        },
        settings: settings(&said)?,
        reply: match text("reply")? {
            None => None,
            Some(word) => Some(ReplyMode::parse(word).ok_or(UNREADABLE)?),
        },
    })
}

fn settings_map(settings: &RunSettings) -> Map<String, Value> {
    let RunSettings {
        max_output_tokens,
        temperature,
        max_tool_turns,
        tool_calls_max,
        duration_max,
        call_timeout,
        idle_timeout,
    } = *settings;
    let all = [
        ("max_output_tokens", max_output_tokens.into()),
        ("temperature", temperature.map(Temperature::number).into()),
        ("max_tool_turns", max_tool_turns.into()),
        ("tool_calls_max", tool_calls_max.into()),
        ("duration_max_ms", duration_max.map(ms).into()),
        ("call_timeout_ms", call_timeout.map(ms).into()),
        ("idle_timeout_ms", idle_timeout.map(ms).into()),
    ];
    let set = all.into_iter().map(|(key, value)| (key.to_owned(), value));
    set.collect()
}

fn settings(said: &Map<String, Value>) -> Result<RunSettings> {
    let span = |key: &str| -> Result<Option<Duration>> {
        let ms = |value: &Value| value.as_u64().ok_or(UNREADABLE);
        let ms = said.get(key).map(ms).transpose()?;
        Ok(ms.map(Duration::from_millis))
    };
    let temperature = |value: &Value| {
        let number = value.as_f64().ok_or(UNREADABLE)?;
        Temperature::from_number(number).ok_or(UNREADABLE)
    };
    Ok(RunSettings {
        max_output_tokens: count(said, "max_output_tokens")?,
        temperature: said.get("temperature").map(temperature).transpose()?,
        max_tool_turns: count(said, "max_tool_turns")?,
        tool_calls_max: count(said, "tool_calls_max")?,
        duration_max: span("duration_max_ms")?,
        call_timeout: span("call_timeout_ms")?,
        idle_timeout: span("idle_timeout_ms")?,
    })
}

fn count(said: &Map<String, Value>, key: &str) -> Result<Option<u32>> {
    let number = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
    said.get(key)
        .map(|value| number(value).ok_or(UNREADABLE))
        .transpose()
}

fn without(said: Map<String, Value>, usual: &Map<String, Value>) -> String {
    Value::Object(
        said.into_iter()
            .filter(|(key, value)| usual.get(key) != Some(value))
            .collect(),
    )
    .to_string()
}

fn ms(span: Duration) -> Value {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_read_back_as_written_and_usual_ones_write_nothing() {
        assert_eq!(slot_options_json(&SlotOptions::default()), "{}");
        assert_eq!(run_options_json(&RunOptions::default()), "{}");
        assert_eq!(slot_options("{}").expect("usual"), SlotOptions::default());
        assert_eq!(run_options("{}").expect("usual"), RunOptions::default());
        let odd = SlotOptions {
            catch_up: CatchUp::All,
            catch_up_window: Duration::from_secs(60),
            overlap: Overlap::BufferOne,
            jitter: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            proposed_by: Some(RunId::new("r1")),
        };
        assert_eq!(slot_options(&slot_options_json(&odd)).expect("odd"), odd);
        let people = vec![Address::parse("ann@example.test").expect("an address")];
        let to = [
            DeliverTo::People(people),
            DeliverTo::Thread(ThreadId::new("t1")),
            DeliverTo::Store,
            DeliverTo::Owners,
        ];
        for deliver_to in to {
            let odd = RunOptions {
                profile: "thread".into(),
                provider: Some("acme".into()),
                model: Some("large".into()),
                tools: Some(vec!["send_email".into()]),
                deliver_to,
                retries: Some(0),
                plan: Some(PlanMode::Ask),
                settings: RunSettings {
                    max_output_tokens: Some(900),
                    temperature: Temperature::from_number(0.7),
                    max_tool_turns: Some(3),
                    tool_calls_max: Some(4),
                    duration_max: Some(Duration::from_secs(60)),
                    call_timeout: Some(Duration::from_millis(1500)),
                    idle_timeout: Some(Duration::from_secs(9)),
                },
                reply: Some(ReplyMode::Draft),
            };
            assert_eq!(run_options(&run_options_json(&odd)).expect("odd"), odd);
            let json = letter_options_json(&odd).expect("some");
            let of_letter = RunOptions {
                profile: odd.profile.clone(),
                ..RunOptions::for_letters()
            };
            assert_eq!(parsed(&json, of_letter).expect("odd"), odd);
        }
        for bad in ["[]", "{\"catch_up\":\"never\"}", "{\"jitter_ms\":-1}"] {
            assert!(slot_options(bad).is_err(), "{bad}");
        }
        for bad in [
            "",
            "{\"deliver_to\":{}}",
            "{\"tools\":[1]}",
            "{\"retries\":\"x\"}",
        ] {
            assert!(run_options(bad).is_err(), "{bad}");
        }
    }
}
