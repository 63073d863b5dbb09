//! A workspace with one persona, a clock that is told, and a scheduler over a real database.

use crate::app::audited::examined;
use crate::app::{database, db};
use crate::recording_intake::persona;
use attache::clock::{Clock, ManualClock};
use attache::config::{Persona, Personas};
use attache::domain::{Address, ErrorClass, Timestamp};
use attache::schedule_file::WorkspaceNames;
use attache::scheduler::{Scheduler, SyncReport, TickReport};
use attache::store::audit::AuditScope;
use attache::store::{ClaimedRun, ListPage, RunFailure, Store, StoredResponsibility, StoredSlot};
use std::path::PathBuf;
use std::sync::Arc;

pub struct World {
    pub clock: Arc<ManualClock>,
    pub store: Store,
    pub scheduler: Scheduler,
    pub personas: Arc<Personas>,
    folder: tempfile::TempDir,
}

pub fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or_else(|| panic!("{text} is no instant"))
}

/// What the world's responsibilities may name.
pub fn names() -> WorkspaceNames {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    WorkspaceNames {
        tools: names(&["send_email", "read_file"]),
        profiles: names(&["thread", "responsibility"]),
        providers: names(&["scripted", "anthropic"]),
        with_model: Vec::new(),
        owners: vec![Address::parse("olga@example.test").expect("an address")],
        send_allow: names(&["ann@example.test", "*@friends.test"]),
    }
}

impl World {
    /// Opens an engine's store at an instant; nothing is synchronised yet.
    pub async fn at(now: &str) -> Self {
        let folder = database::folder().await;
        let clock = Arc::new(ManualClock::at(at(now)));
        let duties = folder.path().join("personas/ada/responsibilities");
        std::fs::create_dir_all(duties).expect("the persona's folder");
        let personas = Self::personas_of(folder.path());
        let store = Store::open(folder.path(), clock.clone())
            .await
            .expect("a new database");
        store.check_scopes();
        let scheduler = Scheduler::new(store.clone(), personas.clone(), names(), clock.clone());
        Self {
            clock,
            store,
            scheduler,
            personas,
            folder,
        }
    }

    /// Who lives in a world's folder.
    pub fn personas_of(folder: &std::path::Path) -> Arc<Personas> {
        let persona = Persona {
            timezone: chrono_tz::America::New_York,
            folder: folder.join("personas/ada"),
            ..persona("ada", &["ada@engine.test"])
        };
        Arc::new(Personas::new(vec![persona]).expect("one persona"))
    }

    /// A scheduler of another process: its own connections to the same database.
    pub async fn second_scheduler(&self) -> Scheduler {
        let store = Store::open_shared(self.folder.path(), self.clock.clone())
            .await
            .expect("a second opening");
        Scheduler::new(store, self.personas.clone(), names(), self.clock.clone())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder
            .path()
            .join("personas/ada/responsibilities")
            .join(name)
    }

    pub fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).expect("a responsibility file");
    }

    /// Copies a fixture into the persona's folder.
    pub fn install(&self, fixture: &str) {
        let from = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/scheduler")
            .join(fixture);
        std::fs::copy(from, self.path(fixture)).expect("a fixture");
    }

    pub async fn sync(&self) -> SyncReport {
        self.scheduler.sync().await.expect("a synchronisation")
    }

    /// Sets the clock and ticks.
    pub async fn tick_at(&self, now: &str) -> TickReport {
        self.clock.set(at(now));
        self.scheduler.tick().await.expect("a tick")
    }

    pub async fn row(&self, file: &str) -> StoredResponsibility {
        let rows = self.store.responsibilities().await.expect("rows");
        let wanted = format!("responsibilities/{file}");
        rows.into_iter()
            .find(|row| row.file == wanted)
            .unwrap_or_else(|| panic!("no row for {file}"))
    }

    /// All slots, newest first.
    pub async fn slots(&self) -> Vec<StoredSlot> {
        self.store
            .responsibility_slots(None, ListPage::first(10_000))
            .await
            .expect("slots")
    }

    /// Slots as `instant state count`, oldest first.
    pub async fn history(&self) -> Vec<String> {
        let mut slots = self.slots().await;
        slots.reverse();
        let line = |slot: &StoredSlot| match slot.missed_count {
            0 => format!("{} {}", slot.slot_at, slot.state),
            count => format!("{} {} {count}", slot.slot_at, slot.state),
        };
        slots.iter().map(line).collect()
    }

    /// Ends every queued run, as a worker would; gives them.
    pub async fn end_runs(&self) -> Vec<ClaimedRun> {
        let mut ended = Vec::new();
        loop {
            let runs = self.store.claim_runs(100, 100).await.expect("claims");
            if runs.is_empty() {
                return ended;
            }
            for run in runs {
                let failure = RunFailure {
                    class: ErrorClass::Cancelled,
                    message: String::new(),
                    retry_at: None,
                    worked: run.worked,
                };
                self.store
                    .fail_run(&run.id, failure)
                    .await
                    .expect("an ended run");
                ended.push(run);
            }
        }
    }

    /// Ends every open run as failed, as a worker would; how many.
    pub async fn fail_runs(&self) -> usize {
        let runs = self.store.claim_runs(100, 100).await.expect("claims");
        for run in &runs {
            let failure = RunFailure {
                class: ErrorClass::Config,
                message: "no".to_owned(),
                retry_at: None,
                worked: run.worked,
            };
            self.store
                .fail_run(&run.id, failure)
                .await
                .expect("an ended run");
        }
        runs.len()
    }

    /// Ends every open run well: the row is all that the scheduler looks at.
    pub async fn answer_runs(&self) {
        let sql = "UPDATE runs SET state = 'succeeded', stop_reason = 'answered', finished_at = $1
            WHERE state IN ('queued', 'running', 'waiting_retry')";
        db::query(sql)
            .bind(self.now().to_string())
            .execute(&mut self.rows().await)
            .await
            .expect("ended runs");
    }

    /// A connection beside the store's.
    pub async fn rows(&self) -> db::Connection {
        db::Connection::open(self.folder.path()).await
    }

    /// What the owner is to be told of slots: kind and summary, oldest first.
    pub async fn notices(&self) -> Vec<(String, String)> {
        let sql = "SELECT kind, summary FROM notices WHERE kind <> 'run_failed' ORDER BY seq";
        let rows = db::query(sql)
            .fetch_all(&mut self.rows().await)
            .await
            .expect("notices");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Asserts what `attache doctor --audit` looks at while an engine works.
    pub async fn audit(&self) {
        let wanted = AuditScope {
            bytes: false,
            at_rest: false,
        };
        let findings = examined(&mut self.rows().await, wanted).await;
        assert!(findings.broken.is_empty(), "{:#?}", findings.broken);
    }

    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
