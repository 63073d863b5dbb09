//! `attache export persona ID DIR`, `attache export all DIR`: everything of one persona, or of all, in formats that other programs
//! read.
//!
//! `mail/` has every letter as it arrived and every mail as it left, one `.eml` each
//! (`attache import DIR/mail` imports them); `rows/` has the persona's rows of every table, one
//! JSON object a line; `persona/` is its folder: text, memory, knowledge, responsibilities.

use super::screen::progress;
use super::{CommandContext, Exit, Failure};
use crate::domain::PersonaId;
use crate::store::sqlite::backup;
use crate::store::views::export::ExportSnapshot;
use crate::text::plural;
use anyhow::Context as _;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Write what belongs to a persona as mail files, JSON lines and plain files
#[derive(clap::Subcommand)]
pub enum Export {
    /// Write everything of one persona into a new folder
    Persona {
        /// Whose
        id: String,
        /// The folder; it must not exist yet
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Write everything of every persona into a new folder, one folder each
    All {
        /// The folder; it must not exist yet
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

impl Export {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        match self {
            Self::Persona { id, folder } => export(context, &id, &folder).await,
            Self::All { folder } => export_all(context, &folder).await,
        }
    }
}

/// Maximum depth of folders of a persona that are copied.
const DEPTH_MAX: usize = 32;

fn make(folder: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    made.map_err(|cause| {
        let message = format!("cannot make `{}`", folder.display());
        Failure::new(Exit::CannotCreate, message)
            .hint("name a folder that does not exist yet")
            .because(cause)
    })
}

/// Exports every persona of one snapshot; one whose folder is gone has its mail and rows.
async fn export_all(context: &CommandContext, folder: &Path) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    make(folder)?;
    let snapshot = folder.join(".snapshot.tmp");
    let written = async {
        let mut copy = take_snapshot(context, &snapshot).await?;
        let mut personas: BTreeSet<String> = std::fs::read_dir(workspace.join("personas"))?
            .flatten()
            .filter(|entry| entry.path().is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        let with_rows = copy.personas().await?.into_iter();
        personas.extend(with_rows.map(|persona| persona.to_string()));
        let mut done = Vec::new();
        for id in personas {
            let Ok(persona) = PersonaId::parse(&id) else {
                continue;
            };
            let own = folder.join(&id);
            done.push(export_one(context, &mut copy, &persona, &own).await?);
        }
        anyhow::Ok(done)
    };
    let written = written.await;
    fs::remove_file(&snapshot).context("the snapshot cannot be removed")?;
    let records = written?;
    if context.json() {
        context.screen.json(&records)?;
    }
    for record in records.iter().filter(|_| !context.json()) {
        record.print(context, &folder.join(&record.persona))?;
    }
    Ok(Exit::Ok)
}

/// Copies the database, and opens the copy.
async fn take_snapshot(
    context: &CommandContext,
    snapshot: &Path,
) -> anyhow::Result<ExportSnapshot> {
    File::create_new(snapshot)?;
    if let Some(snapshot) = ExportSnapshot::of_server(&context.workspace).await? {
        return Ok(snapshot);
    }
    let database = context.database_file()?;
    let size = fs::metadata(&database)?.len();
    let copying = backup::copy_database(&database, snapshot, backup::LOG_BYTES_MAX);
    progress::growing(context, snapshot, size, "copied", copying).await?;
    Ok(ExportSnapshot::open(snapshot).await?)
}

/// Writes one persona into a new folder; returns their numbers.
async fn export_one(
    context: &CommandContext,
    copy: &mut ExportSnapshot,
    persona: &PersonaId,
    folder: &Path,
) -> anyhow::Result<ExportRecord> {
    if !folder.exists() {
        make(folder)?;
    }
    make(&folder.join("mail"))?;
    make(&folder.join("rows"))?;
    let writing = write(copy, persona, folder);
    let (mails, rows) = progress::turning(context, "writing mails and rows", writing).await?;
    let files = context.workspace.join("personas").join(persona.as_str());
    let files = match files.is_dir() {
        true => copy_folder(&files, &folder.join("persona"), DEPTH_MAX)?,
        false => 0,
    };
    Ok(ExportRecord {
        persona: persona.to_string(),
        mails,
        rows,
        files,
    })
}

async fn export(context: &CommandContext, id: &str, folder: &Path) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    let files = workspace.join("personas").join(id);
    let persona = PersonaId::parse(id).ok().filter(|_| files.is_dir());
    let persona = persona.ok_or_else(|| {
        Failure::new(Exit::NoInput, format!("no persona `{id}`"))
            .hint("`attache persona list` shows them")
    })?;
    make(folder)?;
    let snapshot = folder.join(".snapshot.tmp");
    let written = async {
        let mut copy = take_snapshot(context, &snapshot).await?;
        export_one(context, &mut copy, &persona, folder).await
    };
    let written = written.await;
    fs::remove_file(&snapshot).context("the snapshot cannot be removed")?;
    let record = written?;
    context.report(&record, |_| record.print(context, folder))
}

/// Writes mails and rows; returns their numbers.
async fn write(
    snapshot: &mut ExportSnapshot,
    persona: &PersonaId,
    folder: &Path,
) -> anyhow::Result<(u64, u64)> {
    let mut index = BufWriter::new(File::create(folder.join("mail.jsonl"))?);
    let mails = snapshot.mails(persona, |number, mail| {
        let file = format!("mail/{number:08}.eml");
        fs::write(folder.join(&file), mail.bytes)?;
        let line = json!({
            "file": file,
            "message": mail.message,
            "direction": mail.direction,
        });
        writeln!(index, "{}", serde_json::to_string(&line)?)
    });
    let mails = mails.await??;
    index.flush()?;
    let mut rows = 0;
    for table in ExportSnapshot::tables() {
        let mut lines = BufWriter::new(File::create(folder.join(format!("rows/{table}.jsonl")))?);
        rows += snapshot
            .rows(table, persona, |row| writeln!(lines, "{row}"))
            .await??;
        lines.flush()?;
    }
    Ok((mails, rows))
}

/// Copies files and folders and returns the number of files; links are left out, because they may
/// lead outside the persona's folder.
fn copy_folder(from: &Path, to: &Path, depth: usize) -> anyhow::Result<u64> {
    DirBuilder::new().mode(0o700).create(to)?;
    let mut copied = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_file() {
            fs::copy(entry.path(), &target)?;
            // `fs::copy` also copies the source's mode.
            fs::set_permissions(&target, fs::Permissions::from_mode(0o600))?;
            copied += 1;
        } else if kind.is_dir() && depth > 0 {
            copied += copy_folder(&entry.path(), &target, depth - 1)?;
        }
    }
    Ok(copied)
}

/// Counts of an export.
#[derive(Serialize)]
struct ExportRecord {
    persona: String,
    mails: u64,
    rows: u64,
    files: u64,
}

impl ExportRecord {
    fn print(&self, context: &CommandContext, folder: &Path) -> anyhow::Result<()> {
        let what = format!(
            "{}, {}, {}",
            plural(self.mails, "mail"),
            plural(self.rows, "row"),
            plural(self.files, "file")
        );
        let line = format!("{}: {what}", folder.display());
        Ok(context.screen.line(line)?)
    }
}
