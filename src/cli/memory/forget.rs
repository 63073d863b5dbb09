//! `attache memory forget`: erases entries, what derives from them, and the records of runs that hold their text.

use super::{contact_of, entries};
use crate::cli::args::lookup::find_letter;
use crate::cli::args::{instant, persona_of, user};
use crate::cli::{CommandContext, Exit, refuse};
use crate::store::{ErasedMemory, MemoryFilter, RemainingText, Store, working_engine};
use crate::text::{plural, visible};
use clap::ArgGroup;

/// Most entries of one erasure.
const ENTRIES_MAX: u32 = 100_000;
/// Most entries that are shown before they go.
const SHOWN_MAX: usize = 20;

/// Erase entries for good: their text, and the recorded requests and answers that hold it
#[derive(clap::Args)]
#[command(
    after_help = "Digests stay, so `attache replay verify` says that a run was redacted. Letters, mails that were sent, backups, exports and \
                  the logs of model providers are not changed: the report says where the text still stands here.",
    group = ArgGroup::new("which").args(["id", "contact", "message", "since"]).required(true)
)]
pub struct ForgetMemory {
    /// These entries, by id or the end of one
    #[arg(long, num_args = 1..)]
    id: Vec<String>,
    /// All entries about this correspondent, in every state
    #[arg(long, value_name = "ADDRESS")]
    contact: Option<String>,
    /// All entries that rest on this letter, in every state
    #[arg(long, value_name = "ID")]
    message: Option<String>,
    /// All entries written since this day or instant, in every state
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only this persona's
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
    /// Do it, where --contact or --since name more than one entry
    #[arg(long)]
    yes: bool,
}

impl ForgetMemory {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.store_of_engine().await?;
        let is_wide = self.contact.is_some() || self.since.is_some();
        let (is_dry, is_meant) = (self.dry_run, self.yes);
        let ids = self.entries(context, &store).await?;
        if is_dry || (is_wide && !is_meant) {
            let found = store.erasable_memory(&ids).await?;
            if is_dry || found.entries > 1 {
                return foretell(context, &found, is_dry);
            }
        }
        let runs_ended = redact_ended(&store).await?;
        let mut erased = ErasedMemory {
            runs_ended,
            ..store.erase_memory(&ids, &user()).await?
        };
        let mut exit = Exit::Ok;
        // Beside an engine the file would be held for as long as it is written.
        if working_engine(&context.workspace).is_none() {
            match store.rewrite_file().await {
                Ok(is_rewritten) => erased.is_rewritten = is_rewritten,
                // The entries are gone all the same, and only this report says where they still stand.
                Err(error) => {
                    erased.not_rewritten = Some(error.to_string());
                    exit = Exit::TryAgain;
                }
            }
        }
        match context.json() {
            true => context.screen.json(&erased)?,
            false => report(context, &erased)?,
        }
        Ok(exit)
    }

    /// Returns the entries that are named, rest on a letter, were written since an instant, or are about a correspondent.
    async fn entries(self, context: &CommandContext, store: &Store) -> anyhow::Result<Vec<String>> {
        if !self.id.is_empty() {
            let mut ids = Vec::new();
            for piece in &self.id {
                ids.push(super::found(store, piece).await?.entry.id);
            }
            return Ok(ids);
        }
        let persona = persona_of(context, store, self.persona).await?;
        let (ids, none) = if let Some(letter) = &self.message {
            let letter = find_letter(store, letter).await?;
            let ids = store.memory_of_message(&letter, persona.as_ref()).await?;
            (ids, "there is no entry that rests on this letter")
        } else if let Some(since) = &self.since {
            let ids = store
                .memory_since(instant(since)?, persona.as_ref())
                .await?;
            (ids, "there is no entry that was written since then")
        } else {
            let filter = MemoryFilter {
                after: None,
                persona,
                status: None,
                contact: contact_of(self.contact)?,
                limit: ENTRIES_MAX,
            };
            let found = store.memory_entries(&filter).await?;
            let ids = found.into_iter().map(|entry| entry.id).collect();
            (ids, "there is no entry about this correspondent")
        };
        match ids.is_empty() {
            true => refuse(
                Exit::NoInput,
                none,
                "`attache memory list --all` shows entries, and `attache memory show` what each rests on",
            ),
            false => Ok(ids),
        }
    }
}

