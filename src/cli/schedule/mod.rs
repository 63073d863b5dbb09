//! `attache schedule`: the scheduled work of personas.
//!
//! Every subcommand first brings the rows in line with the files, so that its output matches what
//! the engine will do, running or not.
//!
//! - `show`: one responsibility with its options and slots, and past slots
//! - `calendar`: future slots by day
//! - `validate`: a file before it is put in place
//!
//! Absent on purpose: cron and slots, which `scheduler` computes.

mod show;
mod calendar;
mod validate;

use super::args::persona_of;
use super::screen::Columns;
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::Personas;
use crate::domain::{PausedBy, PersonaId, ResponsibilityId, Timestamp};
use crate::schedule_file::WorkspaceNames;
use crate::schedule_file::timing::{Timing, local_text};
use crate::scheduler::{Scheduler, StartError};
use crate::store::{Store, StoredResponsibility};
use crate::tools;
use clap::value_parser;
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

/// Show, start, pause and check responsibilities
#[derive(clap::Subcommand)]
pub enum ScheduleCommand {
    /// List every responsibility and when it is due
    List {
        /// Only this persona's
        #[arg(long, value_name = "ID")]
        persona: Option<String>,
    },
    /// Show what is in force for one responsibility
    Show(NamedTask),
    /// Show the next slots
    Next {
        #[command(flatten)]
        of: ChosenTasks,
        /// How many slots to show
        #[arg(long, value_name = "N", alias = "limit", default_value_t = 10, value_parser = value_parser!(u32).range(1..=1000))]
        count: u32,
    },
    /// Show what is due in the coming week
    Calendar {
        #[command(flatten)]
        of: ChosenTasks,
        /// How many days to show, today included
        #[arg(long, value_name = "N", default_value_t = 7, value_parser = value_parser!(u32).range(1..=31))]
        days: u32,
        /// IANA zone of the days [default: that of the responsibilities, if they share one]
        #[arg(long, value_name = "ZONE")]
        timezone: Option<String>,
    },
    /// Show what became of past slots, newest first
    History {
        #[command(flatten)]
        of: ChosenTasks,
        /// How many slots to show
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..=1000))]
        limit: u32,
    },
    /// Start a responsibility now
    Run(NamedTask),
    /// Let a responsibility rest until it is resumed
    Pause(NamedTask),
    /// Let a paused responsibility fire again, from now on
    Resume(NamedTask),
    /// Check a responsibility file and show when it would be due
    Validate {
        /// Whose it is [default: by its folder, or the only one there is]
        #[arg(long, value_name = "ID")]
        persona: Option<String>,
        /// The file; `-` reads standard input
        file: PathBuf,
    },
}

/// Responsibilities of one persona or of all; of one name when it is given.
#[derive(clap::Args)]
pub struct ChosenTasks {
    /// Only this persona's
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
    /// Name of a responsibility, or of its file
    name: Option<String>,
}

/// One responsibility.
#[derive(clap::Args)]
pub struct NamedTask {
    /// Only this persona's
    #[arg(long, value_name = "ID")]
    persona: Option<String>,
    /// Name of a responsibility, or of its file
    name: String,
}

