//! `attache schedule show`: the options in force of one responsibility, its next slots and its last
//! ones.

use super::history::became;
use super::{
    ScheduleContext, comes_after, name_arg, pause_reason, shown, state, subcommand, timing_of,
    zone_of,
};
use crate::cli::{Command, Context, Exit, output};
use crate::config::{dollars, spell};
use crate::domain::{Address, DeliverTo, RunId, ThreadId, Timestamp};
use crate::scheduler::schedule_file::timing::local_text;
use crate::store::{StoredResponsibility, StoredSlot};
use clap::ArgMatches;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

pub struct Show;

/// Maximum number of slots shown, future and past.
const SLOTS_SHOWN: usize = 5;

impl Command for Show {
    fn clap(&self) -> clap::Command {
        subcommand("show", "Show what is in force for one responsibility")
            .arg(name_arg().required(true))
    }
    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let ctx = ScheduleContext::open(context).await?;
            let row = ctx.named(args).await?;
            let last = ctx
                .store
                .responsibility_slots(Some(&row.id), SLOTS_SHOWN)
                .await?;
            let next = match (state(&row), timing_of(&row)) {
                ("on", Some(timing)) => {
                    timing.upcoming(comes_after(&row, ctx.clock.now()), SLOTS_SHOWN)
                }
                _ => Vec::new(),
            };
            if context.json() {
                context.screen.json(&whole(&row, &next, &last))?;
                return Ok(Exit::Ok);
            }
            context.screen.fields(&fields(&row, &next, &last))?;
            context.screen.line("")?;
            context.screen.line(output::printable(&row.prompt))?;
            if let Some(error) = &row.error {
                output::remark(error);
            }
            Ok(Exit::Ok)
        })
    }
}

fn whole(
    row: &StoredResponsibility,
    next: &[Timestamp],
    last: &[StoredSlot],
) -> Map<String, Value> {
    let mut whole = shown(row);
    let (slots, runs) = (&row.slot_options, &row.run_options);
    let deliver_to = match &runs.deliver_to {
        DeliverTo::Owners => json!("mail"),
        DeliverTo::People(people) => {
            json!({ "mail": people.iter().map(Address::to_string).collect::<Vec<_>>() })
        }
        DeliverTo::Thread(thread) => json!({ "thread": thread.as_str() }),
        DeliverTo::Store => json!("store"),
    };
    let schema: Option<Value> = row
        .output_schema
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    let options = [
        ("catch_up", json!(slots.catch_up.as_str())),
        ("catch_up_window", json!(spell(slots.catch_up_window))),
        ("overlap", json!(slots.overlap.as_str())),
        ("jitter", json!(spell(slots.jitter))),
        ("grace", json!(spell(slots.grace))),
        (
            "proposed_by",
            json!(slots.proposed_by.as_ref().map(RunId::as_str)),
        ),
        ("profile", json!(runs.profile)),
        ("provider", json!(runs.provider)),
        ("model", json!(runs.model)),
        ("tools", json!(runs.tools)),
        ("deliver_to", deliver_to),
        ("retries", json!(runs.retries)),
        ("budget_usd", json!(row.budget_micros.map(dollars))),
        ("output_schema", json!(schema)),
        ("thread", json!(row.thread.as_ref().map(ThreadId::as_str))),
        (
            "next",
            json!(
                next.iter()
                    .map(|at| local_text(*at, zone_of(row)))
                    .collect::<Vec<_>>()
            ),
        ),
        ("last", json!(last)),
        ("prompt", json!(row.prompt)),
    ];
    whole.extend(options.map(|(key, value)| (key.to_owned(), value)));
    whole
}

fn fields(
    row: &StoredResponsibility,
    next: &[Timestamp],
    last: &[StoredSlot],
) -> Vec<(&'static str, String)> {
    let zone = zone_of(row);
    let (slots, runs) = (&row.slot_options, &row.run_options);
    let inherited = || "as its persona's".to_owned();
    let state = match pause_reason(row) {
        Some(reason) => format!("paused {reason}"),
        None => state(row).to_owned(),
    };
    let model = runs.model.as_ref().map(|model| match &runs.provider {
        Some(provider) => format!("{model} of {provider}"),
        None => model.clone(),
    });
    let deliver_to = match &runs.deliver_to {
        DeliverTo::Owners => "mail to the owners".to_owned(),
        DeliverTo::People(people) => {
            let people = people.iter().map(Address::to_string).collect::<Vec<_>>();
            format!("mail to {}", people.join(", "))
        }
        DeliverTo::Thread(thread) => format!("the people of thread {thread}"),
        DeliverTo::Store => "nobody; it is stored".to_owned(),
    };
    let catch_up = format!(
        "{} of the last {}",
        slots.catch_up,
        spell(slots.catch_up_window)
    );
    let retries = runs
        .retries
        .map_or("as `configs/inference.json` says".to_owned(), |count| {
            count.to_string()
        });
    let budget = row
        .budget_micros
        .map_or_else(inherited, |micros| format!("{} USD", dollars(micros)));
    let mut fields = vec![
        ("name", row.name.clone()),
        ("persona", row.persona.to_string()),
        ("file", format!("personas/{}/{}", row.persona, row.file)),
        ("state", state),
        ("when", format!("{} ({})", row.schedule, row.timezone)),
        ("catch up", catch_up),
        ("overlap", slots.overlap.to_string()),
        ("jitter", spell(slots.jitter)),
        ("grace", spell(slots.grace)),
        ("profile", runs.profile.clone()),
        ("model", model.unwrap_or_else(inherited)),
        (
            "tools",
            runs.tools
                .as_ref()
                .map_or_else(inherited, |tools| tools.join(", ")),
        ),
        ("deliver to", deliver_to),
        ("retries", retries),
        ("budget", budget),
    ];
    fields.extend(
        row.output_schema
            .as_ref()
            .map(|_| ("answers", "held to a JSON Schema".to_owned())),
    );
    fields.extend(
        slots
            .proposed_by
            .as_ref()
            .map(|run| ("proposed by", format!("run {run}"))),
    );
    fields.extend(
        row.thread
            .as_ref()
            .map(|thread| ("thread", thread.to_string())),
    );
    fields.extend((row.failures > 0).then(|| ("failed in a row", row.failures.to_string())));
    fields.extend(next.iter().map(|at| ("next", local_text(*at, zone))));
    fields.extend(last.iter().map(|slot| {
        let run = slot
            .run
            .as_ref()
            .map(|run| format!(", run {run}"))
            .unwrap_or_default();
        let state = slot
            .run_state
            .as_ref()
            .map(|state| format!(" {state}"))
            .unwrap_or_default();
        (
            "last",
            format!(
                "{} {}{run}{state}",
                local_text(slot.slot_at, zone),
                became(slot)
            ),
        )
    }));
    fields
}
