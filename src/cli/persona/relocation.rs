//! `attache persona move ID… --to WORKSPACE`: personas go to another cell, with everything.

use crate::cli::args::text;
use crate::cli::screen::progress;
use crate::cli::{CommandContext, Exit, Failure, name_catalog, screen};
use crate::clock::SystemClock;
use crate::domain::PersonaId;
use crate::store::{
    PersonaMove, PersonaMoveError, PersonaMovePreview, PersonaMoveReport, TransferError,
};
use crate::text::plural;
use clap::{Arg, ArgAction, ArgMatches};
use serde::Serialize;
use std::path::Path;

pub(super) fn move_command() -> clap::Command {
    clap::Command::new("move")
        .about("Move personas to another cell: the workspace of another engine")
        .after_help(
            "Rows, mails, memory, money that was spent, open runs, questions and drafts, and the folder go to the other workspace, whose \
             database may be a file or on a server. Both are compared before anything goes here. The engines of both cells must be \
             stopped; letters wait at the mail server meanwhile, whose table gets the new cell's address afterwards. A move that was \
             cut off is finished by the same command, and no engine starts in either cell before.",
        )
        .arg(
            Arg::new("ids")
                .value_name("ID")
                .required(true)
                .num_args(1..)
                .help("Names of their folders below `personas/`"),
        )
        .arg(
            Arg::new("to")
                .long("to")
                .value_name("WORKSPACE")
                .required_unless_present("cancel")
                .help("Folder of the other cell's workspace, as this machine sees it"),
        )
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .action(ArgAction::SetTrue)
                .conflicts_with("cancel")
                .help("Only show what would go along, and what would refuse it; engines may run"),
        )
        .arg(
            Arg::new("cancel")
                .long("cancel")
                .action(ArgAction::SetTrue)
                .conflicts_with("to")
                .help("Take a move back that was cut off before the persona's folder had left this workspace"),
        )
}

pub(super) async fn relocate(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let ids = args.get_many::<String>("ids").into_iter().flatten();
    let ids: Result<Vec<PersonaId>, Failure> = ids.map(|id| persona_id(id)).collect();
    let ids = ids?;
    if args.get_flag("cancel") {
        return cancel(context, &ids).await;
    }
    let to = Path::new(text(args, "to"));
    if !to.join("configs").is_dir() {
        let message = format!("`{}` is no workspace", to.display());
        let failure = Failure::new(Exit::Usage, message);
        return Err(failure
            .hint("name the folder of the other cell's workspace; `attache init` makes one")
            .into());
    }
    match args.get_flag("dry-run") {
        true => preview(context, &ids, to).await,
        false => carry_out(context, &ids, to).await,
    }
}

fn persona_id(id: &str) -> Result<PersonaId, Failure> {
    PersonaId::parse(id).map_err(|error| {
        Failure::new(Exit::Usage, format!("`{id}` is no name of a persona")).because(error)
    })
}

async fn carry_out(context: &CommandContext, ids: &[PersonaId], to: &Path) -> anyhow::Result<Exit> {
    let (names, clock) = (name_catalog(), SystemClock::new());
    let workspace = context.find_workspace()?;
    let mut reports = Vec::new();
    for persona in ids {
        let doing = progress::spinner(context, format!("moving `{persona}`"));
        let moved = PersonaMove::carry_out((workspace, to), persona, &names, &clock).await;
        doing.finish_and_clear();
        let report = moved.map_err(|error| refusal(error, persona, &reports))?;
        if !context.json() {
            context.screen.line(line_of(&report))?;
        }
        reports.push(report);
    }
    if context.json() {
        context.screen.json(&reports)?;
        return Ok(Exit::Ok);
    }
    Ok(Exit::Ok)
}

fn line_of(report: &PersonaMoveReport) -> String {
    let PersonaMoveReport {
        persona, from, to, ..
    } = report;
    match report.tables.is_empty() {
        true => format!("{persona}: an earlier move is ended: from `{from}` to `{to}`"),
        false => format!(
            "{persona}: {} of {} and {} moved and compared: from `{from}` to `{to}`",
            plural(report.rows, "row"),
            plural(report.tables.len() as u64, "table"),
            plural(report.folder.files, "file"),
        ),
    }
}

async fn preview(context: &CommandContext, ids: &[PersonaId], to: &Path) -> anyhow::Result<Exit> {
    let (names, workspace) = (name_catalog(), context.find_workspace()?);
    let mut previews = Vec::new();
    for persona in ids {
        let read = PersonaMovePreview::read((workspace, to), persona, &names).await;
        previews.push(read.map_err(|error| refusal(error, persona, &[]))?);
    }
    let is_refused = previews.iter().any(|preview| !preview.refusals.is_empty());
    let exit = if is_refused { Exit::Failed } else { Exit::Ok };
    if context.json() {
        context.screen.json(&previews)?;
        return Ok(exit);
    }
    for preview in &previews {
        print_preview(context, preview)?;
    }
    Ok(exit)
}

