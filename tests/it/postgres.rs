//! What SQLite, with its one writer, cannot show: writes that race each other on PostgreSQL, each with a control that fails
//! without the lock of its scope. They need `ATTACHE_TEST_STORE=postgres`.

mod cut;
mod engine_parts;
mod hints;
mod machines;
mod nodes;
mod processes;
mod races;
mod settings;
mod silent;

use crate::app::database::is_postgres;
use crate::app::{TestApp, Workspace, db, note};
use attache::store::FeedFilter;
use futures_util::future::join_all;
use serde_json::json;

const THREADS: usize = 20;
/// Letters that arrive at once in each thread.
const AT_ONCE: usize = 6;

/// Tells a test to return, when the databases are files.
fn is_skipped() -> bool {
    let skipped = !is_postgres();
    if skipped {
        eprintln!("SKIPPED: nothing races in SQLite; set ATTACHE_TEST_STORE=postgres");
    }
    skipped
}

/// An engine with threads in which nothing is open.
async fn engine_with_threads() -> TestApp {
    let app = Workspace::new(&json!({ "turns": [] })).talkative();
    let app = app.start().await;
    for thread in 0..THREADS {
        app.run_of(&note(&format!("t{thread}"), "", "Hello.")).await;
    }
    let mut rows = app.workspace.rows().await;
    let end = "UPDATE runs SET state = 'succeeded', finished_at = created_at";
    db::query(end).execute(&mut rows).await.expect("ended");
    app
}

/// Has letters arrive at once in all threads, and returns how many threads have more than one run that may begin.
async fn threads_with_two_runs_that_may_begin(app: &TestApp) -> i64 {
    let letters = (0..THREADS * AT_ONCE).map(|number| {
        let (thread, letter) = (number % THREADS, number / THREADS);
        let reply = format!("In-Reply-To: <t{thread}@guest.example>\n");
        note(&format!("t{thread}l{letter}"), &reply, "And this.")
    });
    let letters: Vec<String> = letters.collect();
    let taken = join_all(letters.iter().map(|eml| app.receive(eml))).await;
    assert!(taken.iter().all(Result::is_ok), "{taken:?}");
    let mut rows = app.workspace.rows().await;
    let queued: i64 = db::query_scalar("SELECT count(*) FROM runs WHERE state = 'queued'")
        .fetch_one(&mut rows)
        .await
        .expect("a count");
    assert_eq!(queued, i64::try_from(letters.len()).expect("few"));
    let free =
        "SELECT count(*) FROM (SELECT thread_id FROM runs WHERE state = 'queued' AND behind = 0
        GROUP BY thread_id HAVING count(*) > 1) AS doubled";
    let doubled = db::query_scalar(free).fetch_one(&mut rows).await;
    doubled.expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn letters_at_once_in_one_thread_leave_one_run_that_may_begin() {
    if is_skipped() {
        return;
    }
    let app = engine_with_threads().await;
    assert_eq!(threads_with_two_runs_that_may_begin(&app).await, 0);
}

/// Has one letter come many times at once, and returns the number of runs.
async fn runs_of_one_letter_at_once(app: &TestApp, id: &str) -> i64 {
    let eml = note(id, "", "Hello.");
    let taken = join_all((0..16).map(|_| app.receive(&eml))).await;
    assert!(taken.iter().all(Result::is_ok), "{taken:?}");
    let mut rows = app.workspace.rows().await;
    let runs = "SELECT count(*) FROM runs r JOIN messages m ON m.id = r.trigger_message_id WHERE instr(m.message_id, $1) > 0";
    let runs = db::query_scalar(runs).bind(id).fetch_one(&mut rows);
    runs.await.expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_one_letter_that_comes_many_times_at_once_there_is_one_run() {
    if is_skipped() {
        return;
    }
    let app = TestApp::start(json!({ "turns": [] })).await;
    assert_eq!(runs_of_one_letter_at_once(&app, "once").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_the_lock_of_its_persona_one_letter_has_several_runs() {
    if is_skipped() {
        return;
    }
    let app = TestApp::start(json!({ "turns": [] })).await;
    app.engine.store.take_no_locks();
    // A race may be lost by chance; not every time.
    for number in 0..20 {
        if runs_of_one_letter_at_once(&app, &format!("l{number}x")).await > 1 {
            return;
        }
    }
    panic!("the control found nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_runs_and_mails_that_are_claimed_at_once_each_is_claimed_once() {
    if is_skipped() {
        return;
    }
    let app = engine_with_threads().await;
    let opened = threads_with_two_runs_that_may_begin(&app).await;
    assert_eq!(opened, 0);
    let store = &app.engine.store;
    let claims = join_all((0..8).map(|_| store.claim_runs(4, 1000))).await;
    let mut claimed: Vec<String> = claims
        .into_iter()
        .flat_map(|claim| claim.expect("a claim"))
        .map(|run| run.id.to_string())
        .collect();
    assert_eq!(claimed.len(), THREADS, "one in each thread");
    claimed.sort_unstable();
    claimed.dedup();
    assert_eq!(claimed.len(), THREADS, "none twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_of_the_feed_misses_no_event_of_writes_that_race() {
    if is_skipped() {
        return;
    }
    let app = engine_with_threads().await;
    let store = &app.engine.store;
    let follow = async {
        let (mut seen, mut since) = (Vec::new(), 0);
        let expected = THREADS + THREADS * AT_ONCE;
        let of_letters = |kind: &str| kind == "letter.run";
        while seen.len() < expected {
            let page = store.feed_after(since, &FeedFilter::default(), 1000).await;
            let page = page.expect("a page");
            since = page.through;
            let events = page.events.into_iter();
            seen.extend(events.filter(|event| of_letters(event.kind.as_str())));
        }
        seen
    };
    let (doubled, seen) = tokio::join!(threads_with_two_runs_that_may_begin(&app), follow);
    assert_eq!(doubled, 0);
    assert!(seen.windows(2).all(|pair| pair[0].seq < pair[1].seq));
}
