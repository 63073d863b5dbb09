//! What an agent does is recorded, and stops at its tier and its bounds.

use super::agent::{Act, House, calls, ends, fails, result, round, says, starts, tells};
use attache::config::Tier;
use attache::domain::RunId;
use attache::providers::{Event, ToolArgs};
use attache::replay::{load_run, timeline};
use serde_json::json;

#[tokio::test]
#[ignore = "second tier"]
async fn every_call_of_an_agent_is_a_step_with_one_result() {
    let acts = vec![
        starts(),
        calls("x1", "Read"),
        result("x1", "seven to ten"),
        calls("x2", "Read"),
        calls("x2", "Read"), // told twice
        tells(Event::ObservedResult {
            id: "x2".into(),
            content: "no such file".into(),
            is_error: true,
        }),
        result("x2", "told again"),
        calls("x3", "Read"), // never ends
        ends("From seven to ten."),
    ];
    let house = House::new("read_only", vec![acts]).await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(
        house.app.trace(&run).await,
        [
            "call Read",
            "ok Read",
            "call Read",
            "failed Read",
            "call Read",
            "not_finished Read"
        ]
    );
    let executors = house.app.row(
        "SELECT group_concat(DISTINCT executor) FROM thread_tool_events WHERE run_id = $1",
        &run,
    );
    assert_eq!(executors.await, [Some("agent".to_owned())]);
    assert_eq!(house.app.sent()[0].text.trim(), "From seven to ten.");
    house.app.check().await;
    let record = load_run(&house.app.engine.store, &RunId::new(run))
        .await
        .expect("a record");
    assert_eq!(record.calls.len(), 3);
    assert!(
        record
            .calls
            .iter()
            .all(|call| call.turn_index == Some(0) && call.executor == "agent")
    );
    let page = timeline::plain(&timeline::run(&record, false));
    assert!(
        page.contains("Read (the agent's own)") && page.contains("seven to ten"),
        "{page}"
    );
    // The next letter's history has what the agent did.
    house
        .letter("q2@guest.example", "In-Reply-To: <q1@guest.example>\n")
        .await;
    let history = serde_json::to_string(&house.pair.requests()[1].messages).expect("json");
    assert!(
        history.contains("seven to ten") && history.contains("not_finished"),
        "{history}"
    );
}

/// Reads, then writes, then would answer.
fn writes() -> Vec<Act> {
    vec![
        starts(),
        calls("x1", "Read"),
        calls("x2", "Write"),
        result("x2", "written"),
        ends("Done."),
    ]
}

#[tokio::test]
async fn one_call_outside_the_tier_ends_the_agent_and_fails_the_run() {
    let mut acts = writes();
    acts.insert(3, Act::IsDeaf);
    let house = House::new("read_only", vec![acts]).await;
    let run = house.letter("q1@guest.example", "").await;
    let (state, _, class) = house.app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), class.as_deref()),
        ("failed", Some("disallowed_tool"))
    );
    assert_eq!(
        house.app.trace(&run).await,
        [
            "call Read",
            "call Write",
            "disallowed_tool Write",
            "outcome_unknown Read"
        ]
    );
    assert_eq!(
        (house.pair.running(), house.pair.requests().len()),
        (0, 1),
        "stopped, and not asked again"
    );
    assert!(house.app.sent().is_empty());
    let notices = house.app.notices();
    assert!(
        notices[0].text.contains("disallowed_tool"),
        "{}",
        notices[0].text
    );
    house.app.check().await;
}

#[tokio::test]
async fn the_same_call_within_the_tier_is_let_be() {
    let house = House::new("write", vec![writes()]).await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(house.app.outcome(&run).await.0, "succeeded");
    assert_eq!(house.app.sent()[0].text.trim(), "Done.");
}

#[tokio::test]
async fn an_agent_that_answers_an_unproven_sender_has_no_own_tools() {
    for (more, tier) in [("", Tier::None), (crate::app::PROVEN, Tier::Write)] {
        let house = House::new("write", vec![vec![starts(), says("Done."), ends("Done.")]]).await;
        house
            .app
            .run_of(&crate::app::note(
                "q1@guest.example",
                more,
                "Please look after it.",
            ))
            .await;
        house.work().await;
        let request = house.pair.requests().remove(0);
        assert_eq!(request.agent.expect("terms").tier, tier, "{more:?}");
        house.app.check().await;
    }
}

#[tokio::test]
async fn one_call_too_many_ends_with_an_honest_partial_answer() {
    let acts = vec![
        starts(),
        says("I found the first half."),
        calls("x1", "Read"),
        result("x1", "a"),
        calls("x2", "Read"),
        result("x2", "b"),
        calls("x3", "Read"),
        Act::Hangs,
    ];
    let house = House::with("read_only", json!({ "tool_calls_max": 2 }), vec![acts]).await;
    let run = house.letter("q1@guest.example", "").await;
    let (state, stop, _) = house.app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), stop.as_deref()),
        ("succeeded", Some("limit_tool_calls"))
    );
    let text = house.app.sent()[0].text.clone();
    assert!(text.starts_with("I found the first half."), "{text}");
    assert!(
        text.contains("incomplete: its run had used up the tool calls"),
        "{text}"
    );
    assert_eq!(
        house.app.trace(&run).await.last().map(String::as_str),
        Some("limit Read")
    );
    assert_eq!((house.pair.running(), house.pair.requests().len()), (0, 1));
    house.app.check().await;
}

