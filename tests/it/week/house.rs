//! The real binary on a workspace that keeps itself, under a clock that is set on.

use super::Plan;
use super::clock::SetClock;
use super::letters::Letter;
use crate::app::db;
use crate::app::{Workspace, glance};
use crate::recovery::place::{Running, Sink, attache};
use crate::reload::certificates::{issue, under_tls, use_certificate};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const SLOTS_SUCCEEDED: &str =
    "SELECT count(*) FROM responsibility_slots s JOIN runs r ON r.id = s.run_id
    WHERE r.state = 'succeeded'";
const BACKUPS_MADE: &str =
    "SELECT count(*) FROM backups WHERE finished_at IS NOT NULL AND failure IS NULL";
const OPEN_RUNS: &str = "SELECT count(*) FROM runs WHERE finished_at IS NULL";
/// Kinds with an age, and how many backups are kept.
const KINDS: [&str; 8] = [
    "turns",
    "letters",
    "attachments",
    "mails",
    "notices",
    "decisions",
    "feed",
    "counts",
];
const BACKUPS_KEPT: usize = 3;
/// Logs of earlier days that stay, as a program that rotates logs keeps them.
const LOGS_KEPT: usize = 2;
/// Minutes after midnight of the nightly backup, and of what comes after it.
const NIGHT: usize = 185;
const PATIENCE: Duration = Duration::from_secs(120);

pub struct House {
    pub plan: Plan,
    pub clock: SetClock,
    workspace: Workspace,
    engine: Option<Running>,
    sink: Sink,
    /// Mails of the sink that were looked at, and those that answer a letter.
    seen: usize,
    came: BTreeMap<String, Vec<Vec<u8>>>,
    logs: Vec<PathBuf>,
    /// Numbers of events in logs of sizes that were taken away.
    logged: Vec<i64>,
}

impl House {
    pub async fn build(plan: Plan) -> Option<Self> {
        let turns = json!([{ "call": [{ "tool": "list_files", "args": {} }] }, { "say": "From seven to ten." }]);
        let workspace = Workspace::new(&json!({ "turns": turns })).talkative();
        let clock = SetClock::beside(workspace.path())?;
        clock.set(0, 1);
        workspace.persona("bert", "Bert");
        workspace.persona("carla", "Carla");
        let every = if plan.is_long {
            "0 */6 * * *"
        } else {
            "0 12 * * *"
        };
        workspace.write(
            "personas/ada/responsibilities/round.md",
            &format!("---\nname: Round\nschedule: \"{every}\"\ntimezone: UTC\ncatch_up: all\n---\nLook around.\n"),
        );
        let sink = Sink::default();
        let smarthost =
            json!({ "kind": "smarthost", "host": "127.0.0.1", "port": sink.open(), "tls": "none" });
        workspace.set("configs/gateway.json", "/outbound", smarthost);
        workspace.set(
            "configs/gateway.json",
            "/telemetry",
            json!({ "audit_log": true }),
        );
        let ages: Value = match plan.keeps_little {
            true => KINDS
                .iter()
                .map(|kind| ((*kind).to_owned(), json!("1d")))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            false => json!({}),
        };
        let count = if plan.keeps_little {
            BACKUPS_KEPT
        } else {
            1000
        };
        let backup =
            json!({ "every": "1d", "at": "03:00", "folder": "data/backups", "count": count });
        workspace.write_json(
            "configs/keeping.json",
            &json!({ "backup": backup, "retention": ages }),
        );
        issue(&workspace, "house");
        use_certificate(&workspace, "house");
        let mut house = Self {
            plan,
            clock,
            workspace,
            engine: None,
            sink,
            seen: 0,
            came: BTreeMap::new(),
            logs: Vec::new(),
            logged: Vec::new(),
        };
        house.start();
        house
            .until(
                "the round is read",
                "SELECT count(*) = 1 FROM responsibilities",
            )
            .await;
        Some(house)
    }

    pub fn folder(&self) -> &Path {
        self.workspace.path()
    }

    pub fn pid(&self) -> u32 {
        self.engine.as_ref().expect("an engine").pid()
    }

    /// Starts an engine with a log of its own.
    fn start(&mut self) {
        let log = self.folder().join(format!("log.{}", self.logs.len()));
        let mut command = attache(self.folder(), &["serve", "--log", "info"]);
        self.clock.govern(&mut command);
        command.stderr(File::create(&log).expect("a file"));
        self.logs.push(log);
        self.engine = Some(Running::of(command));
    }

