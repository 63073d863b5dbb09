//! `personas/<id>/persona.json`: the name, addresses, model and permissions of a persona.

use super::inference::budgets::{PersonaBudget, TypedPersonaBudget};
use super::inference::fallback::{ModelChoice, TypedChoice};
use super::inference::run_settings::TypedOwnTimeouts;
use super::inference::{budgets, fallback, instances, run_settings};
use super::letters::outgoing::{self, PersonaMail};
use super::letters::{self, LetterRules, LettersOwner, TypedLetterRule, TypedLetters};
use super::skills::PinnedSkill;
use super::values::net::address_hint;
use super::values::words::words_schema;
use super::values::zones::zone_hint;
use crate::config::values::section::*;
use crate::domain::{
    Address, AnswerTo, PdfFiles, PersonaId, PlanMode, QuoteMode, ReplyMode, RunOptions,
    RunSettings, Temperature,
};
use crate::policy::PolicyRule;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserializer, Serializer};
use std::fmt;
use std::path::PathBuf;

/// Maximum characters of a display name.
const NAME_CHARS_MAX: usize = 100;

/// Maximum bytes of a text that is taken for an address in an unusable file (RFC 5321 section
/// 4.5.3.1.3), and maximum number of such texts.
const ADDRESS_BYTES_MAX: usize = 254;
const WORDS_MAX: usize = 1000;

/// The name, addresses, model and permissions of a persona.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "personas/<id>/persona.json")]
pub struct TypedPersona {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Display name in its mails.
    #[schemars(required)]
    name: Option<String>,
    /// Mail address; a local part alone is completed by the gateway's `mail_domain`.
    #[schemars(required)]
    address: Option<String>,
    /// Further addresses of the persona.
    aliases: Option<Vec<String>>,
    /// Handling of what it writes. `final`: the final text is mailed, unless the run has replied already;
    /// `tool_only`: only tools send mail; `draft`: every mail to others waits until an owner sends it.
    #[serde(default)]
    #[schemars(schema_with = "reply_schema")]
    reply: ReplyMode,
    /// Recipients of its answers to letters. `sender`: the sender alone; `all`: those in `To` and `Cc` get a copy, if the sender is
    /// a contact and is known to have written these fields.
    #[serde(default)]
    #[schemars(schema_with = "reply_to_schema")]
    reply_to: AnswerTo,
    /// Text below its mails, behind `-- `: as typed, or the path of a `.md` or `.txt` file below its folder. Default: none.
    signature: Option<String>,
    /// What of a letter is quoted below its answer. `none`: nothing; `last`: what the letter says, without what it quotes itself.
    #[serde(default)]
    #[schemars(schema_with = "quote_schema")]
    quote: QuoteMode,
    /// Time for which its mails wait in the outbox, where they can be cancelled, up to `24h`. Default: `0s`.
    undo: Option<TypedDuration>,
    /// Context profile of its letters, a key of `configs/context.json`. Default: `thread`.
    profile: Option<String>,
    /// JSON Schema that its answers to letters must fit: a `.json` file below its folder.
    output_schema: Option<String>,
    /// Options of letters by the address that they come to: `+tag`, an address of the persona, or both.
    #[serde(default)]
    letters: BTreeMap<String, TypedLetterRule>,
    /// Provider, instead of the one in `configs/inference.json`; needs `model`, here or in its block.
    provider: Option<String>,
    /// Model, instead of the one in `configs/inference.json`.
    #[schemars(length(min = 1))]
    model: Option<String>,
    /// Fallbacks, instead of those in `configs/inference.json`; an empty list means none.
    fallback: Option<Vec<TypedChoice>>,
    /// Maximum output tokens of one call, instead of the value in `configs/inference.json`.
    #[schemars(range(min = 1))]
    max_output_tokens: Option<u32>,
    /// Sampling temperature, instead of the one in `configs/inference.json`.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    /// Maximum provider calls of one run, instead of the value in `configs/inference.json`.
    #[schemars(range(min = 1, max = 1000))]
    max_tool_turns: Option<u32>,
    /// Timeouts of provider calls, instead of those in `configs/inference.json`.
    timeouts: Option<TypedOwnTimeouts>,
    /// Tools that its runs are offered. `basic`: those that a run needs, by its sender and by what its thread has in it; `all`: every
    /// tool that the sender may use; a list: exactly these.
    #[serde(default)]
    #[schemars(schema_with = "tools_schema")]
    tools: PersonaTools,
    /// IANA zone of its dates, and of its responsibilities without a zone. Default: UTC.
    timezone: Option<String>,
    /// `ask`: its runs propose a plan to the owner before they send or change anything.
    #[serde(default)]
    #[schemars(schema_with = "plan_schema")]
    plan: PlanMode,
    /// PDF files of letters that its model is sent as they are, where the provider takes them. `scans`: those without text;
    /// `always`: every one; `never`: none.
    #[serde(default)]
    #[schemars(schema_with = "pdf_files_schema")]
    pdf_files: PdfFiles,
    /// `true`: it may run commands in a sandbox (`shell`), for its owner and for schedules. Needs bubblewrap.
    #[serde(default)]
    shell: bool,
    /// Bounds on its cost; those left out are as in `configs/inference.json`.
    budget: Option<TypedPersonaBudget>,
}

