//! `attache man`: writes a page of the manual for the program and for each command.

use crate::cli::{Command, CommandContext, Exit, Failure, command};
use clap::{Arg, ArgMatches, value_parser};
use futures_util::future::BoxFuture;
use std::path::PathBuf;

pub struct Man;

impl Command for Man {
    fn clap(&self) -> clap::Command {
        clap::Command::new("man")
            .about("Write the pages of the manual into a folder, one for each command")
            .after_help("Packages install them. By hand: `attache man ~/.local/share/man/man1`, then `man attache-serve`.")
            .arg(
                Arg::new("folder")
                    .value_name("DIR")
                    .required(true)
                    .value_parser(value_parser!(PathBuf))
                    .help("Folder of the pages; it is made where it does not exist"),
            )
    }
    fn run<'a>(
        &'a self,
        _context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let Some(folder) = args.get_one::<PathBuf>("folder") else {
                return Ok(Exit::Usage);
            };
            let written = std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(command(), folder));
            written.map_err(|error| {
                let says = format!("the pages cannot be written into `{}`", folder.display());
                Failure::new(Exit::CannotCreate, says).because(error)
            })?;
            Ok(Exit::Ok)
        })
    }
}
