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

use super::{CommandContext, Exit};

/// Show everything that happened in a run or a thread, in order
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ReplayCommand {
    #[command(flatten)]
    show: Option<show::ReplayShow>,
    #[command(subcommand)]
    command: Option<ReplayPart>,
}

/// Every subcommand, in the order of `--help`.
#[derive(clap::Subcommand)]
enum ReplayPart {
    Show(show::ReplayShow),
    Verify(verify::Verify),
    Diff(diff::Diff),
    // Export and import.
    Export(export::ReplayExport),
    Import(import::ReplayImport),
    // Forks.
    Fork(fork::Fork),
    /// List the forks that were made, the newest first
    Forks,
    Sweep(sweep::SweepCommand),
}

impl ReplayCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match (self.command, self.show) {
            (Some(ReplayPart::Show(it)), _) | (None, Some(it)) => it.run(context).await,
            (Some(ReplayPart::Verify(it)), _) => it.run(context).await,
            (Some(ReplayPart::Diff(it)), _) => it.run(context).await,
            (Some(ReplayPart::Export(it)), _) => it.run(context).await,
            (Some(ReplayPart::Import(it)), _) => it.run(context).await,
            (Some(ReplayPart::Fork(it)), _) => it.run(context).await,
            (Some(ReplayPart::Forks), _) => forks::forks(context).await,
            (Some(ReplayPart::Sweep(it)), _) => it.run(context).await,
            (None, None) => Ok(Exit::Usage),
        }
    }
}
