//! `profile`, `output_schema` and `letters` of a persona: options of the runs of its letters, by the address that a letter
//! came to.
//!
//! Anybody can write any tag, so a rule is no permission: it chooses among what the owner wrote down.

pub mod outgoing;
mod recipient;
mod settings;

use super::inference::fallback::NO_MODEL;
use super::inference::instances;
use super::values::answer_schema;
use super::values::check_context::CheckContext;
use super::values::words::words_schema;
use crate::config::file::{Document, TypedDuration, child};
use crate::domain::{Address, DeliverTo, PersonaId, PlanMode, ReplyMode, RunOptions};
use recipient::RecipientKey;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, json};
use settings::TypedLetterSettings;
use std::collections::BTreeMap;

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
    fn settings(&self) -> TypedLetterSettings {
        TypedLetterSettings {
            max_output_tokens: self.max_output_tokens,
            temperature: self.temperature,
            max_tool_turns: self.max_tool_turns,
            tool_calls_max: self.tool_calls_max,
            duration_max: self.duration_max,
            call_timeout: self.call_timeout,
            idle_timeout: self.idle_timeout,
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
            run_options: RunOptions::of_letters(),
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
        let people = |people: &[Address]| people.iter().map(Address::to_string).collect::<Vec<_>>();
        let mut shown = json!({
            "profile": options.profile,
            "output_schema": self.show_schema(),
            "tools": options.tools,
            "deliver_to": match &options.deliver_to {
                DeliverTo::People(named) => json!(people(named)),
                DeliverTo::Owners => json!("owners"),
                DeliverTo::Store => json!("store"),
                DeliverTo::Sender | DeliverTo::Thread(_) => json!("sender"),
            },
            "reply": options.reply,
            "plan": options.plan,
            "provider": options.provider,
            "model": options.model,
        });
        if let Some(members) = shown.as_object_mut() {
            members.extend(settings::show(&options.settings));
        }
        shown
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

/// Resolves the rules of a persona with these addresses. Problems go to the context.
pub fn resolve(
    (file, typed): (&Document, TypedLetters<'_>),
    (persona, own, mail_domain): (&PersonaId, &[&Address], &str),
    ctx: &mut CheckContext<'_>,
) -> LetterRules {
    let (profile, schema) = (typed.profile, typed.output_schema);
    let usual = LetterRule {
        run_options: RunOptions {
            profile: profile.unwrap_or(RunOptions::LETTER_PROFILE).to_owned(),
            ..RunOptions::of_letters()
        },
        output_schema: schema
            .and_then(|path| read_schema(file, (persona, "/output_schema", path), ctx)),
    };
    if typed.rules.len() > RULES_MAX {
        let problem = file.problem_at("/letters", format!("has more than {RULES_MAX} rules"));
        ctx.report(problem);
    }
    let mut special: Vec<(String, RecipientKey, LetterRule)> = Vec::new();
    for (key, rule) in typed.rules.iter().take(RULES_MAX) {
        let pointer = child("/letters", key);
        let parsed = match RecipientKey::parse(key, own, mail_domain) {
            Ok(parsed) => parsed,
            Err(message) => {
                let hint =
                    "write a tag such as `+quotes`, an address of the persona, or one with a tag";
                ctx.report(file.problem_at_key(&pointer, message).hint(hint));
                continue;
            }
        };
        if let Some((other, ..)) = special.iter().find(|(_, known, _)| *known == parsed) {
            let message = format!("`{other}` is for the same letters");
            ctx.report(
                file.problem_at_key(&pointer, message)
                    .hint("keep one of the two"),
            );
        }
        let rule = resolve_rule((file, typed.tools), (persona, &pointer, rule), &usual, ctx);
        special.push((key.clone(), parsed, rule));
    }
    LetterRules { usual, special }
}

fn resolve_rule(
    (file, own): (&Document, Option<&[String]>),
    (persona, pointer, typed): (&PersonaId, &str, &TypedLetterRule),
    usual: &LetterRule,
    ctx: &mut CheckContext<'_>,
) -> LetterRule {
    for (index, tool) in typed.tools.iter().flatten().enumerate() {
        let at = child(&child(pointer, "tools"), index);
        if !ctx.knows_tool(tool) {
            let problem = file.problem_at(&at, format!("no tool `{tool}`"));
            let problem = problem.did_you_mean(tool, ctx.tool_names());
            ctx.report(problem);
        } else if own.is_some_and(|own| !own.contains(tool)) {
            ctx.refuse(
                file,
                &at,
                format!("the persona may not use `{tool}`"),
                "a rule chooses among the persona's `tools`; add it there",
            );
        }
    }
    check_model(file, (pointer, typed), ctx);
    let schema = typed.output_schema.as_deref();
    let schema_at = child(pointer, "output_schema");
    LetterRule {
        run_options: RunOptions {
            profile: (typed.profile.as_ref())
                .map_or_else(|| usual.run_options.profile.clone(), String::clone),
            tools: typed.tools.clone(),
            deliver_to: destination(
                file,
                (&child(pointer, "deliver_to"), typed.deliver_to.as_ref()),
                ctx,
            ),
            reply: typed.reply,
            plan: typed.plan,
            provider: typed.provider.clone(),
            model: typed.model.clone(),
            settings: settings::resolve((file, pointer), typed.settings(), ctx),
            ..RunOptions::of_letters()
        },
        output_schema: match schema {
            Some(path) => read_schema(file, (persona, &schema_at, path), ctx),
            None => usual.output_schema.clone(),
        },
    }
}

/// Reports a provider that there is not, or that has no model.
fn check_model(
    file: &Document,
    (pointer, typed): (&str, &TypedLetterRule),
    ctx: &mut CheckContext<'_>,
) {
    let Some(provider) = &typed.provider else {
        return;
    };
    let at = child(pointer, "provider");
    if !ctx.knows_provider(provider) {
        let problem = file.problem_at(&at, format!("no provider `{provider}`"));
        let problem = instances::explained(problem, provider, ctx);
        ctx.report(problem);
    } else if typed.model.is_none() && !ctx.models.contains_key(provider) {
        ctx.refuse(
            file,
            &at,
            NO_MODEL,
            "write `model` beside it, or into the provider's block",
        );
    }
}

fn destination(
    file: &Document,
    (pointer, typed): (&str, Option<&TypedDestination>),
    ctx: &mut CheckContext<'_>,
) -> DeliverTo {
    let people = match typed {
        None | Some(TypedDestination::Word(DestinationWord::Sender)) => return DeliverTo::Sender,
        Some(TypedDestination::Word(DestinationWord::Owners)) => return DeliverTo::Owners,
        Some(TypedDestination::Word(DestinationWord::Store)) => return DeliverTo::Store,
        Some(TypedDestination::People(people)) => people,
    };
    if people.is_empty() || people.len() > PEOPLE_MAX {
        let message = format!(
            "names {} people; write 1 to {PEOPLE_MAX} addresses",
            people.len()
        );
        ctx.complain(file, pointer, message);
    }
    let mut addresses = Vec::new();
    for (index, text) in people.iter().take(PEOPLE_MAX).enumerate() {
        match Address::parse(text) {
            Ok(address) => addresses.push(address),
            Err(error) => ctx.complain(file, child(pointer, index), error.to_string()),
        }
    }
    DeliverTo::People(addresses)
}

/// Reads a schema below the persona's folder. Problems go to the context.
fn read_schema(
    file: &Document,
    (persona, pointer, path): (&PersonaId, &str, &str),
    ctx: &mut CheckContext<'_>,
) -> Option<String> {
    let whole = format!("personas/{persona}/{path}");
    let checked = match answer_schema::path_breach(path) {
        Some(breach) => {
            let hint = "write the path of a `.json` file below the persona's folder, such as `schemas/quote.json`";
            Err((breach.to_owned(), hint.to_owned()))
        }
        None => match ctx.source.read(&whole) {
            Err(error) => {
                let hint = error
                    .hint()
                    .unwrap_or_else(|| format!("write the schema into `{whole}`"));
                Err((format!("cannot be read: {error}"), hint))
            }
            Ok(text) => answer_schema::check(text.as_bytes())
                .map_err(|why| (why, format!("mend the schema in `{whole}`"))),
        },
    };
    checked
        .map_err(|(why, hint)| {
            ctx.refuse(file, pointer, format!("`{path}` {why}"), hint);
        })
        .ok()
}
