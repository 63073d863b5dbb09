//! The engine that works here, and what one has left: a stopped process, another version, half a take-over.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::cli::process::other::is_stopped;
use crate::store::{EngineAtWork, opening_process};
use std::path::Path;

/// Lock that a take-over makes and renames.
const TAKE_OVER: &str = "data/engine.lock.new";

/// The locks of a workspace as they are found.
pub struct EngineFacts {
    pub engine: Option<EngineAtWork>,
    pub is_stopped: bool,
    /// Process that opens the database now.
    pub opening: Option<String>,
    pub has_take_over: bool,
}

static CHECKS: &[InstallCheck<EngineFacts>] = &[stopped, other_version, opening, take_over];

pub fn examine(workspace: &Path, engine: Option<&EngineAtWork>) -> ExaminedArea {
    let facts = EngineFacts {
        engine: engine.cloned(),
        is_stopped: engine.is_some_and(|engine| is_stopped(&engine.pid)),
        opening: opening_process(workspace),
        has_take_over: workspace.join(TAKE_OVER).exists(),
    };
    ExaminedArea::of(CHECKS, &facts)
}

fn finding(severity: FindingSeverity, what: String, remedy: String) -> Vec<InstallFinding> {
    vec![InstallFinding::new(
        FindingArea::Engine,
        severity,
        what,
        remedy,
    )]
}

fn stopped(facts: &EngineFacts) -> Vec<InstallFinding> {
    let Some(engine) = facts.engine.as_ref().filter(|_| facts.is_stopped) else {
        return Vec::new();
    };
    let pid = &engine.pid;
    let what = format!(
        "process {pid} holds this workspace and is stopped: nothing is taken, answered or sent"
    );
    let remedy = format!(
        "`kill -CONT {pid}` lets it go on; `kill -9 {pid}`, then `attache serve`, replaces it, and nothing is lost"
    );
    finding(FindingSeverity::Fault, what, remedy)
}

fn other_version(facts: &EngineFacts) -> Vec<InstallFinding> {
    let version = facts
        .engine
        .as_ref()
        .and_then(|engine| engine.version.as_ref());
    let own = env!("CARGO_PKG_VERSION");
    let Some(version) = version.filter(|version| *version != own) else {
        return Vec::new();
    };
    let what =
        format!("the engine that works here is attache {version}, and this program is {own}");
    finding(
        FindingSeverity::Warning,
        what,
        "start the engine anew".to_owned(),
    )
}

fn opening(facts: &EngineFacts) -> Vec<InstallFinding> {
    let Some(pid) = &facts.opening else {
        return Vec::new();
    };
    let what = format!("process {pid} is opening the database, and every other waits for it");
    let remedy = format!("ask again in a minute; one that hangs is ended by `kill {pid}`");
    finding(FindingSeverity::Warning, what, remedy)
}

fn take_over(facts: &EngineFacts) -> Vec<InstallFinding> {
    if !facts.has_take_over {
        return Vec::new();
    }
    let what = "a take-over (`attache serve --take-over`) did not come to its end".to_owned();
    let remedy =
        format!("see by `attache status` that the right engine works, then `rm {TAKE_OVER}`");
    let found = finding(FindingSeverity::Warning, what, remedy).into_iter();
    found.map(|one| one.of_file(TAKE_OVER)).collect()
}
