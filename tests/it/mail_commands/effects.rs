//! What each command does, and how it is answered.

use super::{OLGA, command, halted, letter, signed, stored, taken, world};
use attache::domain::PersonaId;
use std::time::Duration;

#[tokio::test]
async fn status_is_answered_in_the_thread_and_marked_as_automatic() {
    let world = world().await;
    let answer = command(&world, "s1", "/status").await;
    assert!(answer.text.contains("not halted"), "{}", answer.text);
    assert!(
        answer.text.contains("runs: 0 queued, 0 at work"),
        "{}",
        answer.text
    );
    assert!(
        answer.text.contains("spent today: 0.000000 dollars"),
        "{}",
        answer.text
    );
    assert_eq!(answer.in_reply_to, ["s1@x.test"]);
    assert_eq!(answer.subject, "Re: Breakfast");
    assert_eq!(answer.to[0].spec, OLGA);
    assert_eq!(
        answer.automatic.auto_submitted.as_deref(),
        Some("auto-replied")
    );
    assert!(world.app.sent().is_empty(), "no model was asked");
    let threads = world
        .app
        .row(
            "SELECT CAST(count(DISTINCT thread_id) AS TEXT) FROM messages WHERE persona_id = $1",
            "ada",
        )
        .await;
    assert_eq!(threads[0].as_deref(), Some("1"));
    world.app.check().await;
}

#[tokio::test]
async fn pause_halts_the_persona_and_resume_lets_it_go_on() {
    let world = world().await;
    let answer = command(&world, "p1", "/pause").await;
    assert!(answer.text.contains("ada is halted"), "{}", answer.text);
    assert_eq!(halted(&world).await, ["ada"]);
    // A letter waits, and commands are still carried out and answered.
    let waits = signed(&world, "w1", "", "When is breakfast?");
    assert_eq!(taken(&world, &waits).await, "run");
    assert_eq!(world.app.drain().await.runs, 0);
    let answer = command(&world, "s1", "/status").await;
    assert!(
        answer.text.contains("ada is halted since"),
        "{}",
        answer.text
    );
    assert!(answer.text.contains("runs: 1 queued"), "{}", answer.text);
    let answer = command(&world, "p2", "/pause").await;
    assert!(answer.text.contains("was halted before"), "{}", answer.text);
    assert!(world.app.sent().is_empty());

    let answer = command(&world, "r1", "/resume").await;
    assert!(answer.text.contains("is lifted"), "{}", answer.text);
    assert!(halted(&world).await.is_empty());
    world.app.drain().await;
    assert_eq!(world.app.sent().len(), 1, "the letter is answered now");
    world.app.check().await;
}

#[tokio::test]
async fn resume_lifts_only_the_halt_of_its_persona() {
    let world = world().await;
    let store = &world.app.engine.store;
    store.halt(None, "everything").await.expect("halted");
    command(&world, "p1", "/pause").await;
    let answer = command(&world, "r1", "/resume").await;
    assert!(
        answer.text.contains("Every persona is halted"),
        "{}",
        answer.text
    );
    assert_eq!(halted(&world).await, ["all"]);
    world.app.check().await;
}

#[tokio::test]
async fn cancel_ends_the_open_runs_of_its_thread_only() {
    let world = world().await;
    let ada = PersonaId::parse("ada").expect("an id");
    world
        .app
        .engine
        .store
        .halt(Some(&ada), "")
        .await
        .expect("halted");
    assert_eq!(taken(&world, &signed(&world, "a", "", "One")).await, "run");
    assert_eq!(taken(&world, &signed(&world, "b", "", "Two")).await, "run");
    let eml = world.signed_with(
        "home.test",
        &letter(&world, "c", "In-Reply-To: <a@x.test>\r\n", "/cancel"),
        &["From", "To", "Subject", "Date", "Message-ID", "In-Reply-To"],
        |signer| signer,
    );
    assert_eq!(taken(&world, &eml).await, "command");
    world.app.drain().await;
    let answers = world.app.notices();
    assert!(
        answers[0].text.contains("1 run of this thread"),
        "{}",
        answers[0].text
    );
    world
        .app
        .engine
        .store
        .lift_halt(Some(&ada))
        .await
        .expect("lifted");
    assert_eq!(world.app.drain().await.runs, 1, "the other thread's");
    let answer = command(&world, "d", "/cancel").await;
    assert!(answer.text.contains("nothing to cancel"), "{}", answer.text);
    world.app.check().await;
}

