//! Many decide at once, by three doors: processes of the command line, letters, and the store beside them.

use crate::app::glance;
use crate::approvals::scene::{CONTACT, OWNER, Scene, decision};
use attache::domain::{Address, ApprovalState, Letter, Timestamp, Via};
use attache::store::{ApprovalVerdict, DecisionOutcome, Store};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tokio::sync::Barrier;

const PROCESSES: usize = 20;
/// No more than are told by mail that they came too late.
const LETTERS: usize = 3;
const CALLS: usize = 41;

fn process(scene: &Scene, id: &str, number: usize) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    let verb = ["approve", "reject"][number % 2];
    command.current_dir(scene.world.app.workspace.path());
    command
        .args(["approvals", verb, id])
        .env_remove("ATTACHE_WORKSPACE");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary runs")
}

fn by_mail(scene: &Scene, number: usize) -> Letter {
    let to = scene.reply_address();
    let word = ["yes", "no"][number % 2];
    let eml = scene.signed(OWNER, &to, &format!("y{number}"), "", word);
    let mut letter = crate::app::letter(&eml);
    letter.envelope.via = Via::Smtp;
    letter.envelope.peer = crate::identity::world::STRANGER.parse().ok();
    letter.envelope.helo = "client.test".to_owned();
    letter.envelope.rcpt_to = vec![Address::parse(&to).expect("an address")];
    letter
}

/// A decision by the store itself, once everybody is ready.
async fn call(store: Store, id: String, ready: Arc<Barrier>, number: usize) -> DecisionOutcome {
    ready.wait().await;
    let verdict = [ApprovalVerdict::Approve, ApprovalVerdict::Reject][number % 2];
    let mut decision = decision(verdict, "");
    decision.by = format!("caller {number}");
    let outcome = store.decide_approval(&id, decision).await;
    outcome.expect("an outcome")
}

/// What the processes said who were too late, and how many decided.
async fn ended(mut processes: Vec<Child>) -> (usize, Vec<String>) {
    let (mut decided, mut told) = (0, Vec::new());
    while let Some(mut process) = processes.pop() {
        while process.try_wait().expect("a process").is_none() {
            glance().await;
        }
        let output = process.wait_with_output().expect("its output");
        match output.status.success() {
            true => decided += 1,
            false => told.push(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
    (decided, told)
}

async fn until_processes_may_have_begun() {
    for _ in 0..20 {
        glance().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "second tier"]
async fn of_deciders_at_three_doors_one_decides() {
    let scene = Scene::start().await;
    let run = scene.writes(CONTACT, "l1", "").await;
    let id = scene.only_question().await.id;
    let barrier = Arc::new(Barrier::new(LETTERS + CALLS + 1));
    let (mut calls, mut letters) = (tokio::task::JoinSet::new(), tokio::task::JoinSet::new());
    for number in 0..CALLS {
        calls.spawn(call(
            scene.world.app.engine.store.clone(),
            id.clone(),
            barrier.clone(),
            number,
        ));
    }
    for number in 0..LETTERS {
        let (intake, letter, barrier) = (
            scene.world.app.engine.intake(),
            by_mail(&scene, number),
            barrier.clone(),
        );
        letters.spawn(async move {
            barrier.wait().await;
            intake.accept(letter).await.expect("taken");
        });
    }
    let processes: Vec<Child> = (0..PROCESSES)
        .map(|number| process(&scene, &id, number))
        .collect();
    until_processes_may_have_begun().await;
    barrier.wait().await;
    letters.join_all().await;
    let outcomes = calls.join_all().await;
    let (by_process, mut told) = ended(processes).await;
    // A process decides by the machine's clock, and what it decided is due by that one.
    let clock = &scene.world.app.workspace.clock;
    clock.set(Timestamp::from(chrono::Utc::now()));
    scene.world.app.drain().await;
    let view = scene.approval(&id).await;
    let (winner, via) = (
        view.decided_by.expect("somebody"),
        view.via.expect("a door"),
    );
    let by_call = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, DecisionOutcome::Decided(_)))
        .count();
    let by_letter = usize::from(via == "mail");
    assert_eq!(by_process + by_call + by_letter, 1);
    let heard = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, DecisionOutcome::Already { by, .. } if *by == winner));
    let heard = heard.count();
    told.extend(scene.to_owner().into_iter().skip(1).map(|mail| mail.text));
    let too_late = told
        .iter()
        .filter(|text| text.contains(&format!("already by {winner}")))
        .count();
    assert_eq!(heard + too_late, 63, "{told:#?}");
    assert_eq!(
        scene.to_eve().len(),
        usize::from(view.state == ApprovalState::Approved)
    );
    assert_eq!(scene.world.app.outcome(&run).await.0, "succeeded");
    scene.world.app.check().await;
    println!(
        "B-5: 64 deciders ({PROCESSES} processes, {LETTERS} letters, {CALLS} calls): {winner} by {via} won, 63 heard it"
    );
}
