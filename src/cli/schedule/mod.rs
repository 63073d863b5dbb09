//! `attache schedule`: the scheduled work of personas; one file per subcommand.
//!
//! Every subcommand first brings the rows in line with the files, so that its output matches what
//! the engine will do, running or not.
//!
//! | file | subject |
//! | --- | --- |
//! | `list` | responsibilities with their next slots |
//! | `show` | one responsibility with its options and slots |
//! | `next`, `calendar` | future slots, in order or by day |
//! | `history` | past slots and what became of them |
//! | `run` | starts a responsibility out of turn |
//! | `pause`, `resume` | stops a responsibility and lets it go on |
//! | `validate` | checks a file before it is put into place |
//!
//! Absent on purpose: cron and slots, which `scheduler` computes.

mod list;
mod show;
mod next;
mod calendar;
mod history;
mod run;
mod pause;
mod resume;
mod validate;

use super::args::persona_of;
use super::{Command, CommandContext, Exit, Failure, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::Personas;
use crate::domain::{PausedBy, PersonaId, ResponsibilityId, Timestamp};
use crate::scheduler::Scheduler;
use crate::scheduler::schedule_file::WorkspaceNames;
use crate::scheduler::schedule_file::timing::{Timing, local_text};
use crate::store::{Store, StoredResponsibility};
use crate::tools;
use clap::{Arg, ArgMatches, value_parser};
use futures_util::future::BoxFuture;
use serde::Serialize;
use std::sync::Arc;

pub struct ScheduleCommand;

/// Every subcommand, in the order of `--help`.
static SUBCOMMANDS: &[&dyn Command] = &[
    // Future slots.
    &list::List,
    &show::ScheduleShow,
    &next::ScheduleNext,
    &calendar::Calendar,
    // Past slots.
    &history::History,
    // Actions.
    &run::ScheduleRun,
    &pause::Pause,
    &resume::Resume,
    &validate::Validate,
];

impl Command for ScheduleCommand {
    fn clap(&self) -> clap::Command {
        clap::Command::new("schedule")
            .about("Show, start, pause and check responsibilities")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(SUBCOMMANDS.iter().map(|command| command.clap()))
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        let found = args.subcommand().and_then(|(name, args)| {
            let found = SUBCOMMANDS
                .iter()
                .find(|command| command.clap().get_name() == name);
            found.map(|command| (command, args))
        });
        match found {
            Some((command, args)) => command.run(context, args),
            None => Box::pin(async { Ok(Exit::Usage) }),
        }
    }
}

fn subcommand(name: &'static str, about: &'static str) -> clap::Command {
    let persona = Arg::new("persona")
        .long("persona")
        .value_name("ID")
        .help("Only this persona's");
    clap::Command::new(name).about(about).arg(persona)
}

fn name_arg() -> Arg {
    Arg::new("name")
        .value_name("NAME")
        .help("Name of a responsibility, or of its file")
}

fn count_arg(long: &'static str, most: i64, default: &'static str, help: &'static str) -> Arg {
    let number = value_parser!(i64).range(1..=most);
    Arg::new(long)
        .long(long)
        .value_name("N")
        .value_parser(number)
        .default_value(default)
        .help(help)
}

fn count(args: &ArgMatches, long: &str) -> usize {
    args.get_one::<i64>(long)
        .map_or(0, |count| usize::try_from(*count).unwrap_or_default())
}

/// Data of every subcommand: the rows, brought in line with the files.
struct ScheduleContext<'a> {
    context: &'a CommandContext,
    store: Store,
    scheduler: Scheduler,
    clock: Arc<dyn Clock>,
}

impl<'a> ScheduleContext<'a> {
    async fn open(context: &'a CommandContext) -> anyhow::Result<Self> {
        context.require_workspace()?;
        let config = context.config()?;
        let names = WorkspaceNames::of(&config, tools::of_config(&config).names());
        let personas: Arc<Personas> = Arc::new(config.personas);
        let store = context.shared_store().await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let scheduler = Scheduler::new(store.clone(), personas, names, clock.clone());
        match store.is_read_only() {
            true => screen::remark(
                "nothing can be written here: this is what the files said when an engine last read them",
            ),
            false => drop(scheduler.sync().await?),
        }
        Ok(Self {
            context,
            store,
            scheduler,
            clock,
        })
    }

    /// Responsibilities with existing files, of one persona or of all; of one name when it is
    /// given.
    async fn chosen(&self, args: &ArgMatches) -> anyhow::Result<Vec<StoredResponsibility>> {
        let persona = persona_of(self.context, &self.store, args).await?;
        let name = args.try_get_one::<String>("name").ok().flatten();
        let mut rows = self.store.responsibilities().await?;
        rows.retain(|row| {
            row.removed_at.is_none() && persona.as_ref().is_none_or(|id| row.persona == *id)
        });
        let names: Vec<String> = rows.iter().map(|row| format!("`{}`", row.name)).collect();
        rows.retain(|row| name.is_none_or(|name| is_called(row, name)));
        match name {
            Some(name) if rows.is_empty() => {
                let failure = Failure::new(Exit::NoInput, format!("no responsibility `{name}`"));
                let hint = match names.as_slice() {
                    [] => "there is none; write one into `personas/ID/responsibilities/NAME.md`"
                        .to_owned(),
                    [first @ .., _] if first.len() >= NAMES_SHOWN => {
                        let some = names
                            .iter()
                            .take(NAMES_SHOWN)
                            .cloned()
                            .collect::<Vec<_>>()
                            .join(", ");
                        format!(
                            "there are {}, such as {some}; `attache schedule list` has all",
                            names.len()
                        )
                    }
                    names => format!("there are: {}", names.join(", ")),
                };
                Err(failure.hint(hint).into())
            }
            _ => Ok(rows),
        }
    }