fn print_preview(context: &CommandContext, preview: &PersonaMovePreview) -> anyhow::Result<()> {
    context.screen.line(format!(
        "{}: {} with {} bytes, {} with {} bytes, {} would go to `{}`",
        preview.persona,
        plural(preview.mails, "mail"),
        preview.mail_bytes,
        plural(preview.folder.files, "file"),
        preview.folder.bytes,
        plural(preview.rows, "row"),
        preview.to,
    ))?;
    let rows: Vec<Vec<String>> = preview
        .tables
        .iter()
        .map(|count| vec![count.table.to_owned(), count.rows.to_string()])
        .collect();
    if !rows.is_empty() {
        context.screen.table(&["TABLE", "ROWS"], &rows)?;
    }
    for refusal in &preview.refusals {
        screen::remark(&format!("it would be refused: {refusal}"));
    }
    Ok(())
}

async fn cancel(context: &CommandContext, ids: &[PersonaId]) -> anyhow::Result<Exit> {
    let (clock, workspace) = (SystemClock::new(), context.find_workspace()?);
    let mut records = Vec::new();
    for persona in ids {
        let cancelled = PersonaMove::cancel(workspace, persona, &clock).await;
        let to = cancelled.map_err(|error| refusal(error, persona, &[]))?;
        if !context.json() {
            context
                .screen
                .line(format!("{persona}: the move to `{to}` is taken back"))?;
        }
        records.push(CancelledMove {
            persona: persona.to_string(),
            to,
        });
    }
    match context.json() {
        true => context.screen.json(&records),
        false => Ok(()),
    }?;
    Ok(Exit::Ok)
}

/// A move that was taken back, as `--json` prints it.
#[derive(Serialize)]
struct CancelledMove {
    persona: String,
    to: String,
}

/// Chooses exit code and hint.
fn refusal(
    error: PersonaMoveError,
    persona: &PersonaId,
    moved: &[PersonaMoveReport],
) -> anyhow::Error {
    let (exit, hint) = match &error {
        PersonaMoveError::Unknown { .. } => (Exit::NoInput, "`attache persona list` shows them".to_owned()),
        PersonaMoveError::SamePlace { .. } => (
            Exit::Usage,
            "name the workspace of the other cell with --to; ATTACHE_DATABASE_URL in the environment would be the database of both"
                .to_owned(),
        ),
        PersonaMoveError::Exists { .. } => (
            Exit::CannotCreate,
            "a persona keeps its name: rename the one that is there, or move it first".to_owned(),
        ),
        PersonaMoveError::Config { .. } => (
            Exit::BadData,
            "change the files of the target; `attache config check` there checks them".to_owned(),
        ),
        PersonaMoveError::InHand { .. } => (
            Exit::TryAgain,
            "`attache drain` in this workspace finishes what an engine had begun, or puts it back".to_owned(),
        ),
        PersonaMoveError::ErasureOpen => (
            Exit::TryAgain,
            "end it first, by the same `attache erase`".to_owned(),
        ),
        PersonaMoveError::OtherMove { persona, place } => (
            Exit::Workspace,
            format!("`attache persona move {persona} --to {place}` ends it, from the workspace where it was begun"),
        ),
        PersonaMoveError::NothingToCancel { .. } => (
            Exit::NoInput,
            "a move that has ended is undone by a move back".to_owned(),
        ),
        PersonaMoveError::TooFar { persona, place } => (
            Exit::Failed,
            format!("`attache persona move {persona} --to {place}` ends it; from there it can be moved back"),
        ),
        PersonaMoveError::Folder { .. } => (
            Exit::TryAgain,
            "see to the folder, and give the same command again".to_owned(),
        ),
        PersonaMoveError::FolderDiffers { .. } => (
            Exit::TryAgain,
            "something changes its files meanwhile: stop it, and give the same command again".to_owned(),
        ),
        PersonaMoveError::Rows(_) => return of_rows(error),
    };
    let message = match moved.len() {
        0 => format!("`{persona}` was not moved"),
        others => format!(
            "`{persona}` was not moved; {} before it",
            plural(others as u64, "persona")
        ),
    };
    Failure::new(exit, message).hint(hint).because(error).into()
}

/// Chooses exit code and hint for what concerns rows; an error of opening has its own.
fn of_rows(error: PersonaMoveError) -> anyhow::Error {
    let PersonaMoveError::Rows(rows) = error else {
        return error.into();
    };
    match rows {
        TransferError::Open(error) => error.into(),
        TransferError::Store(error) => error.into(),
        other => Failure::new(Exit::Broken, "the rows were not moved")
            .hint("all rows are in this cell as before; the same command begins anew, and `--cancel` takes it back")
            .because(other)
            .into(),
    }
}
