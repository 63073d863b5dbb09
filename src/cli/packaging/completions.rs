//! `attache completions`: prints the script by which a shell completes commands and options.

use crate::cli::{Command, CommandContext, Exit, command};
use clap::{Arg, ArgMatches, value_parser};
use clap_complete::Shell;
use futures_util::future::BoxFuture;

pub struct Completions;

impl Command for Completions {
    fn clap(&self) -> clap::Command {
        clap::Command::new("completions")
            .about("Print a script that lets a shell complete commands and options")
            .after_help(
                "Packages install it. By hand: `attache completions bash > ~/.local/share/bash-completion/completions/attache`.",
            )
            .arg(
                Arg::new("shell")
                    .value_name("SHELL")
                    .required(true)
                    .value_parser(value_parser!(Shell))
                    .help("Shell that reads the script"),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let Some(shell) = args.get_one::<Shell>("shell").copied() else {
                return Ok(Exit::Usage);
            };
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "attache", &mut script);
            context
                .screen
                .line(String::from_utf8_lossy(&script).trim_end())?;
            Ok(Exit::Ok)
        })
    }
}
