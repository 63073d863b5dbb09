//! `personas/<id>/persona.json`: who a persona is and what it may use.

use super::budgets::{self, TypedPersonaBudget};
use super::check::Page;
use super::document::child;
use super::fallback::{self, TypedChoice};
use super::load::Desk;
use super::net::address_hint;
use super::providers;
use super::settings::{Persona, ReplyMode};
use super::zones::zone_hint;
use crate::domain::{Address, PersonaId};
use schemars::JsonSchema;
use serde::Deserialize;

/// Longest display name.
const NAME_CHARS_MAX: usize = 100;

/// Longest text that is taken for an address in a file that cannot be used (RFC 5321 section 4.5.3.1.3), and how many are.
const ADDRESS_BYTES_MAX: usize = 254;
const WORDS_MAX: usize = 1000;

/// Who a persona is and what it may use.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "personas/<id>/persona.json")]
pub struct Typed {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// Display name, as correspondents see it.
    #[schemars(required)]
    name: Option<String>,
    /// Mail address; a local part alone lives at the gateway's `mail_domain`.
    #[schemars(required)]
    address: Option<String>,
    /// Further addresses that reach it.
    aliases: Option<Vec<String>>,
    /// What becomes of the model's final text: `final` mails it into the thread, `tool_only` leaves sending to
    /// `send_email`. Default: `final`.
    reply: Option<TypedReply>,
    /// Instead of the provider of `configs/inference.json`; needs `model`.
    provider: Option<String>,
    /// Instead of the model of `configs/inference.json`.
    #[schemars(length(min = 1))]
    model: Option<String>,
    /// Instead of the fallbacks of `configs/inference.json`; an empty list is none.
    fallback: Option<Vec<TypedChoice>>,
    /// Names of the tools it may use. Default: all.
    tools: Option<Vec<String>>,
    /// IANA zone of its dates, and of its responsibilities that name none. Default: UTC.
    timezone: Option<String>,
    /// What it may cost; what is left out is as in `configs/inference.json`.
    budget: Option<TypedPersonaBudget>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TypedReply {
    Final,
    ToolOnly,
}

/// Path of a persona's file below the workspace.
pub fn file(id: &str) -> String {
    format!("personas/{id}/persona.json")
}

/// A display name that no mail header should carry.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a name has 1 to {NAME_CHARS_MAX} characters and no control characters")]
pub struct BadName;

/// Checks a display name.
pub fn check_name(name: &str) -> Result<(), BadName> {
    let fits = !name.trim().is_empty() && name.chars().count() <= NAME_CHARS_MAX;
    if fits && !name.contains(char::is_control) { Ok(()) } else { Err(BadName) }
}

/// The text of a new `PERSONA.md`, for its owner to write over.
pub fn description(name: &str) -> String {
    format!(
        "# {name}\n\nSay here who {name} is, whom it writes to, {TO_BE_SAID}.\n\
         Put what it knows into `knowledge/` (.md, .txt, .csv, .html) and its standing duties into `responsibilities/*.md`.\n"
    )
}

/// Whether a `PERSONA.md` still holds the words of [`description`], which the model would take for the persona's.
pub fn is_untouched(text: &str) -> bool {
    text.contains("Say here who") && text.contains(TO_BE_SAID)
}

const TO_BE_SAID: &str = "how it sounds, and what it must never do";

/// What the file means, at this mail domain. `None` when it has no usable address.
pub fn settle(page: &Page<Typed>, id: &PersonaId, mail_domain: &str, desk: &mut Desk<'_>) -> Option<Persona> {
    let typed = &page.typed;
    if let Some(Err(error)) = typed.name.as_deref().map(check_name) {
        let problem = page.blame("/name", error.to_string());
        desk.report(problem.hint("write the name that correspondents are to see"));
    }
    check_names(page, desk);
    let aliases = typed.aliases.iter().flatten().enumerate();
    let aliases =
        aliases.filter_map(|(i, text)| address(page, &child("/aliases", i), text, mail_domain, desk));
    let aliases = aliases.collect();
    let timezone = match typed.timezone.as_deref().map(str::parse) {
        None => chrono_tz::UTC,
        Some(Ok(zone)) => zone,
        Some(Err(_)) => {
            unknown_zone(page, desk);
            chrono_tz::UTC
        }
    };
    Some(Persona {
        id: id.clone(),
        name: typed.name.clone().unwrap_or_default(),
        address: address(page, "/address", typed.address.as_deref()?, mail_domain, desk)?,
        aliases,
        reply: match typed.reply {
            None | Some(TypedReply::Final) => ReplyMode::Final,
            Some(TypedReply::ToolOnly) => ReplyMode::ToolOnly,
        },
        provider: typed.provider.clone(),
        model: typed.model.clone(),
        fallback: typed.fallback.as_deref().map(|typed| fallback::settle(page, typed, desk)),
        tools: typed.tools.clone(),
        timezone,
        budget: budgets::settle_persona(typed.budget.as_ref()),
        folder: desk.workspace.join("personas").join(id.as_str()),
    })
}

/// Addresses that a file may have meant which cannot be used: every text in it that could be one. Too many do no harm,
/// their mail is only asked to come later.
pub fn possible_addresses(text: &str, mail_domain: &str) -> Vec<Address> {
    let words = text.split('"').skip(1).map(str::trim);
    let words = words.filter(|word| word.len() <= ADDRESS_BYTES_MAX && !word.contains(char::is_whitespace));
    let whole = |word: &str| match word.contains('@') {
        true => word.to_owned(),
        false => format!("{word}@{mail_domain}"),
    };
    words.filter_map(|word| Address::parse(&whole(word)).ok()).take(WORDS_MAX).collect()
}

fn address(
    page: &Page<Typed>,
    pointer: &str,
    text: &str,
    mail_domain: &str,
    desk: &mut Desk<'_>,
) -> Option<Address> {
    let whole = if text.contains('@') { text.to_owned() } else { format!("{text}@{mail_domain}") };
    match Address::parse(&whole) {
        Ok(address) => Some(address),
        Err(error) => {
            desk.report(page.blame(pointer, error.to_string()).hint(address_hint(text)));
            None
        }
    }
}

/// Checks the names that live on higher floors.
fn check_names(page: &Page<Typed>, desk: &mut Desk<'_>) {
    if let Some(provider) = page.typed.provider.as_deref().filter(|name| !desk.knows_provider(name)) {
        let problem = page.blame("/provider", format!("no provider `{provider}`"));
        let problem = providers::explained(problem, provider, desk);
        desk.report(problem);
    }
    for (index, tool) in page.typed.tools.iter().flatten().enumerate() {
        if !desk.vocabulary.tools.contains(&tool.as_str()) {
            let problem = page.blame(&child("/tools", index), format!("no tool `{tool}`"));
            desk.report(problem.did_you_mean(tool, desk.vocabulary.tools.iter().copied()));
        }
    }
}

fn unknown_zone(page: &Page<Typed>, desk: &mut Desk<'_>) {
    let typed = page.typed.timezone.as_deref().unwrap_or_default();
    let problem = page.blame("/timezone", format!("no time zone `{typed}`"));
    desk.report(problem.hint(zone_hint(typed)));
}
