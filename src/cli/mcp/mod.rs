//! `attache mcp`: the Model Context Protocol, as a server.

mod serve;

use super::{Command, CommandContext, Exit};
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct McpCommand;

impl Command for McpCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("mcp")
            .about("Serve other agents, by the Model Context Protocol")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(serve::clap())
    }

    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            match args.subcommand() {
                Some(("serve", args)) => serve::run(context, args).await,
                _ => Ok(Exit::Usage),
            }
        })
    }
}