#[tokio::test]
async fn reset_hides_the_history_of_the_thread_from_later_runs() {
    let world = world().await;
    let fields = ["From", "To", "Subject", "Date", "Message-ID", "In-Reply-To"];
    let reply = |id: &str, text: &str| {
        let eml = letter(&world, id, "In-Reply-To: <a@x.test>\r\n", text);
        world.signed_with("home.test", &eml, &fields, |signer| signer)
    };
    let run = async |id: &str, text: &str| {
        let accepted = world
            .hand_over(&reply(id, text), None)
            .await
            .expect("taken");
        world.app.drain().await;
        match &accepted.copies[0].outcome {
            attache::gateway::intake_contract::CopyOutcome::Run(run) => run.to_string(),
            other => panic!("no run but {other:?}"),
        }
    };
    let first = run("a", "The code is heron.").await;
    let second = run("b", "And what was the code?").await;
    let sees = async |run: &str| {
        let prompts = world.app.prompts(run).await;
        prompts[0].to_string().contains("heron")
    };
    assert!(sees(&first).await && sees(&second).await, "the control");
    assert_eq!(taken(&world, &reply("c", "/reset")).await, "command");
    world.app.drain().await;
    assert!(world.app.notices()[0].text.contains("does not see"));
    let third = run("d", "What was the code again?").await;
    assert!(!sees(&third).await);
    let fourth = run("e", "And what did I just ask?").await;
    assert!(!sees(&fourth).await);
    let prompts = world.app.prompts(&fourth).await;
    assert!(
        prompts[0].to_string().contains("What was the code again?"),
        "what came after the boundary is there"
    );
    assert_eq!(stored(&world).await, ["ada reset -"]);
    for verified in world.app.workspace.verified().await {
        assert!(
            matches!(
                verified.outcome,
                attache::replay::verify::Outcome::Identical { .. }
            ),
            "runs before and after the boundary are replayed"
        );
    }
    world.app.check().await;
}

#[tokio::test]
async fn help_is_the_list_and_so_is_the_answer_to_a_slip() {
    let world = world().await;
    let help = command(&world, "h1", "/help").await.text;
    for word in [
        "/status", "/cancel", "/pause", "/resume", "/reset", "/approve", "/reject",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
    let slip = command(&world, "h2", "/puase").await.text;
    assert!(
        slip.contains("nothing was done") && slip.contains("/pause"),
        "{slip}"
    );
    let more = command(&world, "h3", "/pause until Monday").await.text;
    assert!(more.contains("was not carried out"), "{more}");
    assert!(halted(&world).await.is_empty());
    world.app.check().await;
}

#[tokio::test]
async fn a_number_without_an_open_question_decides_nothing() {
    let world = world().await;
    for (id, text) in [
        ("n1", "/approve 123456"),
        ("n2", "/reject 1"),
        ("n3", "/approve"),
    ] {
        let answer = command(&world, id, text).await;
        assert!(
            answer.text.contains("nothing was decided"),
            "{}",
            answer.text
        );
    }
    world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn answers_are_bounded_in_an_hour_and_commands_are_not() {
    let world = world().await;
    for n in 0..20 {
        command(&world, &format!("s{n}"), "/status").await;
    }
    let eml = signed(&world, "p", "", "/pause");
    assert_eq!(taken(&world, &eml).await, "command");
    world.app.drain().await;
    assert_eq!(world.app.notices().len(), 20);
    assert_eq!(halted(&world).await, ["ada"]);
    world.app.workspace.clock.advance(Duration::from_secs(3601));
    world.app.drain().await;
    assert_eq!(world.app.notices().len(), 20, "it is not answered late");
    world.app.check().await;
}
