//! `attache schedule resume`: the slots of a paused responsibility fire again, from now on.

use super::{ListedResponsibility, ScheduleContext, name_arg, state, subcommand};
use crate::cli::{Command, CommandContext, Exit, Failure, screen};
use crate::scheduler::schedule_file::timing::local_text;
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct Resume;

impl Command for Resume {
    fn clap(&self) -> clap::Command {
        subcommand(
            "resume",
            "Let a paused responsibility fire again, from now on",
        )
        .arg(name_arg().required(true))
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let ctx = ScheduleContext::open(context).await?;
            let before = ctx.named(args).await?;
            let resumed = ctx.scheduler.resume(&before).await?;
            let row = ctx.again(&before).await?;
            if !resumed && row.paused.is_some() {
                let message = format!("`{}` changed at this very moment", row.name);
                return Err(Failure::new(Exit::TryAgain, message)
                    .hint("try again")
                    .into());
            }
            if context.json() {
                context.screen.json(&ListedResponsibility::from(&row))?;
                return Ok(Exit::Ok);
            }
            let next = match (state(&row), row.next.at) {
                ("on", Some(at)) => format!("next at {}", local_text(at, row.zone())),
                (state, _) => format!("it is {state}"),
            };
            context
                .screen
                .line(format!("`{}`: {next}", screen::one_line(&row.name)))?;
            if !resumed {
                screen::remark("it was not paused");
            }
            Ok(Exit::Ok)
        })
    }
}
