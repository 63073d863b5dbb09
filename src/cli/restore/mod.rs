//! `attache restore PATH [--to DIR]`: a backup becomes a workspace, in a new or empty folder.

use super::backup::refusal;
use super::screen::progress;
use super::{CommandContext, Exit, screen};
use crate::keeping::{self, Restored};
use crate::text::plural;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Make a workspace of a backup, in a new or empty folder
#[derive(clap::Args)]
#[command(
    after_help = "A folder of `attache backup DIR/` becomes a whole workspace. A file becomes the database of a workspace that has none: \
                  put `configs`, `personas` and `.secrets` there as well.\n\n\
                  Refused is a folder where an engine works, and one with a database, a `-wal`, a `-shm` or a journal in it."
)]
pub struct RestoreCommand {
    /// The folder, or the copy of a database; it is checked first
    #[arg(value_name = "PATH")]
    backup: PathBuf,
    /// Folder of the restored workspace [default: that of --workspace]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// A restore that was done.
#[derive(Serialize)]
struct RestoreRecord<'a> {
    workspace: &'a Path,
    #[serde(flatten)]
    restored: &'a Restored,
}

impl RestoreCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let backup = std::path::absolute(self.backup)?;
        let to = match self.to {
            Some(to) => std::path::absolute(to)?,
            None => context.workspace.clone(),
        };
        let restoring = keeping::restore(&backup, &to);
        let restored = progress::turning(context, "checking and copying", restoring).await;
        let restored = restored.map_err(refusal)?;
        context.report(&RestoreRecord {
                workspace: &to,
                restored: &restored,
            }, |screen| {
        screen.line(format!(
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
         Ok(())
})
    }
}
