//! `attache import PATH --persona ID`: letters of an archive become a persona's history. No run
//! starts and no sender is answered. Works beside a running engine, and again after it was killed.

use super::screen::progress;
use super::{CommandContext, Exit, Failure};
use crate::config::{Config, Persona};
use crate::domain::{Address, Letter, PersonaId, Via};
use crate::gateway::ingress::archive::{Archive, ArchiveEntry, Format};
use crate::gateway::ingress::folder::envelope_for_file;
use crate::gateway::intake::Intake;
use crate::gateway::intake::history::Archived;
use crate::gateway::intake_contract::{LetterIntake, Refusal};
use crate::store::{ArchivedWay, StoreError};
use clap::builder::PossibleValuesParser;
use futures_util::StreamExt;
use futures_util::stream;
use indicatif::ProgressBar;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Take an archive of letters as a persona's history, without answering any
#[derive(clap::Args)]
pub struct Import {
    /// An mbox file, a Maildir, a folder of .eml files, or one .eml file
    path: PathBuf,
    /// Whose history it is
    #[arg(long, value_name = "ID")]
    persona: String,
    /// How the letters lie on disk [default: what it looks like]
    #[arg(long, value_parser = PossibleValuesParser::new(Format::ALL.map(Format::as_str)))]
    format: Option<String>,
    /// Letters from this address are the persona's own, too; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    mailbox_owner: Vec<String>,
}

/// Maximum letters stored concurrently: they share commits.
const BURST_LETTERS_MAX: usize = 256;
/// Maximum bytes of letters in memory at once; a larger letter is stored alone.
const BURST_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Pause between two bursts, so that a running engine gets the write lock.
const BREATH: Duration = Duration::from_millis(15);
/// Maximum number of refused letters that are named one by one.
const REFUSED_NAMED_MAX: usize = 20;

/// Outcomes of the letters so far.
#[derive(Default)]
struct ImportTally {
    received: u64,
    own: u64,
    duplicates: u64,
    /// Number of letters for each reason of a refusal.
    refused: BTreeMap<String, u64>,
    /// The first refused letters: their position in the archive and the reason.
    named: Vec<(String, String)>,
}

impl Import {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        context.require_workspace()?;
        let config = Arc::new(context.config()?);
        let persona = named_persona(&config, &self.persona)?;
        let owners: Vec<Address> = self
            .mailbox_owner
            .iter()
            .map(|typed| address(typed))
            .collect::<Result<_, _>>()?;
        let archive = open(&self.path, self.format, config.limits.letter_bytes_max)?;
        let store = context.shared_store().await?;
        let intake = Intake::new(store, config.clone(), Arc::new(Notify::new()))?;
        // By bytes, because the number of letters in an mbox is unknown beforehand.
        let bar = progress::bytes(context, archive.total_bytes);
        let mut tally = ImportTally::default();
        let ended = file_all(archive, &intake, persona, &owners, &bar, &mut tally).await;
        bar.finish_and_clear();
        tell(context, &tally)?;
        ended?;
        Ok(if tally.refused.is_empty() {
            Exit::Ok
        } else {
            Exit::BadData
        })
    }
}

fn named_persona<'c>(config: &'c Config, named: &str) -> anyhow::Result<&'c Persona> {
    let found = PersonaId::parse(named)
        .ok()
        .and_then(|id| config.personas.get(&id));
    let unknown = || {
        let failure = Failure::new(Exit::NoInput, format!("no persona `{named}`"));
        failure.hint("`attache persona list` shows them").into()
    };
    found.ok_or_else(unknown)
}

fn address(typed: &str) -> anyhow::Result<Address> {
    Ok(Address::parse(typed).map_err(Failure::usage)?)
}

fn open(path: &Path, named: Option<String>, letter_bytes_max: usize) -> anyhow::Result<Archive> {
    let unreadable = |source: std::io::Error| {
        Failure::new(
            Exit::NoInput,
            format!("`{}` cannot be read", path.display()),
        )
        .because(source)
    };
    let named = Format::ALL
        .into_iter()
        .find(|format| Some(format.as_str()) == named.as_deref());
    let format = match named {
        Some(format) => format,
        None => Format::guess(path).map_err(unreadable)?,
    };
    Ok(Archive::open(path, format, letter_bytes_max).map_err(unreadable)?)
}

