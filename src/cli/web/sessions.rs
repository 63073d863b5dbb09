//! `attache web sessions`: browsers that are logged in.

use super::super::args::text;
use super::super::screen::Columns;
use super::super::{CommandContext, Exit, Failure};
use crate::store::WebSession;
use clap::{Arg, ArgAction, ArgMatches};
use serde::Serialize;

/// Most sessions that are listed.
const SHOWN_MAX: u32 = 200;

pub fn command() -> clap::Command {
    clap::Command::new("sessions")
        .about("List browsers that are logged in, and log them out")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(clap::Command::new("list").about("List the sessions that are good"))
        .subcommand(
            clap::Command::new("revoke")
                .about("End a session, or all of them, at once")
                .arg(
                    Arg::new("id")
                        .value_name("ID")
                        .required_unless_present("all")
                        .conflicts_with("all")
                        .help("Its id, or the last characters of it"),
                )
                .arg(
                    Arg::new("all")
                        .long("all")
                        .action(ArgAction::SetTrue)
                        .help("Every session"),
                ),
        )
}

/// Number of sessions that were ended.
#[derive(Serialize)]
struct EndedSessions {
    ended: u64,
}

pub async fn run(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let (command, args) = args.subcommand().unwrap_or(("", args));
    let store = context.shared_store().await?;
    let now = store.clock().now();
    let mut sessions = store.web_sessions(SHOWN_MAX).await?;
    sessions.retain(|session| session.is_good(session.used_at, now));
    if command == "list" {
        return list(context, &sessions);
    }
    let ended = match args.get_flag("all") {
        true => store.end_web_sessions().await?,
        false => {
            let typed = text(args, "id");
            let found: Vec<&WebSession> = sessions
                .iter()
                .filter(|session| session.id.ends_with(typed))
                .collect();
            let [session] = found.as_slice() else {
                let message = format!("`{typed}` is not the end of one session's id");
                return Err(Failure::new(Exit::NoInput, message)
                    .hint("`attache web sessions list` shows them")
                    .into());
            };
            u64::from(store.end_web_session(&session.id, "cli").await?)
        }
    };
    match context.json() {
        true => context.screen.json(&EndedSessions { ended })?,
        false => context
            .screen
            .line(format!("{} ended", crate::text::plural(ended, "session")))?,
    }
    Ok(Exit::Ok)
}

fn list(context: &CommandContext, sessions: &[WebSession]) -> anyhow::Result<Exit> {
    if context.json() {
        context.screen.json(&sessions)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = sessions
        .iter()
        .map(|session| {
            vec![
                session.id.clone(),
                session.listener.clone(),
                session.asked_by.clone(),
                session.created_at.to_string(),
                session.used_at.to_string(),
                session.expires_at.to_string(),
                session.browser.clone(),
            ]
        })
        .collect();
    let columns = Columns::of(&["ID", "AT", "BY", "SINCE", "USED", "ENDS", "BROWSER"])
        .main("BROWSER")
        .optional(&["USED", "AT"]);
    context
        .screen
        .listing(columns, &rows, "no browser is logged in")?;
    Ok(Exit::Ok)
}
