//! `attache mcp`: the Model Context Protocol, as a server for agents and as a client of the owner's servers.

mod approve;
mod browser;
mod list;
mod login;
mod logout;
mod look;
mod serve;

use super::{Command, CommandContext, Exit};
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct McpCommand;

impl Command for McpCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("mcp")
            .about(
                "Approve and list the tools of MCP servers, log in there, and serve other agents",
            )
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(list::clap())
            .subcommand(approve::clap())
            .subcommand(login::clap())
            .subcommand(logout::clap())
            .subcommand(serve::clap())
    }

    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            match args.subcommand() {
                Some(("list", _)) => list::run(context).await,
                Some(("approve", args)) => approve::run(context, args).await,
                Some(("login", args)) => login::run(context, args).await,
                Some(("logout", args)) => logout::run(context, args).await,
                Some(("serve", args)) => serve::run(context, args).await,
                _ => Ok(Exit::Usage),
            }
        })
    }
}
