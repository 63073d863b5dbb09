//! `attache completions` and `attache man`: what a package installs beside the binary, made from the command line itself.
//!
//! Absent on purpose: where a package puts them; `packaging/` says that.

use super::{CommandContext, Exit, Failure, command};
use clap_complete::Shell;
use std::path::PathBuf;

/// Print a script that lets a shell complete commands and options
#[derive(clap::Args)]
#[command(
    after_help = "Packages install it. By hand: `attache completions bash > ~/.local/share/bash-completion/completions/attache`."
)]
pub struct Completions {
    /// Shell that reads the script
    shell: Shell,
}

impl Completions {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command(), "attache", &mut script);
        let script = String::from_utf8_lossy(&script);
        context.screen.line(script.trim_end())?;
        Ok(Exit::Ok)
    }
}

/// Write the pages of the manual into a folder, one for each command
#[derive(clap::Args)]
#[command(
    after_help = "Packages install them. By hand: `attache man ~/.local/share/man/man1`, then `man attache-serve`."
)]
pub struct Man {
    /// Folder of the pages; it is made where it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Man {
    pub async fn run(self, _context: &CommandContext) -> anyhow::Result<Exit> {
        std::fs::create_dir_all(&self.folder)
            .and_then(|()| clap_mangen::generate_to(command(), &self.folder))
            .map_err(|error| {
                let folder = self.folder.display();
                let says = format!("the pages cannot be written into `{folder}`");
                Failure::new(Exit::CannotCreate, says).because(error)
            })?;
        Ok(Exit::Ok)
    }
}
