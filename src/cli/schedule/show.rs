//! `attache schedule show` and `attache schedule history`: the options in force of one responsibility, its next slots and its
//! last ones; what became of past slots.

use super::{
    ChosenTasks, ListedResponsibility, NamedTask, ScheduleContext, comes_after, pause_reason,
    state, timing_of,
};
use crate::cli::screen::Columns;
use crate::cli::{Exit, screen};
use crate::config::{dollars, spell};
use crate::domain::PlanMode;
use crate::domain::{Address, DeliverTo, RunId, ThreadId, Timestamp};
use crate::schedule_file::timing::local_text;
use crate::store::{ListPage, StoredResponsibility, StoredSlot};
use chrono_tz::Tz;
use serde::Serialize;
use serde_json::Value;

/// Maximum number of slots shown, future and past.
const SLOTS_SHOWN: usize = 5;

/// Prints one responsibility.
pub(super) async fn show(ctx: &ScheduleContext<'_>, of: NamedTask) -> anyhow::Result<Exit> {
    let context = ctx.context;
    let row = ctx.named(of).await?;
    let last = ctx
        .store
        .responsibility_slots(Some(&row.id), ListPage::first(SLOTS_SHOWN as u32))
        .await?;
    let next = match (state(&row), timing_of(&row)) {
        ("on", Some(timing)) => timing.upcoming(comes_after(&row, ctx.clock.now()), SLOTS_SHOWN),
        _ => Vec::new(),
    };
    context.report(&detail(&row, &next, &last), |screen| {
        screen.fields(&fields(&row, &next, &last))?;
        screen.line("")?;
        screen.line(screen::printable(&row.prompt))?;
        if let Some(error) = &row.error {
            screen::remark(error);
        }
        Ok(())
    })
}

/// Prints outcomes of past slots, newest first.
pub(super) async fn history(
    ctx: &ScheduleContext<'_>,
    of: ChosenTasks,
    limit: u32,
) -> anyhow::Result<Exit> {
    let context = ctx.context;
    let page = ListPage::first(limit);
    let mut slots = Vec::new();
    for row in ctx.chosen(of).await? {
        let own = ctx.store.responsibility_slots(Some(&row.id), page).await?;
        slots.extend(own.into_iter().map(|slot| (row.zone(), slot)));
    }
    slots.sort_by_key(|(_, slot)| std::cmp::Reverse(slot.slot_at));
    slots.truncate(limit as usize);
    if context.json() {
        let slots = slots.iter().map(|(_, slot)| slot);
        context.screen.json(&slots.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let lines = slots.iter().map(|(zone, slot)| {
        let run = slot.run.as_ref().map(ToString::to_string);
        vec![
            local_text(slot.slot_at, *zone),
            slot.persona.to_string(),
            slot.responsibility.clone(),
            slot.kind.clone(),
            became(slot),
            run.unwrap_or_default(),
            slot.run_state.clone().unwrap_or_default(),
            slot.note.clone().unwrap_or_default(),
        ]
    });
    let headings = [
        "SLOT",
        "PERSONA",
        "NAME",
        "KIND",
        "BECAME",
        "RUN",
        "RUN STATE",
        "NOTE",
    ];
    let columns = Columns::of(&headings).optional(&["KIND", "PERSONA"]);
    let lines: Vec<_> = lines.collect();
    context
        .screen
        .listing(columns, &lines, "no slot came due yet")?;
    Ok(Exit::Ok)
}

/// Formats an outcome: `fired`, `fired late` or `missed 7`.
fn became(slot: &StoredSlot) -> String {
    let late = if slot.is_late { " late" } else { "" };
    match slot.missed_count {
        0 | 1 => format!("{}{late}", slot.state),
        count => format!("{} {count}", slot.state),
    }
}

/// A responsibility with its options in force and its slots.
#[derive(Serialize)]
struct ResponsibilityDetail<'a> {
    #[serde(flatten)]
    listed: ListedResponsibility<'a>,
    catch_up: &'static str,
    catch_up_window: String,
    overlap: &'static str,
    jitter: String,
    grace: String,
    proposed_by: Option<&'a RunId>,
    profile: &'a str,
    provider: Option<&'a str>,
    model: Option<&'a str>,
    tools: Option<&'a [String]>,
    deliver_to: DeliverToRecord<'a>,
    retries: Option<u32>,
    plan: Option<PlanMode>,
    budget_usd: Option<String>,
    output_schema: Option<Value>,
    thread: Option<&'a ThreadId>,
    next: Vec<String>,
    last: &'a [StoredSlot],
    prompt: &'a str,
}

/// Destination of a responsibility's answers, as its file spells it.
#[derive(Serialize)]
#[serde(untagged)]
enum DeliverToRecord<'a> {
    Word(&'static str),
    People { mail: Vec<String> },
    Thread { thread: &'a ThreadId },
}

impl<'a> From<&'a DeliverTo> for DeliverToRecord<'a> {
    fn from(deliver_to: &'a DeliverTo) -> Self {
        match deliver_to {
            DeliverTo::Owners => Self::Word("mail"),
            DeliverTo::Sender => Self::Word("sender"),
            DeliverTo::People(people) => Self::People {
                mail: people.iter().map(Address::to_string).collect(),
            },
            DeliverTo::Thread(thread) => Self::Thread { thread },
            DeliverTo::Store => Self::Word("store"),
        }
    }
}

fn detail<'a>(
    row: &'a StoredResponsibility,
    next: &[Timestamp],
    last: &'a [StoredSlot],
) -> ResponsibilityDetail<'a> {
    let (slots, runs) = (&row.slot_options, &row.run_options);
    let local = |at: &Timestamp| local_text(*at, row.zone());
    let schema = row.output_schema.as_deref();
    ResponsibilityDetail {
        listed: ListedResponsibility::from(row),
        catch_up: slots.catch_up.as_str(),
        catch_up_window: spell(slots.catch_up_window),
        overlap: slots.overlap.as_str(),
        jitter: spell(slots.jitter),
        grace: spell(slots.grace),
        proposed_by: slots.proposed_by.as_ref(),
        profile: &runs.profile,
        provider: runs.provider.as_deref(),
        model: runs.model.as_deref(),
        tools: runs.tools.as_deref(),
        deliver_to: DeliverToRecord::from(&runs.deliver_to),
        retries: runs.retries,
        plan: runs.plan,
        budget_usd: row.budget_micros.map(dollars),
        output_schema: schema.and_then(|text| serde_json::from_str(text).ok()),
        thread: row.thread.as_ref(),
        next: next.iter().map(local).collect(),
        last,
        prompt: &row.prompt,
    }
}

