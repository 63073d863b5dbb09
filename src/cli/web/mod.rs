//! `attache web`: access to the pages and the API.

pub(super) mod login;
mod sessions;
mod tokens;

use super::{Command, CommandContext, Exit, Failure};
use crate::config::HttpListener;
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct WebCommand;

impl Command for WebCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("web")
            .about("Log in to the pages, and make keys for programs")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(login::command())
            .subcommand(sessions::command())
            .subcommand(tokens::command())
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            match args.subcommand() {
                Some(("login", args)) => login::run(context, args).await,
                Some(("sessions", args)) => sessions::run(context, args).await,
                Some(("tokens", args)) => tokens::run(context, args).await,
                _ => Ok(Exit::Usage),
            }
        })
    }
}

/// Returns the listener of the pages, by its address where there are several.
fn listener(listeners: &[HttpListener], typed: &str) -> Result<HttpListener, Failure> {
    let found: Vec<&HttpListener> = listeners
        .iter()
        .filter(|listener| typed.is_empty() || listener.address.to_string() == typed)
        .collect();
    let addresses = || {
        let addresses: Vec<String> = listeners
            .iter()
            .map(|listener| listener.address.to_string())
            .collect();
        addresses.join(", ")
    };
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] if listeners.is_empty() => Err(Failure::new(Exit::BadData, "the pages are not switched on").hint(
            "add `{ \"kind\": \"http\", \"address\": \"127.0.0.1:8025\" }` to `listeners` in configs/gateway.json, and start the engine again",
        )),
        [] => Err(
            Failure::new(Exit::Usage, format!("no pages are served at `{typed}`"))
                .hint(format!("they are at {}", addresses())),
        ),
        _ => Err(Failure::new(Exit::Usage, "the pages are served at several addresses")
            .hint(format!("name one with --listener: {}", addresses()))),
    }
}