    pub async fn stop(&mut self) {
        let engine = self.engine.take().expect("an engine");
        let pid = engine.pid();
        engine.signal(Signal::TERM);
        let (status, said, _) = engine.ended();
        SetClock::forget(pid);
        assert!(status.success(), "{status}: {said}");
    }

    pub async fn is_killed_and_comes_again(&mut self) {
        let pid = self.pid();
        // `kill -9`.
        self.engine = None;
        SetClock::forget(pid);
        self.start();
    }

    /// Lets the clock pass the hour of the backup, and waits for what the engine does by itself then.
    pub async fn night(&mut self, day: usize) {
        if !self.plan.is_long {
            self.stop().await;
        }
        // A pass begins no earlier than a day after the last one.
        self.clock.set(day, NIGHT + day * 3);
        if !self.plan.is_long {
            self.start();
        }
        let begun = Instant::now();
        let backups = i64::try_from(day + 1).expect("a number");
        let passes = match self.plan.keeps_little {
            true => KINDS.len(),
            false => 0,
        };
        while self.number(BACKUPS_MADE).await < backups
            || self.passes_over(day).await < passes
            || self.number(SLOTS_SUCCEEDED).await < self.slots_due_by(day, NIGHT)
        {
            assert!(begun.elapsed() < PATIENCE, "night {day}: {}", self.log());
            glance().await;
        }
    }

    async fn until(&mut self, what: &str, sql: &'static str) {
        let begun = Instant::now();
        while self.number(sql).await == 0 {
            assert!(begun.elapsed() < PATIENCE, "{what}: {}", self.log());
            glance().await;
        }
    }

    /// Number of kinds over which the engine went this night.
    async fn passes_over(&mut self, day: usize) -> usize {
        // The first start has gone over what was not there yet, and a pass a day is enough.
        let since = self
            .clock
            .instant(day, if day == 0 { 0 } else { NIGHT - 5 });
        let sql = "SELECT count(*) FROM retention WHERE finished_at >= $1";
        let count: i64 = db::query_scalar(sql)
            .bind(since)
            .fetch_one(&mut self.rows().await)
            .await
            .expect("a number");
        usize::try_from(count).expect("a number")
    }

    /// Another certificate, and another log of sizes.
    pub async fn evening(&mut self, day: usize) {
        self.clock.set(day, 23 * 60);
        let renewed = issue(&self.workspace, "house");
        let begun = Instant::now();
        // The engine looks at the file once a second.
        while under_tls(self.mail()).await.1 != renewed {
            assert!(
                begun.elapsed() < PATIENCE,
                "the certificate of day {day} is not shown"
            );
            glance().await;
        }
        let begun = Instant::now();
        while self.number(OPEN_RUNS).await > 0
            || self.number(SLOTS_SUCCEEDED).await < self.slots_due_by(day, 23 * 60)
        {
            assert!(begun.elapsed() < PATIENCE, "evening {day}: {}", self.log());
            glance().await;
        }
        self.rotate_logs();
    }

    /// What logrotate does: the log gets another name under the engine, the oldest goes.
    pub fn rotate_logs(&mut self) {
        let [log, newer, oldest] = self.logs_of_sizes();
        if !log.exists() {
            return;
        }
        self.logged.extend(events_in(&oldest));
        let _not_there_yet = std::fs::remove_file(&oldest);
        let _not_there_yet = std::fs::rename(&newer, &oldest);
        std::fs::rename(&log, &newer).expect("renamed");
        for old in self.logs.iter().rev().skip(LOGS_KEPT) {
            let _removed_before = std::fs::remove_file(old);
        }
    }

    /// Waits until the log of sizes has the newest event; gives its number.
    pub async fn logs_all(&mut self) -> i64 {
        let begun = Instant::now();
        let newest = self.number("SELECT max(seq) FROM feed").await;
        while self.events_logged().last() != Some(&newest) {
            assert!(begun.elapsed() < PATIENCE, "{newest} is not logged");
            glance().await;
        }
        newest
    }

