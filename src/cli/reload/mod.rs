//! `attache reload`: lets the working engine read its configuration again, and says what became of it.

use super::args::in_force;
use super::process::engine_wait::EngineWait;
use super::{Command, CommandContext, Exit, Failure, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::in_force::InForce;
use crate::store::working_engine;
use clap::ArgMatches;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::time::Duration;

/// Longest time until the engine has read its files.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);

pub struct Reload;

impl Command for Reload {
    fn clap(&self) -> clap::Command {
        clap::Command::new("reload")
            .about("Let the engine that works here read its configuration again, now")
            .after_help(
                "It does so by itself within seconds after an edit; this command asks at once (SIGHUP) and says what became of \
                 it. A faulty file leaves what was good before in force: then each problem is printed, and the exit code is 65. \
                 It is 69 without an engine, and 75 when that does not answer within half a minute. \
                 Work that has begun goes on with what it began with.",
            )
    }
    fn run<'a>(
        &'a self,
        context: &'a CommandContext,
        _args: &'a ArgMatches,
    ) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move { reload(context).await })
    }
}

/// Answer of the engine, as `--json` prints it.
#[derive(Serialize)]
struct ReloadReport {
    in_force: bool,
    /// Why what was in force before stays so.
    refused: Vec<String>,
    /// Settings that count after a restart.
    after_restart: Vec<String>,
    /// Warnings about what is in force.
    warnings: Vec<String>,
}

async fn reload(context: &CommandContext) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    let pid = working_engine(&context.workspace).ok_or_else(|| {
        Failure::new(Exit::Unavailable, "no engine works on this workspace")
            .hint("`attache serve` reads the configuration at its start")
    })?;
    let asked = InForce::read(&context.workspace, &pid).map_or(0, |before| before.asked);
    let process = pid.parse().ok().and_then(Pid::from_raw);
    let process =
        process.ok_or_else(|| Failure::new(Exit::Failed, format!("`{pid}` is no process")))?;
    kill_process(process, Signal::HUP).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot ask process {pid}"))
            .hint("run this command as the user of the engine")
            .because(error)
    })?;
    let InForce {
        refused,
        after_restart,
        warnings,
        ..
    } = answer(context, &pid, asked).await?;
    let report = ReloadReport {
        in_force: refused.is_empty(),
        refused,
        after_restart,
        warnings,
    };
    print(context, &report)?;
    Ok(match report.in_force {
        true => Exit::Ok,
        false => Exit::BadData,
    })
}

/// Waits until the engine has read the files as they are. Errors: it takes too long.
async fn answer(context: &CommandContext, pid: &str, asked: u64) -> Result<InForce, Failure> {
    let clock = SystemClock::new();
    let mut wait = EngineWait::new("read its files", ANSWER_MAX, clock.monotonic());
    loop {
        let now = InForce::read(&context.workspace, pid).filter(|now| now.asked > asked);
        if let Some(now) = now
            && (!now.refused.is_empty() || now.edited(&context.workspace).is_empty())
        {
            return Ok(now);
        }
        if let Some(waits) = wait.look(clock.monotonic(), pid)? {
            screen::remark(&waits);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn print(context: &CommandContext, report: &ReloadReport) -> anyhow::Result<()> {
    if context.json() {
        return context.screen.json(report);
    }
    for problem in &report.refused {
        context.screen.line(problem)?;
    }
    context.screen.line(match report.in_force {
        true => "the configuration is in force",
        false => "what was in force before stays so",
    })?;
    for warning in &report.warnings {
        screen::remark(&format!("warning: {warning}"));
    }
    in_force::remark_restart(&report.after_restart);
    Ok(())
}
