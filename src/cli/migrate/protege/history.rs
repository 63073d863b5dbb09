//! Letters of the other program's databases become history: stored, never answered, never sent.

use super::findings::{FindingKind, MigrationFindings};
use super::letters::{HistoricLetter, LetterSource};
use super::personas::SourcePersona;
use super::rows::{
    AT, DIRECTION, ProtegeMessage, RAW_PATH, RowDirection, TEXT, THREAD, ThreadsSoFar,
};
use super::snapshot::DatabaseCopy;
use super::source::SourceFolder;
use crate::cli::{Exit, Failure};
use crate::config::Persona;
use crate::domain::{Address, Letter};
use crate::gateway::intake::Intake;
use crate::gateway::intake::history::Archived;
use crate::gateway::intake_contract::{LetterIntake, Refusal};
use crate::store::{ArchivedWay, ForeignDatabase, ForeignDatabaseError, ForeignRow};
use crate::text::{plural, with_causes};
use futures_util::StreamExt;
use futures_util::stream;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// The newest migration of the other program that is known here.
const MIGRATION_MAX: u64 = 5;
/// Letters that are stored together, so that they share commits.
const BURST_LETTERS_MAX: usize = 64;
/// Pause between two pages, so that a working engine gets the write lock.
const BREATH: Duration = Duration::from_millis(5);
const MESSAGES: &str = "messages";
/// Columns without which a row tells nothing, each by its names.
const NEEDED: [&[&str]; 3] = [&DIRECTION, &THREAD, &AT];
/// Most rows of a database that are named one by one.
const ROWS_NAMED_MAX: usize = 50;
/// Tables of which nothing comes over, and why.
const WITHOUT_COUNTERPART: [(&str, &str); 7] = [
    (
        "thread_tool_events",
        "calls of tools belong to runs that can be executed again here, and these cannot; the letters hold what came of them",
    ),
    (
        "thread_memory_states",
        "summaries are made anew here, from the letters, where `thread-summary` is a step of configs/context.json",
    ),
    (
        "thread_memory_state",
        "summaries are made anew here, from the letters, where `thread-summary` is a step of configs/context.json",
    ),
    (
        "persona_memory_synthesis_state",
        "memory is entries with sources here; active.md came over",
    ),
    (
        "responsibility_runs",
        "runs of the past cannot be executed again here",
    ),
    (
        "responsibilities",
        "the files of the responsibilities came over, and are rows again when the engine reads them",
    ),
    ("jobs", "work that was waiting is not taken up"),
];

/// Counts of a persona's letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct MigratedLetters {
    /// Rows in the other database.
    pub rows: u64,
    /// Letters to the persona that are new here.
    pub received: u64,
    /// Letters of the persona that are new here.
    pub own: u64,
    /// Letters that are here already.
    pub duplicates: u64,
    /// Rows of which no letter could be made.
    pub refused: u64,
    /// Rows without words.
    pub empty: u64,
    /// Prompts of schedules, which are no letters.
    pub synthetic: u64,
}

/// A database that can be read.
pub struct ReadableHistory {
    pub copy: DatabaseCopy,
    database: ForeignDatabase,
    columns: Vec<String>,
}

/// Where the letters of a persona go.
pub struct HistoryTarget<'a> {
    pub intake: &'a Intake,
    pub persona: &'a Persona,
    /// Bytes of the largest letter that is taken.
    pub letter_bytes_max: u64,
}

/// Opens a copy. `None`: it holds no mail that can be read, and the reason is named.
pub async fn open(copy: DatabaseCopy, findings: &mut MigrationFindings) -> Option<ReadableHistory> {
    let place = copy.place.clone();
    let opened = match readable(copy).await {
        Ok(readable) => without_counterpart(readable, findings)
            .await
            .map_err(|error| broken(&error)),
        Err(what) => Err(what),
    };
    opened
        .inspect_err(|what| {
            let remedy =
                "nothing was taken of its mail; mend or replace it, and say the command again";
            findings.add(FindingKind::Broken, place, what, remedy);
        })
        .ok()
}