    /// The log and those that were renamed, the newest first.
    fn logs_of_sizes(&self) -> [PathBuf; 1 + LOGS_KEPT] {
        ["audit.log", "audit.log.1", "audit.log.2"]
            .map(|name| self.folder().join("data").join(name))
    }

    /// Numbers of the events in all logs of sizes, in their order.
    pub fn events_logged(&self) -> Vec<i64> {
        let mut events = self.logged.clone();
        for log in self.logs_of_sizes().iter().rev() {
            events.extend(events_in(log));
        }
        events
    }

    fn mail(&self) -> SocketAddr {
        let port = self.engine.as_ref().expect("an engine").port;
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Hands a letter over, under TLS; whether it was taken.
    pub async fn brings(&mut self, letter: &Letter) -> bool {
        let (mut caller, _) = under_tls(self.mail()).await;
        letter.handed_to(&mut caller).await
    }

    /// Waits for the answer.
    pub async fn answered(&mut self, id: &str) {
        let begun = Instant::now();
        while !self.came.contains_key(id) {
            assert!(
                begun.elapsed() < PATIENCE,
                "no answer to {id}: {}",
                self.log()
            );
            glance().await;
            self.look();
        }
    }

    fn look(&mut self) {
        let mails = self.sink.mails.lock().expect("a lock");
        for mail in &mails[self.seen..] {
            let text = String::from_utf8_lossy(mail);
            let answered = text
                .lines()
                .find_map(|line| line.strip_prefix("In-Reply-To: "));
            let id = answered.map(|id| id.trim_matches(['<', '>']).to_owned());
            // A mail to the owners may follow upon one of its own.
            if let Some(id) = id.filter(|id| id.ends_with("@guest.example")) {
                self.came.entry(id).or_default().push(mail.clone());
            }
        }
        self.seen = mails.len();
    }

    /// Asserts that each letter was answered once, or twice with the same bytes where the engine says so; counts those.
    pub async fn answers_that_came_twice(&mut self, taken: &[String]) -> usize {
        self.look();
        let flagged =
            "SELECT m.in_reply_to FROM deliveries d JOIN messages m ON m.id = d.message_id
            WHERE d.possible_duplicate = 1";
        let flagged: Vec<String> = db::query_scalar(flagged)
            .fetch_all(&mut self.rows().await)
            .await
            .expect("rows");
        assert_eq!(self.came.len(), taken.len());
        let mut twice = 0;
        for id in taken {
            let mails = &self.came[id];
            assert!(mails.iter().all(|mail| *mail == mails[0]), "{id}");
            assert!(
                mails.len() == 1 || flagged.contains(id),
                "{} answers to {id}",
                mails.len()
            );
            twice += usize::from(mails.len() > 1);
        }
        twice
    }

    pub async fn rows(&self) -> db::Connection {
        self.workspace.rows().await
    }

    pub async fn number(&mut self, sql: &'static str) -> i64 {
        db::query_scalar(sql)
            .fetch_one(&mut self.rows().await)
            .await
            .expect("a number")
    }

    pub fn slots_due(&self) -> i64 {
        self.slots_due_by(self.plan.days - 1, 23 * 60)
    }

    /// The first midnight is before the first start.
    fn slots_due_by(&self, day: usize, minute: usize) -> i64 {
        let due = match self.plan.is_long {
            true => day * 4 + minute / (6 * 60),
            false => day + usize::from(minute > 12 * 60),
        };
        i64::try_from(due).expect("a number")
    }

    pub fn newest_backup(&self) -> String {
        let folder = self.folder().join("data/backups");
        let names = std::fs::read_dir(folder).expect("backups").flatten();
        let newest = names.map(|entry| entry.path()).max().expect("a backup");
        newest.display().to_string()
    }

    pub fn log_bytes(&self) -> u64 {
        let sizes = self.logs.iter().flat_map(|log| log.metadata());
        sizes.map(|log| log.len()).sum()
    }

    fn log(&self) -> String {
        let newest = self.logs.last().expect("a log");
        std::fs::read_to_string(newest).unwrap_or_default()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.take() {
            let pid = engine.pid();
            drop(engine);
            SetClock::forget(pid);
        }
    }
}

/// Numbers of the events in a log of sizes.
fn events_in(log: &Path) -> Vec<i64> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let number = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a whole line");
        line["seq"].as_i64().expect("a number")
    };
    text.lines().map(number).collect()
}
