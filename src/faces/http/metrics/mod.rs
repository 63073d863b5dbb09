//! Metrics for Prometheus: numbers of what happened, of what waits, of what was spent, and of the process.
//!
//! - `exposition`: the text format
//! - `events`: counters, from the feed
//! - `process`: memory and files of the process
//!
//! Absent on purpose: addresses, subjects, texts, and names of files. What tells one series from another is a persona, a
//! model, or a word of ours.

mod events;
mod exposition;
mod process;

pub(super) use events::EventCounts;

use super::call::Call;
use super::failure::PageError;
use super::reply;
use crate::store::{UsageBy, UsageSince};
use axum::http::StatusCode;
use axum::response::Response;
use exposition::{Exposition, SampleKind};

/// Content type of the text format, version 0.0.4 (prometheus.io, "Exposition formats").
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Most models whose usage is given.
const MODELS_MAX: usize = 100;

/// Answers a scrape.
pub(super) async fn show(call: Call) -> Result<Response, PageError> {
    let mut to = Exposition::default();
    to.family(
        "attache_build_info",
        SampleKind::Gauge,
        "The program that is at work.",
    )
    .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let context = &call.context;
    context.event_counts.add_to(&mut to, &context.store).await?;
    waiting(&call, &mut to).await?;
    usage(&call, &mut to).await?;
    let data = context.config.workspace.join("data");
    process::add_to(&mut to, &data, context.event_counts.since());
    Ok(reply::answer(StatusCode::OK, CONTENT_TYPE, to.text()))
}

/// What is open now, and whether letters are taken.
async fn waiting(call: &Call, to: &mut Exposition) -> Result<(), PageError> {
    let work = call.context.store.waiting_work().await?;
    let mut runs = to.family(
        "attache_runs",
        SampleKind::Gauge,
        "Runs that have not ended, by state.",
    );
    for (state, count) in [
        ("queued", work.runs_queued),
        ("running", work.runs_running),
        ("waiting_retry", work.runs_waiting_retry),
        ("waiting_approval", work.runs_waiting_approval),
    ] {
        runs.sample(&[("state", state)], count as f64);
    }
    let single = [
        (
            "attache_letters_held",
            "Letters whose sender cannot be verified yet.",
            work.letters_held,
        ),
        (
            "attache_deliveries_waiting",
            "Mails that are queued or being sent.",
            work.mails,
        ),
        (
            "attache_deliveries_held",
            "Mails that wait for an owner, because their server may have them.",
            work.mails_held,
        ),
        (
            "attache_questions_open",
            "Calls and plans that wait for an owner.",
            work.questions,
        ),
        (
            "attache_drafts_open",
            "Mails that wait for an owner to send them.",
            work.drafts,
        ),
        (
            "attache_memory_proposed",
            "Entries of memory that wait for an owner.",
            work.memory_proposed,
        ),
        (
            "attache_webhook_events_waiting",
            "Events that webhooks are to be told.",
            work.webhook_events,
        ),
    ];
    for (name, help, count) in single {
        to.family(name, SampleKind::Gauge, help)
            .sample(&[], count as f64);
    }
    let room = f64::from(u8::from(call.context.intake.has_room()));
    to.family(
        "attache_letters_accepted",
        SampleKind::Gauge,
        "1: letters are taken; 0: they are refused for want of room.",
    )
    .sample(&[], room);
    nodes(call, to).await
}

/// Engines that share the database, where it is on a server.
async fn nodes(call: &Call, to: &mut Exposition) -> Result<(), PageError> {
    let store = &call.context.store;
    if !store.has_nodes() {
        return Ok(());
    }
    let nodes = store.nodes().await?;
    let alive = nodes.iter().filter(|node| node.is_alive()).count();
    let mut count = to.family(
        "attache_nodes",
        SampleKind::Gauge,
        "Engines on this database, by whether their lease lasts.",
    );
    count.sample(&[("state", "alive")], alive as f64);
    count.sample(&[("state", "not_heard")], (nodes.len() - alive) as f64);
    let own = nodes.iter().find(|node| node.epoch == store.epoch());
    if let Some(node) = own {
        to.family(
            "attache_node_clock_off_seconds",
            SampleKind::Gauge,
            "The clock of this machine less that of the database's server.",
        )
        .sample(&[], node.clock_off_ms as f64 / 1000.0);
    }
    Ok(())
}

/// What calls of models used and cost since the first of them, as far as the ledger is kept.
async fn usage(call: &Call, to: &mut Exposition) -> Result<(), PageError> {
    let all = UsageSince::Day(String::new());
    let models = call
        .context
        .store
        .usage_since(&all, Some(UsageBy::Model), MODELS_MAX)
        .await?;
    let mut cost = to.family(
        "attache_cost_dollars_total",
        SampleKind::Counter,
        "Known cost of calls of models.",
    );
    for model in &models {
        let micros = model.cost_micros.unwrap_or_default();
        cost.sample(&[("model", &model.what)], micros as f64 / 1e6);
    }
    let mut tokens = to.family(
        "attache_tokens_total",
        SampleKind::Counter,
        "Tokens of calls of models.",
    );
    for model in &models {
        for (direction, count) in [
            ("input", model.input_tokens),
            ("output", model.output_tokens),
        ] {
            tokens.sample(
                &[("model", &model.what), ("direction", direction)],
                count as f64,
            );
        }
    }
    let mut calls = to.family(
        "attache_model_calls_total",
        SampleKind::Counter,
        "Calls of models, those without an answer included.",
    );
    for model in &models {
        calls.sample(&[("model", &model.what)], model.calls as f64);
    }
    Ok(())
}
