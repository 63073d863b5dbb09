//! Nodes that do parts of the work tell each other of what is queued, outside of transactions.

use super::is_skipped;
use super::nodes::{answers, node_beside};
use crate::app::{TestApp, Workspace, db, note};
use crate::recovery::place::{Running, Sink, attache, send, until, workspace};
use attache::runs::deps::WorkerDeps;
use attache::runs::worker::Worker;
use attache::store::HintedQueue;
use futures_util::FutureExt;
use serde_json::json;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const MOST: Duration = Duration::from_secs(60);

/// A node without a listener; killed when it is dropped.
struct Node(Child);

impl Node {
    /// Its log goes into a file beside its workspace's.
    fn start(folder: &Path, roles: &str) -> Self {
        let log = std::fs::File::create(folder.join("node.log")).expect("a file");
        let mut command = attache(
            folder,
            &["serve", "--log", "attache::app=debug", "--roles", roles],
        );
        let spawned = command.stdout(Stdio::null()).stderr(log).spawn();
        Self(spawned.expect("the binary runs"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Both fail when it has ended, which is as good.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[tokio::test]
async fn a_node_hears_of_others_work_and_not_of_its_own_also_after_its_connection_was_lost() {
    if is_skipped() {
        return;
    }
    let first = TestApp::start(answers()).await;
    let second = node_beside(&first, 1).await;
    let (here, there) = (&first.engine.store, &second.engine.store);
    let mut hints = there.queue_hints().expect("one of several");
    hints.connect().await.expect("a connection");
    // Its own come first on the connection, and are not heard.
    there.hint(HintedQueue::Runs).await.expect("sent");
    here.hint(HintedQueue::Mail).await.expect("sent");
    assert_eq!(hints.next().await.expect("a hint"), HintedQueue::Mail);
    let mut rows = first.workspace.rows().await;
    let end = "SELECT count(*) FROM (SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN%') AS ended";
    let ended: i64 = db::query_scalar(end)
        .fetch_one(&mut rows)
        .await
        .expect("a count");
    assert_eq!(ended, 1);
    let sending = async {
        // It is sent until it is heard: nobody listened for a while.
        loop {
            here.hint(HintedQueue::Runs).await.expect("sent");
            tokio::task::yield_now().await;
        }
    };
    let heard = async {
        tokio::select! {
            hint = hints.next() => hint,
            () = sending => unreachable!("it sends for ever"),
        }
    };
    let heard = tokio::time::timeout(MOST, heard).await;
    assert_eq!(heard.expect("in time").expect("a hint"), HintedQueue::Runs);
}

#[tokio::test]
async fn a_worker_without_a_place_passes_a_run_of_its_own_on_and_a_hint_of_others_not() {
    let workspace = Workspace::new(&json!({ "rules": [{ "hang": true }] }));
    workspace.set(
        "configs/inference.json",
        "/concurrency",
        json!({ "runs_max": 1 }),
    );
    workspace.set(
        "configs/gateway.json",
        "/limits",
        json!({ "drain_max": "0s" }),
    );
    let app = workspace.start().await;
    app.receive(&note("first@guest.example", "", "Hello."))
        .await
        .expect("taken");
    let (wake, shutdown) = (Arc::new(Notify::new()), CancellationToken::new());
    let (store, config) = (app.engine.store.clone(), app.engine.config.clone());
    let deps = WorkerDeps::set_up(store, config, Arc::default()).expect("its parts");
    let worker = Worker::new(Arc::new(deps));
    let signals = worker.signals();
    let working = worker.run(wake.clone(), shutdown.clone());
    let mut rows = app.workspace.rows().await;
    let others = async {
        while db::number(
            &mut rows,
            "SELECT count(*) FROM runs WHERE state = 'running'",
        )
        .await
            < 1
        {
            tokio::task::yield_now().await;
        }
        signals.hinted.notify_one();
        let passed_on = signals.overflow.notified();
        tokio::pin!(passed_on);
        // The worker takes the hint before the next one comes.
        for _ in 0..100 {
            assert!(
                (&mut passed_on).now_or_never().is_none(),
                "a hint was passed on"
            );
            tokio::task::yield_now().await;
        }
        wake.notify_one();
        passed_on.await;
        shutdown.cancel();
    };
    let both = async { tokio::join!(working, others) };
    tokio::time::timeout(MOST, both).await.expect("in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_role_does_its_part_and_tells_the_next_of_its_work() {
    if is_skipped() {
        return;
    }
    let sink = Sink::default();
    let port = sink.open();
    let script = json!({ "rules": [{ "say": "At ten." }] });
    let folders = [(); 3].map(|()| workspace(port, &script));
    let [gateway, runs, outbound] = folders.each_ref().map(tempfile::TempDir::path);
    for other in [runs, outbound] {
        std::fs::copy(gateway.join(".secrets"), other.join(".secrets")).expect("one database");
    }
    let taking = Running::start(gateway, &["--roles", "gateway"]);
    send(taking.port, "first@guest.example", "When?");
    let mut rows = db::Connection::open(gateway).await;
    let queued = "SELECT count(*) FROM runs WHERE state = 'queued' AND attempt = 0";
    assert_eq!(db::number(&mut rows, queued).await, 1);

    let _running = Node::start(runs, "runs");
    let answered = "SELECT count(*) FROM runs WHERE state = 'succeeded'";
    let ended = async {
        while db::number(&mut rows, answered).await < 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(MOST, ended).await.expect("in time");
    let unsent = "SELECT count(*) FROM deliveries WHERE state = 'queued' AND attempts = 0";
    assert_eq!(db::number(&mut rows, unsent).await, 1);
    assert_eq!(sink.mails.lock().expect("a lock").len(), 0);

    let _sending = Node::start(outbound, "outbound");
    let sent = || sink.mails.lock().expect("a lock").len();
    until("the answer's way out", || sent() == 1);
    // A later letter is told of from node to node.
    send(taking.port, "second@guest.example", "And on Sunday?");
    until("the second answer", || sent() == 2);
    let said = |folder: &Path, words: &str| {
        let log = std::fs::read_to_string(folder.join("node.log")).expect("a log");
        log.lines()
            .any(|line| line.contains("another node has queued work") && line.contains(words))
    };
    until("a hint of runs", || said(runs, "Runs"));
    until("a hint of mail", || said(outbound, "Mail"));
}