impl ScheduleCommand {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        if let Self::Validate { persona, file } = self {
            return validate::validate(context, persona, &file).await;
        }
        if let Self::Run(_) = self {
            context.store_of_engine().await?;
        }
        let ctx = ScheduleContext::open(context).await?;
        match self {
            Self::List { persona } => ctx.list(persona).await,
            Self::Show(of) => show::show(&ctx, of).await,
            Self::Next { of, count } => ctx.next(of, count as usize).await,
            Self::Calendar { of, days, timezone } => {
                calendar::calendar(&ctx, of, days as usize, timezone).await
            }
            Self::History { of, limit } => show::history(&ctx, of, limit).await,
            Self::Run(of) => ctx.start(of).await,
            Self::Pause(of) => ctx.pause(of).await,
            Self::Resume(of) => ctx.resume(of).await,
            Self::Validate { .. } => Ok(Exit::Usage),
        }
    }
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
        let names = WorkspaceNames::from_config(&config, tools::of_config(&config).names());
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
    async fn chosen(
        &self,
        ChosenTasks { persona, name }: ChosenTasks,
    ) -> anyhow::Result<Vec<StoredResponsibility>> {
        let persona = persona_of(self.context, &self.store, persona).await?;
        let mut rows = self.store.responsibilities().await?;
        rows.retain(|row| {
            row.removed_at.is_none() && persona.as_ref().is_none_or(|id| row.persona == *id)
        });
        let names: Vec<String> = rows.iter().map(|row| format!("`{}`", row.name)).collect();
        rows.retain(|row| name.as_ref().is_none_or(|name| is_called(row, name)));
        match name {
            Some(name) if rows.is_empty() => refuse(
                Exit::NoInput,
                format!("no responsibility `{name}`"),
                match names.as_slice() {
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
                },
            ),
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
    async fn named(
        &self,
        NamedTask { persona, name }: NamedTask,
    ) -> anyhow::Result<StoredResponsibility> {
        let name = Some(name);
        let mut rows = self.chosen(ChosenTasks { persona, name }).await?;
        match (rows.pop(), rows.as_slice()) {
            (Some(row), []) => Ok(row),
            (last, others) => {
                let found = others.iter().chain(&last);
                let files: Vec<String> = found
                    .map(|row| format!("`personas/{}/{}`", row.persona, row.file))
                    .collect();
                refuse(
                    Exit::Usage,
                    format!("{} responsibilities have that name", files.len()),
                    format!("name the file instead: {}", files.join(" or ")),
                )
            }
        }
    }

    /// Every responsibility with its state and its next slot.
    async fn list(&self, persona: Option<String>) -> anyhow::Result<Exit> {
        let rows = self
            .chosen(ChosenTasks {
                persona,
                name: None,
            })
            .await?;
        let listed: Vec<_> = rows.iter().map(ListedResponsibility::from).collect();
        let line = |listed: &ListedResponsibility<'_>| {
            let next = listed
                .next_slot_at
                .map(|at| local_text(at, listed.row.zone()));
            let next = next.filter(|_| listed.state == "on").unwrap_or_default();
            let cells = [
                listed.name,
                listed.persona.as_str(),
                listed.schedule,
                listed.timezone,
                listed.state,
                &next,
            ];
            cells.map(str::to_owned).to_vec()
        };
        let columns = Columns::of(&["NAME", "PERSONA", "WHEN", "ZONE", "STATE", "NEXT"])
            .main("NAME")
            .optional(&["ZONE"]);
        let nothing =
            "there is no responsibility; write one into `personas/ID/responsibilities/NAME.md`";
        self.context.screen.list(&listed, columns, nothing, line)?;
        for row in rows.iter().filter(|_| !self.context.json()) {
            match (&row.error, pause_reason(row)) {
                (Some(error), _) => screen::remark(error),
                (None, Some(reason)) => screen::remark(&format!(
                    "`{}` is paused {reason}; `attache schedule resume` lets it go on",
                    row.name
                )),
                (None, None) => {}
            }
        }
        Ok(Exit::Ok)
    }

    /// The next slots, of one responsibility or of all of them.
    async fn next(&self, of: ChosenTasks, count: usize) -> anyhow::Result<Exit> {
        let now = self.clock.now();
        let rows = self.chosen(of).await?;
        let mut slots: Vec<(Timestamp, &StoredResponsibility)> = Vec::new();
        for row in rows.iter().filter(|row| state(row) == "on") {
            let Some(timing) = timing_of(row) else {
                continue;
            };
            let upcoming = timing.upcoming(comes_after(row, now), count);
            slots.extend(upcoming.into_iter().map(|at| (at, row)));
            // With any number of responsibilities, only the first slots are kept.
            if slots.len() > count * 16 {
                slots.sort_by_key(|(at, _)| *at);
                slots.truncate(count);
            }
        }
        slots.sort_by_key(|(at, _)| *at);
        slots.truncate(count);
        let slots = slots.into_iter().map(|(slot_at, row)| UpcomingSlot {
            slot_at,
            local: local_text(slot_at, row.zone()),
            persona: &row.persona,
            name: &row.name,
        });
        self.context.list(
            &slots.collect::<Vec<_>>(),
            &["SLOT", "PERSONA", "NAME"],
            "nothing comes due",
            |slot| {
                vec![
                    slot.local.clone(),
                    slot.persona.to_string(),
                    slot.name.to_owned(),
                ]
            },
        )
    }

    /// Starts a responsibility now; its schedule stays unchanged.
    async fn start(&self, of: NamedTask) -> anyhow::Result<Exit> {
        let row = self.named(of).await?;
        let started = self.scheduler.start(&row).await;
        let run = started.map_err(|error| match error {
            StartError::Store(error) => anyhow::Error::from(error),
            other => {
                let message = format!("`{}` cannot be started", row.name);
                Failure::new(Exit::BadData, message).because(other).into()
            }
        })?;
        if self.context.json() {
            self.context.screen.json(&json!({
                "run_id": run,
                "persona": row.persona,
                "name": row.name,
            }))?;
        } else {
            self.context.screen.line(run.as_str())?;
            screen::remark("queued; a running engine takes it up, or `attache drain` does");
        }
        Ok(Exit::Ok)
    }

    /// No slot of a responsibility fires until it is resumed, even if its file changes meanwhile.
    async fn pause(&self, of: NamedTask) -> anyhow::Result<Exit> {
        let row = self.named(of).await?;
        let is_new = self.scheduler.pause(&row.id).await?;
        let row = self.again(&row).await?;
        let screen = &self.context.screen;
        if self.context.json() {
            screen.json(&ListedResponsibility::from(&row))?;
        } else {
            let reason = pause_reason(&row).unwrap_or_default();
            let name = screen::one_line(&row.name);
            screen.line(format!("`{name}` is paused {reason}"))?;
            screen::remark(match is_new {
                true => "what runs already goes on; `attache schedule resume` lets new slots fire",
                false => "it was paused before",
            });
        }
        Ok(Exit::Ok)
    }

    /// The slots of a paused responsibility fire again, from now on.
    async fn resume(&self, of: NamedTask) -> anyhow::Result<Exit> {
        let before = self.named(of).await?;
        let resumed = self.scheduler.resume(&before).await?;
        let row = self.again(&before).await?;
        if !resumed && row.paused.is_some() {
            return refuse(
                Exit::TryAgain,
                format!("`{}` changed at this very moment", row.name),
                "try again",
            );
        }
        let screen = &self.context.screen;
        if self.context.json() {
            screen.json(&ListedResponsibility::from(&row))?;
            return Ok(Exit::Ok);
        }
        let next = match (state(&row), row.next.at) {
            ("on", Some(at)) => format!("next at {}", local_text(at, row.zone())),
            (state, _) => format!("it is {state}"),
        };
        screen.line(format!("`{}`: {next}", screen::one_line(&row.name)))?;
        if !resumed {
            screen::remark("it was not paused");
        }
        Ok(Exit::Ok)
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
    #[serde(skip)]
    row: &'a StoredResponsibility,
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
            row,
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
