//! Tasks that are started anew when what they were built from changes: mailboxes, folders, the way out, webhooks, vectors,
//! backups, retention, telemetry.

use super::nodes::{NodeTask, by_one_node};
use super::parts::EngineParts;
use super::roles::{NodeRole, NodeRoles};
use super::watches::{folder_watch, mailbox_watch};
use crate::config::Config;
use crate::gateway::ingress::{folder, imap};
use crate::keeping;
use crate::telemetry::TelemetryWorker;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A task that should work, by its name.
struct Wanted {
    name: String,
    /// Digest of what it is built from.
    fingerprint: String,
    start: NodeTask,
}

/// A task that works.
struct TaskInForce {
    fingerprint: String,
    stop: CancellationToken,
    /// Cancelled when it has ended.
    ended: CancellationToken,
}

/// Works until `shutdown`, and then until every task has ended.
pub(super) async fn keep(parts: Arc<EngineParts>, roles: NodeRoles, shutdown: CancellationToken) {
    let mut changes = parts.config.changes();
    let (mut tasks, mut running) = (JoinSet::new(), BTreeMap::new());
    loop {
        let config = changes.borrow_and_update().clone();
        bring_in_line(
            wanted(&parts, &config, &roles),
            &mut tasks,
            &mut running,
            &shutdown,
        );
        tokio::select! {
            () = shutdown.cancelled() => break,
            changed = changes.changed() => if changed.is_err() { break },
            Some(ended) = tasks.join_next() => pass_on_panic(ended),
        }
    }
    while let Some(ended) = tasks.join_next().await {
        pass_on_panic(ended);
    }
}

/// Stops tasks that are not wanted, and starts those that are missing. One that takes the place of another waits for its end.
fn bring_in_line(
    wanted: Vec<Wanted>,
    tasks: &mut JoinSet<()>,
    running: &mut BTreeMap<String, TaskInForce>,
    shutdown: &CancellationToken,
) {
    let mut before = std::mem::take(running);
    for Wanted {
        name,
        fingerprint,
        start,
    } in wanted
    {
        let old = before.remove(&name);
        if let Some(old) = old.as_ref().filter(|old| old.fingerprint == fingerprint) {
            let (stop, ended) = (old.stop.clone(), old.ended.clone());
            let same = TaskInForce {
                fingerprint,
                stop,
                ended,
            };
            running.insert(name, same);
            continue;
        }
        let old = old.inspect(|old| old.stop.cancel());
        let (stop, ended) = (shutdown.child_token(), CancellationToken::new());
        let (task, over) = (start(stop.clone()), ended.clone().drop_guard());
        tasks.spawn(work(old, task, over));
        let new = TaskInForce {
            fingerprint,
            stop,
            ended,
        };
        running.insert(name, new);
    }
    for (name, old) in before {
        tracing::info!(name, "a task ends: the configuration has it no more");
        old.stop.cancel();
    }
}

async fn work(before: Option<TaskInForce>, task: BoxFuture<'static, ()>, _over: DropGuard) {
    if let Some(before) = before {
        before.ended.cancelled().await;
    }
    task.await;
}

/// Lets a panic of a task end the engine, as one of any other part does.
fn pass_on_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

fn wanted(parts: &Arc<EngineParts>, config: &Arc<Config>, roles: &NodeRoles) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    if roles.has(NodeRole::Gateway) {
        wanted.extend(ways_in(parts, config));
    }
    if roles.has(NodeRole::Outbound) {
        wanted.push(way_out(parts, config));
    }
    if roles.has(NodeRole::Clock) {
        wanted.extend(shared_tasks(parts, config));
    }
    wanted
}

/// Returns the folders and mailboxes that are watched.
fn ways_in(parts: &Arc<EngineParts>, config: &Arc<Config>) -> Vec<Wanted> {
    let gateway = &config.gateway;
    let mut wanted = Vec::new();
    for watched in &gateway.folders {
        let watch = (parts.clone(), config.clone(), watched.clone());
        let (limits, personas) = (&config.limits, addresses(config));
        wanted.push(Wanted {
            name: format!("folder {}", watched.path.display()),
            fingerprint: config.fingerprint((watched, limits, personas)),
            start: Box::new(move |stop| {
                let (parts, config, watched) = watch;
                Box::pin(folder::watch(folder_watch(&parts, &config, watched), stop))
            }),
        });
    }
    for mailbox in &gateway.mailboxes {
        let watch = (parts.clone(), config.clone(), mailbox.clone());
        let (limits, personas) = (&config.limits, addresses(config));
        let name = format!("mailbox {}", mailbox.name);
        let start: NodeTask = Box::new(move |stop| {
            let (parts, config, mailbox) = watch;
            Box::pin(imap::watch(mailbox_watch(&parts, &config, mailbox), stop))
        });
        wanted.push(Wanted {
            start: by_one_node(&parts.store, &name, start),
            name,
            fingerprint: config.fingerprint((mailbox, limits, personas)),
        });
    }
    wanted
}

fn way_out(parts: &Arc<EngineParts>, config: &Arc<Config>) -> Wanted {
    let (way_out, mail_queued) = (parts.outbound.get(), parts.mail_queued.clone());
    let grace_period = config.limits.drain_grace_period();
    Wanted {
        name: "outbound".to_owned(),
        fingerprint: way_out.fingerprint.clone(),
        start: Box::new(move |stop| {
            Box::pin(async move {
                if let Some(outbound) = &way_out.outbound {
                    outbound.run(&mail_queued, stop, grace_period).await;
                }
            })
        }),
    }
}

/// Returns the tasks that one node does for all.
fn shared_tasks(parts: &Arc<EngineParts>, config: &Arc<Config>) -> [Wanted; 4] {
    let shared = |name: &str, fingerprint, start: NodeTask| Wanted {
        name: name.to_owned(),
        fingerprint,
        start: by_one_node(&parts.store, name, start),
    };
    let sender = parts.webhooks.get();
    let webhooks = shared(
        "webhooks",
        config.fingerprint(&config.gateway.webhooks),
        Box::new(move |stop| Box::pin(async move { sender.run(stop).await })),
    );
    let deps = parts.deps.get();
    let inference = &config.inference;
    let made_by = (&inference.embeddings, &inference.providers, &config.prices);
    let vectors = shared(
        "vectors",
        config.fingerprint((made_by, addresses(config))),
        Box::new(move |stop| Box::pin(deps.keep_vectors(stop))),
    );
    let (store, settings) = (parts.store.clone(), config.clone());
    let keeping = shared(
        "keeping",
        config.fingerprint(&config.keeping),
        Box::new(move |stop| Box::pin(async move { keeping::work(&store, &settings, stop).await })),
    );
    let telemetry = TelemetryWorker::new(&parts.store, config, parts.intake.clone());
    let telemetry = shared(
        "telemetry",
        config.fingerprint(&config.gateway.telemetry),
        Box::new(move |stop| Box::pin(telemetry.run(stop))),
    );
    [webhooks, vectors, keeping, telemetry]
}

/// Returns the ids of all personas with their addresses.
fn addresses(config: &Config) -> Vec<(String, String)> {
    let personas = config.personas.iter();
    personas
        .map(|persona| (persona.id.to_string(), persona.address.to_string()))
        .collect()
}
