//! `attache restore PATH [--to DIR]`: a backup becomes a workspace, in a new or empty folder.

use super::backup::refusal::refusal;
use super::screen::progress;
use super::{Command, CommandContext, Exit, screen};
use crate::keeping::{self, Restored};
use crate::text::plural;
use clap::{Arg, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::path::{Path, PathBuf};

pub struct RestoreCommand;

impl Command for RestoreCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("restore")
            .about("Make a workspace of a backup, in a new or empty folder")
            .after_help(
                "A folder of `attache backup DIR/` becomes a whole workspace. A file becomes the database of a workspace that has none: \
                 put `configs`, `personas` and `.secrets` there as well.\n\n\
                 Refused is a folder where an engine works, and one with a database, a `-wal`, a `-shm` or a journal in it.",
            )
            .arg(
                Arg::new("backup")
                    .value_name("PATH")
                    .required(true)
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("The folder, or the copy of a database; it is checked first"),
            )
            .arg(
                Arg::new("to")
                    .long("to")
                    .value_name("DIR")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Folder of the restored workspace [default: that of --workspace]"),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(restore(context, args))
    }
}

/// A restore that was done.
#[derive(Serialize)]
struct RestoreRecord<'a> {
    workspace: &'a Path,
    #[serde(flatten)]
    restored: &'a Restored,
}

async fn restore(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let Some(backup) = args.get_one::<PathBuf>("backup") else {
        return Ok(Exit::Usage);
    };
    let backup = std::path::absolute(backup)?;
    let to = match args.get_one::<PathBuf>("to") {
        Some(to) => std::path::absolute(to)?,
        None => context.workspace.clone(),
    };
    let restoring = keeping::restore(&backup, &to);
    let restored = progress::turning(context, "checking and copying", restoring).await;
    let restored = restored.map_err(refusal)?;
    if context.json() {
        context.screen.json(&RestoreRecord {
            workspace: &to,
            restored: &restored,
        })?;
        return Ok(Exit::Ok);
    }
    context.screen.line(format!(
        "{}: {} bytes in {}, as they were made",
        to.display(),
        restored.bytes,
        plural(restored.files, "file")
    ))?;
    if !restored.is_whole {
        screen::remark(
            "it is the database alone: put `configs`, `personas`, `.secrets`, `data/tokens` and `data/workspaces` there as they were",
        );
    }
    screen::remark(
        "`attache config check` and `attache doctor --audit` there say whether it can start. Never start the workspace that it is a \
         copy of again: both would send what was open",
    );
    Ok(Exit::Ok)
}