macro_rules! word_schemas {
    ($($name:ident: $words:ident;)*) => {
        $(fn $name(_: &mut SchemaGenerator) -> Schema {
            words_schema($words::ALL, $words::as_str, Some($words::default()))
        })*
    };
}

word_schemas! {
    plan_schema: PlanMode;
    reply_schema: ReplyMode;
    quote_schema: QuoteMode;
    reply_to_schema: AnswerTo;
    pdf_files_schema: PdfFiles;
}

/// Tools of a persona. What a sender may not use is in none of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PersonaTools {
    /// Those that a run needs, by its sender and its thread.
    #[default]
    Basic,
    All,
    Named(Vec<String>),
}

impl PersonaTools {
    /// Returns the names that its file lists; `None`: it lists none.
    pub fn named(&self) -> Option<&[String]> {
        match self {
            Self::Named(names) => Some(names),
            Self::Basic | Self::All => None,
        }
    }
}

impl Serialize for PersonaTools {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Basic => to.serialize_str("basic"),
            Self::All => to.serialize_str("all"),
            Self::Named(names) => names.serialize(to),
        }
    }
}

impl fmt::Display for PersonaTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Basic => "basic".to_owned(),
            Self::All => "all".to_owned(),
            Self::Named(names) => names.join(", "),
        })
    }
}

impl<'de> Deserialize<'de> for PersonaTools {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let known = |word: &str| match word {
            "basic" => Some(Self::Basic),
            "all" => Some(Self::All),
            _ => None,
        };
        let typed = Value::deserialize(deserializer)?;
        let read = match &typed {
            Value::Null => Some(Self::default()),
            Value::String(word) => known(word),
            Value::Array(names) => {
                let names = names.iter().map(|name| name.as_str().map(str::to_owned));
                names.collect::<Option<Vec<_>>>().map(Self::Named)
            }
            _ => None,
        };
        read.ok_or_else(|| D::Error::custom("must be `basic`, `all` or a list of names of tools"))
    }
}

fn tools_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "string", "enum": ["basic", "all"] },
            { "type": "array", "items": { "type": "string" } }
        ],
        "default": "basic"
    })
}

/// A resolved persona: a folder below `personas/`.
#[derive(Debug, Clone)]
pub struct Persona {
    pub id: PersonaId,
    /// Display name.
    pub name: String,
    pub address: Address,
    pub aliases: Vec<Address>,
    pub reply: ReplyMode,
    /// How its mails look, and when they leave.
    pub mail: PersonaMail,
    /// Options of its letters.
    pub letters: LetterRules,
    /// Provider instead of the one in `configs/inference.json`.
    pub provider: Option<String>,
    pub model: Option<String>,
    pub fallback: Option<Vec<ModelChoice>>,
    /// Settings of its runs, where it has its own.
    pub settings: RunSettings,
    /// Tools that its runs are offered.
    pub tools: PersonaTools,
    /// Time zone of its dates and of responsibilities without a zone.
    pub timezone: chrono_tz::Tz,
    /// Its own bounds, where it has any.
    pub budget: PersonaBudget,
    /// Whether its runs propose a plan first.
    pub plan: PlanMode,
    /// PDF files that its model is sent as they are.
    pub pdf_files: PdfFiles,
    /// `true`: it may run commands in a sandbox.
    pub shell: bool,
    /// Approved skills that it has.
    pub skills: Vec<PinnedSkill>,
    /// Rules of its `policy.json`, which stand behind those of `configs/policy.json`.
    pub rules: Vec<PolicyRule>,
    /// Absolute path of its folder.
    pub folder: PathBuf,
}

impl Persona {
    /// Handling of what a run with these options writes.
    pub fn reply_under(&self, options: &RunOptions) -> ReplyMode {
        options.reply.unwrap_or(self.reply)
    }

    /// Its primary address, then its aliases.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        std::iter::once(&self.address).chain(&self.aliases)
    }
}

/// Error of a display name that is unfit for a mail header.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a name has 1 to {NAME_CHARS_MAX} characters and no control characters")]
pub struct BadName;

/// Checks a display name.
pub fn check_name(name: &str) -> Result<(), BadName> {
    let fits = !name.trim().is_empty() && name.chars().count() <= NAME_CHARS_MAX;
    if fits && !name.contains(char::is_control) {
        Ok(())
    } else {
        Err(BadName)
    }
}

