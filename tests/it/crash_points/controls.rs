//! The sweep itself is tried: with a recovery that is not ours it must complain.

use super::sweep::{Plan, Played, Template, differences, play};
use super::workloads::ONE_LETTER;
use std::time::Duration;

/// What the sweep says of a death with something done to the database before the restart.
async fn complaints(point: &'static str, sabotage: &'static str) -> Vec<String> {
    let template = Template::of(&ONE_LETTER).await;
    let straight: Played = play(&ONE_LETTER, &template, Plan::NOTHING_DIES).await;
    let patience = Duration::from_secs(8);
    let played = play(
        &ONE_LETTER,
        &template,
        Plan {
            sabotage: Some(sabotage),
            patience,
            ..Plan::death(point, 1)
        },
    );
    let played = played.await;
    assert!(played.has_died, "{point} was not met");
    differences(&straight, &played)
}

fn has(complaints: &[String], wanted: &str) -> bool {
    complaints
        .iter()
        .any(|complaint| complaint.contains(wanted))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn the_sweep_complains_when_an_interrupted_run_is_not_taken_up() {
    let forgotten = "UPDATE runs SET state = 'cancelled'";
    let found = complaints("R6", forgotten).await;
    assert!(
        has(&found, "it never ended") && has(&found, "missing: received | bob"),
        "{found:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn the_sweep_complains_when_a_committed_answer_is_asked_again() {
    let forgotten = "
        UPDATE run_turns SET state = 'started', response_json = NULL, finished_at = NULL;
        DELETE FROM thread_tool_events;";
    let found = complaints("R9", forgotten).await;
    assert!(
        has(&found, "`breakfast 0` was asked 2 times") || has(&found, "missing"),
        "{found:#?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn the_sweep_complains_when_mail_is_sent_again_without_a_flag() {
    let unmarked = "UPDATE deliveries SET state = 'sending' WHERE state = 'committing'";
    let found = complaints("O5", unmarked).await;
    assert!(has(&found, "2 copies"), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn the_sweep_complains_when_what_a_death_left_disagrees() {
    let miscounted = "UPDATE runs SET input_tokens = input_tokens + 1";
    let found = complaints("R6", miscounted).await;
    assert!(has(&found, "audit: run-differs-from-turns"), "{found:#?}");
}
