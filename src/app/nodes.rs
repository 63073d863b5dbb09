//! What an engine does as one of several nodes: it takes over what nodes that are gone left, does what one of them does for all,
//! and ends when an operator asks.

use super::node_marks;
use super::parts::EngineParts;
use super::roles::{NodeRole, NodeRoles};
use crate::gateway::engine_mail_worker::EngineMailWorker;
use crate::scheduler::Scheduler;
use crate::store::{Store, TakenOver};
use futures_util::future::BoxFuture;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause between two tries to take over work, and between two looks for a lease that another node has.
const PAUSE: Duration = Duration::from_secs(1);

/// Pause between two looks at the mark of this node.
const MARK_PAUSE: Duration = Duration::from_secs(5);

/// Work that is done until its token is cancelled.
pub(super) type NodeTask = Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, ()> + Send>;

/// Watches the other nodes until `shutdown`, which it cancels when an operator asks this one to end.
pub(super) async fn watch(parts: Arc<EngineParts>, shutdown: CancellationToken) {
    let Some(mut seen) = parts.store.nodes_seen() else {
        return;
    };
    let (mut present, mut is_due) = (BTreeSet::new(), false);
    let mut mark = NodeMark::default();
    loop {
        mark.keep(&parts).await;
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return mark.remove(&parts).await,
            changed = seen.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(PAUSE), if is_due => {}
            // The configuration may be another.
            () = tokio::time::sleep(MARK_PAUSE) => {}
        }
        let found = seen.borrow_and_update().clone();
        if found.is_drained {
            tracing::info!("an operator asks this node to end");
            shutdown.cancel();
            return mark.remove(&parts).await;
        }
        is_due |= found.has_expired || !present.is_subset(&found.present);
        if present != found.present {
            present = found.present;
            remove_marks(&parts, present.clone()).await;
        }
        if is_due {
            is_due = !take_over(&parts).await;
        }
    }
}

/// The mark of this node in the folder of personas.
#[derive(Default)]
struct NodeMark {
    /// Digest of the configuration that it tells.
    config_sha256: String,
}

impl NodeMark {
    /// Writes the mark anew when the configuration is another.
    async fn keep(&mut self, parts: &EngineParts) {
        let (config, epoch) = (parts.config.get(), parts.store.epoch());
        let now = config.snapshot.sha256();
        if self.config_sha256 == now {
            return;
        }
        self.config_sha256 = now.to_owned();
        let writing = move || node_marks::write(&config.workspace, epoch, config.snapshot.sha256());
        if let Ok(Err(error)) = tokio::task::spawn_blocking(writing).await {
            tracing::warn!(%error, "the folder of personas cannot be written; other nodes cannot tell that this one shares it");
        }
    }

    /// At an orderly end.
    async fn remove(self, parts: &EngineParts) {
        let (config, epoch) = (parts.config.get(), parts.store.epoch());
        let removing = move || node_marks::remove(&config.workspace, epoch);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(removing).await {
            tracing::debug!(%error, "the mark of this node stays in the folder of personas");
        }
    }
}

/// Removes the marks of nodes that are gone.
async fn remove_marks(parts: &EngineParts, present: BTreeSet<i64>) {
    let config = parts.config.get();
    let removing = move || node_marks::remove_all_but(&config.workspace, &present);
    if let Ok(Err(error)) = tokio::task::spawn_blocking(removing).await {
        tracing::debug!(%error, "marks of nodes that are gone stay in the folder of personas");
    }
}

/// Reports whether the work of nodes that are gone is queued again.
async fn take_over(parts: &EngineParts) -> bool {
    let outbound = parts.outbound.get();
    let hold = outbound
        .outbound
        .as_ref()
        .is_some_and(|outbound| outbound.holds_unknown());
    match parts.store.take_over_work(hold).await {
        Ok(taken) => {
            tell(&taken);
            parts.runs_queued.notify_one();
            parts.mail_queued.notify_one();
            true
        }
        Err(error) => {
            tracing::warn!(%error, "the work of a node that is gone is not taken over yet");
            false
        }
    }
}

fn tell(taken: &TakenOver) {
    let (runs, mails) = (&taken.runs, &taken.deliveries);
    for node in &taken.nodes {
        tracing::warn!(%node, "the lease of a node expired; its work is taken over");
    }
    if runs.queued + runs.quarantined + mails.unsent + mails.possible_duplicates > 0 {
        tracing::warn!(
            runs = runs.queued,
            quarantined = runs.quarantined,
            unsent = mails.unsent,
            possible_duplicates = mails.possible_duplicates,
            "work of a node that is gone is queued again"
        );
    }
}

/// Returns the tasks that last as long as the engine and that one node does for all.
pub(super) fn shared_tasks(parts: &Arc<EngineParts>, roles: &NodeRoles) -> Vec<NodeTask> {
    let mut tasks: Vec<NodeTask> = Vec::new();
    let mut add = |role, name, task: NodeTask| {
        if roles.has(role) {
            tasks.push(by_one_node(&parts.store, name, task));
        }
    };
    let intake = parts.intake.clone();
    add(
        NodeRole::Gateway,
        "held letters",
        Box::new(move |stop| Box::pin(async move { intake.watch_held(stop).await })),
    );
    let scheduling = parts.clone();
    add(
        NodeRole::Clock,
        "responsibilities",
        Box::new(move |stop| {
            Box::pin(async move {
                Scheduler::run(&scheduling.scheduler, &scheduling.runs_queued, stop).await;
            })
        }),
    );
    let writing = parts.clone();
    add(
        NodeRole::Outbound,
        "mail of the engine",
        Box::new(move |stop| {
            Box::pin(async move {
                EngineMailWorker::run(&writing.engine_mail, &writing.mail_queued, stop).await;
            })
        }),
    );
    let store = parts.store.clone();
    add(
        NodeRole::Clock,
        "search index",
        Box::new(move |stop| {
            Box::pin(async move {
                let made = tokio::select! {
                    () = stop.cancelled() => return,
                    made = store.index_open_letters() => made,
                };
                if let Err(error) = made {
                    tracing::error!(%error, "some letters are not found by their words; the next start goes on");
                }
            })
        }),
    );
    tasks
}

/// Returns work that one node does for all: it begins when this node has the lease of that name.
pub(super) fn by_one_node(store: &Store, name: &str, work: NodeTask) -> NodeTask {
    let (store, name) = (store.clone(), name.to_owned());
    Box::new(move |stop| {
        Box::pin(async move {
            if !has_lease(&store, &name, &stop).await {
                return;
            }
            work(stop).await;
            if let Err(error) = store.release_lease(&name).await {
                tracing::debug!(%error, name, "a lease is not given up; it ends with this node");
            }
        })
    })
}

/// Waits for the lease; `false`: `stop` ended the wait.
async fn has_lease(store: &Store, name: &str, stop: &CancellationToken) -> bool {
    loop {
        match store.take_lease(name).await {
            Ok(true) => return true,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, name, "cannot look for a lease; trying again"),
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}