/// The text of a new `PERSONA.md`, for its owner to replace.
pub fn description(name: &str) -> String {
    format!(
        "# {name}\n\nSay here who {name} is, whom it writes to, {TO_BE_SAID}.\n\
         Put what it knows into `knowledge/` (.md, .txt, .csv, .html) and its standing duties into `responsibilities/*.md`.\n"
    )
}

/// Reports whether a `PERSONA.md` still holds the text of [`description`], which the model would
/// take for the persona's.
pub fn is_untouched(text: &str) -> bool {
    text.contains("Say here who") && text.contains(TO_BE_SAID)
}

const TO_BE_SAID: &str = "how it sounds, and what it must never do";

/// Resolves the file with this mail domain. `None` when it has no usable address.
pub fn resolve(
    file: &ConfigFile<TypedPersona>,
    id: &PersonaId,
    mail_domain: &str,
    ctx: &mut CheckContext<'_>,
) -> Option<Persona> {
    let typed = &file.typed;
    let place = &mut ctx.place(file, "");
    if let Some(Err(error)) = typed.name.as_deref().map(check_name) {
        let hint = "write the name that correspondents are to see";
        place.refuse("name", error.to_string(), hint);
    }
    if let Some(provider) = &typed.provider {
        instances::is_provider(provider, "provider", place);
    }
    for (index, tool) in typed.tools.named().into_iter().flatten().enumerate() {
        place.is_tool(&format!("tools/{index}"), tool, None);
    }
    let zone = typed.timezone.as_deref().unwrap_or("UTC");
    let timezone = zone.parse();
    if timezone.is_err() {
        place.refuse(
            "timezone",
            format!("no time zone `{zone}`"),
            zone_hint(zone),
        );
    }
    let read = |text: &str| {
        Address::parse_in(text, mail_domain)
            .map_err(|error| (error.to_string(), address_hint(text)))
    };
    let aliases = place.each(
        "aliases",
        typed.aliases.as_deref().unwrap_or_default(),
        read,
    );
    let address = match read(typed.address.as_deref()?) {
        Ok(address) => address,
        Err((message, hint)) => {
            place.refuse("address", message, hint);
            return None;
        }
    };
    let own: Vec<&Address> = std::iter::once(&address).chain(&aliases).collect();
    let letters = letters::resolve(
        &TypedLetters {
            profile: typed.profile.as_deref(),
            output_schema: typed.output_schema.as_deref(),
            rules: &typed.letters,
            tools: typed.tools.named(),
        },
        &LettersOwner {
            persona: id,
            own: &own,
            mail_domain,
        },
        place,
    );
    let none = TypedPersonaBudget::default();
    let budget = typed.budget.as_ref().unwrap_or(&none);
    let settings = RunSettings {
        max_output_tokens: typed.max_output_tokens,
        temperature: typed.temperature.and_then(Temperature::from_number),
        max_tool_turns: typed.max_tool_turns,
        tool_calls_max: budget.tool_calls_max,
        duration_max: budget.duration_max.map(|span| span.0),
        ..RunSettings::default()
    };
    let fallback = typed.fallback.as_deref();
    Some(Persona {
        id: id.clone(),
        name: typed.name.clone().unwrap_or_default(),
        address,
        aliases,
        reply: typed.reply,
        mail: PersonaMail {
            reply_to: typed.reply_to,
            signature: typed
                .signature
                .as_deref()
                .and_then(|typed| outgoing::signature(id, typed, place)),
            quote: typed.quote,
            undo: outgoing::undo(typed.undo, place),
        },
        letters,
        provider: typed.provider.clone(),
        model: typed.model.clone(),
        fallback: fallback.map(|typed| fallback::resolve(typed, &mut place.under("fallback"))),
        settings: run_settings::resolve(settings, typed.timeouts, place),
        tools: typed.tools.clone(),
        timezone: timezone.unwrap_or(chrono_tz::UTC),
        budget: budgets::resolve_persona(budget),
        plan: typed.plan,
        pdf_files: typed.pdf_files,
        shell: typed.shell,
        skills: Vec::new(),
        rules: Vec::new(),
        folder: place.ctx.workspace.join("personas").join(id.as_str()),
    })
}

/// Addresses that an unusable file may contain: every text in it that can be an address. Too many
/// are harmless, because their mail is only deferred.
pub fn possible_addresses(text: &str, mail_domain: &str) -> Vec<Address> {
    let words = text.split('"').skip(1).map(str::trim);
    let words =
        words.filter(|word| word.len() <= ADDRESS_BYTES_MAX && !word.contains(char::is_whitespace));
    words
        .filter_map(|word| Address::parse_in(word, mail_domain).ok())
        .take(WORDS_MAX)
        .collect()
}
