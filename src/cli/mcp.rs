//! `attache mcp serve --run ID`: our tools for a command-line agent. Agents start it; users need
//! not.

use super::{Command, CommandContext, Exit};
use crate::domain::RunId;
use clap::{Arg, ArgMatches};
use futures_util::future::BoxFuture;

pub struct McpCommand;

impl Command for McpCommand {
    fn clap(&self) -> clap::Command {
        let serve = clap::Command::new("serve")
            .about("Offer the tools of a run that is being worked on, over stdin and stdout (Model Context Protocol)")
            .arg(Arg::new("run").long("run").value_name("RUN").required(true).help("The run, by its whole id"));
        clap::Command::new("mcp")
            .about("Offer a persona's tools to a command-line agent")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(serve)
    }

    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let run = args
                .subcommand()
                .and_then(|(_, args)| args.get_one::<String>("run"));
            let run = RunId::new(run.map(String::as_str).unwrap_or_default());
            let store = context.shared_store().await?;
            let config =
                crate::config::load_without_secrets(&context.workspace, &super::name_catalog())?;
            crate::mcp::serve(store, config, &run).await?;
            Ok(Exit::Ok)
        })
    }
}
