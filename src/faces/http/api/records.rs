//! Single records of the API.

use super::{limit, record};
use crate::http::call::Call;
use crate::http::failure::PageError;
use crate::replay::{self, ContextRecord, ThreadDetail};
use crate::store::{ApprovalView, TransportState};
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

/// Most runs of a thread that its record names.
const RUNS_MAX: u32 = 200;
/// Most summaries of it.
const SUMMARIES_MAX: u32 = 20;

/// A thread with its messages and runs.
pub(in crate::http) async fn thread(call: Call) -> Result<Response, PageError> {
    let (store, limit) = (&call.context.store, limit(&call)?);
    let id = store.find_thread(call.param("id")).await?;
    let thread = replay::load_thread(store, &id, limit, RUNS_MAX).await?;
    let sessions = store.thread_sessions(&id).await?;
    let resets = store.thread_resets(&id).await?;
    let summaries = store.summaries_of_thread(&id, SUMMARIES_MAX).await?;
    record(&ThreadDetail::of(&thread, &sessions, &resets, &summaries))
}

/// A run and everything that happened in it.
pub(in crate::http) async fn run(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let id = store.find_run(call.param("id")).await?;
    record(&replay::load_run(store, &id).await?)
}

/// What the model saw in a run.
pub(in crate::http) async fn run_context(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let id = store.find_run(call.param("id")).await?;
    let run = store.run_summary(&id).await?;
    let report = store.persona(&run.persona).context_report(&id).await?;
    let report: Option<ContextRecord> = report.and_then(|json| serde_json::from_str(&json).ok());
    match report {
        Some(report) => record(&report),
        None => Err(PageError::Missing("context of a run".to_owned())),
    }
}

/// A message as runs show it.
pub(in crate::http) async fn message(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let id = store.find_message(call.param("id")).await?;
    let (persona, _) = store.place_of_message(&id).await?;
    let persona = store.persona(&persona);
    let attachments = persona.attachment_infos(&id).await?;
    record(&replay::message_record(
        persona.message(&id).await?,
        attachments,
    ))
}

/// A question, by its whole id or the end of it.
pub(in crate::http) async fn approval(call: Call) -> Result<Response, PageError> {
    record(&named_approval(&call).await?)
}

/// Returns the question that the path names, by its whole id or the end of it.
pub(in crate::http) async fn named_approval(call: &Call) -> Result<ApprovalView, PageError> {
    let (store, typed) = (&call.context.store, call.param("id"));
    if let Ok(found) = store.approval(typed).await {
        return Ok(found);
    }
    let ids = store.approvals_ending(typed).await?;
    let [id] = ids.as_slice() else {
        return Err(PageError::Missing("approval".to_owned()));
    };
    Ok(store.approval(id).await?)
}

/// An entry of memory with what it rests on.
pub(in crate::http) async fn memory_entry(call: Call) -> Result<Response, PageError> {
    let store = &call.context.store;
    let id = store.find_memory(call.param("id")).await?;
    record(&store.memory_dossier(&id).await?)
}

/// That the engine answers.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct HealthRecord {
    ok: bool,
    version: &'static str,
}

/// Says that the process answers; for whoever watches it, without a session.
pub(in crate::http) async fn health(_call: Call) -> Result<Response, PageError> {
    record(&HealthRecord {
        ok: true,
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// Whether letters are taken now, and what is wrong. Names nothing of the workspace.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct ReadyRecord {
    ready: bool,
    /// `false`: the database does not answer.
    database: bool,
    /// `false`: letters are refused for lack of disk space or because too many runs wait.
    room: bool,
    /// `well`; `ending`, because an operator asked; `not_heard` by the database's server, or `wrong_clock`, and nothing is stored.
    node: &'static str,
    /// `well`, `stopped`, or `none` where no transport is configured.
    outbound: &'static str,
    /// Mailboxes whose last fetch failed.
    mailboxes_failing: usize,
}

/// Says whether letters are taken; for whoever watches it, without a session. Status 503 when they are not.
pub(in crate::http) async fn ready(call: Call) -> Result<Response, PageError> {
    let context = &call.context;
    let (store, gateway) = (&context.store, &context.config.gateway);
    let health = store.transport_health().await;
    let outbound = match (&gateway.outbound, &health) {
        (None, _) => "none",
        (Some(_), Ok(Some(health))) if health.state != TransportState::Well => "stopped",
        (Some(_), _) => "well",
    };
    let mut mailboxes_failing = 0;
    for mailbox in &gateway.mailboxes {
        let health = store.mailbox_health(&mailbox.name).await;
        let fails = matches!(health, Ok(Some(health)) if health.last_error.is_some());
        mailboxes_failing += usize::from(fails);
    }
    let (database, room) = (health.is_ok(), context.intake.has_room());
    let node = store.node_state();
    let ready = ReadyRecord {
        ready: database && room && node == "well",
        database,
        room,
        node,
        outbound,
        mailboxes_failing,
    };
    let mut response = record(&ready)?;
    if !ready.ready {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}
