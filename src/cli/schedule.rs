//! `attache schedule list|next|run|history`: what personas do by the clock.
//!
//! Every subcommand reads the files first, so that it tells what the engine will do with them, running or not.

use super::threads::persona_of;
use super::{Command, Context, Exit, Failure, output};
use crate::clock::{Clock, SystemClock};
use crate::config::Personas;
use crate::domain::{RunId, Timestamp};
use crate::scheduler::duty::cron::{Schedule, next_after};
use crate::scheduler::{Scheduler, StartError};
use crate::store::{Store, StoredResponsibility, StoredSlot};
use chrono::SecondsFormat;
use chrono_tz::Tz;
use clap::{Arg, ArgMatches, value_parser};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;

pub struct ScheduleCommand;

const LIMIT_DEFAULT: &str = "10";
const LIMIT_MAX: i64 = 1000;

impl Command for ScheduleCommand {
    fn clap(&self) -> clap::Command {
        let command = |name: &'static str, about: &'static str| {
            let persona = Arg::new("persona").long("persona").value_name("ID").help("Only this persona's");
            clap::Command::new(name).about(about).arg(persona)
        };
        let name = || Arg::new("name").value_name("NAME").help("Name of a responsibility, or of its file");
        let count = |help: &'static str| {
            let range = value_parser!(i64).range(1..=LIMIT_MAX);
            Arg::new("limit")
                .long("limit")
                .value_name("N")
                .value_parser(range)
                .default_value(LIMIT_DEFAULT)
                .help(help)
        };
        clap::Command::new("schedule")
            .about("List, preview and start responsibilities")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(command("list", "List every responsibility and when it is due"))
            .subcommand(
                command("next", "Show the next slots").arg(name()).arg(count("How many slots to show")),
            )
            .subcommand(command("run", "Start a responsibility now").arg(name().required(true)))
            .subcommand(
                command("history", "Show what became of past slots, newest first")
                    .arg(name())
                    .arg(count("How many slots to show")),
            )
    }
    fn run<'a>(&'a self, context: &'a Context, args: &'a ArgMatches) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let Some((command, args)) = args.subcommand() else { return Ok(Exit::Usage) };
            let desk = Desk::open(context).await?;
            match command {
                "list" => desk.list(args).await,
                "next" => desk.next(args).await,
                "run" => desk.start(args).await,
                _ => desk.history(args).await,
            }
        })
    }
}

/// What every subcommand needs: the rows, brought in line with the files.
struct Desk<'a> {
    context: &'a Context,
    store: Store,
    scheduler: Scheduler,
    clock: Arc<dyn Clock>,
}

impl<'a> Desk<'a> {
    async fn open(context: &'a Context) -> anyhow::Result<Self> {
        context.require_workspace()?;
        let personas: Arc<Personas> = Arc::new(context.config()?.personas);
        let store = context.store_beside().await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let scheduler = Scheduler::new(store.clone(), personas, clock.clone());
        scheduler.sync().await?;
        Ok(Self { context, store, scheduler, clock })
    }

    /// Responsibilities whose files exist, of one persona or of all; of one name when one is given.
    async fn chosen(&self, args: &ArgMatches) -> anyhow::Result<Vec<StoredResponsibility>> {
        let persona = persona_of(self.context, &self.store, args).await?;
        let name = args.try_get_one::<String>("name").ok().flatten();
        let mut rows = self.store.responsibilities().await?;
        rows.retain(|row| row.removed_at.is_none() && persona.as_ref().is_none_or(|id| row.persona == *id));
        let names: Vec<String> = rows.iter().map(|row| format!("`{}`", row.name)).collect();
        rows.retain(|row| name.is_none_or(|name| is_called(row, name)));
        match name {
            Some(name) if rows.is_empty() => {
                let failure = Failure::new(Exit::NoInput, format!("no responsibility `{name}`"));
                let hint = match names.as_slice() {
                    [] => "there is none; write one into `personas/ID/responsibilities/NAME.md`".to_owned(),
                    names => format!("there are: {}", names.join(", ")),
                };
                Err(failure.hint(hint).into())
            }
            _ => Ok(rows),
        }
    }

