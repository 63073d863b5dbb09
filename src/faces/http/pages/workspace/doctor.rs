//! The state of the engine: what comes in, what goes out, what is short, and the checks of the records.

use super::configuration::{ProblemLine, line, look_at_files};
use super::installation::InstallationFinding;
use crate::config::Problem;
use crate::domain::PersonaId;
use crate::gateway::intake::free_disk_bytes;
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::words::{StateWords, size};
use crate::store::audit::{Audit, AuditScope};
use crate::store::{AccountLine, StoredResponsibility, TransportState};
use crate::text::{one_line, plural, truncated};
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};

/// Longest reason of a halt.
const REASON_CHARS_MAX: usize = 500;
/// Most rows of one kind of problem.
const ROWS_MAX: usize = 20;

/// A part of the engine with its state.
#[derive(Serialize)]
struct PartRow {
    name: String,
    detail: String,
    state: StateWords,
    /// What to do; empty: nothing.
    advice: String,
    /// Page on which that is done.
    link: Option<&'static str>,
}

impl PartRow {
    fn new(name: impl Into<String>, detail: String, state: StateWords) -> Self {
        Self {
            name: name.into(),
            detail,
            state,
            advice: String::new(),
            link: None,
        }
    }

    fn advised(self, advice: impl Into<String>, link: &'static str) -> Self {
        Self {
            advice: advice.into(),
            link: Some(link),
            ..self
        }
    }
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let wants_checks = call.query("check") == "records";
    let page = json!({
        "parts": parts(&call).await?,
        "halts": call.context.store.halts().await?,
        "installation": installation(&call).await,
        "personas": call
            .context
            .config
            .personas
            .iter()
            .map(|one| one.id.to_string())
            .collect::<Vec<_>>(),
        "checks": match wants_checks {
            true => Some(checks(&call).await?),
            false => None,
        },
    });
    call.page("doctor.html", &page).await
}

/// Stops all runs and their mail, or one persona's, until that is lifted.
pub(in crate::http) async fn halt(call: Call) -> Result<Response, PageError> {
    let persona = persona(&call)?;
    let reason = truncated(&one_line(call.field("reason")), REASON_CHARS_MAX);
    call.context.store.halt(persona.as_ref(), &reason).await?;
    call.done("/doctor", &call.context.store.halts().await?)
}

/// Lifts a halt.
pub(in crate::http) async fn resume(call: Call) -> Result<Response, PageError> {
    let persona = persona(&call)?;
    call.context.store.lift_halt(persona.as_ref()).await?;
    call.context.wake();
    call.done("/doctor", &call.context.store.halts().await?)
}

/// Returns the persona of a form; `None`: every one.
fn persona(call: &Call) -> Result<Option<PersonaId>, PageError> {
    let typed = call.field("persona");
    match typed {
        "" => Ok(None),
        typed => Ok(Some(call.context.persona(typed)?.id.clone())),
    }
}

async fn installation(call: &Call) -> Option<Value> {
    let made = call.context.installation.as_ref()?.latest().await?;
    let row = |finding: &InstallationFinding| {
        let tone = match finding.severity {
            "fault" => "bad",
            "warning" => "wait",
            _ => "quiet",
        };
        json!({
            "area": finding.area,
            "state": StateWords::new(finding.severity, tone),
            "says": finding.says,
            "remedy": finding.remedy,
        })
    };
    Some(json!({
        "checks": made.checks,
        "rows": made.findings.iter().map(row).collect::<Vec<_>>(),
    }))
}

async fn parts(call: &Call) -> Result<Vec<PartRow>, PageError> {
    let gateway = &call.context.config.gateway;
    let good = |name: String, words: &str| {
        PartRow::new(name, String::new(), StateWords::new(words, "good"))
    };
    let mut parts = Vec::new();
    for listener in &gateway.listeners {
        let kind = listener.kind.as_str().to_uppercase();
        parts.push(good(format!("{kind} {}", listener.address), "listens"));
    }
    for listener in &gateway.http_listeners {
        parts.push(good(format!("pages {}", listener.address), "listens"));
    }
    for folder in &gateway.folders {
        parts.push(good(format!("folder {}", folder.path.display()), "watched"));
    }
    for mailbox in &gateway.mailboxes {
        parts.push(mailbox_part(call, &mailbox.name).await?);
    }
    parts.push(outbound_part(call).await?);
    parts.extend(disk_part(call));
    parts.extend(configuration_parts(call));
    parts.extend(responsibility_parts(call).await?);
    parts.extend(budget_parts(call).await?);
    Ok(parts)
}

fn disk_part(call: &Call) -> Option<PartRow> {
    let config = &call.context.config;
    let free = free_disk_bytes(&config.workspace.join("data")).ok()?;
    let detail = format!("{} free", size(free));
    Some(match free < config.limits.free_disk_bytes_min {
        false => PartRow::new("disk", detail, StateWords::new("enough", "good")),
        true => PartRow {
            advice: "Make room on the disk below `data`.".to_owned(),
            ..PartRow::new(
                "disk",
                detail,
                StateWords::new("letters are refused", "bad"),
            )
        },
    })
}

