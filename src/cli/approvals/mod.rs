//! `attache approvals`: questions to the owner, and answers to them.

mod decide;
mod stats;

use super::args::{id_arg, limit_arg, number, persona_of, text};
use super::screen::Columns;
use super::{Command, CommandContext, Exit, Failure};
use crate::domain::ApprovalState;
use crate::store::{ApprovalView, ListPage, Store};
use clap::{Arg, ArgMatches};
use futures_util::future::BoxFuture;

pub struct ApprovalsCommand;

impl Command for ApprovalsCommand {
    fn clap(&self) -> clap::Command {
        let listing = |name: &'static str, about: &'static str| {
            clap::Command::new(name)
                .about(about)
                .arg(
                    Arg::new("persona")
                        .long("persona")
                        .value_name("ID")
                        .help("Only this persona's"),
                )
                .arg(limit_arg())
        };
        clap::Command::new("approvals")
            .about("Answer what a persona asks its owner before it acts")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(listing("list", "List open questions, those that end first"))
            .subcommand(listing(
                "history",
                "List all questions and what became of them, the newest first",
            ))
            .subcommand(
                clap::Command::new("show")
                    .about("Show a question: what would be done, to whom, and why it is asked")
                    .arg(id_arg()),
            )
            .subcommands(decide::commands())
            .subcommand(stats::command())
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
            match command {
                "list" => list(context, args, Some(ApprovalState::Open)).await,
                "history" => list(context, args, None).await,
                "show" => show(context, args).await,
                "stats" => stats::run(context, args).await,
                command => decide::run(context, command, args).await,
            }
        })
    }
}

async fn list(
    context: &CommandContext,
    args: &ArgMatches,
    state: Option<ApprovalState>,
) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let persona = persona_of(context, &store, args).await?;
    let found = store
        .approvals(
            state,
            persona.as_ref(),
            ListPage::first(number(args, "limit")),
        )
        .await?;
    if context.json() {
        context.screen.json(&found)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|view| cells(view, state.is_none()))
        .collect();
    let (headings, nothing): (&[&str], _) = match state {
        Some(_) => (
            &["ID", "PERSONA", "KIND", "TOOL", "ASKED", "ENDS", "WHAT"],
            "no question is open",
        ),
        None => (
            &[
                "ID", "PERSONA", "KIND", "TOOL", "ASKED", "STATE", "BY", "DECIDED", "WHAT",
            ],
            "nothing was ever asked",
        ),
    };
    let columns = Columns::of(headings)
        .main("WHAT")
        .optional(&["KIND", "DECIDED", "ASKED"]);
    context.screen.listing(columns, &rows, nothing)?;
    Ok(Exit::Ok)
}

fn cells(view: &ApprovalView, is_history: bool) -> Vec<String> {
    let first = view.view.lines().next().unwrap_or_default().to_owned();
    let mut cells = vec![
        view.id.clone(),
        view.persona.to_string(),
        view.kind.to_string(),
        view.tool.clone(),
        view.requested_at.to_string(),
    ];
    match is_history {
        false => cells.push(view.expires_at.to_string()),
        true => cells.extend([
            view.state.to_string(),
            decided_by(view),
            view.decided_at.map(|at| at.to_string()).unwrap_or_default(),
        ]),
    }
    cells.push(first);
    cells
}

/// `carol@home.test by mail`, or who else ended it.
fn decided_by(view: &ApprovalView) -> String {
    let via = view.via.as_deref().unwrap_or_default();
    match view.decided_by.as_deref().filter(|by| !by.is_empty()) {
        Some(by) => format!("{by} by {via}"),
        None => via.to_owned(),
    }
}

async fn show(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let view = found(&store, text(args, "id")).await?;
    if context.json() {
        context.screen.json(&view)?;
        return Ok(Exit::Ok);
    }
    let decided = view.decided_at.map(|at| at.to_string());
    context.screen.fields(&[
        ("approval", view.id.clone()),
        ("state", view.state.to_string()),
        ("persona", view.persona.to_string()),
        ("run", view.run.to_string()),
        ("tool", view.tool.clone()),
        ("asked", view.requested_at.to_string()),
        ("ends", view.expires_at.to_string()),
        ("decided", decided.unwrap_or_else(|| "-".to_owned())),
        ("by", decided_by(&view)),
        ("words", view.words.clone().unwrap_or_default()),
        ("sha256", view.sha256.clone()),
    ])?;
    context.screen.line("")?;
    for line in view.view.lines() {
        context.screen.line(line)?;
    }
    Ok(Exit::Ok)
}

/// Finds a question by its id or the end of it. Errors: none, or several.
async fn found(store: &Store, typed: &str) -> anyhow::Result<ApprovalView> {
    let ids = match store.approval(typed).await {
        Ok(view) => return Ok(view),
        Err(_) => store.approvals_ending(typed).await?,
    };
    match ids.as_slice() {
        [one] => Ok(store.approval(one).await?),
        [] => Err(
            Failure::new(Exit::NoInput, format!("no question `{typed}`"))
                .hint("`attache approvals history` lists all of them")
                .into(),
        ),
        _ => Err(Failure::new(
            Exit::NoInput,
            format!("several questions end with `{typed}`"),
        )
        .hint("type more of the id")
        .into()),
    }
}
