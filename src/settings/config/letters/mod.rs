//! `profile`, `output_schema` and `letters` of a persona: options of the runs of its letters, by the address that a letter
//! came to.
//!
//! Anybody can write any tag, so a rule is no permission: it chooses among what the owner wrote down.

pub mod outgoing;
mod recipient;

use super::inference::fallback::NO_MODEL;
use super::inference::instances::is_provider;
use super::values::answer_schema;
use super::values::words::words_schema;
use crate::config::values::section::*;
use crate::domain::{
    Address, DeliverTo, PersonaId, PlanMode, ReplyMode, RunOptions, RunSettings, Temperature,
};
use recipient::RecipientKey;
use schemars::{Schema, SchemaGenerator};

/// Most rules of one persona.
const RULES_MAX: usize = 200;
/// Most addresses that an answer goes to.
const PEOPLE_MAX: usize = 50;

/// Options of letters to an address. Those that are left out are as for the persona's other letters.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedLetterRule {
    /// Context profile, a key of `configs/context.json`.
    profile: Option<String>,
    /// JSON Schema that the answers must fit: a `.json` file below the persona's folder.
    output_schema: Option<String>,
    /// Tools of its runs, of those that the persona may use.
    tools: Option<Vec<String>>,
    /// Destination of the answer. Default: `sender`.
    deliver_to: Option<TypedDestination>,
    /// Handling of what its runs write, as `reply` of the persona.
    #[serde(default)]
    #[schemars(schema_with = "reply_schema")]
    reply: Option<ReplyMode>,
    /// Whether its runs propose a plan first, as `plan` of the persona.
    #[serde(default)]
    #[schemars(schema_with = "plan_schema")]
    plan: Option<PlanMode>,
    /// Provider of its runs, instead of the persona's; needs `model`, here or in the provider's block.
    provider: Option<String>,
    /// Model of its runs, instead of the persona's.
    #[schemars(length(min = 1, max = 200))]
    model: Option<String>,
    /// Maximum output tokens of one call.
    #[schemars(range(min = 1, max = 10_000_000))]
    max_output_tokens: Option<u32>,
    /// Sampling temperature.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    /// Maximum provider calls of one run.
    #[schemars(range(min = 1, max = 1000))]
    max_tool_turns: Option<u32>,
    /// Maximum tool calls of one run.
    #[schemars(range(min = 1, max = 100_000))]
    tool_calls_max: Option<u32>,
    /// Maximum working time of one run, from `1s` to `24h`.
    duration_max: Option<TypedDuration>,
    /// Maximum duration of one provider call, from `1s` to `24h`.
    call_timeout: Option<TypedDuration>,
    /// Maximum time without data from a provider, from `1s` to `24h`.
    idle_timeout: Option<TypedDuration>,
}

impl TypedLetterRule {
    /// Returns the settings of its runs. Problems go to the context.
    fn settings(&self, place: &mut CheckPlace<'_, '_>) -> RunSettings {
        let mut span = |key: &str, typed: Option<TypedDuration>| {
            let span = typed?.0;
            let (min, max) = (RunSettings::SPAN_MIN, RunSettings::SPAN_MAX);
            if !(min..=max).contains(&span) {
                let hint = format!("write a duration from `{}` to `{}`", spell(min), spell(max));
                place.refuse(key, format!("`{}` is out of range", spell(span)), hint);
            }
            Some(span)
        };
        RunSettings {
            max_output_tokens: self.max_output_tokens,
            temperature: self.temperature.and_then(Temperature::from_number),
            max_tool_turns: self.max_tool_turns,
            tool_calls_max: self.tool_calls_max,
            duration_max: span("duration_max", self.duration_max),
            call_timeout: span("call_timeout", self.call_timeout),
            idle_timeout: span("idle_timeout", self.idle_timeout),
        }
    }
}

/// `sender`, `owners`, `store`, or addresses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum TypedDestination {
    Word(DestinationWord),
    People(Vec<String>),
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum DestinationWord {
    /// Mailed to the sender.
    Sender,
    /// Mailed to the owners.
    Owners,
    /// Stored and not mailed.
    Store,
}

fn reply_schema(_: &mut SchemaGenerator) -> Schema {
    words_schema(ReplyMode::ALL, ReplyMode::as_str, None)
}

fn plan_schema(_: &mut SchemaGenerator) -> Schema {
    words_schema(PlanMode::ALL, PlanMode::as_str, None)
}

