//! `attache serve`: runs the engine until SIGTERM or SIGINT.

use super::doctor::WorkspaceExaminer;
use super::process::addresses::unbound_hint;
use super::process::other::is_stopped;
use super::{CommandContext, Exit, Failure, refuse, screen};
use crate::app::{self, Engine, NodeRole, NodeRoles, service_manager};
use crate::clock::SystemClock;
use crate::config::{Config, ListenAddress};
use crate::gateway::ingress::smtp::{BoundSocket, TlsError};
use crate::gateway::notices::Notices;
use crate::store::{give_up_spare_room, keep_spare_room, working_engine};
use crate::text::plural;
use anyhow::Context as _;
use serde::Serialize;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Number of attempts to bind the addresses of a replaced engine, and the pause between them.
const ADDRESS_TRIES: usize = 40;
const ADDRESS_PAUSE: Duration = Duration::from_millis(100);
/// Further signals within this time of the first count as one request.
const ONE_WISH: Duration = Duration::from_secs(1);

/// Take letters, run schedules, answer and send, until SIGTERM or SIGINT
#[derive(clap::Args)]
pub struct Serve {
    /// Replace the engine that has this workspace, for one that hangs: nobody asks it, and it can store nothing more
    #[arg(long)]
    take_over: bool,
    /// Do only a part of the work, where several engines share a database on PostgreSQL; without it, everything
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = NodeRole::ALL.map(|(name, _)| name),
        action = clap::ArgAction::Set
    )]
    roles: Option<Vec<String>>,
}

impl Serve {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let roles = match &self.roles {
            Some(names) => NodeRoles::of(names.iter().map(String::as_str)),
            None => NodeRoles::all(),
        };
        serve(context, self.take_over, roles).await
    }
}

/// Serves a workspace until a signal.
pub(super) async fn serve(
    context: &CommandContext,
    take_over: bool,
    roles: NodeRoles,
) -> anyhow::Result<Exit> {
    context.require_workspace()?;
    // Before the engine opens, so that an early signal is not lost.
    let mut signals = Signals::listen()?;
    let (config, clock) = (context.config()?, Arc::new(SystemClock::new()));
    if take_over {
        refuse_stopped(context, &config)?;
    }
    if give_up_spare_room(&context.workspace) {
        screen::remark(
            "warning: the disk is full: the spare room of `data` is given up for this start",
        );
    }
    let engine = match take_over {
        true => Engine::take_over(config, clock).await?,
        false => Engine::open(config, clock).await?,
    };
    // Without it a full disk is only harder to mend.
    let _not_kept = keep_spare_room(&context.workspace);
    let mut engine = match roles == NodeRoles::all() {
        true => engine,
        false => engine.with_roles(roles).await?,
    };
    signals.reload = Some(engine.reload_wanted());
    let listeners = bind(&engine, take_over).await?;
    engine.examined_by(Arc::new(WorkspaceExaminer::of(&context.workspace)));
    let pages = bind_pages(&mut engine, take_over).await?;
    // Letters are accepted and stored all the same; the operator must know which of them are not
    // answered.
    for problem in engine.warnings() {
        screen::remark(&format!("warning: {problem}"));
    }
    // The server continues when its stdout is closed.
    let addresses = app::addresses(&listeners);
    let _unread = announce(context, &engine, &addresses, &pages);
    service_manager::tell_ready(&serving(&engine, &addresses));
    let shutdown = CancellationToken::new();
    let serving = engine.serve(listeners, shutdown.clone());
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return served.map(|()| Exit::Ok),
        () = signals.next() => shutdown.cancel(),
    }
    signals.reload = None;
    tokio::select! {
        served = serving => served.map(|()| Exit::Ok),
        () = signals.another() => {
            refuse(Exit::Failed, "stopped by a second signal, without waiting for running work", "nothing is lost: the next start goes on where this one stopped")
        }
    }
}

/// Refuses to replace a stopped process (SIGSTOP, a debugger), because it keeps its addresses for
/// good: it could write no more, and its successor could not listen, so no process would accept
/// letters.
fn refuse_stopped(context: &CommandContext, config: &Config) -> Result<(), Failure> {
    let Some(pid) = working_engine(&context.workspace) else {
        return Ok(());
    };
    let is_taken = |address: &ListenAddress| match address {
        ListenAddress::Tcp(address) => std::net::TcpListener::bind(address).is_err(),
        ListenAddress::Unix { path, .. } => std::os::unix::net::UnixStream::connect(path).is_ok(),
    };
    let gateway = &config.gateway;
    let mail = gateway.listeners.iter().map(|listener| &listener.address);
    let pages = gateway.http_listeners.iter();
    let keeps = mail
        .chain(pages.map(|listener| &listener.address))
        .any(is_taken);
    if !is_stopped(&pid) || !keeps {
        return Ok(());
    }
    refuse(
        Exit::Workspace,
        format!("process {pid} works on this workspace, is stopped, and keeps its addresses"),
        format!(
            "`kill -9 {pid}` ends it, then `attache serve` goes on where it was; nothing was changed"
        ),
    )
}

