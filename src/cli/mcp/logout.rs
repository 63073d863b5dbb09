//! `attache mcp logout NAME`: forgets the owner's login at a server.

use super::super::args::text;
use super::super::{CommandContext, Exit, Failure, screen};
use super::look;
use crate::mcp_client::{LogOut, log_out};
use clap::{Arg, ArgMatches};
use serde::Serialize;

pub fn clap() -> clap::Command {
    clap::Command::new("logout")
        .about("Forget the login at a server, and have its tokens revoked")
        .after_help("Where the authorization server revokes nothing, or cannot be reached, the tokens may count until their end.")
        .arg(Arg::new("name").value_name("NAME").required(true).help("The server, by its name in `configs/mcp.json`"))
}

#[derive(Serialize)]
struct DoneLogout<'a> {
    server: &'a str,
    /// `false`: there was no login.
    was_logged_in: bool,
    is_revoked: bool,
}

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let config = context.config()?;
    let name = text(args, "name");
    let server = look::server(&config, name)?;
    let failed = |error| Failure::new(Exit::Failed, "nothing was forgotten").because(error);
    let out = log_out(server).await.map_err(failed)?;
    if context.json() {
        context.screen.json(&DoneLogout {
            server: name,
            was_logged_in: out != LogOut::NotLoggedIn,
            is_revoked: out == LogOut::Revoked,
        })?;
        return Ok(Exit::Ok);
    }
    match out {
        LogOut::NotLoggedIn => screen::remark("nobody was logged in"),
        LogOut::Revoked => context
            .screen
            .line("logged out; the tokens count no more")?,
        LogOut::Forgotten(why) => {
            context.screen.line("logged out here")?;
            screen::remark(&format!("the tokens may count until their end: {why}"));
        }
    }
    Ok(Exit::Ok)
}
