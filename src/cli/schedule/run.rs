//! `attache schedule run`: starts a responsibility now; its schedule stays unchanged.

use super::{ScheduleContext, name_arg, subcommand};
use crate::cli::{Command, CommandContext, Exit, Failure, screen};
use crate::domain::{PersonaId, RunId};
use crate::scheduler::StartError;
use clap::ArgMatches;
use futures_util::future::BoxFuture;
use serde::Serialize;

pub struct ScheduleRun;

impl Command for ScheduleRun {
    fn clap(&self) -> clap::Command {
        subcommand("run", "Start a responsibility now").arg(name_arg().required(true))
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move {
            context.store_of_engine().await?;
            let ctx = ScheduleContext::open(context).await?;
            let row = ctx.named(args).await?;
            let run = ctx
                .scheduler
                .start(&row)
                .await
                .map_err(|error| match error {
                    StartError::Store(error) => anyhow::Error::from(error),
                    other => {
                        let message = format!("`{}` cannot be started", row.name);
                        Failure::new(Exit::BadData, message).because(other).into()
                    }
                })?;
            if context.json() {
                let started = StartedRun {
                    run_id: &run,
                    persona: &row.persona,
                    name: &row.name,
                };
                context.screen.json(&started)?;
            } else {
                context.screen.line(run.as_str())?;
                screen::remark("queued; a running engine takes it up, or `attache drain` does");
            }
            Ok(Exit::Ok)
        })
    }
}

/// A run that was started out of turn.
#[derive(Serialize)]
struct StartedRun<'a> {
    run_id: &'a RunId,
    persona: &'a PersonaId,
    name: &'a str,
}