fn broken(error: &ForeignDatabaseError) -> String {
    format!("the database cannot be read: {}", with_causes(error))
}

/// Opens a copy whose letters can be read. Errors: what it lacks.
async fn readable(copy: DatabaseCopy) -> Result<ReadableHistory, String> {
    let mut database = ForeignDatabase::open(&copy.file())
        .await
        .map_err(|error| broken(&error))?;
    let tables = database.tables().await.map_err(|error| broken(&error))?;
    if !tables.iter().any(|table| table == MESSAGES) {
        return Err("has no table `messages`: it is no database of Protege".to_owned());
    }
    let newest = newest_migration(&mut database, &tables)
        .await
        .map_err(|error| broken(&error))?;
    if newest > MIGRATION_MAX {
        return Err(format!(
            "its migration {newest:04} is unknown here; the newest known one is {MIGRATION_MAX:04}"
        ));
    }
    let columns = database
        .columns(MESSAGES)
        .await
        .map_err(|error| broken(&error))?;
    let has = |names: &[&str]| {
        names
            .iter()
            .any(|name| columns.iter().any(|column| column == name))
    };
    if let Some(names) = NEEDED.iter().find(|names| !has(names)) {
        return Err(format!(
            "`messages` has no column `{}`",
            names.join("` or `")
        ));
    }
    if !has(&TEXT) && !has(&RAW_PATH) {
        return Err("`messages` has no column of texts or of raw letters".to_owned());
    }
    Ok(ReadableHistory {
        copy,
        database,
        columns,
    })
}

/// Names the tables of which nothing comes over.
async fn without_counterpart(
    mut history: ReadableHistory,
    findings: &mut MigrationFindings,
) -> Result<ReadableHistory, ForeignDatabaseError> {
    let tables = history.database.tables().await?;
    for (table, why) in WITHOUT_COUNTERPART
        .into_iter()
        .filter(|(table, _)| tables.iter().any(|there| there == table))
    {
        let rows = history.database.count(table).await?;
        if rows > 0 {
            let what = format!("{} without a counterpart", plural(rows, "row"));
            let place = format!("{}: {table}", history.copy.place);
            findings.add(
                FindingKind::NoCounterpart,
                place,
                what,
                format!("{why}; keep the database if you need them"),
            );
        }
    }
    Ok(history)
}

/// The number of the newest migration that a table of migrations names; 0 where there is none.
async fn newest_migration(
    database: &mut ForeignDatabase,
    tables: &[String],
) -> Result<u64, ForeignDatabaseError> {
    const NAMES: [&str; 6] = [
        "version",
        "name",
        "filename",
        "migration",
        "migration_id",
        "id",
    ];
    let mut newest = 0;
    for table in tables.iter().filter(|table| table.contains("migration")) {
        let columns = database.columns(table).await?;
        let mut behind = None;
        loop {
            let rows = database.page(table, &columns, behind).await?;
            let Some(last) = rows.last() else { break };
            behind = Some(last.rowid);
            for row in &rows {
                let numbers = NAMES.iter().filter_map(|name| row.text(&[name]));
                let digits = |text: &str| {
                    text.chars()
                        .take_while(char::is_ascii_digit)
                        .collect::<String>()
                };
                let number = numbers
                    .filter_map(|text| digits(text).parse::<u64>().ok())
                    .next();
                newest = newest.max(number.unwrap_or_default());
            }
        }
    }
    Ok(newest)
}

impl ReadableHistory {
    /// Number of rows of mail.
    pub async fn rows(&mut self) -> anyhow::Result<u64> {
        Ok(self.database.count(MESSAGES).await?)
    }

