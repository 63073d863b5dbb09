//! `attache schedule history`: outcomes of past slots, newest first.

use super::{ScheduleContext, count, count_arg, name_arg, subcommand};
use crate::cli::screen::Columns;
use crate::cli::{Command, CommandContext, Exit};
use crate::scheduler::schedule_file::timing::local_text;
use crate::store::{ListPage, StoredSlot};
use chrono_tz::Tz;
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct History;

impl Command for History {
    fn clap(&self) -> clap::Command {
        let limit = count_arg("limit", 1000, "10", "How many slots to show");
        subcommand("history", "Show what became of past slots, newest first")
            .arg(name_arg())
            .arg(limit)
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let ctx = ScheduleContext::open(context).await?;
            let limit = count(args, "limit");
            let page = ListPage::first(u32::try_from(limit).unwrap_or(u32::MAX));
            let mut slots = Vec::new();
            for row in ctx.chosen(args).await? {
                let own = ctx.store.responsibility_slots(Some(&row.id), page).await?;
                slots.extend(own.into_iter().map(|slot| (row.zone(), slot)));
            }
            slots.sort_by_key(|(_, slot)| std::cmp::Reverse(slot.slot_at));
            slots.truncate(limit);
            if context.json() {
                context
                    .screen
                    .json(&slots.iter().map(|(_, slot)| slot).collect::<Vec<_>>())?;
                return Ok(Exit::Ok);
            }
            let lines = slots.iter().map(|(zone, slot)| line(*zone, slot));
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
            context
                .screen
                .listing(columns, &lines.collect::<Vec<_>>(), "no slot came due yet")?;
            Ok(Exit::Ok)
        })
    }
}

/// Formats an outcome: `fired`, `fired late` or `missed 7`.
pub(super) fn became(slot: &StoredSlot) -> String {
    let late = if slot.is_late { " late" } else { "" };
    match slot.missed_count {
        0 | 1 => format!("{}{late}", slot.state),
        count => format!("{} {count}", slot.state),
    }
}

fn line(zone: Tz, slot: &StoredSlot) -> Vec<String> {
    let run = slot
        .run
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let cells = [
        local_text(slot.slot_at, zone),
        slot.persona.to_string(),
        slot.responsibility.clone(),
    ];
    let rest = [
        slot.kind.clone(),
        became(slot),
        run,
        slot.run_state.clone().unwrap_or_default(),
    ];
    [
        cells.to_vec(),
        rest.to_vec(),
        vec![slot.note.clone().unwrap_or_default()],
    ]
    .concat()
}
