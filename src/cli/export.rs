//! `attache export persona ID DIR`: everything of one persona, in formats that other programs read.
//!
//! `mail/` has every letter as it arrived and every mail as it left, one `.eml` each
//! (`attache import DIR/mail` imports them); `rows/` has the persona's rows of every table, one
//! JSON object a line; `persona/` is its folder: text, memory, knowledge, responsibilities.

use super::screen::progress;
use super::{Command, CommandContext, Exit, Failure};
use crate::domain::PersonaId;
use crate::store::sqlite::backup;
use crate::store::views::export::ExportSnapshot;
use crate::text::plural;
use anyhow::Context as _;
use clap::{Arg, ArgMatches};
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::fs::{self, DirBuilder, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub struct Export;

/// Maximum depth of folders of a persona that are copied.
const DEPTH_MAX: usize = 32;

impl Command for Export {
    fn clap(&self) -> clap::Command {
        let persona = clap::Command::new("persona")
            .about("Write everything of one persona into a new folder")
            .arg(Arg::new("id").value_name("ID").required(true).help("Whose"))
            .arg(
                Arg::new("folder")
                    .value_name("DIR")
                    .required(true)
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("The folder; it must not exist yet"),
            );
        clap::Command::new("export")
            .about("Write what belongs to a persona as mail files, JSON lines and plain files")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(persona)
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let Some(("persona", args)) = args.subcommand() else {
                return Ok(Exit::Usage);
            };
            let id = args.get_one::<String>("id").map_or("", String::as_str);
            match args.get_one::<PathBuf>("folder") {
                Some(folder) => export(context, id, folder).await,
                None => Ok(Exit::Usage),
            }
        })
    }
}

async fn export(context: &CommandContext, id: &str, folder: &Path) -> anyhow::Result<Exit> {
    let workspace = context.require_workspace()?;
    let files = workspace.join("personas").join(id);
    let persona = PersonaId::parse(id).ok().filter(|_| files.is_dir());
    let persona = persona.ok_or_else(|| {
        Failure::new(Exit::NoInput, format!("no persona `{id}`"))
            .hint("`attache persona list` shows them")
    })?;
    let make = |folder: &Path| DirBuilder::new().mode(0o700).create(folder);
    make(folder).map_err(|cause| {
        let failure = Failure::new(
            Exit::CannotCreate,
            format!("cannot make `{}`", folder.display()),
        );
        failure
            .hint("name a folder that does not exist yet")
            .because(cause)
    })?;
    make(&folder.join("mail"))?;
    make(&folder.join("rows"))?;
    let snapshot = folder.join(".snapshot.tmp");
    let written = async {
        File::create_new(&snapshot)?;
        let database = workspace.join("data/attache.db");
        let size = fs::metadata(&database)?.len();
        let copying = backup::copy_database(&database, &snapshot, backup::LOG_BYTES_MAX);
        progress::growing(context, (&snapshot, size), "copied", copying).await?;
        let mut copy = ExportSnapshot::open(&snapshot).await?;
        progress::turning(
            context,
            "writing mails and rows",
            write(&mut copy, &persona, folder),
        )
        .await
    };
    let written = written.await;
    fs::remove_file(&snapshot).context("the snapshot cannot be removed")?;
    let (mails, rows) = written?;
    let copied = copy_folder(&files, &folder.join("persona"), DEPTH_MAX)?;
    if context.json() {
        context.screen.json(&ExportRecord {
            persona: id,
            mails,
            rows,
            files: copied,
        })?;
    } else {
        let what = format!(
            "{}, {}, {}",
            plural(mails, "mail"),
            plural(rows, "row"),
            plural(copied, "file")
        );
        context
            .screen
            .line(format!("{}: {what}", folder.display()))?;
    }
    Ok(Exit::Ok)
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
        let line = IndexLine {
            file: &file,
            message: mail.message,
            direction: mail.direction,
        };
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
struct ExportRecord<'a> {
    persona: &'a str,
    mails: u64,
    rows: u64,
    files: u64,
}

/// A line of `mail.jsonl`.
#[derive(Serialize)]
struct IndexLine<'a> {
    file: &'a str,
    message: &'a str,
    direction: &'a str,
}