fn fields(
    row: &StoredResponsibility,
    next: &[Timestamp],
    last: &[StoredSlot],
) -> Vec<(&'static str, String)> {
    let zone = row.zone();
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
        ("deliver to", destination(&runs.deliver_to)),
        ("retries", retries),
        ("budget", budget),
    ];
    let some = |name: &'static str, value: Option<String>| value.map(|value| (name, value));
    let answers = row.output_schema.as_ref();
    let answers = answers.map(|_| "held to a JSON Schema".to_owned());
    fields.extend(some("answers", answers));
    let proposed_by = slots.proposed_by.as_ref();
    fields.extend(some(
        "proposed by",
        proposed_by.map(|run| format!("run {run}")),
    ));
    fields.extend(some("thread", row.thread.as_ref().map(ToString::to_string)));
    let failures = (row.failures > 0).then(|| row.failures.to_string());
    fields.extend(some("failed in a row", failures));
    fields.extend(next.iter().map(|at| ("next", local_text(*at, zone))));
    fields.extend(last.iter().map(|slot| ("last", slot_line(slot, zone))));
    fields
}

/// Destination of a responsibility's answers.
fn destination(deliver_to: &DeliverTo) -> String {
    match deliver_to {
        DeliverTo::Owners => "mail to the owners".to_owned(),
        DeliverTo::Sender => "the sender of its letter".to_owned(),
        DeliverTo::People(people) => {
            let people = people.iter().map(Address::to_string).collect::<Vec<_>>();
            format!("mail to {}", people.join(", "))
        }
        DeliverTo::Thread(thread) => format!("the people of thread {thread}"),
        DeliverTo::Store => "nobody; it is stored".to_owned(),
    }
}

/// A past slot and what became of it.
fn slot_line(slot: &StoredSlot, zone: Tz) -> String {
    let run = slot.run.as_ref().map(|run| format!(", run {run}"));
    let state = slot.run_state.as_ref().map(|state| format!(" {state}"));
    format!(
        "{} {}{}{}",
        local_text(slot.slot_at, zone),
        became(slot),
        run.unwrap_or_default(),
        state.unwrap_or_default()
    )
}
