//! `attache tools list|try`: the tools of this workspace, and what an own one answers.

mod try_one;

use super::screen::{Columns, one_line};
use super::{Command, CommandContext, Exit};
use crate::config::Config;
use crate::tools::{self, Effects, ToolClass};
use clap::{Arg, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;

pub struct ToolsCommand;

impl Command for ToolsCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("tools")
            .about("Show the tools of this workspace, and try one of the owner's")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(
                clap::Command::new("list")
                    .about("List all tools: those of the engine, and those in `configs/tools/`"),
            )
            .subcommand(
                clap::Command::new("try")
                    .about("Start the program of an own tool as a run would; nothing is recorded")
                    .after_help(
                        "The exit code is 0 when the tool gave a result, and 1 when it failed.",
                    )
                    .arg(
                        Arg::new("name")
                            .value_name("NAME")
                            .required(true)
                            .help("The tool: the name of its folder below `configs/tools/`"),
                    )
                    .arg(
                        Arg::new("arguments")
                            .value_name("JSON")
                            .help("Its arguments [default: {}]"),
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
                Some(("try", args)) => try_one::run(context, &config, args).await,
                Some(_) => list(context, &config),
                None => Ok(Exit::Usage),
            }
        })
    }
}

/// A tool as it is listed.
#[derive(Serialize)]
struct ListedTool<'c> {
    name: &'c str,
    /// `false`: a tool of the engine.
    is_own: bool,
    class: &'static str,
    effects: Vec<&'static str>,
    description: &'c str,
    command: &'c [String],
}

fn list(context: &CommandContext, config: &Config) -> anyhow::Result<Exit> {
    let registry = tools::of_config(config);
    let listed = registry.iter().map(|tool| {
        let own = config.own_tools.iter().find(|own| own.name == tool.name());
        ListedTool {
            name: tool.name(),
            is_own: own.is_some(),
            class: class(tool.class()),
            effects: effects(tool.effects()),
            description: tool.description(),
            command: own.map_or(&[], |own| own.command.as_slice()),
        }
    });
    let listed: Vec<ListedTool<'_>> = listed.collect();
    if context.json() {
        context.screen.json(&listed)?;
        return Ok(Exit::Ok);
    }
    let rows = listed.iter().map(|tool| {
        vec![
            tool.name.to_owned(),
            tool.class.to_owned(),
            tool.effects.join(", "),
            match tool.is_own {
                true => one_line(&tool.command.join(" ")),
                false => "of the engine".to_owned(),
            },
        ]
    });
    let columns = Columns::of(&["TOOL", "CLASS", "EFFECTS", "PROGRAM"]).main("PROGRAM");
    let rows: Vec<Vec<String>> = rows.collect();
    context.screen.listing(columns, &rows, "there is no tool")?;
    Ok(Exit::Ok)
}

fn class(class: ToolClass) -> &'static str {
    match class {
        ToolClass::Repeatable => "repeatable",
        ToolClass::Transactional => "transactional",
        ToolClass::Verifiable => "verifiable",
        ToolClass::Once => "once",
    }
}

fn effects(effects: Effects) -> Vec<&'static str> {
    let all = [
        (effects.reads_private, "reads_private"),
        (effects.sends_out, "sends_out"),
        (effects.changes_state, "changes_state"),
        (effects.runs_code, "runs_code"),
    ];
    all.into_iter()
        .filter_map(|(has, name)| has.then_some(name))
        .collect()
}
