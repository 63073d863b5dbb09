//! `attache migrate protege DIR`: a workspace of Protege becomes ours. DIR is only read.
//!
//! - `source`: the folder, in bounds; `findings`: what does not come over as it is
//! - `settings`, `pipeline`, `personas`, `responsibilities`, `secrets`: its files
//! - `plan`: everything that would be written; `target`: what is here, and writing it
//! - `snapshot`: copies of its databases; `rows`, `addresses`, `letters`: rows as letters; `history`: letters as history
//! - `report`: what is told
//!
//! The layout is known from descriptions alone, so it is read tolerantly (D-124). Absent on purpose: runs of the past.

mod source;
mod findings;
mod settings;
mod personas;
mod pipeline;
mod responsibilities;
mod secrets;
mod plan;
mod target;
mod snapshot;
mod addresses;
mod rows;
mod letters;
mod history;
mod report;

use crate::cli::init::starter;
use crate::cli::process::protection;
use crate::cli::{CommandContext, Exit, Failure, name_catalog};
use crate::config::{Config, load_without_secrets};
use crate::gateway::intake::Intake;
use clap::ArgMatches;
use findings::{FindingKind, MigrationFindings};
use history::{HistoryTarget, MigratedLetters, ReadableHistory};
use personas::SourcePersona;
use plan::{MigrationPlan, OwnerWords};
use report::{MigratedPersona, ProtegeReport};
use snapshot::DatabaseCopy;
use source::SourceFolder;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use target::{MigratedFile, MigrationOutcome};
use tokio::sync::Notify;

/// A persona and the databases of its mail.
struct PersonaHistories {
    persona: SourcePersona,
    histories: Vec<ReadableHistory>,
}

pub(super) async fn migrate(context: &CommandContext, args: &ArgMatches) -> anyhow::Result<Exit> {
    let source = open(context, args)?;
    snapshot::remove_left_copies();
    let owners = args.get_many::<String>("owner").into_iter().flatten();
    let words = OwnerWords {
        domain: args.get_one::<String>("domain").map(String::as_str),
        owners: owners.cloned().collect(),
    };
    let mut findings = MigrationFindings::default();
    let plan = plan::plan(&source, &context.workspace, &words, &mut findings)?;
    let mut histories = histories(&source, &plan, &mut findings).await?;
    let files = target::compare(&context.workspace, &plan.files, &mut findings)?;
    let (secrets, secrets_text) =
        target::compare_secrets(&context.workspace, &plan.secrets, &mut findings)?;
    let mut report = ProtegeReport {
        dry_run: args.get_flag("dry-run"),
        personas: Vec::new(),
        files,
        secrets,
        findings: Vec::new(),
    };
    report::tell_files(context, &report)?;
    if !report.dry_run {
        if report
            .secrets
            .iter()
            .any(|secret| secret.outcome == MigrationOutcome::Written)
        {
            let written = target::write_secrets(&context.workspace, &secrets_text);
            written.map_err(|error| cannot_write(target::SECRETS, error))?;
        }
        write(context, &plan, &report.files)?;
    }
    let intake = match report.dry_run || plan.personas.is_empty() {
        true => None,
        false => Some(history_intake(context).await?),
    };
    for of_persona in &mut histories {
        let intake = intake
            .as_ref()
            .map(|(intake, config)| (intake, config.as_ref()));
        let letters = take(&source, of_persona, intake, &mut findings).await?;
        report
            .personas
            .push(MigratedPersona::of(&of_persona.persona, letters));
    }
    let has_broken = findings.has_broken();
    report.findings = findings.0;
    report::tell_end(context, &report)?;
    Ok(if has_broken { Exit::BadData } else { Exit::Ok })
}

/// The intake of the workspace, beside a working engine or without one.
async fn history_intake(context: &CommandContext) -> anyhow::Result<(Intake, Arc<Config>)> {
    let config = Arc::new(load_without_secrets(&context.workspace, &name_catalog())?);
    let store = context.shared_store().await?;
    let intake = Intake::new(store, config.clone(), Arc::new(Notify::new()))?;
    Ok((intake, config))
}

