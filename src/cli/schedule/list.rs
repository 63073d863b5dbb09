//! `attache schedule list`: every responsibility with its state and its next slot.

use super::{ListedResponsibility, ScheduleContext, pause_reason, state, subcommand};
use crate::cli::screen::Columns;
use crate::cli::{Command, CommandContext, Exit, screen};
use crate::scheduler::schedule_file::timing::local_text;
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct List;

impl Command for List {
    fn clap(&self) -> clap::Command {
        subcommand("list", "List every responsibility and when it is due")
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let rows = ScheduleContext::open(context).await?.chosen(args).await?;
            if context.json() {
                context.screen.json(
                    &rows
                        .iter()
                        .map(ListedResponsibility::from)
                        .collect::<Vec<_>>(),
                )?;
                return Ok(Exit::Ok);
            }
            let lines: Vec<Vec<String>> = rows
                .iter()
                .map(|row| {
                    let next = row.next.at.map(|at| local_text(at, row.zone()));
                    let next = next.filter(|_| state(row) == "on").unwrap_or_default();
                    let cells = [
                        &row.name,
                        row.persona.as_str(),
                        &row.schedule,
                        &row.timezone,
                        state(row),
                        &next,
                    ];
                    cells.map(str::to_owned).to_vec()
                })
                .collect();
            let columns = Columns::of(&["NAME", "PERSONA", "WHEN", "ZONE", "STATE", "NEXT"])
                .main("NAME")
                .optional(&["ZONE"]);
            context.screen.listing(
                columns,
                &lines,
                "there is no responsibility; write one into `personas/ID/responsibilities/NAME.md`",
            )?;
            for row in &rows {
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
        })
    }
}
