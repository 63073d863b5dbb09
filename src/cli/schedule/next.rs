//! `attache schedule next`: the next slots, of one responsibility or of all of them.

use super::{
    ScheduleContext, UpcomingSlot, comes_after, count, count_arg, name_arg, state, subcommand,
    timing_of,
};
use crate::cli::{Command, CommandContext, Exit};
use crate::domain::Timestamp;
use crate::scheduler::schedule_file::timing::local_text;
use crate::store::StoredResponsibility;
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct ScheduleNext;

impl Command for ScheduleNext {
    fn clap(&self) -> clap::Command {
        let count = count_arg("count", 1000, "10", "How many slots to show").alias("limit");
        subcommand("next", "Show the next slots")
            .arg(name_arg())
            .arg(count)
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let ctx = ScheduleContext::open(context).await?;
            let (count, now) = (count(args, "count"), ctx.clock.now());
            let rows = ctx.chosen(args).await?;
            let mut slots: Vec<(Timestamp, &StoredResponsibility)> = Vec::new();
            for row in rows.iter().filter(|row| state(row) == "on") {
                let Some(timing) = timing_of(row) else {
                    continue;
                };
                slots.extend(
                    timing
                        .upcoming(comes_after(row, now), count)
                        .into_iter()
                        .map(|at| (at, row)),
                );
                // With any number of responsibilities, only the first slots are kept.
                if slots.len() > count * 16 {
                    slots.sort_by_key(|(at, _)| *at);
                    slots.truncate(count);
                }
            }
            slots.sort_by_key(|(at, _)| *at);
            slots.truncate(count);
            if context.json() {
                context.screen.json(
                    &slots
                        .iter()
                        .map(|(at, row)| UpcomingSlot::new(*at, row))
                        .collect::<Vec<_>>(),
                )?;
                return Ok(Exit::Ok);
            }
            let lines = slots.iter().map(|(at, row)| {
                vec![
                    local_text(*at, row.zone()),
                    row.persona.to_string(),
                    row.name.clone(),
                ]
            });
            context.screen.listing(
                &["SLOT", "PERSONA", "NAME"],
                &lines.collect::<Vec<_>>(),
                "nothing comes due",
            )?;
            Ok(Exit::Ok)
        })
    }
}