/// Returns a row for each problem because of which the next start would fail, and one for all warnings.
fn configuration_parts(call: &Call) -> Vec<PartRow> {
    let found = look_at_files(call);
    let problem = |problem: &Problem| {
        let ProblemLine {
            place,
            message,
            hint,
        } = line(problem);
        let state = StateWords::new("the next start fails", "bad");
        let advice = hint.unwrap_or_else(|| format!("Mend {place}."));
        PartRow::new("configuration", format!("{place}: {message}"), state)
            .advised(advice, "/config")
    };
    let mut rows: Vec<PartRow> = found.problems.iter().take(ROWS_MAX).map(problem).collect();
    if rows.is_empty() {
        let state = StateWords::new("the next start reads it", "good");
        rows.push(PartRow::new("configuration", String::new(), state));
    }
    if !found.warnings.is_empty() {
        let count = plural(found.warnings.len() as u64, "warning");
        let row = PartRow::new(
            "configuration",
            count,
            StateWords::new("to be read", "wait"),
        );
        rows.push(row.advised("Read what they say.", "/config"));
    }
    rows
}

/// Returns a row for each duty whose file cannot be read.
async fn responsibility_parts(call: &Call) -> Result<Vec<PartRow>, PageError> {
    let rows = call.context.store.responsibilities().await?;
    let broken = rows.into_iter().filter(|row| row.removed_at.is_none());
    let part = |row: StoredResponsibility| {
        let error = row.error?;
        let state = StateWords::new("does not fire", "bad");
        let name = format!("duty {} of {}", row.name, row.persona);
        let advice = format!("Mend {} on the page of its persona.", row.file);
        Some(PartRow::new(name, error, state).advised(advice, "/schedule"))
    };
    Ok(broken.filter_map(part).take(ROWS_MAX).collect())
}

/// Returns a row for each budget that is used up, or one that says that none is.
async fn budget_parts(call: &Call) -> Result<Vec<PartRow>, PageError> {
    let config = &call.context.config;
    let lines = call
        .context
        .store
        .account_lines(&config.inference, &config.personas, call.context.now())
        .await?;
    let spent = lines.iter().filter(|line| line.left() == Some(0));
    let part = |line: &AccountLine| {
        let name = format!("budget of {}", line.account.whose());
        let detail = format!("{} {}", line.spell(line.spent + line.reserved), line.unit);
        PartRow::new(name, detail, StateWords::new("used up", "bad")).advised(
            "Runs wait until the next day or month, or until a higher bound is in force.",
            "/usage",
        )
    };
    let mut rows: Vec<PartRow> = spent.take(ROWS_MAX).map(part).collect();
    if rows.is_empty() {
        let state = StateWords::new("none is used up", "good");
        rows.push(PartRow::new("budgets", String::new(), state));
    }
    Ok(rows)
}

async fn mailbox_part(call: &Call, name: &str) -> Result<PartRow, PageError> {
    let health = call.context.store.mailbox_health(name).await?;
    let (detail, state) = match health {
        None => (String::new(), StateWords::new("not fetched yet", "busy")),
        Some(health) => {
            let fetched = health
                .last_fetch_at
                .map(|at| format!("last fetched {at}"))
                .unwrap_or_default();
            match health.last_error {
                Some(error) => (error, StateWords::new("fails", "bad")),
                None => (fetched, StateWords::new("fetched", "good")),
            }
        }
    };
    let is_bad = state.tone == "bad";
    let row = PartRow::new(format!("mailbox {name}"), detail, state);
    Ok(match is_bad {
        true => row.advised("Check its server, user and password.", "/config"),
        false => row,
    })
}

async fn outbound_part(call: &Call) -> Result<PartRow, PageError> {
    let health = call.context.store.transport_health().await?;
    let (detail, state) = match (&call.context.config.gateway.outbound, health) {
        (None, _) => (
            "answers are stored and not sent".to_owned(),
            StateWords::new("not configured", "wait"),
        ),
        (_, Some(health)) if health.state != TransportState::Well => {
            (health.reason, StateWords::new("no mail leaves", "bad"))
        }
        _ => (String::new(), StateWords::new("mail leaves", "good")),
    };
    let is_good = state.tone == "good";
    let row = PartRow::new("outbound", detail, state);
    Ok(match is_good {
        true => row,
        false => row.advised("Mails wait; `outbound` names the server.", "/outbox"),
    })
}

/// Makes the checks that do not read every byte, on a connection of their own that can only read.
async fn checks(call: &Call) -> Result<Value, PageError> {
    let audit = Audit::of_workspace(&call.context.config.workspace).await;
    let mut audit = audit.map_err(|error| PageError::Internal(error.into()))?;
    let scope = AuditScope {
        bytes: false,
        at_rest: false,
    };
    let findings = audit.examine(scope).await?;
    let broken = findings.broken.into_iter().map(|broken| {
        json!({
            "group": broken.group,
            "name": broken.name,
            "says": broken.says,
            "hint": broken.hint,
            "count": broken.count,
            "what": broken.what,
        })
    });
    Ok(json!({
        "made": findings.made,
        "broken": broken.collect::<Vec<_>>(),
        "waiting_letters": findings.pending.letters,
    }))
}
