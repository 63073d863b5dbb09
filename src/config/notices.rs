//! `notices` in `configs/gateway.json`: mails to the owners about failures. There is no switch:
//! without owners no such mail is sent.

use super::check::ConfigFile;
use super::gateway;
use super::load::CheckContext;
use super::settings::Notices;
use super::span::Span;
use crate::domain::PersonaId;
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Mails to the owners about failures.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Typed {
    /// Persona that sends notices about the engine itself. Default: the first by id. Notices about
    /// a persona come from that persona's address.
    persona: Option<String>,
    /// Minimum time between two mails about one cause. Default: 1h.
    interval: Option<Span>,
    /// Age at which a mail that is still queued causes a notice. Default: 4h.
    delayed_after: Option<Span>,
    /// Minimum time between two mails about letters to a persona that were filed and not answered;
    /// `0s` sends none. Default: 1d.
    filed_interval: Option<Span>,
}

/// Resolves the section. Problems go to the context.
pub fn resolve(
    file: &ConfigFile<gateway::Typed>,
    typed: Option<&Typed>,
    ctx: &mut CheckContext<'_>,
) -> Notices {
    let none = Typed::default();
    let typed = typed.unwrap_or(&none);
    let persona = typed.persona.as_deref().and_then(|name| {
        let id = PersonaId::parse(name)
            .ok()
            .filter(|id| ctx.persona_ids.contains(id));
        if id.is_none() {
            let problem = file.problem_at("/notices/persona", format!("no persona `{name}`"));
            ctx.report(problem.did_you_mean(name, ctx.persona_ids.iter().map(PersonaId::as_str)));
        }
        id
    });
    let interval = typed
        .interval
        .map_or(Duration::from_secs(3600), |span| span.0);
    if interval < Duration::from_secs(60) {
        let problem = file.problem_at("/notices/interval", "must be a minute or more");
        ctx.report(
            problem.hint("a broken mail server would otherwise fill the mailbox of its owner"),
        );
    }
    let delayed_after = typed
        .delayed_after
        .map_or(Duration::from_secs(4 * 3600), |span| span.0);
    let filed_interval = typed
        .filed_interval
        .map_or(Duration::from_secs(24 * 3600), |span| span.0);
    Notices {
        persona,
        interval,
        delayed_after,
        filed_interval,
    }
}
