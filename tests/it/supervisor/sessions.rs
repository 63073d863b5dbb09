//! Conversations that an agent keeps: gone on with where nothing is lost by it, begun anew otherwise.

use super::agent::{Act, Agent, House, calls, ends, session, starts};
use crate::app::proven_note as note;
use attache::domain::{ErrorClass, RunId, ThreadId};
use attache::providers::AgentSession;
use attache::replay::verify::{Outcome, Verifier};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const FOLLOWS: &str = "In-Reply-To: <q1@guest.example>\n";

fn answers_in(id: &str) -> Vec<Act> {
    vec![starts(), session(id), ends("Here.")]
}

fn resumes(session: &AgentSession, expected: &str) -> bool {
    matches!(session, AgentSession::Resume { id, .. } if id == expected)
}

#[tokio::test]
async fn the_next_letter_of_a_thread_goes_on_with_the_session() {
    let house = House::new("full", vec![answers_in("ses_1")]).await;
    for (id, more) in [("q1", ""), ("q2", FOLLOWS), ("q3", FOLLOWS)] {
        house.letter(&format!("{id}@guest.example"), more).await;
    }
    house.letter("elsewhere@guest.example", "").await;
    let sessions = house.pair.sessions();
    assert!(matches!(sessions[0], AgentSession::New(_)));
    assert!(
        resumes(&sessions[1], "ses_1") && resumes(&sessions[2], "ses_1"),
        "{sessions:?}"
    );
    assert!(
        matches!(sessions[3], AgentSession::New(_)),
        "another thread knows nothing of it"
    );
    house.app.check().await;
}

/// An agent is told where it works; a record of it is verified wherever it is by now.
#[tokio::test]
async fn the_record_of_an_agent_is_verified_in_another_place() {
    let house = House::new("full", vec![answers_in("ses_1")]).await;
    house.letter("q1@guest.example", "").await;
    let run = house.letter("q2@guest.example", FOLLOWS).await;
    let folder = house.pair.requests()[0]
        .agent
        .clone()
        .expect("terms")
        .folder;
    assert!(
        folder.starts_with(&house.app.workspace.path().display().to_string()),
        "the control: {folder}"
    );
    let (store, agent) = (
        house.app.engine.store.clone(),
        Arc::new(Agent(house.pair.clone())),
    );
    let verifier = Verifier::new(store, "/elsewhere".into(), attache::cli::name_catalog());
    let verified = verifier
        .with("scripted", agent)
        .verify(&RunId::new(&run))
        .await
        .expect("readable");
    assert!(
        matches!(verified.outcome, Outcome::Identical { .. }),
        "{verified:?}"
    );
}

#[tokio::test]
async fn a_session_without_an_answer_is_not_gone_on_with() {
    let fails = vec![
        starts(),
        session("ses_1"),
        calls("x1", "Read"),
        Act::Fails(ErrorClass::Transient),
    ];
    let house = House::new("full", vec![fails, answers_in("ses_2")]).await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(house.app.outcome(&run).await.0, "succeeded");
    assert!(
        house
            .pair
            .sessions()
            .iter()
            .all(|session| matches!(session, AgentSession::New(_)))
    );
    house.letter("q2@guest.example", FOLLOWS).await;
    assert!(resumes(&house.pair.sessions()[2], "ses_2"));
}

#[tokio::test]
async fn a_session_that_was_told_something_else_is_not_gone_on_with() {
    let house = House::new("full", vec![answers_in("ses_1")]).await;
    house.letter("q1@guest.example", "").await;
    house.app.workspace.write(
        "personas/ada/PERSONA.md",
        "Ada answers letters, and is brief.",
    );
    house.letter("q2@guest.example", FOLLOWS).await;
    assert!(
        matches!(house.pair.sessions()[1], AgentSession::New(_)),
        "another persona text"
    );
    house
        .app
        .workspace
        .set("configs/inference.json", "/model", "other".into());
    let house = house.restart().await;
    house.letter("q3@guest.example", FOLLOWS).await;
    assert!(
        matches!(house.pair.sessions()[2], AgentSession::New(_)),
        "another model"
    );
    house.letter("q4@guest.example", FOLLOWS).await;
    assert!(resumes(&house.pair.sessions()[3], "ses_1"));
}

