//! `attache hooks list|test`: the owner's programs that runs ask, and what one of them answers.

mod try_one;

use super::screen::{Columns, one_line};
use super::{Command, CommandContext, Exit};
use crate::config::{Config, Hook, spell};
use crate::runs::hooks::program;
use clap::{Arg, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;

pub struct HooksCommand;

impl Command for HooksCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("hooks")
            .about("Show the programs that runs ask before and after what they do, and try one")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(clap::Command::new("list").about("List the hooks in order"))
            .subcommand(
                clap::Command::new("test")
                    .about("Ask one hook, and show its answer; nothing is recorded")
                    .after_help(
                        "The exit code is 0 when the hook gave an answer, whichever, and 1 when it failed.",
                    )
                    .arg(
                        Arg::new("id")
                            .value_name("ID")
                            .required(true)
                            .help("The hook, as `attache hooks list` shows it"),
                    )
                    .arg(
                        Arg::new("occasion")
                            .long("occasion")
                            .value_name("FILE")
                            .help("JSON that it is given to read [default: an invented one]"),
                    ),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            context.require_workspace()?;
            let config = context.config()?;
            match args.subcommand() {
                Some(("test", args)) => try_one::run(context, &config, args).await,
                Some(_) => list(context, &config),
                None => Ok(Exit::Usage),
            }
        })
    }
}

/// A hook with its digest.
#[derive(Serialize)]
struct ListedHook<'c> {
    #[serde(flatten)]
    hook: &'c Hook,
    sha256: String,
}

fn list(context: &CommandContext, config: &Config) -> anyhow::Result<Exit> {
    let hooks: Vec<ListedHook<'_>> = config
        .hooks
        .iter()
        .map(|hook| ListedHook {
            hook,
            sha256: program::digest(hook, &config.workspace),
        })
        .collect();
    if context.json() {
        context.screen.json(&hooks)?;
        return Ok(Exit::Ok);
    }
    let any = |text: String| {
        if text.is_empty() {
            "all".to_owned()
        } else {
            text
        }
    };
    let rows = hooks.iter().map(|listed| {
        let hook = listed.hook;
        let persona = hook.persona.as_ref().map(ToString::to_string);
        vec![
            hook.id.clone(),
            hook.event.to_string(),
            any(persona.unwrap_or_default()),
            any(hook.tools.join(", ")),
            one_line(&hook.command.join(" ")),
            spell(hook.timeout),
            listed.sha256[..12].to_owned(),
        ]
    });
    let headings = [
        "HOOK", "EVENT", "PERSONA", "TOOLS", "COMMAND", "TIMEOUT", "SHA256",
    ];
    let columns = Columns::of(&headings)
        .main("COMMAND")
        .optional(&["TIMEOUT", "SHA256"]);
    let nothing = "there is no hook: `configs/hooks.json` names them";
    context
        .screen
        .listing(columns, &rows.collect::<Vec<_>>(), nothing)?;
    Ok(Exit::Ok)
}