/// Opens the folder, unless it is no workspace of Protege, or one of ours.
fn open(context: &CommandContext, args: &ArgMatches) -> Result<SourceFolder, Failure> {
    let path = args
        .get_one::<PathBuf>("dir")
        .map_or(Path::new("."), PathBuf::as_path);
    let source = SourceFolder::open(path)?;
    let shown = path.display();
    let is_theirs = source.is_folder("personas") && source.is_folder("configs");
    if !is_theirs {
        let failure = Failure::new(
            Exit::NoInput,
            format!(
                "`{shown}` is no workspace of Protege: it has no folders `configs` and `personas`"
            ),
        );
        return Err(failure.hint("name the folder in which Protege's `configs` lies"));
    }
    if source.is_file("data/attache.db") || source.is_folder("configs/schema") {
        let failure = Failure::new(
            Exit::NoInput,
            format!("`{shown}` is a workspace of Attaché"),
        );
        return Err(
            failure.hint("DIR is Protege's folder; the workspace to write to is --workspace")
        );
    }
    // The workspace may not exist yet; the folder above it tells where it will be.
    let workspace = &context.workspace;
    let there = workspace
        .ancestors()
        .find_map(|folder| Some((folder.canonicalize().ok()?, folder)));
    let whole = there
        .map(|(real, folder)| real.join(workspace.strip_prefix(folder).unwrap_or(Path::new(""))));
    let whole = whole.unwrap_or_else(|| workspace.clone());
    if whole.starts_with(&source.path) || source.path.starts_with(&whole) {
        let failure = Failure::new(
            Exit::Usage,
            "the workspace and the folder of Protege lie in each other",
        );
        return Err(failure.hint("name another folder with --workspace; DIR is only read"));
    }
    protection::refuse_root(workspace)?;
    Ok(source)
}

/// Copies and opens every database. Errors: one is in use.
async fn histories(
    source: &SourceFolder,
    plan: &MigrationPlan,
    findings: &mut MigrationFindings,
) -> anyhow::Result<Vec<PersonaHistories>> {
    let mut all = Vec::new();
    for persona in &plan.personas {
        let mut places = snapshot::of_persona(source, persona);
        if let [_] = plan.personas.as_slice() {
            places.extend(snapshot::of_nobody(source));
        }
        let mut histories = Vec::new();
        for place in places {
            let copied = copy(source, &place, findings)?;
            if let Some(copy) = copied {
                histories.extend(history::open(copy, findings).await);
            }
        }
        if histories.is_empty() {
            let place = format!("memory/{}", persona.folder);
            findings.add(
                FindingKind::Changed,
                place,
                "no database of its mail was found",
                "it begins without a history",
            );
        }
        all.push(PersonaHistories {
            persona: persona.clone(),
            histories,
        });
    }
    for place in snapshot::of_others(source, &plan.personas) {
        findings.broken(
            &place,
            "lies in the folder of no persona that comes over: its mail was left out",
        );
    }
    if plan.personas.len() != 1 {
        for place in snapshot::of_nobody(source) {
            findings.broken(
                &place,
                "lies in no persona's folder, so that whose mail it holds is not known",
            );
        }
    }
    Ok(all)
}

fn copy(
    source: &SourceFolder,
    place: &str,
    findings: &mut MigrationFindings,
) -> Result<Option<DatabaseCopy>, Failure> {
    Ok(match snapshot::copy(source, place)? {
        Ok(copy) => Some(copy),
        Err(what) => {
            findings.broken(place, what);
            None
        }
    })
}

fn cannot_write(path: &str, source: std::io::Error) -> Failure {
    Failure::new(Exit::CannotCreate, format!("cannot write `{path}`"))
        .hint("mend it, and say the command again: it goes on where it stopped")
        .because(source)
}

/// Writes the files that are not here; the one that makes a folder a workspace comes last.
fn write(
    context: &CommandContext,
    plan: &MigrationPlan,
    files: &[MigratedFile],
) -> Result<(), Failure> {
    let mut new: Vec<&MigratedFile> = files
        .iter()
        .filter(|file| file.outcome == MigrationOutcome::Written)
        .collect();
    new.sort_by_key(|file| file.path == starter::LAST);
    for MigratedFile { path, .. } in new {
        let content = plan.files.get(path).map(Vec::as_slice).unwrap_or_default();
        let written = target::write_new(&context.workspace.join(path), content);
        written.map_err(|error| cannot_write(path, error))?;
    }
    for SourcePersona { id, .. } in &plan.personas {
        for folder in ["knowledge", "responsibilities"] {
            let path = format!("personas/{id}/{folder}");
            let made = std::fs::create_dir_all(context.workspace.join(&path));
            made.map_err(|error| cannot_write(&path, error))?;
        }
    }
    Ok(())
}

/// Stores a persona's letters; without an intake its rows are only counted.
async fn take(
    source: &SourceFolder,
    of_persona: &mut PersonaHistories,
    intake: Option<(&Intake, &Config)>,
    findings: &mut MigrationFindings,
) -> anyhow::Result<MigratedLetters> {
    let mut letters = MigratedLetters::default();
    for history in &mut of_persona.histories {
        let Some((intake, config)) = intake else {
            letters.rows += history.rows().await?;
            continue;
        };
        let Some(persona) = config.personas.get(&of_persona.persona.id) else {
            continue;
        };
        let target = HistoryTarget {
            intake,
            persona,
            letter_bytes_max: config.limits.letter_bytes_max as u64,
        };
        history
            .take(
                source,
                &of_persona.persona,
                &target,
                (&mut letters, findings),
            )
            .await?;
    }
    Ok(letters)
}