#[tokio::test]
async fn a_session_that_missed_an_answer_is_not_gone_on_with() {
    let nameless = vec![starts(), ends("Without a session.")];
    let house = House::new(
        "full",
        vec![answers_in("ses_1"), nameless, answers_in("ses_2")],
    )
    .await;
    house.letter("q1@guest.example", "").await;
    house
        .app
        .workspace
        .write("personas/ada/PERSONA.md", "Another Ada.");
    house.letter("q2@guest.example", FOLLOWS).await;
    house
        .app
        .workspace
        .write("personas/ada/PERSONA.md", "Ada answers letters.");
    house.letter("q3@guest.example", FOLLOWS).await;
    let sessions = house.pair.sessions();
    assert!(matches!(sessions[2], AgentSession::New(_)), "{sessions:?}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_lost_session_is_replaced_once_and_counts_as_no_failure() {
    for class in [ErrorClass::SessionMissing, ErrorClass::SessionBusy] {
        let lost = vec![starts(), Act::Fails(class)];
        let house = House::new("full", vec![answers_in("ses_1"), lost, answers_in("ses_2")]).await;
        house.app.workspace.set(
            "configs/inference.json",
            "/retry",
            serde_json::json!({ "call_attempts_max": 1 }),
        );
        let house = house.restart().await;
        house.letter("q1@guest.example", "").await;
        let run = house.letter("q2@guest.example", FOLLOWS).await;
        assert_eq!(house.app.outcome(&run).await.0, "succeeded");
        let (sessions, requests) = (house.pair.sessions(), house.pair.requests());
        assert!(
            resumes(&sessions[1], "ses_1") && matches!(sessions[2], AgentSession::New(_)),
            "{sessions:?}"
        );
        assert_eq!(requests[2].messages.len(), 3, "with the whole history");
        assert_eq!(house.app.notices(), []);
    }
    let always = vec![starts(), Act::Fails(ErrorClass::SessionMissing)];
    let house = House::new("full", vec![always]).await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(
        house.app.outcome(&run).await.2.as_deref(),
        Some("session_missing")
    );
    assert_eq!(house.pair.requests().len(), 2, "once, not for ever");
}

#[tokio::test]
async fn an_id_that_could_be_an_option_is_not_kept() {
    let house = House::new("full", vec![answers_in("--dangerously-skip-permissions")]).await;
    house.letter("q1@guest.example", "").await;
    house.letter("q2@guest.example", FOLLOWS).await;
    assert!(
        house
            .pair
            .sessions()
            .iter()
            .all(|session| matches!(session, AgentSession::New(_)))
    );
}

#[tokio::test]
async fn two_letters_of_a_thread_never_share_a_session_at_once() {
    let house = House::new("full", vec![answers_in("ses_1")]).await;
    for (id, more) in [("q1", ""), ("q2", FOLLOWS), ("q3", FOLLOWS)] {
        house
            .app
            .run_of(&note(&format!("{id}@guest.example"), more, "Hello."))
            .await;
    }
    house.work().await;
    assert_eq!(house.pair.most_at_once.load(Ordering::SeqCst), 1);
    let sessions = house.pair.sessions();
    assert!(
        resumes(&sessions[1], "ses_1") && resumes(&sessions[2], "ses_1"),
        "{sessions:?}"
    );
    house.app.check().await;
}

#[tokio::test]
async fn a_thread_shows_its_session_one_unused_a_month_is_forgotten() {
    let house = House::new("full", vec![answers_in("ses_1")]).await;
    let run = house.letter("q1@guest.example", "").await;
    let thread = house
        .app
        .row("SELECT thread_id FROM runs WHERE id = $1", &run)
        .await[0]
        .clone();
    let thread = ThreadId::new(thread.expect("a thread"));
    let known = async |house: &House| {
        house
            .app
            .engine
            .store
            .thread_sessions(&thread)
            .await
            .expect("rows")
    };
    let [session] = known(&house).await.try_into().expect("one session");
    assert_eq!(
        (session.provider.as_str(), session.id.as_str()),
        ("scripted", "ses_1")
    );
    assert_eq!(
        (session.model.as_str(), session.state.as_str()),
        ("test", "resumable")
    );
    let mut show = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
    show.current_dir(house.app.workspace.path())
        .args(["threads", "show", thread.as_str()]);
    let shown = show.output().expect("the binary runs");
    let shown = String::from_utf8(shown.stdout).expect("UTF-8");
    assert!(
        shown.contains("scripted/test ses_1, resumable, since 20"),
        "{shown}"
    );

    let day = Duration::from_secs(24 * 60 * 60);
    // From its last use: the clock has caught up with the files' times since.
    let unused = |days| session.used_at.plus(day * days);
    house.app.workspace.clock.set(unused(27));
    let house = house.restart().await;
    assert_eq!(known(&house).await.len(), 1);
    house.app.workspace.clock.set(unused(32));
    let house = house.restart().await;
    assert_eq!(known(&house).await, []);
}