    async fn list(&self, args: &ArgMatches) -> anyhow::Result<Exit> {
        let rows = self.chosen(args).await?;
        if self.context.json() {
            self.context.screen.json(&rows.iter().map(shown).collect::<Vec<_>>())?;
            return Ok(Exit::Ok);
        }
        let lines: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                let next = row.next.at.map(|at| local(at, zone_of(row))).unwrap_or_default();
                let cells = [
                    row.name.as_str(),
                    row.persona.as_str(),
                    &row.schedule,
                    &row.timezone,
                    state(row),
                    &next,
                ];
                cells.map(str::to_owned).to_vec()
            })
            .collect();
        self.context.screen.table(&["NAME", "PERSONA", "SCHEDULE", "ZONE", "STATE", "NEXT"], &lines)?;
        for error in rows.iter().filter_map(|row| row.error.as_ref()) {
            output::remark(error);
        }
        Ok(Exit::Ok)
    }

    async fn next(&self, args: &ArgMatches) -> anyhow::Result<Exit> {
        let count = count(args);
        let mut slots: Vec<(Timestamp, StoredResponsibility)> = Vec::new();
        for row in self.chosen(args).await?.into_iter().filter(|row| state(row) == "on") {
            let Ok(schedule) = Schedule::parse(&row.schedule) else { continue };
            let from = row.version.cursor_at.max(self.clock.now());
            let following = |after: &Timestamp| next_after(&schedule, zone_of(&row), *after);
            let upcoming = std::iter::successors(following(&from), following).take(count);
            slots.extend(upcoming.map(|at| (at, row.clone())));
        }
        slots.sort_by_key(|(at, _)| *at);
        slots.truncate(count);
        if self.context.json() {
            let slots: Vec<Value> = slots.iter().map(|(at, row)| upcoming(*at, row)).collect();
            self.context.screen.json(&slots)?;
            return Ok(Exit::Ok);
        }
        let lines = slots
            .iter()
            .map(|(at, row)| vec![local(*at, zone_of(row)), row.persona.to_string(), row.name.clone()]);
        self.context.screen.table(&["SLOT", "PERSONA", "NAME"], &lines.collect::<Vec<_>>())?;
        Ok(Exit::Ok)
    }

    async fn start(&self, args: &ArgMatches) -> anyhow::Result<Exit> {
        let rows = self.chosen(args).await?;
        let [row] = rows.as_slice() else {
            let personas: Vec<&str> = rows.iter().map(|row| row.persona.as_str()).collect();
            let message = format!("several responsibilities have that name: of {}", personas.join(", "));
            let hint = "name the persona with --persona ID, or the file instead of the name";
            return Err(Failure::new(Exit::Usage, message).hint(hint).into());
        };
        let run = self.scheduler.start(row).await.map_err(|error| match error {
            StartError::Store(error) => anyhow::Error::from(error),
            other => {
                Failure::new(Exit::BadData, format!("`{}` cannot be started", row.name)).because(other).into()
            }
        })?;
        if self.context.json() {
            let started =
                json!({ "run_id": run.as_str(), "persona": row.persona.as_str(), "name": row.name });
            self.context.screen.json(&started)?;
        } else {
            self.context.screen.line(run.as_str())?;
            output::remark("queued; a running engine takes it up, or `attache drain` does");
        }
        Ok(Exit::Ok)
    }

    async fn history(&self, args: &ArgMatches) -> anyhow::Result<Exit> {
        let mut slots = Vec::new();
        for row in self.chosen(args).await? {
            let own = self.store.responsibility_slots(Some(&row.id), count(args)).await?;
            slots.extend(own.into_iter().map(|slot| (zone_of(&row), slot)));
        }
        slots.sort_by_key(|(_, slot)| std::cmp::Reverse(slot.slot_at));
        slots.truncate(count(args));
        if self.context.json() {
            self.context.screen.json(&slots.iter().map(|(_, slot)| past(slot)).collect::<Vec<_>>())?;
            return Ok(Exit::Ok);
        }
        let lines = slots.iter().map(|(zone, slot)| {
            let what = match slot.missed_count {
                0 | 1 => slot.state.clone(),
                count => format!("{} {count}", slot.state),
            };
            let run = slot.run.as_ref().map(ToString::to_string).unwrap_or_default();
            let cells = [local(slot.slot_at, *zone), slot.persona.to_string(), slot.responsibility.clone()];
            let rest = [slot.kind.clone(), what, run, slot.run_state.clone().unwrap_or_default()];
            [cells.to_vec(), rest.to_vec(), vec![slot.note.clone().unwrap_or_default()]].concat()
        });
        let headings = ["SLOT", "PERSONA", "NAME", "KIND", "BECAME", "RUN", "RUN STATE", "NOTE"];
        self.context.screen.table(&headings, &lines.collect::<Vec<_>>())?;
        Ok(Exit::Ok)
    }
}

fn count(args: &ArgMatches) -> usize {
    args.get_one::<i64>("limit").map_or(0, |count| usize::try_from(*count).unwrap_or_default())
}

/// By its name in any case, or by its file with or without folder and ending.
fn is_called(row: &StoredResponsibility, name: &str) -> bool {
    let file = row.file.rsplit('/').next().unwrap_or_default();
    row.name.eq_ignore_ascii_case(name)
        || row.file == name
        || file == name
        || file.strip_suffix(".md") == Some(name)
}

fn state(row: &StoredResponsibility) -> &'static str {
    match (&row.error, row.enabled) {
        (Some(_), _) => "unusable",
        (None, true) => "on",
        (None, false) => "off",
    }
}

fn zone_of(row: &StoredResponsibility) -> Tz {
    row.timezone.parse().unwrap_or(Tz::UTC)
}

fn local(at: Timestamp, zone: Tz) -> String {
    at.to_utc().with_timezone(&zone).to_rfc3339_opts(SecondsFormat::Secs, false)
}

fn shown(row: &StoredResponsibility) -> Value {
    json!({
        "id": row.id.as_str(),
        "persona": row.persona.as_str(),
        "name": row.name,
        "file": format!("personas/{}/{}", row.persona, row.file),
        "schedule": row.schedule,
        "timezone": row.timezone,
        "state": state(row),
        "revision": row.version.revision,
        "next_slot_at": row.next.at.map(|at| at.to_string()),
        "last_fired_at": row.last_fired_at.map(|at| at.to_string()),
        "error": row.error,
    })
}

fn upcoming(at: Timestamp, row: &StoredResponsibility) -> Value {
    json!({
        "slot_at": at.to_string(),
        "local": local(at, zone_of(row)),
        "persona": row.persona.as_str(),
        "name": row.name,
    })
}

fn past(slot: &StoredSlot) -> Value {
    json!({
        "slot_at": slot.slot_at.to_string(),
        "persona": slot.persona.as_str(),
        "name": slot.responsibility,
        "kind": slot.kind,
        "state": slot.state,
        "missed_count": slot.missed_count,
        "missed_until": slot.missed_until.map(|at| at.to_string()),
        "note": slot.note,
        "run_id": slot.run.as_ref().map(RunId::as_str),
        "run_state": slot.run_state,
    })
}
