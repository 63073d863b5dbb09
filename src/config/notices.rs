//! `notices` in `configs/gateway.json`: how the owner is told what went wrong. There is no switch: who names no owners is
//! told nothing by mail.

use super::check::Page;
use super::gateway;
use super::load::Desk;
use super::settings::Notices;
use super::span::Span;
use crate::domain::PersonaId;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// How the owner is told what went wrong.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    /// Persona in whose name notices about the engine itself are sent. Default: the first by id. Notices about a persona
    /// come from that persona's address.
    persona: Option<String>,
    /// Least time between two mails about one cause. Default: 1h.
    interval: Option<Span>,
    /// Age at which a mail that still waits is worth a notice. Default: 4h.
    delayed_after: Option<Span>,
    /// Least time between two mails about letters to a persona that were filed and not answered; `0s` is never. Default: 1d.
    filed_interval: Option<Span>,
}

/// What the section means. Problems go to the desk.
pub fn settle(page: &Page<gateway::Typed>, typed: Option<&Typed>, desk: &mut Desk<'_>) -> Notices {
    let none = Typed::default();
    let typed = typed.unwrap_or(&none);
    let persona = typed.persona.as_deref().and_then(|name| {
        let id = PersonaId::parse(name).ok().filter(|id| desk.persona_ids.contains(id));
        if id.is_none() {
            let problem = page.blame("/notices/persona", format!("no persona `{name}`"));
            desk.report(problem.did_you_mean(name, desk.persona_ids.iter().map(PersonaId::as_str)));
        }
        id
    });
    let interval = typed.interval.map_or(Duration::from_secs(3600), |span| span.0);
    if interval < Duration::from_secs(60) {
        let problem = page.blame("/notices/interval", "must be a minute or more");
        desk.report(problem.hint("a broken mail server would otherwise fill the mailbox of its owner"));
    }
    let delayed_after = typed.delayed_after.map_or(Duration::from_secs(4 * 3600), |span| span.0);
    let filed_interval = typed.filed_interval.map_or(Duration::from_secs(24 * 3600), |span| span.0);
    Notices { persona, interval, delayed_after, filed_interval }
}
