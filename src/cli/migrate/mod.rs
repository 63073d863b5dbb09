//! `attache migrate --to URL|FOLDER`: the rows of a workspace go to another database, from a file to a server and back.

mod database;

use super::{Command, CommandContext, Exit};
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;

pub struct MigrateCommand;

impl Command for MigrateCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("migrate")
            .about("Move the database to a server or back")
            .after_help(
                "--to copies all rows, compares both databases row by row, audits the new one, and only then retires the old one, which \
                 is kept: no engine starts on it any more. The engine must be stopped, and the target empty. A move that was cut off is \
                 begun anew by the same command. `.secrets` is changed only with --switch.",
            )
            .arg_required_else_help(true)
            .arg(
                Arg::new("to")
                    .long("to")
                    .value_name("TARGET")
                    .required(true)
                    .help(
                        "Where the rows go: `postgres://USER@HOST/NAME` (a password may stand in PGPASSWORD), or the folder of a workspace, \
                         `.` for this one",
                    ),
            )
            .arg(
                Arg::new("switch")
                    .long("switch")
                    .action(ArgAction::SetTrue)
                    .help("Also write `.secrets`, so that the workspace uses the new database, and rename a retired file"),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(database::migrate(context, args))
    }
}
