//! The rule of side effects: what only read is tried again, what did something is not.

use super::agent::{Act, House, calls, ends, result, starts};
use crate::app::proven_note as note;
use attache::clock::SystemClock;
use attache::domain::{ErrorClass, RunId};
use attache::runs::worker::Worker;
use attache::store::Store;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

fn fails_after(tool: &str) -> Vec<Act> {
    vec![
        starts(),
        calls("x1", tool),
        Act::Fails(ErrorClass::Transient),
    ]
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_agent_that_only_read_is_asked_again() {
    let house = House::new(
        "full",
        vec![fails_after("Read"), vec![starts(), ends("Here.")]],
    )
    .await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(house.app.outcome(&run).await.0, "succeeded");
    assert_eq!(
        house.app.trace(&run).await,
        ["call Read", "outcome_unknown Read"]
    );
    house.app.check().await;
}

#[tokio::test]
async fn an_agent_that_did_something_is_not_asked_again_by_itself() {
    let house = House::new(
        "full",
        vec![fails_after("Bash"), vec![starts(), ends("Here.")]],
    )
    .await;
    let run = house.letter("q1@guest.example", "").await;
    let (state, _, class) = house.app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), class.as_deref()),
        ("failed", Some("transient"))
    );
    let message = house
        .app
        .row("SELECT error_message FROM runs WHERE id = $1", &run)
        .await[0]
        .clone()
        .expect("why");
    assert!(
        message.contains("had called `Bash`") && message.contains("it broke"),
        "{message}"
    );
    assert_eq!(house.pair.requests().len(), 1);
    assert_eq!(house.app.notices().len(), 1);
    // A person decides, and the agent is told what was done.
    house
        .app
        .engine
        .store
        .retry_run(&RunId::new(run.clone()))
        .await
        .expect("queued again");
    house.work().await;
    assert_eq!(house.app.outcome(&run).await.0, "succeeded");
    let told = serde_json::to_string(&house.pair.requests()[1].messages).expect("json");
    assert!(
        told.contains("do not repeat what is done") && told.contains("- Bash"),
        "{told}"
    );
    house.app.check().await;
}

#[tokio::test]
async fn a_crash_leaves_no_call_open_and_the_next_attempt_knows_of_it() {
    let hangs = vec![
        starts(),
        calls("x1", "Write"),
        result("x1", "ok"),
        calls("x2", "Bash"),
        Act::IsDeaf,
    ];
    let house = House::new("full", vec![hangs, vec![starts(), ends("Here.")]]).await;
    let run = house
        .app
        .run_of(&note("q1@guest.example", "", "Do it."))
        .await;
    let mut worker = Worker::new(house.deps());
    tokio::select! {
        _ = worker.drain() => panic!("a deaf agent does not end"),
        () = house.pair.quiet.notified() => {}
    }
    drop(worker);
    let house = house.restart().await;
    assert_eq!(
        house.app.trace(&run).await,
        [
            "call Write",
            "ok Write",
            "call Bash",
            "outcome_unknown Bash"
        ]
    );
    house.work().await;
    assert_eq!(house.app.outcome(&run).await.0, "succeeded");
    let told = serde_json::to_string(&house.pair.requests()[1].messages).expect("json");
    assert!(
        told.contains("- Write") && told.contains("- Bash") && told.contains("outcome_unknown"),
        "{told}"
    );
    house.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_cancellation_from_another_process_ends_even_a_deaf_agent() {
    for act in [Act::Hangs, Act::Tidies, Act::IsDeaf] {
        let tidies = matches!(act, Act::Tidies);
        let house = House::new("full", vec![vec![starts(), calls("x1", "Bash"), act]]).await;
        let run = house
            .app
            .run_of(&note("q1@guest.example", "", "Do it."))
            .await;
        let (wake, shutdown) = (Arc::new(Notify::new()), CancellationToken::new());
        let worker = Worker::new(house.deps()).run(wake, shutdown.clone());
        let operator = async {
            house.pair.quiet.notified().await;
            let clock = Arc::new(SystemClock::new());
            let beside = Store::open_shared(house.app.workspace.path(), clock)
                .await
                .expect("beside");
            beside
                .request_cancel(&RunId::new(run.clone()))
                .await
                .expect("asked");
            while house.app.outcome(&run).await.0 == "running" {
                crate::app::glance().await;
            }
            assert_eq!(house.pair.running(), 0, "nothing of it is left");
            shutdown.cancel();
        };
        let both = async { tokio::join!(worker, operator) };
        tokio::time::timeout(Duration::from_secs(20), both)
            .await
            .expect("in time");
        assert_eq!(house.app.outcome(&run).await.0, "cancelled");
        assert_eq!(
            house.app.trace(&run).await,
            ["call Bash", "outcome_unknown Bash"]
        );
        assert_eq!(
            house.pair.has_tidied.load(Ordering::SeqCst),
            tidies,
            "it has the time to end by itself"
        );
        house.app.check().await;
    }
}
