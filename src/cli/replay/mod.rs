//! `attache replay`: shows, compares and exports the record of a run.
//!
//! `attache replay ID` alone is `attache replay show ID`.
//!
//! - `show`: a run, a fork or a thread as a story, in text or as a page
//! - `verify`: encodes recorded requests again and compares them
//! - `fork`: runs a run again with a change
//! - `sweep`: finds past runs that a changed file would have changed
//!
//! Absent on purpose: finding a run by its id, which `cli/args/lookup.rs` does for every command.

mod show;
mod sweep;
mod verify;
mod fork;

use super::args::lookup::{record_of, runs_of};
use super::screen::{Columns, quoted, remark};
use super::{CommandContext, Exit, Failure};
use crate::clock::{Clock, SystemClock};
use crate::mcp_client::kept_secrets;
use crate::replay::bundle::{BundleHeader, Label};
use crate::replay::diff::compare;
use crate::replay::{bundle, timeline};
use crate::store::{BundleThing, Store, StoredFork};
use crate::text::plural;
use serde::Serialize;
use serde_json::Value;
pub use show::print;
use show::write_new;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    Diff(Diff),
    // Export and import.
    Export(ReplayExport),
    Import(ReplayImport),
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
            (Some(ReplayPart::Forks), _) => forks(context).await,
            (Some(ReplayPart::Sweep(it)), _) => it.run(context).await,
            (None, None) => Ok(Exit::Usage),
        }
    }
}

/// Compare two runs: where they went apart first, then turn by turn; exit code 1 if they did
#[derive(clap::Args)]
pub struct Diff {
    /// An id of a run or of a fork, its last or first characters, or `last`
    #[arg(value_name = "RUN")]
    a: String,
    /// An id of a run or of a fork, its last or first characters, or `last`
    #[arg(value_name = "RUN")]
    b: String,
    /// Ids and instants count too
    #[arg(long)]
    exact: bool,
    /// Show every stage, and every difference of a stage, not only the first
    #[arg(long)]
    full: bool,
}

impl Diff {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let a = record_of(&store, &self.a).await?;
        let b = record_of(&store, &self.b).await?;
        let comparison = compare(&a, &b, self.exact);
        if context.json() {
            context.screen.json(&DiffRecord {
                a: &a.run.id,
                b: &b.run.id,
                same: comparison.same,
                first: &comparison.first,
                stages: &comparison.pairs,
            })?;
        } else {
            let lines = timeline::comparison(&a.run.id, &b.run.id, &comparison, self.full);
            print(&context.screen, &lines)?;
        }
        Ok(match comparison.same {
            true => Exit::Ok,
            false => Exit::Failed,
        })
    }
}

/// Comparison of two runs.
#[derive(Serialize)]
struct DiffRecord<'a, F, P> {
    a: &'a str,
    b: &'a str,
    same: bool,
    first: &'a F,
    stages: &'a P,
}

/// Maximum number of forks in a listing.
const LISTED_MAX: u32 = 200;

#[derive(Serialize)]
struct ForkRow {
    id: String,
    run: String,
    persona: String,
    at_turn: u32,
    change: Value,
    state: String,
    created_at: String,
    finished_at: Option<String>,
}

/// Prints the forks.
async fn forks(context: &CommandContext) -> anyhow::Result<Exit> {
    let store = context.shared_store().await?;
    let forks = store.forks(LISTED_MAX).await?;
    let rows: Vec<ForkRow> = forks.into_iter().map(fork_row).collect();
    let headings = ["FORK", "RUN", "TURN", "STATE", "CHANGE", "MADE"];
    let columns = Columns::of(&headings).main("CHANGE");
    let cells = |row: &ForkRow| {
        let change = row.change.as_object().into_iter().flatten();
        let change = change
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| match value {
                _ if key == "persona_text" => "another persona text".to_owned(),
                Value::String(text) => format!("{key} {text}"),
                Value::Object(of) => {
                    let call = of["call"].as_str().unwrap_or_default();
                    format!("another result of {call}")
                }
                _ => key.clone(),
            });
        vec![
            row.id.clone(),
            row.run.clone(),
            row.at_turn.to_string(),
            row.state.clone(),
            change.collect::<Vec<_>>().join(", "),
            row.created_at.clone(),
        ]
    };
    context.list(&rows, columns, "no run was forked", cells)
}

fn fork_row(fork: StoredFork) -> ForkRow {
    ForkRow {
        id: fork.id,
        run: fork.run.to_string(),
        persona: fork.persona,
        at_turn: fork.at_turn,
        change: serde_json::from_str(&fork.change_json).unwrap_or_default(),
        state: fork.state,
        created_at: fork.created_at.to_string(),
        finished_at: fork.finished_at,
    }
}

/// Write runs into one file with which a maintainer can look at them; it holds the mails' text
#[derive(clap::Args)]
pub struct ReplayExport {
    /// Ids, their last or first characters, or `last`
    #[arg(value_name = "RUN", required = true)]
    id: Vec<String>,
    /// The file, which must not exist yet
    file: PathBuf,
    /// Give people and addresses other names, and leave out the mails' raw bytes
    #[arg(long)]
    rename: bool,
}

impl ReplayExport {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        // Needed for the secrets that the file must not contain: without them no file is
        // written.
        let config = context.config()?;
        let store = context.shared_store().await?;
        let runs = runs_of(&store, self.id.iter(), "exported").await?;
        let label = Label {
            engine: env!("CARGO_PKG_VERSION").to_owned(),
            made_at: SystemClock::new().now().to_string(),
            runs: runs.iter().map(ToString::to_string).collect(),
        };
        let things = store.things_of_runs(&runs).await?;
        let mut secrets = config.secrets.clone();
        secrets.extend(kept_secrets(&context.workspace));
        let written = bundle::write(label, things, &secrets, self.rename);
        let (header, bytes) = written
            .map_err(|error| Failure::new(Exit::BadData, "nothing was written").because(error))?;
        let file = self.file;
        write_new(&file, &bytes)?;
        match context.json() {
            true => context.screen.json(&ExportedRuns {
                file: &file,
                size_bytes: bytes.len(),
                runs: &header.runs,
                masked: header.masked,
                renamed: header.renamed,
            })?,
            false => {
                context.screen.line(format!(
                    "{} bytes written to {}",
                    bytes.len(),
                    file.display()
                ))?;
            }
        }
        let masked = plural(header.masked as usize, "secret");
        remark(&format!("{}; {masked} taken out", header.beware));
        Ok(Exit::Ok)
    }
}

/// A file of exported runs.
#[derive(Serialize)]
struct ExportedRuns<'a> {
    file: &'a Path,
    size_bytes: usize,
    runs: &'a [String],
    masked: u32,
    renamed: bool,
}

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
        let (header, things) = bundle::read(&bytes).map_err(of_file)?;
        make_workspace(&dir)?;
        let header = match fill(&dir, header, things).await {
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
    header: BundleHeader,
    things: Vec<BundleThing>,
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
