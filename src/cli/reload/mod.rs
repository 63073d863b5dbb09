//! `attache reload`: lets the working engine read its configuration again, and says what became of it.

use super::args::in_force;
use super::process::engine_wait::EngineWait;
use super::{CommandContext, Exit, Failure, screen};
use crate::clock::{Clock, SystemClock};
use crate::config::in_force::InForce;
use crate::store::working_engine;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::time::Duration;

/// Longest time until the engine has read its files.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);

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

/// Asks the engine to read its files.
pub async fn reload(context: &CommandContext) -> anyhow::Result<Exit> {
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
