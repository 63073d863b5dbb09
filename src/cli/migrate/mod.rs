//! `attache migrate --to URL|FOLDER`: the rows of a workspace go to another database, from a file to a server and back.

use crate::cli::screen::progress;
use crate::cli::setup::secrets_file;
use crate::cli::{CommandContext, Exit, Failure, refuse, screen};
use crate::clock::SystemClock;
use crate::config::{DATABASE_VARIABLE, write_private};
use crate::store::{BegunTransfer, ReplacedNul, TableDigest, Transfer, TransferError};
use crate::text::plural;
use serde::Serialize;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Move the database to a server or back
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "--to copies all rows, compares both databases row by row, audits the new one, and only then retires the old one, which \
                  is kept: no engine starts on it any more. The engine must be stopped, and the target empty. A move that was cut off is \
                  begun anew by the same command. `.secrets` is changed only with --switch."
)]
pub struct MigrateCommand {
    /// Where the rows go: `postgres://USER@HOST/NAME` (a password may stand in PGPASSWORD), or the folder of a workspace, `.` for
    /// this one
    #[arg(long, value_name = "TARGET")]
    to: String,
    /// Also write `.secrets`, so that the workspace uses the new database, and rename a retired file
    #[arg(long)]
    switch: bool,
}

/// Name that a retired file gets, in the folder of the old one.
static RETIRED: &str = "attache.db.moved";

impl MigrateCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let workspace = context.find_workspace()?;
        let to = self.to.as_str();
        require_folder(to)?;
        let clock = Arc::new(SystemClock::new());
        let begun = Transfer::begin(workspace, to, clock)
            .await
            .map_err(refusal)?;
        let mut record = match begun {
            BegunTransfer::Ended { from, to } => DatabaseMoveRecord::of_earlier(from, to),
            BegunTransfer::Open(transfer) => carry_out(context, *transfer).await?,
        };
        let switch = Switch::of(workspace, to);
        match self.switch {
            true => {
                switch.make()?;
                record.is_switched = true;
            }
            false => record.next = switch.steps(),
        }
        print(context, &record)?;
        Ok(Exit::Ok)
    }
}

async fn carry_out(
    context: &CommandContext,
    mut transfer: Transfer,
) -> anyhow::Result<DatabaseMoveRecord> {
    let bar = progress::bar(context, transfer.tables() as u64, "tables");
    while let Some(table) = transfer.copy_next().await.map_err(refusal)? {
        bar.set_message(table.table.clone());
        bar.inc(1);
    }
    bar.finish_and_clear();
    let doing = progress::spinner(context, "making the index of words");
    transfer.finish_copy().await.map_err(refusal)?;
    doing.set_message("comparing both databases");
    transfer.compare().await.map_err(refusal)?;
    doing.set_message("auditing the new one");
    transfer.audit().await.map_err(refusal)?;
    doing.finish_and_clear();
    let tables = transfer.copied().to_vec();
    let record = DatabaseMoveRecord {
        from: transfer.from(),
        to: transfer.to(),
        rows: tables.iter().map(|table| table.rows).sum(),
        tables,
        replaced: transfer.replaced().clone(),
        is_switched: false,
        next: Vec::new(),
    };
    transfer.end().await.map_err(refusal)?;
    Ok(record)
}

/// Refuses a folder that is no workspace: it would get a database, and nobody would look there.
fn require_folder(to: &str) -> Result<(), Failure> {
    if to.contains("://") || Path::new(to).join("configs").is_dir() {
        return Ok(());
    }
    refuse(
        Exit::Usage,
        format!("`{to}` is neither a workspace nor the address of a database"),
        "write an address as `postgres://USER:PASSWORD@HOST/NAME`, or name the folder of a workspace, `.` for this one",
    )
}

/// What has the workspace use the new database.
enum Switch<'a> {
    /// A line of `.secrets` comes, and the file goes.
    ToServer { workspace: &'a Path, url: &'a str },
    /// The line goes.
    ToFile { folder: &'a Path },
}

impl<'a> Switch<'a> {
    fn of(workspace: &'a Path, to: &'a str) -> Self {
        match to.contains("://") {
            true => Self::ToServer { workspace, url: to },
            false => Self::ToFile {
                folder: Path::new(to),
            },
        }
    }

    /// Returns the steps for an operator. An address that was typed may have a password, and is not repeated.
    fn steps(&self) -> Vec<String> {
        match self {
            Self::ToServer { .. } => vec![
                format!("write the address into `.secrets`: {DATABASE_VARIABLE}=…"),
                "move `data/attache.db` out of `data`: it is kept as it was, and no engine starts on it".to_owned(),
            ],
            Self::ToFile { folder } => vec![format!(
                "take {DATABASE_VARIABLE} out of `{}`, and out of the engine's environment",
                folder.join(".secrets").display()
            )],
        }
    }

