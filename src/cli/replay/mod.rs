//! `attache replay`: shows, compares and exports the record of a run; one file per subcommand.
//!
//! `attache replay ID` alone is `attache replay show ID`.
//!
//! | file | subject |
//! | --- | --- |
//! | `show` | a run, a fork or a thread as a story, in text or as a page |
//! | `verify` | encodes recorded requests again and compares them |
//! | `diff` | compares two runs |
//! | `export`, `import` | runs in one file, and a workspace made from it |
//! | `fork`, `forks` | runs a run again with a change, and lists such forks |
//! | `sweep` | finds past runs that a changed file would have changed |
//!
//! Absent on purpose: finding a run by its id, which `cli/args/lookup.rs` does for every command.

mod show;
mod sweep;
mod verify;
mod diff;
mod export;
mod import;
mod fork;
mod forks;

pub use show::print;

use super::{Command, CommandContext, Exit};
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct ReplayCommand;

/// Every subcommand, in the order of `--help`.
static SUBCOMMANDS: &[&dyn Command] = &[
    &show::ReplayShow,
    &verify::Verify,
    &diff::Diff,
    // Export and import.
    &export::ReplayExport,
    &import::ReplayImport,
    // Forks.
    &fork::Fork,
    &forks::Forks,
    &sweep::SweepCommand,
];

impl Command for ReplayCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("replay")
            .about("Show everything that happened in a run or a thread, in order")
            .args(show::args())
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommands(SUBCOMMANDS.iter().map(|command| command.clap()))
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        match args.subcommand() {
            None => show::ReplayShow.run(context, args),
            Some((name, args)) => {
                let found = SUBCOMMANDS
                    .iter()
                    .find(|command| command.clap().get_name() == name);
                match found {
                    Some(command) => command.run(context, args),
                    None => Box::pin(async { Ok(Exit::Usage) }),
                }
            }
        }
    }
}