/// Binds the listeners; with `take_over` it retries, because a replaced engine notices within a
/// second and then closes its sockets.
async fn bind(engine: &Engine, take_over: bool) -> Result<Vec<BoundSocket>, Failure> {
    let mut tries = if take_over { ADDRESS_TRIES } else { 1 };
    loop {
        tries -= 1;
        match engine.bind().await {
            Ok(listeners) => return Ok(listeners),
            Err(cause) if cause.is::<TlsError>() || tries == 0 => {
                let hint = unbound(&cause, take_over);
                return Err(Failure::new(Exit::Failed, "cannot take letters")
                    .hint(hint)
                    .because(cause));
            }
            Err(_taken) => tokio::time::sleep(ADDRESS_PAUSE).await,
        }
    }
}

/// Binds the listeners of the pages, as [`bind`] does those of mail.
async fn bind_pages(engine: &mut Engine, take_over: bool) -> Result<Vec<String>, Failure> {
    let mut tries = if take_over { ADDRESS_TRIES } else { 1 };
    loop {
        tries -= 1;
        match engine.bind_pages().await {
            Ok(pages) => return Ok(pages),
            Err(cause) if cause.is::<TlsError>() || tries == 0 => {
                let hint = unbound(&cause, take_over);
                return Err(Failure::new(Exit::Failed, "cannot serve the pages")
                    .hint(hint)
                    .because(cause));
            }
            Err(_taken) => tokio::time::sleep(ADDRESS_PAUSE).await,
        }
    }
}

/// Hint for an address that cannot be bound.
fn unbound(cause: &anyhow::Error, take_over: bool) -> &'static str {
    if cause.is::<TlsError>() {
        return "`tls` in configs/gateway.json names the PEM files of certificate and key";
    }
    let kind = cause
        .chain()
        .find_map(|cause| cause.downcast_ref::<std::io::Error>())
        .map(std::io::Error::kind);
    if take_over
        && !matches!(
            kind,
            Some(ErrorKind::PermissionDenied | ErrorKind::AddrNotAvailable)
        )
    {
        return "an engine that is stopped keeps its addresses: end its process, then start this one again";
    }
    unbound_hint(kind)
}

/// Prints the line that says that letters are accepted.
fn announce(
    context: &CommandContext,
    engine: &Engine,
    formatted: &[String],
    pages: &[String],
) -> anyhow::Result<()> {
    let personas = engine.config.personas.iter().count();
    if context.json() {
        let pid = std::process::id();
        return context.screen.json(&ServeRecord {
            listening: formatted,
            pages,
            personas,
            pid,
        });
    }
    let version = env!("CARGO_PKG_VERSION");
    let serving = serving(engine, formatted);
    context
        .screen
        .line(format!("attache {version} {serving}"))?;
    for address in pages {
        context.screen.line(format!(
            "pages at {address}: `attache web login` opens them in a browser"
        ))?;
    }
    if engine.config.gateway.outbound.is_none() {
        screen::remark("no outbound transport is configured: answers are stored and not sent");
    } else if let Some(reason) = Notices::silence(&engine.config) {
        screen::remark(&format!(
            "{reason}: what goes wrong is only listed, by `attache notices list`"
        ));
    }
    Ok(())
}

/// Says whom the engine serves, and where it takes letters.
fn serving(engine: &Engine, addresses: &[String]) -> String {
    let personas = plural(engine.config.personas.iter().count(), "persona");
    match addresses {
        [] => format!("serves {personas}, without a listener"),
        some => format!("serves {personas}, listening on {}", some.join(", ")),
    }
}

/// The signals that request an orderly end, and the one that requests a reload.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    /// Woken by a request to reload; `None`: no engine serves.
    reload: Option<Arc<Notify>>,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
            reload: None,
        })
    }

    /// Waits until an end is requested.
    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => {
                    if let Some(reload) = &self.reload {
                        reload.notify_one();
                    }
                }
            }
        }
    }

    /// Waits for a further request to end. A sender that signals a process and its group, as
    /// `timeout` does, or a process group that forwards the signal, delivers it twice for one
    /// request.
    async fn another(&mut self) {
        let repeated = async {
            loop {
                self.next().await;
            }
        };
        let _all_one_wish = tokio::time::timeout(ONE_WISH, repeated).await;
        self.next().await;
    }
}

/// Announcement that letters are accepted.
#[derive(Serialize)]
struct ServeRecord<'a> {
    listening: &'a [String],
    /// Addresses of the pages.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pages: &'a [String],
    personas: usize,
    pid: u32,
}
