//! `attache providers models`: the models that one provider lists.

use super::find;
use crate::cli::args::text;
use crate::cli::screen::Columns;
use crate::cli::{CommandContext, Exit, Failure};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::runs::provider_health::status;
use clap::ArgMatches;
use serde::Serialize;

/// A model of a provider.
#[derive(Serialize)]
struct ListedModel<'a> {
    model: &'a str,
    /// `true`: a persona or a fallback asks it.
    in_use: bool,
}

pub async fn models(
    context: &CommandContext,
    config: &Config,
    args: &ArgMatches,
) -> anyhow::Result<Exit> {
    let seats = status::seats(config);
    let seat = find(&seats, text(args, "id"))?;
    let finding = status::check(seat, &SystemClock::new()).await;
    let health = finding.health.map_err(|error| {
        let message = format!("provider `{}` does not say which models it has", seat.name);
        Failure::new(Exit::Unavailable, message)
            .hint(status::advice(seat, error.class))
            .because(error)
    })?;
    let mut names: Vec<&str> = health.models.iter().map(String::as_str).collect();
    names.sort_unstable();
    let is_used = |name: &str| seat.users.iter().any(|user| user.model == name);
    if context.json() {
        let listed = names.iter().map(|model| ListedModel {
            model,
            in_use: is_used(model),
        });
        context.screen.json(&listed.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let word = |name| if is_used(name) { "in use" } else { "-" };
    let rows: Vec<Vec<String>> = names
        .iter()
        .map(|name| vec![(*name).to_owned(), word(name).to_owned()])
        .collect();
    let none = "it lists no models";
    context
        .screen
        .listing(Columns::of(&["MODEL", "USED"]), &rows, none)?;
    Ok(Exit::Ok)
}
