//! Hints between processes: a node tells the others of work that it does not do itself, and looks when another tells it; an
//! engine looks when a command beside it has committed something.

use super::nodes::NodeTask;
use super::parts::EngineParts;
use super::roles::{NodeRole, NodeRoles};
use crate::runs::worker::NodeSignals;
use crate::store::{HintedQueue, QueueHints, Store};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Pause after a hint; what is queued meanwhile is one hint.
const PAUSE: Duration = Duration::from_millis(50);
/// Pause after the server could not be reached.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Returns the tasks of a node that pass hints on; none where this engine is alone. `signals` are those of
/// the worker of runs, also where it does not work.
pub(super) fn tasks(
    parts: &Arc<EngineParts>,
    roles: &NodeRoles,
    signals: NodeSignals,
) -> Vec<NodeTask> {
    let Some(hints) = parts.store.queue_hints() else {
        return Vec::new();
    };
    let (runs, mail) = (roles.has(NodeRole::Runs), roles.has(NodeRole::Outbound));
    let runs_queued = match runs {
        true => signals.overflow,
        false => parts.runs_queued.clone(),
    };
    let mut tasks = vec![forwarding(&parts.store, HintedQueue::Runs, runs_queued)];
    if !mail {
        let mail_queued = parts.mail_queued.clone();
        tasks.push(forwarding(&parts.store, HintedQueue::Mail, mail_queued));
    }
    let woken = WokenQueues {
        runs: runs.then_some(signals.hinted),
        mail: mail.then(|| parts.mail_queued.clone()),
    };
    tasks.push(Box::new(move |stop| Box::pin(listen(hints, woken, stop))));
    tasks
}

/// Watches what other processes commit until `shutdown`, and wakes those who may have work of it.
pub(super) async fn wake_for_others(parts: Arc<EngineParts>, shutdown: CancellationToken) {
    let mut commits = parts.store.commits_of_others();
    let wake = async {
        while commits.changed().await.is_ok() {
            parts.runs_queued.notify_one();
            parts.mail_queued.notify_one();
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = parts.store.watch_others() => {}
        () = wake => {}
    }
}

/// Returns the task that tells the other nodes whenever `queued` is notified.
fn forwarding(store: &Store, queue: HintedQueue, queued: Arc<Notify>) -> NodeTask {
    let store = store.clone();
    let forward = async move {
        loop {
            queued.notified().await;
            if let Err(error) = store.hint(queue).await {
                tracing::debug!(%error, ?queue, "other nodes are not told of new work; they look every second");
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    Box::new(move |stop| {
        Box::pin(async move {
            stop.run_until_cancelled(forward).await;
        })
    })
}

/// Queues that this node works on.
struct WokenQueues {
    runs: Option<Arc<Notify>>,
    mail: Option<Arc<Notify>>,
}

/// Looks at a queue whenever another node tells of work.
async fn listen(mut hints: QueueHints, woken: WokenQueues, stop: CancellationToken) {
    loop {
        let heard = tokio::select! {
            () = stop.cancelled() => return,
            heard = hints.next() => heard,
        };
        let queue = match heard {
            Ok(HintedQueue::Runs) => &woken.runs,
            Ok(HintedQueue::Mail) => &woken.mail,
            Err(error) => {
                tracing::debug!(%error, "hints of other nodes are not heard; the queues are looked at every second");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(RETRY_PAUSE) => continue,
                }
            }
        };
        if let Some(queue) = queue {
            tracing::debug!(queue = ?heard.ok(), "another node has queued work");
            queue.notify_one();
        }
    }
}