    /// Reloads a row.
    async fn again(&self, row: &StoredResponsibility) -> anyhow::Result<StoredResponsibility> {
        let rows = self.store.responsibilities().await?;
        Ok(rows
            .into_iter()
            .find(|found| found.id == row.id)
            .unwrap_or_else(|| row.clone()))
    }

    /// The responsibility that is named.
    async fn named(&self, args: &ArgMatches) -> anyhow::Result<StoredResponsibility> {
        let mut rows = self.chosen(args).await?;
        match (rows.pop(), rows.as_slice()) {
            (Some(row), []) => Ok(row),
            (last, others) => {
                let found = others.iter().chain(&last);
                let files: Vec<String> = found
                    .map(|row| format!("`personas/{}/{}`", row.persona, row.file))
                    .collect();
                let message = format!("{} responsibilities have that name", files.len());
                let hint = format!("name the file instead: {}", files.join(" or "));
                Err(Failure::new(Exit::Usage, message).hint(hint).into())
            }
        }
    }
}

/// Maximum number of names that an error lists.
const NAMES_SHOWN: usize = 20;

/// Compares a name with the responsibility's name, ignoring case, or with its file, with or without
/// folders and extension.
fn is_called(row: &StoredResponsibility, name: &str) -> bool {
    let file = row.file.rsplit('/').next().unwrap_or_default();
    row.name.eq_ignore_ascii_case(name)
        || row.file == name
        || name
            .strip_prefix("personas/")
            .and_then(|path| path.strip_prefix(row.persona.as_str()))
            .is_some_and(|path| path.strip_prefix('/') == Some(&row.file))
        || file == name
        || file.strip_suffix(".md") == Some(name)
}

/// State of a responsibility: `on`, or the reason for which no slots fire. `past`: its only instant
/// passed before it could fire.
fn state(row: &StoredResponsibility) -> &'static str {
    match (&row.error, row.enabled, row.paused) {
        (Some(_), ..) => "unusable",
        (None, false, _) => "off",
        (None, true, Some(_)) => "paused",
        (None, true, None) if row.next.is_done && row.last_fired_at.is_none() => "past",
        (None, true, None) if row.next.is_done => "done",
        (None, true, None) => "on",
    }
}

/// Reason and start of a pause, for users.
fn pause_reason(row: &StoredResponsibility) -> Option<String> {
    let paused = row.paused?;
    let since = local_text(paused.at, row.zone());
    Some(match paused.by {
        PausedBy::Owner => format!("since {since}, by hand"),
        PausedBy::Failures => {
            format!(
                "since {since}, because {} runs failed one after another",
                row.failures
            )
        }
    })
}

fn timing_of(row: &StoredResponsibility) -> Option<Timing> {
    Timing::parse(&row.schedule, row.zone()).ok()
}

/// Instant after which slots of a responsibility are still to fire.
fn comes_after(row: &StoredResponsibility, now: Timestamp) -> Timestamp {
    row.version.cursor_at.max(now)
}

/// A responsibility as `list` prints it.
#[derive(Serialize)]
struct ListedResponsibility<'a> {
    id: &'a ResponsibilityId,
    persona: &'a PersonaId,
    name: &'a str,
    file: String,
    schedule: &'a str,
    timezone: &'a str,
    state: &'static str,
    paused_at: Option<Timestamp>,
    paused_by: Option<&'static str>,
    failures: u32,
    revision: i64,
    next_slot_at: Option<Timestamp>,
    next_fire_at: Option<Timestamp>,
    last_fired_at: Option<Timestamp>,
    last_succeeded_at: Option<Timestamp>,
    error: Option<&'a str>,
}

impl<'a> From<&'a StoredResponsibility> for ListedResponsibility<'a> {
    fn from(row: &'a StoredResponsibility) -> Self {
        Self {
            id: &row.id,
            persona: &row.persona,
            name: &row.name,
            file: format!("personas/{}/{}", row.persona, row.file),
            schedule: &row.schedule,
            timezone: &row.timezone,
            state: state(row),
            paused_at: row.paused.map(|paused| paused.at),
            paused_by: row.paused.map(|paused| paused.by.as_str()),
            failures: row.failures,
            revision: row.version.revision,
            next_slot_at: row.next.at,
            next_fire_at: row.next.fire_at,
            last_fired_at: row.last_fired_at,
            last_succeeded_at: row.last_succeeded_at,
            error: row.error.as_deref(),
        }
    }
}

/// A future slot.
#[derive(Serialize)]
struct UpcomingSlot<'a> {
    slot_at: Timestamp,
    local: String,
    persona: &'a PersonaId,
    name: &'a str,
}

impl<'a> UpcomingSlot<'a> {
    fn new(slot_at: Timestamp, row: &'a StoredResponsibility) -> Self {
        Self {
            slot_at,
            local: local_text(slot_at, row.zone()),
            persona: &row.persona,
            name: &row.name,
        }
    }
}
