//! Engines that are killed from outside, and suspects that hang: a run that has done nothing is not put aside for what
//! others do, and nobody waits long for it.

use super::poison::{WITHOUT, answer, claim, dies, one_run};
use crate::app::{TestApp, note};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// How long a suspect of two crashes is tried.
const TRIAL: Duration = Duration::from_secs(15);

/// How many seconds each of `count` engines lives, in a fixed disorder.
fn lives(count: usize, most: u64) -> impl Iterator<Item = u64> {
    let next = |seed: &u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(11), next)
        .map(move |seed| (seed >> 33) % most)
        .take(count)
}

/// An engine looks for work once a second; what it takes hangs, and after so many seconds somebody kills it.
async fn lives_for(app: TestApp, seconds: u64, waits: bool) -> TestApp {
    for _ in 0..=seconds {
        if !waits {
            app.engine.store.try_poison_runs_now();
        }
        claim(&app).await;
        app.workspace.clock.advance(SECOND);
    }
    app.restart().await
}

/// What became of a run that hangs under sixty engines, each of which somebody kills, and how often it was at work then.
async fn under_kills(waits: bool) -> (TestApp, String, String) {
    let (mut app, run) = one_run(answer()).await;
    for (life, seconds) in lives(60, WITHOUT.as_secs()).enumerate() {
        app.run_of(&note(
            &format!("o{life}@guest.example"),
            "",
            "When is lunch?",
        ))
        .await;
        app = lives_for(app, seconds, waits).await;
    }
    let state = app.outcome(&run).await.0;
    let attempts = app
        .row("SELECT CAST(attempt AS TEXT) FROM runs WHERE id = $1", &run)
        .await;
    (app, state, attempts[0].clone().unwrap_or_default())
}

#[tokio::test]
#[ignore = "second tier"]
async fn runs_are_not_put_aside_by_kills_of_engine_after_engine() {
    let (app, state, attempts) = under_kills(true).await;
    assert_eq!(state, "queued");
    assert!(
        attempts.parse::<u32>().is_ok_and(|attempts| attempts > 20),
        "it was at work {attempts} times"
    );
    app.drain().await;
    let ended = "SELECT group_concat(DISTINCT state) || ' ' || count(*) FROM runs WHERE $1 = $1";
    assert_eq!(app.row(ended, "").await[0].as_deref(), Some("succeeded 61"));
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_control_trying_suspects_at_once_puts_the_innocent_aside() {
    let (_app, state, _attempts) = under_kills(false).await;
    assert_eq!(state, "failed");
}

/// An engine with a suspect that is due, and nobody else.
async fn with_a_suspect() -> (TestApp, String) {
    let (mut app, run) = one_run(answer()).await;
    for _ in 0..2 {
        app = dies(app, 1).await;
    }
    app.workspace.clock.advance(WITHOUT);
    (app, run)
}

#[tokio::test]
async fn a_hanging_suspect_delays_others_for_seconds_proves_nothing() {
    let (app, run) = with_a_suspect().await;
    assert_eq!(claim(&app).await[0].id.as_str(), run);
    app.run_of(&note("o@guest.example", "", "When is lunch?"))
        .await;
    app.workspace.clock.advance(TRIAL - SECOND);
    assert!(claim(&app).await.is_empty(), "it is tried");
    app.workspace.clock.advance(SECOND);
    assert_eq!(claim(&app).await.len(), 1, "others go on");
    let app = app.restart().await;
    assert_eq!(
        app.outcome(&run).await.0,
        "queued",
        "a third death, and not alone"
    );
    // Its next trial is twice as long, after twice the wait.
    app.workspace.clock.advance(WITHOUT);
    let claimed = claim(&app).await;
    assert!(
        claimed.len() == 1 && claimed[0].id.as_str() != run,
        "the other one, which was there once"
    );
    app.engine
        .store
        .requeue_run(&claimed[0].id, Duration::ZERO)
        .await
        .expect("put back");
    app.workspace.clock.advance(WITHOUT);
    assert_eq!(claim(&app).await[0].id.as_str(), run);
    app.workspace.clock.advance(2 * TRIAL - SECOND);
    assert!(claim(&app).await.is_empty(), "it is still tried");
    let app = app.restart().await;
    assert_eq!(app.outcome(&run).await.2.as_deref(), Some("crashed"));
}

#[tokio::test]
async fn a_long_run_delays_a_suspect_and_everybody_else_for_seconds() {
    let (app, run) = with_a_suspect().await;
    app.workspace.clock.advance(SECOND);
    let app = app.restart().await;
    app.run_of(&note("slow@guest.example", "", "A long story, please."))
        .await;
    assert_eq!(claim(&app).await.len(), 1);
    app.workspace.clock.advance(WITHOUT);
    app.run_of(&note("o@guest.example", "", "When is lunch?"))
        .await;
    assert!(
        claim(&app).await.is_empty(),
        "nobody joins, so that the suspect can be alone"
    );
    app.workspace.clock.advance(TRIAL);
    assert_eq!(
        claim(&app).await[0].id.as_str(),
        run,
        "it is worked on all the same"
    );
    assert_eq!(claim(&app).await.len(), 1, "and others go on");
    let app = app.restart().await;
    assert_eq!(app.outcome(&run).await.0, "queued", "it was not alone");
}

#[tokio::test]
async fn what_happens_to_an_engine_asked_to_end_counts_against_nobody() {
    for asked in [true, false] {
        let (app, run) = with_a_suspect().await;
        assert_eq!(claim(&app).await.len(), 1);
        if asked {
            app.engine.store.note_end().await.expect("noted");
        }
        let app = app.restart().await;
        // The control is a death that nobody asked for.
        assert_eq!(
            app.outcome(&run).await.0,
            if asked { "queued" } else { "failed" }
        );
        if asked {
            assert_eq!(claim(&app).await.len(), 1, "it is no suspect any more");
        }
    }
}