    /// Stores the letters. Errors: the store takes none now.
    pub async fn take(
        &mut self,
        source: &SourceFolder,
        persona: &SourcePersona,
        target: &HistoryTarget<'_>,
        (letters, findings): (&mut MigratedLetters, &mut MigrationFindings),
    ) -> anyhow::Result<()> {
        let place = self.copy.place.clone();
        let letter_source = LetterSource {
            folder: source,
            persona,
            database: &place,
            bytes_max: target.letter_bytes_max,
        };
        let mut threads = ThreadsSoFar::default();
        let (mut behind, mut named) = (None, MigrationFindings::default());
        loop {
            let rows = self.database.page(MESSAGES, &self.columns, behind).await?;
            let Some(last) = rows.last() else { break };
            behind = Some(last.rowid);
            let mut burst = Vec::new();
            for row in &rows {
                letters.rows += 1;
                let found = letter_of(row, &letter_source, &mut threads, &mut named, letters);
                burst.extend(found);
            }
            store(burst, persona, target, (letters, &mut named)).await?;
            tokio::time::sleep(BREATH).await;
        }
        bounded(named, &place, findings);
        Ok(())
    }
}

/// The letter of a row and the row's name; a row without one is counted, and named where that is a fault.
fn letter_of(
    row: &ForeignRow,
    source: &LetterSource<'_>,
    threads: &mut ThreadsSoFar,
    named: &mut MigrationFindings,
    letters: &mut MigratedLetters,
) -> Option<(String, HistoricLetter)> {
    let message = match ProtegeMessage::read(row) {
        Ok(message) => message,
        Err(what) => {
            letters.refused += 1;
            named.broken(
                &format!("{}: messages, row {}", source.database, row.rowid),
                what,
            );
            return None;
        }
    };
    if message.direction == RowDirection::Synthetic {
        letters.synthetic += 1;
        return None;
    }
    if message.is_empty() {
        letters.empty += 1;
        return None;
    }
    let place = format!("{}: messages, {}", source.database, message.name());
    match source.letter(&message, threads, named) {
        Ok(found) => Some((place, found)),
        Err(what) => {
            letters.refused += 1;
            named.broken(&place, what);
            None
        }
    }
}

async fn store(
    burst: Vec<(String, HistoricLetter)>,
    persona: &SourcePersona,
    target: &HistoryTarget<'_>,
    (letters, named): (&mut MigratedLetters, &mut MigrationFindings),
) -> anyhow::Result<()> {
    if !target.intake.has_room() {
        return Err(Failure::new(Exit::TryAgain, "there is no room for more letters").into());
    }
    let owners: Vec<Address> = persona
        .addresses()
        .chain(&persona.former)
        .cloned()
        .collect();
    let owners = &owners;
    let filing = burst.into_iter().map(|(place, found)| async move {
        let to = &target.persona.address;
        let letter = Letter::of_history(found.bytes, found.sender, to, found.at);
        (
            place,
            target
                .intake
                .file_history(letter, target.persona, owners)
                .await,
        )
    });
    let filed: Vec<_> = stream::iter(filing)
        .buffered(BURST_LETTERS_MAX)
        .collect()
        .await;
    for (place, outcome) in filed {
        match outcome {
            Ok(Archived::Stored(ArchivedWay::ToPersona)) => letters.received += 1,
            Ok(Archived::Stored(ArchivedWay::FromPersona)) => letters.own += 1,
            Ok(Archived::Duplicate) => letters.duplicates += 1,
            Err(Refusal::NotStored(cause)) => {
                let failure = Failure::new(Exit::TryAgain, "letters cannot be stored now");
                let hint = "say the command again: what is stored is not stored twice";
                return Err(failure.hint(hint).because(cause).into());
            }
            Err(refusal) => {
                letters.refused += 1;
                named.broken(&place, refusal.to_string());
            }
        }
    }
    Ok(())
}

/// Names the first rows, and counts the others.
fn bounded(named: MigrationFindings, place: &str, findings: &mut MigrationFindings) {
    let more = named.0.len().saturating_sub(ROWS_NAMED_MAX);
    findings.0.extend(named.0.into_iter().take(ROWS_NAMED_MAX));
    if more > 0 {
        findings.broken(
            place,
            format!("{} more are not named", plural(more, "fault")),
        );
    }
}
