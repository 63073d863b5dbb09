//! The state of the engine: what comes in, what goes out, what is short, and the checks of the records.

use crate::domain::PersonaId;
use crate::gateway::intake::free_disk_bytes;
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::http::words::StateWords;
use crate::store::audit::{Audit, AuditScope};
use crate::store::{PersonaHalt, TransportState};
use crate::text::{one_line, truncated};
use axum::response::Response;
use serde::Serialize;

/// Longest reason of a halt.
const REASON_CHARS_MAX: usize = 500;

#[derive(Serialize)]
struct DoctorPage {
    personas: Vec<String>,
    parts: Vec<PartRow>,
    halts: Vec<PersonaHalt>,
    checks: Option<ChecksView>,
}

/// A part of the engine with its state.
#[derive(Serialize)]
struct PartRow {
    name: String,
    detail: String,
    state: StateWords,
}

/// Findings of the checks of the records.
#[derive(Serialize)]
struct ChecksView {
    made: usize,
    broken: Vec<BrokenView>,
    waiting_letters: u64,
}

#[derive(Serialize)]
struct BrokenView {
    group: &'static str,
    name: &'static str,
    says: &'static str,
    hint: &'static str,
    count: u64,
    what: Vec<String>,
}

pub(in crate::http) async fn show(call: Call) -> Result<Response, PageError> {
    let wants_checks = call.query("check") == "records";
    let page = DoctorPage {
        parts: parts(&call).await?,
        halts: call.context.store.halts().await?,
        personas: call
            .context
            .config
            .personas
            .iter()
            .map(|one| one.id.to_string())
            .collect(),
        checks: match wants_checks {
            true => Some(checks(&call).await?),
            false => None,
        },
    };
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

async fn parts(call: &Call) -> Result<Vec<PartRow>, PageError> {
    let config = &call.context.config;
    let gateway = &config.gateway;
    let part = |name: String, detail: String, state: StateWords| PartRow {
        name,
        detail,
        state,
    };
    let mut parts = Vec::new();
    for listener in &gateway.listeners {
        let name = format!(
            "{} {}",
            listener.kind.as_str().to_uppercase(),
            listener.address
        );
        parts.push(part(
            name,
            String::new(),
            StateWords::new("listens", "good"),
        ));
    }
    for listener in &gateway.http_listeners {
        let name = format!("pages {}", listener.address);
        parts.push(part(
            name,
            String::new(),
            StateWords::new("listens", "good"),
        ));
    }
    for folder in &gateway.folders {
        let name = format!("folder {}", folder.path.display());
        parts.push(part(
            name,
            String::new(),
            StateWords::new("watched", "good"),
        ));
    }
    for mailbox in &gateway.mailboxes {
        parts.push(mailbox_part(call, &mailbox.name).await?);
    }
    parts.push(outbound_part(call).await?);
    if let Ok(free) = free_disk_bytes(&config.workspace.join("data")) {
        let kept = config.limits.free_disk_bytes_min;
        let state = match free < kept {
            true => StateWords::new("letters are refused", "bad"),
            false => StateWords::new("enough", "good"),
        };
        let detail = format!("{} free", crate::http::words::size(free));
        parts.push(part("disk".to_owned(), detail, state));
    }
    Ok(parts)
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
    Ok(PartRow {
        name: format!("mailbox {name}"),
        detail,
        state,
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
    Ok(PartRow {
        name: "outbound".to_owned(),
        detail,
        state,
    })
}

/// Makes the checks that do not read every byte, on a connection of their own that can only read.
async fn checks(call: &Call) -> Result<ChecksView, PageError> {
    let database = call.context.config.workspace.join("data/attache.db");
    let internal = |error: anyhow::Error| PageError::Internal(error);
    let mut audit = Audit::open(&database)
        .await
        .map_err(|error| internal(error.into()))?;
    let scope = AuditScope {
        bytes: false,
        at_rest: false,
    };
    let findings = audit.examine(scope).await?;
    let broken = findings.broken.into_iter().map(|broken| BrokenView {
        group: broken.group,
        name: broken.name,
        says: broken.says,
        hint: broken.hint,
        count: broken.count,
        what: broken.what,
    });
    Ok(ChecksView {
        made: findings.made,
        broken: broken.collect(),
        waiting_letters: findings.pending.letters,
    })
}
