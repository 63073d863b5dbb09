//! `attache schedule pause`: no slot of a responsibility fires until it is resumed, even if its
//! file changes meanwhile.

use super::{ListedResponsibility, ScheduleContext, name_arg, pause_reason, subcommand};
use crate::cli::{Command, CommandContext, Exit, screen};
use clap::ArgMatches;
use futures_util::future::BoxFuture;

pub struct Pause;

impl Command for Pause {
    fn clap(&self) -> clap::Command {
        subcommand("pause", "Let a responsibility rest until it is resumed")
            .arg(name_arg().required(true))
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            let ctx = ScheduleContext::open(context).await?;
            let row = ctx.named(args).await?;
            let is_new = ctx.scheduler.pause(&row.id).await?;
            let row = ctx.again(&row).await?;
            if context.json() {
                context.screen.json(&ListedResponsibility::from(&row))?;
            } else {
                let reason = pause_reason(&row).unwrap_or_default();
                context.screen.line(format!(
                    "`{}` is paused {reason}",
                    screen::one_line(&row.name)
                ))?;
                screen::remark(match is_new {
                    true => {
                        "what runs already goes on; `attache schedule resume` lets new slots fire"
                    }
                    false => "it was paused before",
                });
            }
            Ok(Exit::Ok)
        })
    }
}
