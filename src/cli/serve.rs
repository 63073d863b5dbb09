//! `attache serve`: the engine at work until SIGTERM or SIGINT.

use super::{Command, Context, Exit, Failure, output};
use crate::app::{self, Engine};
use crate::clock::SystemClock;
use crate::gateway::ingress::smtp::TlsError;
use crate::gateway::notices::Notices;
use crate::harness::preflight;
use anyhow::Context as _;
use clap::ArgMatches;
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub struct Serve;

impl Command for Serve {
    fn clap(&self) -> clap::Command {
        clap::Command::new("serve")
            .about("Take letters, run schedules, answer and send, until SIGTERM or SIGINT")
    }
    fn default_log(&self) -> &'static str {
        // The ticker reports its own life cycle at `info`, which tells an operator nothing.
        "info,tokio_cron_scheduler=warn"
    }
    fn run<'a>(&'a self, context: &'a Context, _args: &'a ArgMatches) -> BoxFuture<'a, anyhow::Result<Exit>> {
        Box::pin(async move { serve(context).await })
    }
}

async fn serve(context: &Context) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    // Before anything is opened, so that an early signal is not lost.
    let mut signals = Signals::listen()?;
    let engine = Engine::open(context.config()?, Arc::new(SystemClock::new())).await?;
    let listeners = engine.bind().await.map_err(|cause| {
        let hint = match cause.is::<TlsError>() {
            true => "`tls` in configs/gateway.json names the PEM files of certificate and key",
            false => "another program may have that address; `listeners` in configs/gateway.json names ours",
        };
        Failure::new(Exit::Failed, "cannot take letters").hint(hint).because(cause)
    })?;
    // Letters are taken and kept all the same; what is answered meanwhile is the operator's to know.
    let texts = preflight::text_problems(&engine.config, engine.store.clock().now());
    for problem in preflight::warnings(&engine.config).into_iter().chain(texts) {
        output::remark(&format!("warning: {problem}"));
    }
    // A server goes on serving when nobody reads what it says.
    let _unread = announce(context, &engine, &app::addresses(&listeners));
    let shutdown = CancellationToken::new();
    let serving = engine.serve(listeners, shutdown.clone());
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return served.map(|()| Exit::Ok),
        () = signals.next() => shutdown.cancel(),
    }
    tokio::select! {
        served = serving => served.map(|()| Exit::Ok),
        () = signals.next() => {
            let failure = Failure::new(Exit::Failed, "stopped by a second signal, without waiting for running work");
            Err(failure.hint("nothing is lost: the next start goes on where this one stopped").into())
        }
    }
}

/// The one line that says that letters can come.
fn announce(context: &Context, engine: &Engine, spelled: &[String]) -> anyhow::Result<()> {
    let personas = engine.config.personas.iter().count();
    if context.json() {
        let pid = std::process::id();
        return context.screen.json(&json!({ "listening": spelled, "personas": personas, "pid": pid }));
    }
    let way = match spelled {
        [] => "without a listener".to_owned(),
        some => format!("listening on {}", some.join(", ")),
    };
    context
        .screen
        .line(format!("attache {} serves {personas} personas, {way}", env!("CARGO_PKG_VERSION")))?;
    if engine.config.gateway.outbound.is_none() {
        output::remark("no outbound transport is configured: answers are stored and not sent");
    } else if let Some(reason) = Notices::silence(&engine.config) {
        output::remark(&format!("{reason}: what goes wrong is only listed, by `attache notices list`"));
    }
    Ok(())
}

/// The signals that mean an orderly end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
