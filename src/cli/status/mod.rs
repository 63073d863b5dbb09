//! `attache status`: whether an engine serves, and what an operator must know of it, on one screen.
//!
//! It reads files and indexes and changes nothing; `attache tail` keeps up with what happens. Absent on purpose: tests of
//! servers, files and modes (`attache doctor`).

mod state;

use super::args::in_force::NotInForce;
use super::screen::{one_line, quoted};
use super::{CommandContext, Exit};
use crate::clock::{Clock, SystemClock};
use crate::config::dollars;
use crate::store::{BudgetRecord, DatabasePlace, Store};
use crate::text::{plural, shortened};
use state::{EngineState, RecordsStatus, WorkspaceStatus};
use std::sync::Arc;

/// Most budgets, servers and halts that are shown, each.
const SHOWN_MAX: usize = 5;
const REASON_CHARS_MAX: usize = 100;

/// Prints the state.
pub async fn status(context: &CommandContext) -> anyhow::Result<Exit> {
    let workspace = context.find_workspace()?;
    let clock = Arc::new(SystemClock::new());
    let now = clock.now();
    // No migration is made: whoever only looks must not change a database beside an older engine.
    let place = DatabasePlace::of(workspace)?;
    let store = match place.refuse_leftovers() {
        Err(error) => Some(Err(error)),
        Ok(()) if place.is_made() => Some(Store::open_to_read(workspace, clock).await),
        Ok(()) => None,
    };
    let status = WorkspaceStatus::of(context, &place, store, now).await?;
    let exit = match status.engine {
        // An engine without its database takes no letter.
        _ if status.is_server_away => Exit::NotServing,
        EngineState::Serving => Exit::Ok,
        EngineState::None if is_served_elsewhere(&status) => Exit::Ok,
        EngineState::Stopped | EngineState::None => Exit::NotServing,
    };
    match context.json() {
        true => context.screen.json(&status)?,
        false => context.screen.fields(&fields(&status))?,
    }
    Ok(exit)
}

/// Reports whether a node on another workspace serves the database.
fn is_served_elsewhere(status: &WorkspaceStatus) -> bool {
    let records = status.records.as_ref();
    records.is_some_and(RecordsStatus::has_working_node)
}

