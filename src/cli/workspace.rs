//! `attache workspace list|versions|restore`: the files that a persona's agents write, beside a working
//! engine or without one.

use super::args::text;
use super::persona::find;
use super::screen::{Columns, one_line};
use super::{Command, CommandContext, Exit, Failure, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::AGENT_FOLDER;
use crate::store::files::versions::{FileVersion, WorkspaceVersions};
use crate::store::files::workspace::{WorkspaceError, WorkspaceQuota};
use clap::{Arg, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;

/// Most files and folders of a workspace that are listed.
const LISTED_FILES_MAX: usize = 1_000_000;

pub struct WorkspaceCommand;

impl Command for WorkspaceCommand {
    fn clap(&self) -> clap::Command {
        let persona = || {
            Arg::new("id")
                .value_name("ID")
                .required(true)
                .help("The persona: its folder's name below `personas/`")
        };
        let file = || {
            Arg::new("file")
                .value_name("FILE")
                .help("Path below the persona's `workspace/`")
        };
        clap::Command::new("workspace")
            .about("Show the files that a persona's agents wrote, and bring back earlier versions")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(
                clap::Command::new("list")
                    .about("List the files in a workspace")
                    .arg(persona()),
            )
            .subcommand(
                clap::Command::new("versions")
                    .about("List what runs changed or removed, the newest first")
                    .arg(persona())
                    .arg(file()),
            )
            .subcommand(
                clap::Command::new("restore")
                    .about("Bring back an earlier version of a file; the present one is kept, too")
                    .arg(persona())
                    .arg(file().required(true))
                    .arg(
                        Arg::new("version")
                            .long("version")
                            .value_name("NUMBER")
                            .value_parser(clap::value_parser!(u64))
                            .help("As `attache workspace versions` shows it [default: the newest]"),
                    ),
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            context.require_workspace()?;
            let Some((command, args)) = args.subcommand() else {
                return Ok(Exit::Usage);
            };
            let config = context.config()?;
            let persona = find(&config, text(args, "id"))?;
            let mut quota = WorkspaceQuota::from(&config.limits);
            if command == "list" {
                // Whoever makes room must see what there is.
                (quota.bytes_max, quota.files_max) = (u64::MAX, LISTED_FILES_MAX);
            }
            let versions = WorkspaceVersions::of(&persona.folder, quota)?;
            match command {
                "list" => list(context, &versions),
                "versions" => show_versions(context, &versions, &path(args)),
                "restore" => restore(context, &versions, (persona.id.as_str(), args)),
                _ => Ok(Exit::Usage),
            }
        })
    }
}

/// Returns the path below the workspace; it may be given below the persona's folder, as tools name it.
fn path(args: &ArgMatches) -> String {
    let typed = text(args, "file");
    let below = typed
        .strip_prefix(AGENT_FOLDER)
        .and_then(|rest| rest.strip_prefix('/'));
    below.unwrap_or(typed).to_owned()
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
    context
        .screen
        .list(&files, columns, "the workspace is empty", |file| {
            vec![file.bytes.to_string(), one_line(&file.path)]
        })?;
    Ok(Exit::Ok)
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
    context
        .screen
        .list(&kept, columns, "no version is kept", |version| {
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
        })?;
    Ok(Exit::Ok)
}

fn restore(
    context: &CommandContext,
    versions: &WorkspaceVersions,
    (persona, args): (&str, &ArgMatches),
) -> anyhow::Result<Exit> {
    let (path, number) = (path(args), args.get_one::<u64>("version").copied());
    let now = SystemClock::new().now();
    let restored: FileVersion = match versions.restore(&path, number, now) {
        Err(WorkspaceError::NotFound(message)) => {
            let hint = format!("`attache workspace versions {persona}` shows what there is");
            return Err(Failure::new(Exit::NoInput, message).hint(hint).into());
        }
        restored => restored.map_err(failure)?,
    };
    if context.json() {
        context.screen.json(&restored)?;
        return Ok(Exit::Ok);
    }
    let shown = one_line(&restored.path);
    context.screen.line(format!(
        "`{AGENT_FOLDER}/{shown}` is as it was until {}",
        restored.replaced_at
    ))?;
    screen::remark("what it replaced is kept, too");
    Ok(Exit::Ok)
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
