//! `attache workspace list|versions|restore`: the files that a persona's agents write, beside a working
//! engine or without one.

use super::persona::find;
use super::screen::{Columns, one_line};
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::AGENT_FOLDER;
use crate::store::files::versions::{FileVersion, WorkspaceVersions};
use crate::store::files::workspace::{WorkspaceError, WorkspaceQuota};
use serde::Serialize;

/// Most files and folders of a workspace that are listed.
const LISTED_FILES_MAX: usize = 1_000_000;

/// Show the files that a persona's agents wrote, and bring back earlier versions
#[derive(clap::Subcommand)]
pub enum WorkspaceCommand {
    /// List the files in a workspace
    List {
        /// The persona: its folder's name below `personas/`
        id: String,
    },
    /// List what runs changed or removed, the newest first
    Versions {
        /// The persona: its folder's name below `personas/`
        id: String,
        /// Path below the persona's `workspace/`
        file: Option<String>,
    },
    /// Bring back an earlier version of a file; the present one is kept, too
    Restore {
        /// The persona: its folder's name below `personas/`
        id: String,
        /// Path below the persona's `workspace/`
        file: String,
        /// As `attache workspace versions` shows it [default: the newest]
        #[arg(long, value_name = "NUMBER")]
        version: Option<u64>,
    },
}

impl WorkspaceCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = context.config()?;
        let (Self::List { id } | Self::Versions { id, .. } | Self::Restore { id, .. }) = &self;
        let persona = find(&config, id)?;
        let mut quota = WorkspaceQuota::from(&config.limits);
        if matches!(self, Self::List { .. }) {
            // Whoever makes room must see what there is.
            (quota.bytes_max, quota.files_max) = (u64::MAX, LISTED_FILES_MAX);
        }
        let versions = WorkspaceVersions::of(&persona.folder, quota)?;
        match &self {
            Self::List { .. } => list(context, &versions),
            Self::Versions { file, .. } => {
                let file = file.as_deref().unwrap_or_default();
                show_versions(context, &versions, path(file))
            }
            Self::Restore { file, version, .. } => restore(
                context,
                &versions,
                persona.id.as_str(),
                path(file),
                *version,
            ),
        }
    }
}

/// Returns the path below the workspace; it may be given below the persona's folder, as tools name it.
fn path(typed: &str) -> &str {
    let below = typed
        .strip_prefix(AGENT_FOLDER)
        .and_then(|rest| rest.strip_prefix('/'));
    below.unwrap_or(typed)
}

/// A file, for display.
#[derive(Serialize)]
struct FileRecord {
    path: String,
    bytes: u64,
}

fn list(context: &CommandContext, versions: &WorkspaceVersions) -> anyhow::Result<Exit> {
    let (files, _) = versions.files().map_err(failure)?;
    let files: Vec<FileRecord> = files
        .into_iter()
        .map(|file| FileRecord {
            path: file.path,
            bytes: file.bytes,
        })
        .collect();
    let columns = Columns::of(&["BYTES", "FILE"]).main("FILE");
    context.list(&files, columns, "the workspace is empty", |file| {
        vec![file.bytes.to_string(), one_line(&file.path)]
    })
}

fn show_versions(
    context: &CommandContext,
    versions: &WorkspaceVersions,
    file: &str,
) -> anyhow::Result<Exit> {
    let mut kept = versions.versions()?;
    kept.retain(|version| file.is_empty() || version.path == file);
    kept.reverse();
    let columns = Columns::of(&["VERSION", "UNTIL", "BYTES", "WAS", "RUN", "FILE"]).main("FILE");
    context.list(&kept, columns, "no version is kept", |version| {
        vec![
            version.number.to_string(),
            version.replaced_at.clone(),
            version.bytes.to_string(),
            if version.removed {
                "removed"
            } else {
                "changed"
            }
            .to_owned(),
            version.run.clone().unwrap_or_default(),
            one_line(&version.path),
        ]
    })
}

fn restore(
    context: &CommandContext,
    versions: &WorkspaceVersions,
    persona: &str,
    path: &str,
    number: Option<u64>,
) -> anyhow::Result<Exit> {
    let now = SystemClock::new().now();
    let restored: FileVersion = match versions.restore(path, number, now) {
        Err(WorkspaceError::NotFound(message)) => {
            return refuse(
                Exit::NoInput,
                message,
                format!("`attache workspace versions {persona}` shows what there is"),
            );
        }
        restored => restored.map_err(failure)?,
    };
    context.report(&restored, |screen| {
        let shown = one_line(&restored.path);
        screen.line(format!(
            "`{AGENT_FOLDER}/{shown}` is as it was until {}",
            restored.replaced_at
        ))?;
        screen::remark("what it replaced is kept, too");
        Ok(())
    })
}

fn failure(error: WorkspaceError) -> anyhow::Error {
    match error {
        WorkspaceError::OverQuota(message) => Failure::new(Exit::CannotCreate, message).into(),
        WorkspaceError::NotFound(message) => Failure::new(Exit::NoInput, message).into(),
        WorkspaceError::Io(error) => Failure::new(Exit::Broken, "the workspace cannot be used")
            .because(error)
            .into(),
    }
}