    fn make(&self) -> Result<(), Failure> {
        match self {
            Self::ToServer { workspace, url } => {
                let secrets = workspace.join(".secrets");
                let text = read(&secrets)?;
                let text = secrets_file::set(&text, DATABASE_VARIABLE, url)
                    .map_err(|error| Failure::new(Exit::BadData, error.to_string()))?;
                write(&secrets, &text)?;
                let data = workspace.join("data");
                match std::fs::rename(data.join("attache.db"), data.join(RETIRED)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(unwritten(&data, error))
                    }
                    _ => Ok(()),
                }
            }
            Self::ToFile { folder } => {
                let secrets = folder.join(".secrets");
                let text = read(&secrets)?;
                write(&secrets, &secrets_file::without(&text, DATABASE_VARIABLE))
            }
        }
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unwritten(path, error)),
        read => Ok(read.unwrap_or_default()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    write_private(path, text.as_bytes()).map_err(|error| unwritten(path, error))
}

fn unwritten(path: &Path, error: io::Error) -> Failure {
    let message = format!("cannot change `{}`", path.display());
    let failure = Failure::new(Exit::CannotCreate, message).because(error);
    failure.hint("all rows are moved: give the workspace the new database by hand, as docs/guide/postgresql.md says")
}

/// Chooses exit code and hint.
fn refusal(error: TransferError) -> anyhow::Error {
    let (exit, hint) = match &error {
        TransferError::SameKind { .. } => (
            Exit::Usage,
            "between two files go `attache backup` and `restore`, between two servers `pg_dump` and `pg_restore`",
        ),
        TransferError::NoSource => (
            Exit::NoInput,
            "name the workspace with --workspace; a new one has no rows, and needs no move",
        ),
        TransferError::NotEmpty { .. } => (
            Exit::CannotCreate,
            "name a database that was just made (CREATE DATABASE), or a workspace without `data/attache.db`",
        ),
        TransferError::Remove(_) => (
            Exit::CannotCreate,
            "remove `data/attache.db` of the target, with its `-wal` and `-shm`",
        ),
        TransferError::NulInKey { .. }
        | TransferError::Value { .. }
        | TransferError::Row { .. } => (
            Exit::BadData,
            "nothing was changed in the old database; `attache doctor --audit` says whether it is sound",
        ),
        TransferError::Differs { .. } | TransferError::Audit { .. } => (
            Exit::Broken,
            "the old database is as it was, and goes on; see to the new one's server or disk, and begin again",
        ),
        TransferError::Tables { .. } => (
            Exit::Failed,
            "the old database is as it was, and goes on; report it",
        ),
        TransferError::Open(_) | TransferError::Store(_) => return own_words(error),
    };
    let failure = Failure::new(exit, "the rows were not moved");
    failure.hint(hint).because(error).into()
}

/// Takes an error out that has an exit code and a hint of its own.
fn own_words(error: TransferError) -> anyhow::Error {
    match error {
        TransferError::Open(error) => error.into(),
        TransferError::Store(error) => error.into(),
        other => other.into(),
    }
}

/// A move of all rows, as `--json` prints it.
#[derive(Serialize)]
struct DatabaseMoveRecord {
    from: String,
    to: String,
    /// Tables in the order of copying, each with its rows and their digest, which both databases have. Empty where an earlier move
    /// had only to be ended.
    tables: Vec<TableDigest>,
    rows: u64,
    /// Texts in which the server has U+FFFD for NUL.
    replaced: ReplacedNul,
    /// `.secrets` names the new database.
    is_switched: bool,
    /// Steps that are left, as sentences.
    next: Vec<String>,
}

impl DatabaseMoveRecord {
    fn of_earlier(from: String, to: String) -> Self {
        Self {
            from,
            to,
            tables: Vec::new(),
            rows: 0,
            replaced: ReplacedNul::default(),
            is_switched: false,
            next: Vec::new(),
        }
    }
}

fn print(context: &CommandContext, record: &DatabaseMoveRecord) -> anyhow::Result<()> {
    if context.json() {
        return context.screen.json(record);
    }
    let what = match record.tables.len() {
        0 => "an earlier move is ended".to_owned(),
        tables => format!(
            "{} of {tables} tables moved, compared and audited",
            plural(record.rows, "row")
        ),
    };
    context
        .screen
        .line(format!("{what}: from {} to {}", record.from, record.to))?;
    if let Some(first) = &record.replaced.first {
        screen::remark(&format!(
            "{} had a NUL, which a server cannot store, and have U+FFFD there; the first is {first}",
            plural(record.replaced.texts, "text")
        ));
    }
    for step in &record.next {
        screen::hint(step);
    }
    Ok(())
}
