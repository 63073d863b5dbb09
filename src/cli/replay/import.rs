//! `attache replay import FILE DIR`: runs of another engine, in a separate workspace in which no
//! engine ever works.

use crate::cli::screen::quoted;
use crate::cli::{CommandContext, Exit, Failure};
use crate::clock::SystemClock;
use crate::replay::bundle;
use crate::replay::bundle::BundleHeader;
use crate::store::{BundleThing, Store};
use crate::text::plural;
use serde::Serialize;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Open a file of `replay export` in a new workspace in which no engine runs
#[derive(clap::Args)]
pub struct ReplayImport {
    /// The file
    file: PathBuf,
    /// The new workspace, which must not exist yet
    dir: PathBuf,
}

impl ReplayImport {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let Self { file, dir } = self;
        let bytes = bytes_of(&file)?;
        // Checked before the folder is created, so that a bad file leaves no folder.
        let of_file = |error| {
            Failure::new(Exit::BadData, format!("cannot read `{}`", file.display()))
                .hint("name a file that `attache replay export RUN FILE` wrote, as it was written")
                .because(error)
        };
        let read = bundle::read(&bytes).map_err(of_file)?;
        make_workspace(&dir)?;
        let header = match fill(&dir, read).await {
            Ok(header) => header,
            Err(error) => {
                // The folder is new, our own, and of no use.
                let _left = std::fs::remove_dir_all(&dir);
                return Err(error.context(format!("cannot read `{}`", file.display())));
            }
        };
        match context.json() {
            true => context.screen.json(&ImportedRuns {
                workspace: &dir,
                header: &header,
            })?,
            false => {
                let (count, place) = (header.runs.len(), quoted(&dir.display().to_string()));
                context.screen.line(format!(
                    "{} of attache {} from {}",
                    plural(count, "run"),
                    header.engine,
                    header.made_at
                ))?;
                for run in &header.runs {
                    context
                        .screen
                        .line(format!("attache --workspace {place} replay show {run}"))?;
                }
            }
        }
        Ok(Exit::Ok)
    }
}

fn bytes_of(file: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |source| {
        Failure::new(Exit::NoInput, format!("cannot read `{}`", file.display()))
            .hint("name a file that `attache replay export RUN FILE` wrote")
            .because(source)
    };
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened
        .take(bundle::BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

fn make_workspace(dir: &Path) -> Result<(), Failure> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    // `create` fails on an existing folder, so that the folder removed after an error is ours.
    builder
        .create(dir)
        .and_then(|()| builder.create(dir.join("configs")))
        .map_err(|source| {
            let message = format!("cannot make the workspace `{}`", dir.display());
            let hint = match source.kind() {
                std::io::ErrorKind::NotFound => "make the folder first in which it is to be",
                _ => "name a folder that does not exist yet, where you may write",
            };
            Failure::new(Exit::CannotCreate, message)
                .hint(hint)
                .because(source)
        })
}

async fn fill(
    dir: &Path,
    (header, things): (BundleHeader, Vec<BundleThing>),
) -> anyhow::Result<BundleHeader> {
    let store = Store::open_shared(dir, Arc::new(SystemClock::new())).await?;
    let json = serde_json::to_string(&header)?;
    let filled = store.fill_archive(things, json).await;
    store.close().await;
    filled.map_err(|error| {
        Failure::new(Exit::BadData, "this version does not know what is in it")
            .hint("read it with an attache as new as its writer")
            .because(error)
    })?;
    Ok(header)
}

/// A workspace of imported runs.
#[derive(Serialize)]
struct ImportedRuns<'a> {
    workspace: &'a Path,
    header: &'a BundleHeader,
}
