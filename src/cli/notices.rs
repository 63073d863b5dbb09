//! `attache notices list|show`: what the owner is told by mail, and what waits to be told.

use super::table::Columns;
use super::threads::number;
use super::{Command, Context, Exit, Failure};
use crate::store::{Notice, NoticeFold, Store, StoreError, Told};
use clap::{Arg, ArgMatches, value_parser};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

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
            .about("List and show what went wrong, whether or not the owner was told by mail")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(
                clap::Command::new("list")
                    .about("List causes with their facts as the mails fold them, the newest first")
                    .arg(limit("Show so many lines at most")),
            )
            .subcommand(
                clap::Command::new("show")
                    .about("Show the facts of a cause, or one of them")
                    .arg(which)
                    .arg(limit("Show so many facts at most, the newest")),
            )
    }
    fn run<'a>(&'a self, context: &'a Context, args: &'a ArgMatches) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let Some((command, args)) = args.subcommand() else { return Ok(Exit::Usage) };
            let store = context.store_beside().await?;
            match command {
                "list" => list(context, &store, number(args, "limit")).await?,
                _ => show(context, &store, args).await?,
            }
            Ok(Exit::Ok)
        })
    }
}

async fn list(context: &Context, store: &Store, limit: u32) -> anyhow::Result<()> {
    let folds = store.list_notices(limit).await?;
    if context.json() {
        return context.screen.json(&folds.iter().map(fold_json).collect::<Vec<_>>());
    }
    let rows = folds.iter().map(|fold| {
        let (told_at, delivery) = told_cells(fold.told.as_ref());
        vec![
            fold.cause.clone(),
            fold.count.to_string(),
            fold.first_at.to_string(),
            fold.last_at.to_string(),
            told_at,
            delivery,
            fold.delivery_state.clone().unwrap_or_default(),
            fold.summary.clone(),
        ]
    });
    let headings = ["CAUSE", "FACTS", "FIRST", "LAST", "TOLD", "DELIVERY", "MAIL", "NEWEST"];
    let columns = Columns::of(&headings).main("CAUSE").spare(&["FIRST", "DELIVERY", "TOLD", "MAIL", "FACTS"]);
    Ok(context.screen.listing(columns, &rows.collect::<Vec<_>>(), "there is no notice")?)
}

async fn show(context: &Context, store: &Store, args: &ArgMatches) -> anyhow::Result<()> {
    let which = args.get_one::<String>("which").map(String::as_str).unwrap_or_default();
    let limit = usize::try_from(number(args, "limit")).unwrap_or(usize::MAX);
    let mut facts = store.notices_of_cause(which, limit).await?;
    if facts.is_empty() {
        let one = store.find_notice(which).await;
        facts.push(one.map_err(unknown)?);
    }
    if context.json() {
        return context.screen.json(&facts.iter().map(notice_json).collect::<Vec<_>>());
    }
    for (place, fact) in facts.iter().enumerate() {
        if place > 0 {
            context.screen.line("")?;
        }
        let (told_at, delivery) = told_cells(fact.told.as_ref());
        context.screen.fields(&[
            ("notice", fact.id.to_string()),
            ("cause", fact.cause.clone()),
            ("about", format!("{} {}", fact.subject, fact.subject_id)),
            ("persona", fact.persona.as_ref().map(ToString::to_string).unwrap_or_default()),
            ("raised", fact.raised_at.to_string()),
            ("told", told_at),
            ("delivery", delivery),
            ("what", fact.summary.clone()),
            ("to do", fact.hint.clone()),
        ])?;
    }
    Ok(())
}

/// The list shows causes, and they are not cut.
fn unknown(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Missing { .. } => Failure::new(Exit::NoInput, error.to_string())
            .hint("`attache notices list` shows causes; give one whole, or the id of a notice that `show` has shown")
            .into(),
        other => other.into(),
    }
}

/// When and by which mail; dashes while it is untold.
fn told_cells(told: Option<&Told>) -> (String, String) {
    let dash = || "-".to_owned();
    told.map_or_else(|| (dash(), dash()), |told| (told.at.to_string(), told.delivery.to_string()))
}

fn fold_json(fold: &NoticeFold) -> Value {
    json!({
        "cause": fold.cause,
        "count": fold.count,
        "first_at": fold.first_at.to_string(),
        "last_at": fold.last_at.to_string(),
        "told_at": fold.told.as_ref().map(|told| told.at.to_string()),
        "delivery": fold.told.as_ref().map(|told| told.delivery.to_string()),
        "delivery_state": fold.delivery_state,
        "newest": fold.newest.as_str(),
        "summary": fold.summary,
    })
}

fn notice_json(fact: &Notice) -> Value {
    json!({
        "id": fact.id.as_str(),
        "cause": fact.cause,
        "kind": fact.kind.as_str(),
        "persona": fact.persona.as_ref().map(ToString::to_string),
        "subject": { "kind": fact.subject.as_str(), "id": fact.subject_id },
        "summary": fact.summary,
        "hint": fact.hint,
        "raised_at": fact.raised_at.to_string(),
        "told_at": fact.told.as_ref().map(|told| told.at.to_string()),
        "delivery": fact.told.as_ref().map(|told| told.delivery.to_string()),
    })
}