/// Files the letters, many at once; ends at the first fault that is not of a single letter.
async fn file_all(
    mut archive: Archive,
    intake: &Intake,
    persona: &Persona,
    owners: &[Address],
    bar: &ProgressBar,
    tally: &mut ImportTally,
) -> anyhow::Result<()> {
    loop {
        if !intake.has_room() {
            return Err(Failure::new(Exit::TryAgain, "there is no room for more letters").into());
        }
        let burst = gather(&mut archive)?;
        if burst.is_empty() {
            return Ok(());
        }
        let read_bytes: u64 = burst.iter().map(|entry| entry.archived_bytes).sum();
        let filing = burst.into_iter().map(|entry| async move {
            let ArchiveEntry {
                place,
                bytes,
                received_at,
                ..
            } = entry;
            let Some(bytes) = bytes else {
                return (place, None);
            };
            let letter = letter(bytes, received_at, intake, persona);
            (
                place,
                Some(intake.file_history(letter, persona, owners).await),
            )
        });
        let filed: Vec<_> = stream::iter(filing)
            .buffered(BURST_LETTERS_MAX)
            .collect()
            .await;
        for (place, outcome) in filed {
            tally.count(place, outcome)?;
        }
        bar.inc(read_bytes);
        bar.set_message(format!(
            "{} new, {} here already",
            tally.received + tally.own,
            tally.duplicates
        ));
        tokio::time::sleep(BREATH).await;
    }
}

fn gather(archive: &mut Archive) -> anyhow::Result<Vec<ArchiveEntry>> {
    let (mut burst, mut bytes) = (Vec::new(), 0);
    while burst.len() < BURST_LETTERS_MAX && bytes < BURST_BYTES_MAX {
        let Some(entry) = archive.next() else { break };
        let entry = entry.map_err(|source| {
            Failure::new(Exit::NoInput, "the archive cannot be read to its end").because(source)
        })?;
        bytes += entry.bytes.as_ref().map_or(0, Vec::len);
        burst.push(entry);
    }
    Ok(burst)
}

/// Builds the letter of a persona: an archive belongs to a persona and does not tell each letter's
/// recipients.
fn letter(
    bytes: Vec<u8>,
    received_at: Option<crate::domain::Timestamp>,
    intake: &dyn LetterIntake,
    persona: &Persona,
) -> Letter {
    let found = envelope_for_file(&bytes, intake, Some(&persona.address), Via::Import);
    let mail_from = found.and_then(|envelope| envelope.mail_from);
    Letter::from_history(bytes, mail_from, &persona.address, received_at)
}

impl ImportTally {
    /// Counts one outcome. Errors: the store accepts no letters now.
    fn count(
        &mut self,
        place: String,
        outcome: Option<Result<Archived, Refusal>>,
    ) -> anyhow::Result<()> {
        let counter = match outcome {
            Some(Ok(Archived::Stored(ArchivedWay::ToPersona))) => &mut self.received,
            Some(Ok(Archived::Stored(ArchivedWay::FromPersona))) => &mut self.own,
            Some(Ok(Archived::Duplicate)) => &mut self.duplicates,
            Some(Err(Refusal::NotStored(cause))) => return Err(stopped(cause)),
            Some(Err(refusal)) => {
                self.refuse(place, refusal.to_string());
                return Ok(());
            }
            None => {
                self.refuse(place, "larger than letters may be".to_owned());
                return Ok(());
            }
        };
        *counter += 1;
        Ok(())
    }

    fn refuse(&mut self, place: String, reason: String) {
        if self.named.len() < REFUSED_NAMED_MAX {
            self.named.push((place, reason.clone()));
        }
        *self.refused.entry(reason).or_default() += 1;
    }
}

fn stopped(cause: StoreError) -> anyhow::Error {
    let failure = Failure::new(Exit::TryAgain, "letters cannot be stored now");
    failure
        .hint("import the archive again: what is stored is not stored twice")
        .because(cause)
        .into()
}

fn tell(context: &CommandContext, tally: &ImportTally) -> anyhow::Result<()> {
    if context.json() {
        let refused: u64 = tally.refused.values().sum();
        let letters = tally
            .named
            .iter()
            .map(|(letter, why)| json!({ "letter": letter, "why": why }));
        return context.screen.json(&json!({
            "imported": tally.received + tally.own,
            "received": tally.received,
            "own": tally.own,
            "duplicates": tally.duplicates,
            "refused": refused,
            "refused_because": tally.refused,
            "refused_letters": letters.collect::<Vec<_>>(),
        }));
    }
    let (new, own) = (tally.received + tally.own, tally.own);
    context
        .screen
        .line(format!("imported    {new} ({own} by the persona itself)"))?;
    context
        .screen
        .line(format!("duplicates  {}", tally.duplicates))?;
    for (why, letters) in &tally.refused {
        context
            .screen
            .line(format!("refused     {letters}: {why}"))?;
    }
    for (place, why) in &tally.named {
        context.screen.line(format!("  {place}: {why}"))?;
    }
    Ok(())
}
