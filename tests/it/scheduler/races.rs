//! Processes that race for the same slots, and processes that die at each commit of firing: this program, started again.

use super::world::{World, at, names};
use crate::app::db;
use attache::clock::{Clock, ManualClock, SystemClock};
use attache::domain::Timestamp;
use attache::scheduler::Scheduler;
use attache::store::Store;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Set for the other processes: the instant that they live in.
const CHILD: &str = "ATTACHE_RACES_AT";
const PROCESSES: usize = 4;
const SLOTS: usize = 500;
const DEATHS: usize = 100;
const DUTIES: usize = 6;

/// Stands still; its ids are those of no other process.
struct Still(ManualClock, SystemClock);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
    fn new_id(&self) -> String {
        self.1.new_id()
    }
}

/// What another process does: it opens the database of its folder, waits for a word, ticks, and says what it fired.
async fn as_another(now: &str) {
    let folder = std::env::current_dir().expect("a folder");
    let clock = Arc::new(Still(ManualClock::at(at(now)), SystemClock::new()));
    let store = Store::open_shared(&folder, clock.clone())
        .await
        .expect("the database");
    let scheduler = Scheduler::new(store, World::personas_of(&folder), names(), clock);
    say("ready");
    std::io::stdin()
        .read_line(&mut String::new())
        .expect("a word");
    let (mut fired, mut stale) = (0, 0);
    for _ in 0..3 {
        let report = scheduler.tick().await.expect("a tick");
        assert!(report.problems.is_empty(), "{report:?}");
        (fired, stale) = (fired + report.fired.len(), stale + report.stale);
    }
    say(&format!("fired {fired} {stale}"));
}

fn say(line: &str) {
    println!("\n{line}");
}

struct Other(Child, BufReader<std::process::ChildStdout>);

impl Other {
    fn start(test: &str, folder: &Path, now: Timestamp, crash: Option<&str>) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([
            &format!("scheduler::races::{test}"),
            "--exact",
            "--include-ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        command
            .env(CHILD, now.to_string())
            .env_remove("ATTACHE_CRASH")
            .env("RUST_BACKTRACE", "0");
        command.envs(crash.map(|order| ("ATTACHE_CRASH", order)));
        command
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        Self(child, said)
    }

    /// The next line that begins so; `None` when it died before.
    fn heard(&mut self, word: &str) -> Option<String> {
        let lines = (&mut self.1).lines().map_while(Result::ok);
        lines.into_iter().find(|line| line.starts_with(word))
    }

    fn go(&mut self) {
        self.0
            .stdin
            .as_mut()
            .expect("a pipe")
            .write_all(b"go\n")
            .expect("a word");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Both fail when it has ended, which is as good.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn four_processes_that_race_for_500_slots_fire_500() {
    if let Ok(now) = std::env::var(CHILD) {
        return as_another(&now).await;
    }
    let world = World::at("2026-06-01T06:59:00Z").await;
    for n in 0..SLOTS {
        let head = format!("name: R{n}\nschedule: 0 7 * * *\ntimezone: UTC");
        world.write(&format!("r{n}.md"), &format!("---\n{head}\n---\nGo."));
    }
    world.sync().await;
    let (folder, now) = (world.folder().to_owned(), at("2026-06-01T07:00:00Z"));
    let race = move || {
        let test = "four_processes_that_race_for_500_slots_fire_500";
        let mut others: Vec<Other> = (0..PROCESSES)
            .map(|_| Other::start(test, &folder, now, None))
            .collect();
        others
            .iter_mut()
            .for_each(|other| drop(other.heard("ready").expect("it is ready")));
        others.iter_mut().for_each(Other::go);
        let told = |other: &mut Other| {
            let line = other.heard("fired").expect("it ends");
            let numbers: Vec<usize> = line
                .split(' ')
                .filter_map(|word| word.parse().ok())
                .collect();
            (numbers[0], numbers[1])
        };
        others.iter_mut().map(told).collect::<Vec<_>>()
    };
    let told = tokio::task::spawn_blocking(race).await.expect("a race");
    let fired: usize = told.iter().map(|(fired, _)| fired).sum();
    let stale: usize = told.iter().map(|(_, stale)| stale).sum();
    println!("fired and too late, by process: {told:?}");
    assert_eq!(fired, SLOTS, "{told:?}");
    // The control: they did race for the same rows, and the version that each change names is what decided. Often one wins
    // all: its groups follow each other faster than the others ask for the lock.
    assert!(stale >= SLOTS, "no race: {told:?}");
    let slots = world.slots().await;
    assert!(slots.len() == SLOTS && slots.iter().all(|slot| slot.state == "fired"));
    assert_eq!(world.end_runs().await.len(), SLOTS);
    world.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_death_at_any_commit_of_firing_leaves_one_run_per_slot() {
    if let Ok(now) = std::env::var(CHILD) {
        return as_another(&now).await;
    }
    let world = World::at("2026-06-01T06:59:30Z").await;
    for n in 0..DUTIES {
        // Half of them are found late, and wait before they begin.
        let late = if n % 2 == 0 { "0" } else { "*" };
        let head = format!("name: R{n}\nschedule: '{late} * * * *'\ntimezone: UTC");
        world.write(&format!("r{n}.md"), &format!("---\n{head}\n---\nGo."));
    }
    world.sync().await;
    let points = ["SC1", "SC2", "SC3", "SC4", "SC5", "W1", "W2"];
    let (mut deaths, mut now) = (0, at("2026-06-01T07:02:00Z"));
    for play in 0..DEATHS {
        // Spread over points and hits without chance: a failure can be played again.
        let seed = attache::domain::stable_seed(&format!("death {play}"));
        let point = points[usize::try_from(seed % 7).expect("small")];
        let hits = if ["SC3", "SC4"].contains(&point) {
            1
        } else {
            4
        };
        let order = format!("{point}:{}", 1 + (seed >> 8) % hits);
        let folder = world.folder().to_owned();
        let died = tokio::task::spawn_blocking(move || {
            let test = "a_death_at_any_commit_of_firing_leaves_one_run_per_slot";
            let mut other = Other::start(test, &folder, now, Some(&order));
            // It may die while it opens the database.
            if other.heard("ready").is_some() {
                other.go();
            }
            other.heard("fired").is_none()
        });
        deaths += usize::from(died.await.expect("a play"));
        // Another process goes on in the same minute, until all is done.
        world.clock.set(now);
        for _ in 0..DUTIES {
            world.scheduler.tick().await.expect("a tick");
            world.answer_runs().await;
        }
        let sql =
            "SELECT count(*), count(DISTINCT s.run_id), (SELECT count(*) FROM runs), sum(s.state = 'fired')
            FROM responsibility_slots s WHERE s.state IN ('fired', 'waiting')";
        let row = db::query(sql)
            .fetch_one(&mut world.rows().await)
            .await
            .expect("counts");
        let count = |column: usize| row.get::<i64>(column);
        assert_eq!(
            (count(0), count(0), count(0)),
            (count(1), count(2), count(3)),
            "play {play}, {point}"
        );
        now = now.plus(Duration::from_secs(3600));
    }
    let slots = world.slots().await;
    let hours = slots
        .iter()
        .filter(|slot| slot.responsibility == "R0" && slot.state == "fired")
        .count();
    assert_eq!(
        hours, DEATHS,
        "every hour has fired once, though nearly each saw a death"
    );
    println!("{deaths} deaths in {DEATHS} plays");
    assert!(deaths > DEATHS / 2, "only {deaths} died");
    world.audit().await;
}