#[tokio::test]
async fn refusals_of_the_agents_own_rules_are_recorded_as_failures() {
    let denied = || {
        tells(Event::Denied {
            name: "Bash".into(),
            args: ToolArgs::parse("{}"),
            reason: "not allowed".into(),
        })
    };
    let acts = vec![starts(), denied(), denied(), ends("I may not.")];
    let house = House::with(
        "read_only",
        json!({ "tool_failures_max": 3 }),
        vec![acts.clone()],
    )
    .await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(
        house.app.trace(&run).await,
        ["call Bash", "denied Bash", "call Bash", "denied Bash"]
    );
    assert_eq!(house.app.outcome(&run).await.1.as_deref(), Some("answered"));
    let house = House::with("read_only", json!({ "tool_failures_max": 2 }), vec![acts]).await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(
        house.app.outcome(&run).await.1.as_deref(),
        Some("limit_tool_failures")
    );
    house.app.check().await;
}

#[tokio::test]
async fn an_agent_asking_its_model_too_often_stops_with_what_it_has() {
    // The house lets a model be asked four times.
    let acts = |rounds: usize| {
        let mut acts = vec![starts(), says("I found the first half.")];
        acts.extend((0..rounds).map(|_| round(100, true)));
        acts.extend([round(100, false), ends("Done.")]);
        vec![acts]
    };
    let house = House::new("read_only", acts(3)).await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(
        house.app.outcome(&run).await.1.as_deref(),
        Some("answered"),
        "four, the last of which is the end"
    );
    let house = House::new("read_only", acts(4)).await;
    let run = house.letter("q1@guest.example", "").await;
    assert_eq!(
        house.app.outcome(&run).await.1.as_deref(),
        Some("limit_turns")
    );
    let text = house.app.sent()[0].text.clone();
    assert!(
        text.starts_with("I found the first half.") && text.contains("incomplete"),
        "{text}"
    );
    let used = house
        .app
        .row(
            "SELECT cost_micros || ' ' || output_tokens FROM runs WHERE id = $1",
            &run,
        )
        .await;
    assert_eq!(
        used,
        [Some("400 20".to_owned())],
        "what it told is what it used"
    );
    assert_eq!(house.pair.running(), 0);
    house.app.check().await;
}

#[tokio::test]
async fn an_agent_that_has_spent_what_its_run_may_cost_is_stopped() {
    let acts = |costs: i64| {
        let ends = [
            round(costs, true),
            says("Half."),
            round(costs, true),
            says("More."),
            round(0, false),
            ends("Done."),
        ];
        vec![[vec![starts()], ends.to_vec()].concat()]
    };
    for (costs, stop) in [(499, "answered"), (500, "limit_cost")] {
        let house = House::with(
            "read_only",
            json!({ "cost_usd_max": 0.001, "reserve_usd_per_call": 0.0001 }),
            acts(costs),
        )
        .await;
        let run = house.letter("q1@guest.example", "").await;
        assert_eq!(
            house.app.outcome(&run).await.1.as_deref(),
            Some(stop),
            "{costs}"
        );
        house.app.check().await;
    }
}

#[tokio::test]
async fn an_agent_stopped_before_it_told_its_cost_may_have_used_all() {
    let acts = vec![
        starts(),
        calls("x1", "Read"),
        calls("x2", "Read"),
        Act::Hangs,
    ];
    let budget =
        json!({ "cost_usd_max": 0.001, "reserve_usd_per_call": 0.0001, "tool_calls_max": 1 });
    let house = House::with("read_only", budget, vec![acts]).await;
    let run = house.letter("q1@guest.example", "").await;
    let cost = house
        .app
        .row(
            "SELECT cost_micros || stop_reason FROM runs WHERE id = $1",
            &run,
        )
        .await;
    assert_eq!(cost, [Some("1000limit_tool_calls".to_owned())]);
    house.app.check().await;
}

#[tokio::test]
async fn tools_of_the_agents_own_that_fail_count_as_failures() {
    let ours = "mcp__attache__send_email";
    let acts = vec![
        starts(),
        calls("x1", "Read"),
        fails("x1", "no such file"),
        calls("x2", ours),
        fails("x2", "not sent"),
        ends("I tried."),
    ];
    for (max, stop) in [(3, "answered"), (2, "limit_tool_failures")] {
        let house = House::with(
            "read_only",
            json!({ "tool_failures_max": max }),
            vec![acts.clone()],
        )
        .await;
        let run = house.letter("q1@guest.example", "").await;
        assert_eq!(house.app.outcome(&run).await.1.as_deref(), Some(stop));
        house.app.check().await;
    }
}
