//! Group commit: writes that wait together are one commit on the disk, and one that is refused takes no other along.

use crate::app::database::is_sqlite_only;
use crate::app::db;
use crate::app::{TestApp, note};
use attache::store::{Executor, JournalEntry, PersonaStore, RunKey, Step, StepKind, StoreError};
use futures_util::future::join_all;
use serde_json::json;

/// A house with a run in the engine's hands, and somebody who reads, so that the log keeps every commit.
struct House {
    app: TestApp,
    journal: PersonaStore,
    run: RunKey,
    _reader: db::Connection,
}

impl House {
    async fn new() -> Self {
        let app = TestApp::start(json!({ "turns": [] })).await;
        app.run_of(&note("q1@guest.example", "", "When is breakfast?"))
            .await;
        let run = app
            .engine
            .store
            .claim_runs(1, 1)
            .await
            .expect("a claim")
            .remove(0);
        let key = RunKey {
            run: run.id,
            trigger_message: run.trigger_message,
        };
        let mut reader = app.workspace.rows().await;
        db::raw_sql("BEGIN; SELECT count(*) FROM runs")
            .execute(&mut reader)
            .await
            .expect("a read");
        Self {
            journal: app.engine.store.persona(&run.persona),
            app,
            run: key,
            _reader: reader,
        }
    }

    /// Journals these steps, each list in a write of its own, all of which wait before the first begins.
    async fn write(&self, writes: &[Vec<Step>]) -> Vec<Result<(), StoreError>> {
        let entries = |steps: &Vec<Step>| {
            steps
                .iter()
                .cloned()
                .map(JournalEntry::Step)
                .collect::<Vec<_>>()
        };
        // The writer has a thread of its own: it waits for the lock of another until all are there.
        let mut lock = self.app.workspace.rows().await;
        lock.begin().await.expect("the lock");
        let mut answers = join_all(
            writes
                .iter()
                .map(|steps| self.journal.journal(&self.run, entries(steps))),
        );
        assert!(futures_util::poll!(&mut answers).is_pending());
        lock.execute("COMMIT").await.expect("given back");
        answers.await
    }

    async fn steps(&self) -> Vec<String> {
        let sql =
            "SELECT tool_call_id || ' ' || event_type FROM thread_tool_events ORDER BY step_index";
        db::query_scalar(sql)
            .fetch_all(&mut self.app.workspace.rows().await)
            .await
            .expect("steps")
    }

    /// How many commits the log holds (sqlite.org/fileformat2.html#walformat): frames of its present generation that
    /// tell the size of the database after them.
    fn commits(&self) -> usize {
        let log =
            std::fs::read(self.app.workspace.path().join("data/attache.db-wal")).expect("a log");
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
        let (head, frames) = log.split_at(32);
        let frames = frames.chunks_exact(24 + number(&head[8..12]) as usize);
        frames
            .filter(|frame| frame[8..16] == head[16..24] && number(&frame[4..8]) > 0)
            .count()
    }
}

fn step(kind: StepKind, n: usize) -> Step {
    Step {
        kind,
        executor: Executor::Engine,
        tool_name: "list_files".to_owned(),
        tool_call_id: format!("c0_{n}"),
        payload_json: "{\"ok\":true}".to_owned(),
    }
}

#[tokio::test]
async fn writes_that_wait_together_are_one_commit_on_the_disk() {
    if is_sqlite_only("commits of its log") {
        return;
    }
    let house = House::new().await;
    let before = house.commits();
    let writes: Vec<_> = (0..100).map(|n| vec![step(StepKind::Call, n)]).collect();
    let answers = house.write(&writes).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(house.commits() - before, 1, "of a hundred writes");
    assert_eq!(house.steps().await.len(), 100);
    // The control: writes of which each waits for the one before are a commit each.
    for n in 100..105 {
        house.write(&[vec![step(StepKind::Call, n)]]).await;
    }
    assert_eq!(house.commits() - before, 6);
}

/// Writes one more step, and then a second result of a call, which the database refuses.
fn refused(n: usize) -> Vec<Step> {
    vec![step(StepKind::Call, n), step(StepKind::Result, 0)]
}

#[tokio::test]
async fn a_refused_write_of_a_group_is_undone_whole_others_are_stored() {
    if is_sqlite_only("writes that share a commit") {
        return;
    }
    for places in [
        &[0][..],
        &[2],
        &[5],
        &[0, 1],
        &[2, 3],
        &[4, 5],
        &[0, 2, 5],
        &[0, 1, 2, 3, 4, 5],
    ] {
        let house = House::new().await;
        house
            .write(&[vec![step(StepKind::Call, 0), step(StepKind::Result, 0)]])
            .await;
        let before = house.commits();
        let write = |n| {
            if places.contains(&n) {
                refused(n + 1)
            } else {
                vec![step(StepKind::Call, n + 1)]
            }
        };
        let answers = house.write(&(0..6).map(write).collect::<Vec<_>>()).await;
        for (n, answer) in answers.iter().enumerate() {
            let is_as_it_should = matches!(
                (answer, places.contains(&n)),
                (Ok(()), false) | (Err(StoreError::Sql(_)), true)
            );
            assert!(
                is_as_it_should,
                "{places:?}: write {n} was answered {answer:?}"
            );
        }
        let stored = (0..6)
            .filter(|n| !places.contains(n))
            .map(|n| format!("c0_{} tool_call", n + 1));
        let both = ["c0_0 tool_call".to_owned(), "c0_0 tool_result".to_owned()];
        assert_eq!(
            house.steps().await,
            both.into_iter().chain(stored).collect::<Vec<_>>(),
            "{places:?}"
        );
        assert!(house.commits() - before <= 1, "{places:?}");
    }
}
