//! `attache notices list|show`: notices sent to the owner by mail, and pending ones.

use super::args::number;
use super::screen::Columns;
use super::{Command, CommandContext, Exit, Failure};
use crate::store::{ListPage, Notified, Store, StoreError};
use clap::{Arg, ArgMatches, value_parser};
use futures_util::future::BoxFuture;

pub struct NoticesCommand;

impl Command for NoticesCommand {
    fn clap(&self) -> clap::Command {
        let limit = |help: &'static str| {
            Arg::new("limit")
                .long("limit")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=10_000))
                .default_value("50")
                .help(help)
        };
        let which = Arg::new("which").value_name("CAUSE|ID").required(true).help(
            "A cause as `list` shows it, or the id of one notice, or the last or first characters of it",
        );
        clap::Command::new("notices")
            .about("List and show what went wrong, whether or not the owner was notified by mail")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(
                clap::Command::new("list")
                    .about("List causes with their events as the mails fold them, the newest first")
                    .arg(limit("Show so many lines at most")),
            )
            .subcommand(
                clap::Command::new("show")
                    .about("Show the events of a cause, or one of them")
                    .arg(which)
                    .arg(limit("Show so many events at most, the newest")),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let Some((command, args)) = args.subcommand() else {
                return Ok(Exit::Usage);
            };
            let store = context.shared_store().await?;
            match command {
                "list" => list(context, &store, number(args, "limit")).await?,
                _ => show(context, &store, args).await?,
            }
            Ok(Exit::Ok)
        })
    }
}

async fn list(context: &CommandContext, store: &Store, limit: u32) -> anyhow::Result<()> {
    let folds = store.list_notices(ListPage::first(limit)).await?;
    if context.json() {
        return context.screen.json(&folds);
    }
    let rows = folds.iter().map(|fold| {
        let (notified_at, delivery) = notified_cells(fold.notified.as_ref());
        vec![
            fold.cause.clone(),
            fold.count.to_string(),
            fold.first_at.to_string(),
            fold.last_at.to_string(),
            notified_at,
            delivery,
            fold.delivery_state.clone().unwrap_or_default(),
            fold.summary.clone(),
        ]
    });
    let headings = [
        "CAUSE", "EVENTS", "FIRST", "LAST", "NOTIFIED", "DELIVERY", "MAIL", "NEWEST",
    ];
    let columns = Columns::of(&headings)
        .main("CAUSE")
        .optional(&["FIRST", "DELIVERY", "NOTIFIED", "MAIL", "EVENTS"]);
    Ok(context
        .screen
        .listing(columns, &rows.collect::<Vec<_>>(), "there is no notice")?)
}

async fn show(context: &CommandContext, store: &Store, args: &ArgMatches) -> anyhow::Result<()> {
    let which = args
        .get_one::<String>("which")
        .map(String::as_str)
        .unwrap_or_default();
    let limit = usize::try_from(number(args, "limit")).unwrap_or(usize::MAX);
    let mut events = store.notices_of_cause(which, limit).await?;
    if events.is_empty() {
        let one = store.find_notice(which).await;
        events.push(one.map_err(unknown)?);
    }
    if context.json() {
        return context.screen.json(&events);
    }
    for (place, event) in events.iter().enumerate() {
        if place > 0 {
            context.screen.line("")?;
        }
        let (notified_at, delivery) = notified_cells(event.notified.as_ref());
        context.screen.fields(&[
            ("notice", event.id.to_string()),
            ("cause", event.cause.clone()),
            (
                "about",
                format!("{} {}", event.subject.kind, event.subject.id),
            ),
            (
                "persona",
                event
                    .persona
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            ),
            ("emitted", event.emitted_at.to_string()),
            ("notified", notified_at),
            ("delivery", delivery),
            ("what", event.summary.clone()),
            ("to do", event.hint.clone()),
        ])?;
    }
    Ok(())
}

/// Turns a missing notice into a hint: the list shows causes, and they are not truncated.
fn unknown(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Missing { .. } => Failure::new(Exit::NoInput, error.to_string())
            .hint("`attache notices list` shows causes; give one whole, or the id of a notice that `show` has shown")
            .into(),
        other => other.into(),
    }
}

/// Instant and mail of a notification; dashes while the notice is pending.
fn notified_cells(notified: Option<&Notified>) -> (String, String) {
    let dash = || "-".to_owned();
    notified.map_or_else(
        || (dash(), dash()),
        |notified| (notified.at.to_string(), notified.delivery.to_string()),
    )
}