/// Says which edits do not count, and what makes them count.
fn not_in_force(found: &NotInForce) -> Option<String> {
    let files = found.files.join(", ");
    let read = match found.refused.first() {
        _ if files.is_empty() => None,
        None => Some(format!("{files}: read within seconds")),
        Some(first) => Some(format!("{files}: {first}")),
    };
    let restart = found.after_restart.iter();
    let restart = restart.map(|setting| format!("{setting}: start the engine anew"));
    let all: Vec<String> = read.into_iter().chain(restart).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn fields(status: &WorkspaceStatus) -> Vec<(&'static str, String)> {
    let mut fields = vec![("Engine", engine(status))];
    fields.extend(not_in_force(&status.not_in_force).map(|text| ("Not in force", text)));
    if status.configuration_problems > 0 {
        let problems = plural(status.configuration_problems, "problem");
        let text = format!("{problems}: `attache config check` lists them");
        fields.push(("Configuration", text));
    }
    if let Some(shortage) = &status.disk_shortage {
        let text = format!(
            "letters are refused: {} bytes of the disk are free, and `limits.free_disk_bytes_min` keeps {}; \
             `attache doctor` says how to make room",
            shortage.free_bytes, shortage.free_bytes_min
        );
        fields.push(("Disk", text));
    }
    let Some(records) = &status.records else {
        let none = || "none yet: the first start of an engine makes it".to_owned();
        let remedy = status.database_remedy.as_deref();
        let remedy = remedy.unwrap_or("`attache doctor` says what to do");
        let since = status.server_away_since;
        let since = since.map_or(String::new(), |at| format!(" (no answer since {at})"));
        let unread = status.database_error.as_ref();
        let unread = unread.map(|error| format!("{error}{since}: {remedy}"));
        fields.push(("Database", unread.unwrap_or_else(none)));
        return fields;
    };
    fields.extend(nodes(records).map(|text| ("Nodes", text)));
    fields.push(("Waiting", waiting(records)));
    fields.push(("Failed today", failed(records)));
    fields.push(("Cost today", cost(records)));
    let budgets = records.budgets.iter().map(budget).collect();
    if let Some(budgets) = listed(budgets, "attache usage --budgets") {
        fields.push(("Budgets", budgets));
    }
    fields.push(("Halted", halted(records)));
    fields.push(("Away", away(records)));
    fields.push(("Next task", next(records)));
    fields.push(("Last backup", backup(records)));
    if records.interrupted_erasures > 0 {
        let count = plural(records.interrupted_erasures, "erasure");
        let text = format!("{count} interrupted: stop the engine, then `attache erase --resume`");
        fields.push(("Erasure", text));
    }
    fields
}

/// Names the engines that share the database, where it is on a server.
fn nodes(records: &RecordsStatus) -> Option<String> {
    let (alive, gone): (Vec<_>, Vec<_>) = records.nodes.iter().partition(|node| node.is_alive());
    let off = alive.iter().filter(|node| node.has_wrong_clock());
    let off = off.map(|node| format!("; the clock of {} is wrong", node.host));
    let off = off.collect::<String>();
    let gone = match gone.len() {
        0 => String::new(),
        some => format!("; {} not heard of", plural(some, "node")),
    };
    let count = plural(alive.len(), "node");
    let text = format!("{count} at work{gone}{off}: `attache nodes list` shows them");
    (!records.nodes.is_empty()).then_some(text)
}

fn engine(status: &WorkspaceStatus) -> String {
    let pid = status.pid.map_or("?".to_owned(), |pid| pid.to_string());
    let since = status.since.map(|at| format!(" since {at}"));
    let since = since.unwrap_or_default();
    let version = status.version.as_ref();
    let version = version.map(|version| format!(", attache {version}"));
    match status.engine {
        EngineState::Serving => format!(
            "at work{since}, process {pid}{}",
            version.unwrap_or_default()
        ),
        EngineState::Stopped => format!(
            "process {pid} holds the workspace{since} and is stopped: `kill -CONT {pid}` lets it go on"
        ),
        EngineState::None if is_served_elsewhere(status) => {
            "none in this workspace; others work on its database".to_owned()
        }
        EngineState::None => "none is at work: `attache serve` starts one".to_owned(),
    }
}

/// Names the counts that are not zero, each with its words for one and for several.
fn counts(counts: &[(u64, &str, &str)]) -> Option<String> {
    let named = counts.iter().filter(|(count, ..)| *count > 0);
    let words = |(count, one, several): &(u64, &str, &str)| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {several}"),
    };
    let named: Vec<String> = named.map(words).collect();
    (!named.is_empty()).then(|| named.join(", "))
}

fn waiting(records: &RecordsStatus) -> String {
    let waiting = &records.waiting;
    let found = counts(&[
        (waiting.letters_held, "letter held", "letters held"),
        (waiting.runs_queued, "run queued", "runs queued"),
        (waiting.runs_running, "run at work", "runs at work"),
        (
            waiting.runs_waiting_retry,
            "run to be tried again",
            "runs to be tried again",
        ),
        (
            waiting.runs_waiting_approval,
            "run waits for an approval",
            "runs wait for an approval",
        ),
        (waiting.mails, "mail to be sent", "mails to be sent"),
        (waiting.mails_held, "mail held", "mails held"),
        (
            waiting.webhook_events,
            "event for webhooks",
            "events for webhooks",
        ),
        (waiting.questions, "question to you", "questions to you"),
        (waiting.drafts, "draft", "drafts"),
        (
            waiting.memory_proposed,
            "entry of memory to decide",
            "entries of memory to decide",
        ),
    ]);
    found.unwrap_or_else(|| "nothing".to_owned())
}