/// Options of the runs of letters to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterRule {
    pub run_options: RunOptions,
    /// JSON Schema of the answer, on one line.
    pub output_schema: Option<String>,
}

impl Default for LetterRule {
    fn default() -> Self {
        Self {
            run_options: RunOptions::for_letters(),
            output_schema: None,
        }
    }
}

/// Rules of a persona's letters.
#[derive(Debug, Clone, Default)]
pub struct LetterRules {
    /// For letters that no other rule is for.
    usual: LetterRule,
    /// The other rules, each with its key as typed.
    special: Vec<(String, RecipientKey, LetterRule)>,
}

impl LetterRules {
    /// Returns the rule for a letter that came to these addresses of the persona: the one that names one of them most closely,
    /// of several the one of the first address.
    pub fn for_letter_to<'a>(&self, own: impl IntoIterator<Item = &'a Address>) -> &LetterRule {
        let mut closest = None;
        for address in own {
            for (_, key, rule) in &self.special {
                let Some(found) = key.closeness(address) else {
                    continue;
                };
                if closest.is_none_or(|(known, _)| found > known) {
                    closest = Some((found, rule));
                }
            }
        }
        closest.map_or(&self.usual, |(_, rule)| rule)
    }

    /// Returns every rule, with its key as typed; the first has none.
    pub fn all(&self) -> impl Iterator<Item = (&str, &LetterRule)> {
        let special = self
            .special
            .iter()
            .map(|(typed, _, rule)| (typed.as_str(), rule));
        std::iter::once(("", &self.usual)).chain(special)
    }

    /// JSON of the persona's own profile, its own schema, and the other rules by their keys.
    pub fn show(&self) -> (Value, Value, Value) {
        let special = self.special.iter();
        let special = special.map(|(typed, _, rule)| (typed.clone(), rule.show()));
        (
            json!(self.usual.run_options.profile),
            self.usual.show_schema(),
            Value::Object(special.collect()),
        )
    }
}

impl LetterRule {
    fn show(&self) -> Value {
        let options = &self.run_options;
        let settings = &options.settings;
        json!({
            "profile": options.profile,
            "output_schema": self.show_schema(),
            "tools": options.tools,
            "deliver_to": match &options.deliver_to {
                DeliverTo::People(named) => json!(named),
                DeliverTo::Owners => json!("owners"),
                DeliverTo::Store => json!("store"),
                DeliverTo::Sender | DeliverTo::Thread(_) => json!("sender"),
            },
            "reply": options.reply,
            "plan": options.plan,
            "provider": options.provider,
            "model": options.model,
            "max_output_tokens": settings.max_output_tokens,
            "temperature": settings.temperature.map(Temperature::number),
            "max_tool_turns": settings.max_tool_turns,
            "tool_calls_max": settings.tool_calls_max,
            "duration_max": settings.duration_max.map(spell),
            "call_timeout": settings.call_timeout.map(spell),
            "idle_timeout": settings.idle_timeout.map(spell),
        })
    }

    /// JSON of the schema itself.
    fn show_schema(&self) -> Value {
        let schema = self.output_schema.as_deref();
        schema.map_or(Value::Null, |text| {
            serde_json::from_str(text).unwrap_or_default()
        })
    }
}

/// Part of a persona's file that is about its letters.
pub struct TypedLetters<'t> {
    pub profile: Option<&'t str>,
    pub output_schema: Option<&'t str>,
    pub rules: &'t BTreeMap<String, TypedLetterRule>,
    /// Tools that the persona may use; `None`: all.
    pub tools: Option<&'t [String]>,
}

/// Persona whose letters the rules are for.
pub struct LettersOwner<'t> {
    pub persona: &'t PersonaId,
    /// Its addresses.
    pub own: &'t [&'t Address],
    pub mail_domain: &'t str,
}

