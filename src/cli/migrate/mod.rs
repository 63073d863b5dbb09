//! `attache migrate --to URL|FOLDER`: the rows of a workspace go to another database. `attache migrate protege DIR`: what another
//! program of this kind has becomes a workspace.
//!
//! - `database`: from a file to a server, and back
//! - `protege`: workspaces of Protege

mod database;
mod protege;

use super::{Command, CommandContext, Exit};
use clap::{Arg, ArgAction, ArgMatches};
use futures_util::future::BoxFuture;
use std::path::PathBuf;

pub struct MigrateCommand;

impl Command for MigrateCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("migrate")
            .about("Move the database to a server or back, or take over personas from another program")
            .after_help(
                "--to copies all rows, compares both databases row by row, audits the new one, and only then retires the old one, which \
                 is kept: no engine starts on it any more. The engine must be stopped, and the target empty. A move that was cut off is \
                 begun anew by the same command. `.secrets` is changed only with --switch.",
            )
            .arg_required_else_help(true)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
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
            .subcommand(of_protege())
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            match args.subcommand() {
                Some((_, args)) => protege::migrate(context, args).await,
                None => database::migrate(context, args).await,
            }
        })
    }
}

fn of_protege() -> clap::Command {
    clap::Command::new("protege")
        .about("Take over a workspace of Protege: personas, knowledge, memory, duties, settings, mail")
        .after_help(
            "DIR is only read. A file that is here already is never changed: its difference is shown, and the rest goes on. Letters \
             become history: none is answered, none is sent. The same command again finishes what was cut off, and changes \
             nothing where everything is here.",
        )
        .arg(
            Arg::new("dir")
                .value_name("DIR")
                .required(true)
                .value_parser(clap::value_parser!(PathBuf))
                .help("The workspace of Protege; Protege must be stopped"),
        )
        .arg(
            Arg::new("domain")
                .long("domain")
                .value_name("DOMAIN")
                .help("Mail domain of the personas [default: what DIR says]"),
        )
        .arg(
            Arg::new("owner")
                .long("owner")
                .value_name("ADDRESS")
                .action(ArgAction::Append)
                .help("Owner of a new workspace [default: the admin contact in DIR]; may be given several times"),
        )
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .action(ArgAction::SetTrue)
                .help("Only show what would be written"),
        )
}