fn failed(records: &RecordsStatus) -> String {
    let failed = &records.failed_today;
    let found = counts(&[
        (failed.runs, "run", "runs"),
        (failed.mails, "mail", "mails"),
        (
            failed.slots_missed,
            "scheduled task missed",
            "scheduled tasks missed",
        ),
    ]);
    let found = found.unwrap_or_else(|| "nothing".to_owned());
    let since = match failed.is_whole {
        true => "",
        false => ", as far as the feed goes back",
    };
    match failed.notices {
        0 => format!("{found}{since}"),
        notices => format!(
            "{found}{since}; {} (`attache notices list`)",
            plural(notices, "notice")
        ),
    }
}

fn cost(records: &RecordsStatus) -> String {
    let cost = &records.cost_today;
    let unknown = match cost.unknown_cost {
        0 => String::new(),
        some => format!(", {} without a known price", plural(some, "call")),
    };
    format!(
        "${} in {} since midnight in {}{unknown}",
        dollars(cost.cost_micros),
        plural(cost.calls, "call"),
        cost.timezone
    )
}

fn budget(line: &BudgetRecord) -> String {
    let whose = match line.owner.as_str() {
        "" => "the engine",
        owner => owner,
    };
    let amount = |amount: Option<i64>| match line.unit {
        "micros" => format!("${}", dollars(amount.unwrap_or_default())),
        _ => format!("{} tokens", amount.unwrap_or_default()),
    };
    let (left, max, span) = (amount(line.left), amount(line.max), line.span);
    format!("{whose}: {left} of {max} left this {span}")
}

fn halted(records: &RecordsStatus) -> String {
    let halts = records.halts.iter().map(|halt| {
        let persona = halt.persona.as_ref().map(ToString::to_string);
        let whom = persona.unwrap_or_else(|| "every persona".to_owned());
        let reason = match halt.reason.as_str() {
            "" => String::new(),
            reason => format!(" ({})", short(reason)),
        };
        format!("{whom} since {}{reason}", halt.halted_at)
    });
    listed(halts.collect(), "attache halt --list").unwrap_or_else(|| "nothing".to_owned())
}

fn away(records: &RecordsStatus) -> String {
    let servers = records
        .away
        .iter()
        .map(|server| match server.reason.as_str() {
            "" => server.to_string(),
            reason => format!("{server}: {}", short(reason)),
        });
    let webhooks = records.webhooks_away.iter().map(|webhook| {
        let state = match (webhook.disabled_at, webhook.rests_until) {
            (Some(at), _) => format!("is off since {at}"),
            (None, Some(until)) => format!("rests until {until}"),
            (None, None) => "is not asked".to_owned(),
        };
        format!("webhook `{}` {state}", webhook.name)
    });
    let all = servers.chain(webhooks).collect();
    listed(all, "attache status --json").unwrap_or_else(|| "nothing that is known".to_owned())
}

fn next(records: &RecordsStatus) -> String {
    match &records.next_slot {
        Some(next) => format!(
            "{} of {} at {}",
            one_line(&next.name),
            next.persona,
            next.at
        ),
        None => "none".to_owned(),
    }
}

fn backup(records: &RecordsStatus) -> String {
    match &records.last_backup {
        Some(backup) => format!("{}, {}", backup.at, quoted(&one_line(&backup.file))),
        None => "none is known: `attache backup FILE` makes one".to_owned(),
    }
}

fn short(text: &str) -> String {
    shortened(&one_line(text), REASON_CHARS_MAX)
}

/// Joins a list; of a long one the first, with the command that shows the others. `None`: it is empty.
fn listed(mut all: Vec<String>, command: &str) -> Option<String> {
    let unlisted = all.len().saturating_sub(SHOWN_MAX);
    all.truncate(SHOWN_MAX);
    if unlisted > 0 {
        all.push(format!("{unlisted} more (`{command}`)"));
    }
    (!all.is_empty()).then(|| all.join("; "))
}