/// Resolves the rules of a persona. `place` is its file; problems go to the context.
pub fn resolve(
    typed: &TypedLetters<'_>,
    owner: &LettersOwner<'_>,
    place: &mut CheckPlace<'_, '_>,
) -> LetterRules {
    let (profile, schema) = (typed.profile, typed.output_schema);
    let usual = LetterRule {
        run_options: RunOptions {
            profile: profile.unwrap_or(RunOptions::LETTER_PROFILE).to_owned(),
            ..RunOptions::for_letters()
        },
        output_schema: schema.and_then(|path| read_schema(path, owner.persona, place)),
    };
    let place = &mut place.under("letters");
    if typed.rules.len() > RULES_MAX {
        place.complain("", format!("has more than {RULES_MAX} rules"));
    }
    let mut special: Vec<(String, RecipientKey, LetterRule)> = Vec::new();
    for (key, rule) in typed.rules.iter().take(RULES_MAX) {
        let place = &mut place.under(key);
        let parsed = match RecipientKey::parse(key, owner.own, owner.mail_domain) {
            Ok(parsed) => parsed,
            Err(message) => {
                let hint =
                    "write a tag such as `+quotes`, an address of the persona, or one with a tag";
                place.refuse_key("", message, hint);
                continue;
            }
        };
        if let Some((other, ..)) = special.iter().find(|(_, known, _)| *known == parsed) {
            let message = format!("`{other}` is for the same letters");
            place.refuse_key("", message, "keep one of the two");
        }
        let rule = resolve_rule(rule, typed.tools, &usual, owner.persona, place);
        special.push((key.clone(), parsed, rule));
    }
    LetterRules { usual, special }
}

fn resolve_rule(
    typed: &TypedLetterRule,
    own_tools: Option<&[String]>,
    usual: &LetterRule,
    persona: &PersonaId,
    place: &mut CheckPlace<'_, '_>,
) -> LetterRule {
    for (index, tool) in typed.tools.iter().flatten().enumerate() {
        let at = format!("tools/{index}");
        if place.is_tool(&at, tool, None) && own_tools.is_some_and(|own| !own.contains(tool)) {
            let message = format!("the persona may not use `{tool}`");
            let hint = "a rule chooses among the persona's `tools`; add it there";
            place.refuse(&at, message, hint);
        }
    }
    if let Some(provider) = &typed.provider
        && is_provider(provider, "provider", place)
        && typed.model.is_none()
        && !place.ctx.models.contains_key(provider)
    {
        let hint = "write `model` beside it, or into the provider's block";
        place.refuse("provider", NO_MODEL, hint);
    }
    let profile = typed.profile.as_ref();
    LetterRule {
        run_options: RunOptions {
            profile: profile.unwrap_or(&usual.run_options.profile).clone(),
            tools: typed.tools.clone(),
            deliver_to: destination(typed.deliver_to.as_ref(), place),
            reply: typed.reply,
            plan: typed.plan,
            provider: typed.provider.clone(),
            model: typed.model.clone(),
            settings: typed.settings(place),
            ..RunOptions::for_letters()
        },
        output_schema: match &typed.output_schema {
            Some(path) => read_schema(path, persona, place),
            None => usual.output_schema.clone(),
        },
    }
}

fn destination(typed: Option<&TypedDestination>, place: &mut CheckPlace<'_, '_>) -> DeliverTo {
    let people = match typed {
        None | Some(TypedDestination::Word(DestinationWord::Sender)) => return DeliverTo::Sender,
        Some(TypedDestination::Word(DestinationWord::Owners)) => return DeliverTo::Owners,
        Some(TypedDestination::Word(DestinationWord::Store)) => return DeliverTo::Store,
        Some(TypedDestination::People(people)) => people,
    };
    let count = people.len();
    if count == 0 || count > PEOPLE_MAX {
        let message = format!("names {count} people; write 1 to {PEOPLE_MAX} addresses");
        place.complain("deliver_to", message);
    }
    let read =
        |text: &str| Address::parse(text).map_err(|error| (error.to_string(), String::new()));
    DeliverTo::People(place.each("deliver_to", &people[..count.min(PEOPLE_MAX)], read))
}

/// Reads the schema in `output_schema`, a path below the persona's folder. Problems go to the context.
fn read_schema(path: &str, persona: &PersonaId, place: &mut CheckPlace<'_, '_>) -> Option<String> {
    let whole = format!("personas/{persona}/{path}");
    let checked = match answer_schema::path_breach(path) {
        Some(breach) => {
            let hint = "write the path of a `.json` file below the persona's folder, such as `schemas/quote.json`";
            Err((breach.to_owned(), hint.to_owned()))
        }
        None => match place.ctx.source.read(&whole) {
            Err(error) => {
                let usual = || format!("write the schema into `{whole}`");
                let hint = error.hint().unwrap_or_else(usual);
                Err((format!("cannot be read: {error}"), hint))
            }
            Ok(text) => answer_schema::check(text.as_bytes())
                .map_err(|why| (why, format!("mend the schema in `{whole}`"))),
        },
    };
    checked
        .map_err(|(why, hint)| place.refuse("output_schema", format!("`{path}` {why}"), hint))
        .ok()
}