/// Says what would go.
fn foretell(context: &CommandContext, found: &ErasedMemory, is_dry: bool) -> anyhow::Result<Exit> {
    let screen = &context.screen;
    if context.json() {
        screen.json(found)?;
        return Ok(Exit::Ok);
    }
    screen.line(format!(
        "would be erased: {}, with what derives from them; redacted: the requests and answers of {}, {}",
        entries(found.entries),
        plural(found.runs, "run"),
        plural(found.steps, "step"),
    ))?;
    for entry in found.would_go.iter().take(SHOWN_MAX) {
        screen.line(format!("  {} {}", entry.id, visible(&entry.text)))?;
    }
    if found.would_go.len() > SHOWN_MAX {
        let more = found.would_go.len() - SHOWN_MAX;
        screen.line(format!("  and {more} more; `--json` has all"))?;
    }
    if found.summaries > 0 {
        screen.line(format!(
            "and {} of threads in which the letters stand",
            summaries(found.summaries)
        ))?;
    }
    if found.runs_at_work > 0 {
        screen.line(format!(
            "and {} at work with the text, which are redacted when they have ended",
            plural(found.runs_at_work, "run")
        ))?;
    }
    for place in &found.remains {
        screen.line(format!("it would still stand in {}", rows_of(place)))?;
    }
    screen.line(match is_dry {
        true => "nothing was changed",
        false => "nothing was changed; say --yes to do it",
    })?;
    Ok(Exit::Ok)
}

/// Redacts the runs of earlier erasures that have ended since; returns their number.
async fn redact_ended(store: &Store) -> anyhow::Result<usize> {
    let mut redacted = 0;
    loop {
        match store.redact_ended_runs().await? {
            0 => return Ok(redacted),
            runs => redacted += runs,
        }
    }
}

fn summaries(count: usize) -> String {
    match count {
        1 => "1 summary".to_owned(),
        count => format!("{count} summaries"),
    }
}

fn rows_of(place: &RemainingText) -> String {
    let rows = plural(place.rows, "row");
    format!("{rows} of `{}.{}`", place.table, place.column)
}

fn report(context: &CommandContext, erased: &ErasedMemory) -> anyhow::Result<()> {
    let screen = &context.screen;
    if erased.runs_ended > 0 {
        screen.line(format!(
            "redacted: {} that held what was erased before, and have ended since",
            plural(erased.runs_ended, "run")
        ))?;
    }
    match erased.entries {
        0 => screen.line("nothing left to erase: what was named was erased before")?,
        count => screen.line(format!(
            "erased: {}, with what derives from them; redacted: the requests and answers of {}, {}",
            entries(count),
            plural(erased.runs, "run"),
            plural(erased.steps, "step"),
        ))?,
    }
    if erased.summaries > 0 {
        screen.line(format!(
            "erased, too: {} of threads in which the letters stand; others are made when their threads go on",
            summaries(erased.summaries)
        ))?;
    }
    if erased.runs_at_work > 0 {
        screen.line(format!(
            "not yet: {} at work with the text, which are redacted when they have ended: by the engine within a minute, else by the next \
             `attache memory forget` or `attache gc`",
            plural(erased.runs_at_work, "run")
        ))?;
    }
    for place in &erased.remains {
        screen.line(format!("it still stands in {}", rows_of(place)))?;
    }
    if let Some(why) = &erased.not_rewritten {
        screen.line(format!(
            "the file was not written anew ({why}), so old pages may hold the text: make room for a second copy of the database beside it and \
             in the folder for temporary files, and run this again"
        ))?;
    } else if !erased.is_rewritten {
        screen.line(
            "the file was not written anew, because an engine or another program uses it: stop it and run this again, so that no old \
             page holds the text",
        )?;
    }
    screen.line(
        "not changed: letters and mails themselves, backups and exports, what model providers keep, and free blocks of the disk",
    )?;
    Ok(())
}
