//! Ten thousand responsibilities: how long a start takes, how long to know what is next, what an idle engine costs, and how
//! fast all of them fire when they are due at once.

use crate::app::Workspace;
use crate::app::db;
use crate::client::{open, workspace};
use crate::counters::{cpu_time, median};
use attache::app::Engine;
use attache::clock::{Clock, SystemClock};
use std::fs::File;
use std::time::{Duration, Instant, SystemTime};
use tokio_util::sync::CancellationToken;

const DUTIES: usize = 10_000;
/// How long an idle engine is watched.
const WATCHED: Duration = Duration::from_secs(30);

pub async fn duties() {
    let (none, many) = (workspace(), workspace());
    write(&many);
    let began = Instant::now();
    let engine = open(&many).await;
    let added = engine
        .scheduler()
        .sync()
        .await
        .expect("a synchronisation")
        .added;
    println!(
        "  {added} files never seen before read into rows: {:.2} s",
        began.elapsed().as_secs_f64()
    );
    assert_eq!(added, DUTIES);
    engine.store.clone().close().await;
    drop(engine);

    let began = Instant::now();
    let engine = open(&many).await;
    let opened = began.elapsed();
    let report = engine.scheduler().sync().await.expect("a synchronisation");
    let fired = engine.scheduler().tick().await.expect("a tick").fired.len();
    println!(
        "  start with them known, until the first look at what is due is over: {:.2} s ({:.2} s of it the engine's own)",
        began.elapsed().as_secs_f64(),
        opened.as_secs_f64()
    );
    assert_eq!((report.added, report.changed, fired), (0, 0, 0));
    let mut looks = Vec::new();
    for _ in 0..1_000 {
        let began = Instant::now();
        engine.scheduler().tick().await.expect("a tick");
        looks.push(began.elapsed().as_secs_f64() * 1e3);
    }
    println!(
        "  looking at what is due next, when nothing is: median {:.2} ms",
        median(looks)
    );

    let (idle, busy) = (idle(open(&none).await).await, idle(engine).await);
    println!("  an idle engine: {busy:.2} % of a core with {DUTIES}, {idle:.2} % with none");
    all_at_once(&many).await;
}

/// Files that are due in a year's time at the earliest; their times of change are long ago, as after a day of rest.
fn write(workspace: &Workspace) {
    let long_ago = SystemTime::now() - Duration::from_secs(86_400);
    let next_year = SystemClock::new()
        .now()
        .plus(Duration::from_secs(300 * 86_400))
        .to_utc()
        .format("%-m")
        .to_string();
    for number in 0..DUTIES {
        let (minute, hour, day) = (number % 60, number / 60 % 24, 1 + number % 28);
        let text = format!(
            "---\nname: Duty {number}\nschedule: \"{minute} {hour} {day} {next_year} *\"\ntimezone: Europe/Berlin\n---\nLook at \
             what came in since {{{{ last_run }}}} and write three lines.\n"
        );
        let path = format!("personas/ada/responsibilities/duty-{number}.md");
        workspace.write(&path, &text);
        let file = File::options()
            .write(true)
            .open(workspace.path().join(path))
            .expect("a file");
        file.set_modified(long_ago).expect("a time of change");
    }
}

/// Percent of a core that serving costs when nothing happens.
async fn idle(engine: Engine) -> f64 {
    let bound = engine.bind().await.expect("a port");
    let stop = CancellationToken::new();
    let serving = tokio::spawn(engine.serve(bound, stop.clone()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = cpu_time();
    tokio::time::sleep(WATCHED).await;
    let used = cpu_time() - before;
    stop.cancel();
    serving.await.expect("no panic").expect("served");
    used.as_secs_f64() / WATCHED.as_secs_f64() * 100.0
}

/// Every responsibility is due at once.
async fn all_at_once(workspace: &Workspace) {
    let engine = open(workspace).await;
    engine.scheduler().sync().await.expect("a synchronisation");
    let ago = |seconds| {
        SystemClock::new()
            .now()
            .minus(Duration::from_secs(seconds))
            .to_string()
    };
    db::query(
        "UPDATE responsibilities SET cursor_at = $1, next_slot_at = $2, fire_at = $2, schedule = '* * * * *'",
    )
    .bind(ago(90))
    .bind(ago(30))
    .execute(&mut workspace.rows().await)
    .await
    .expect("due");
    let (began, mut fired) = (Instant::now(), 0);
    while fired < DUTIES {
        let report = engine.scheduler().tick().await.expect("a tick");
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        assert!(!report.fired.is_empty(), "only {fired} fired");
        fired += report.fired.len();
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "  {fired} due in the same minute become runs in {took:.2} s ({:.0}/s)",
        fired as f64 / took
    );
}
