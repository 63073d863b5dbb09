//! What is asked of the server, and what its answers become.

use super::server::{
    OpenCode, Play, When, answer, completed, context, info, message, play, request, running, text,
    tool, trace, updated,
};
use crate::app::cuts;
use attache::config::Tier;
use attache::providers::agents::opencode::parts::Parts;
use attache::providers::{
    AgentSession, CallContext, Capture, Event, FinishReason, Form, Response, complete,
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

fn new() -> AgentSession {
    AgentSession::New("0199aaaa-0000-7000-8000-000000000000".into())
}

fn finished(events: &[Result<Event, attache::providers::ProviderError>]) -> Response {
    match events.last() {
        Some(Ok(Event::Finished(response))) => response.clone(),
        other => panic!("no end but {other:?}"),
    }
}

#[tokio::test]
async fn a_call_opens_a_session_and_asks_with_what_the_tier_allows() {
    let server = OpenCode::start(Play::default()).await;
    let provider = server.provider();
    let events = play(provider.as_ref(), &request(new(), Tier::ReadOnly)).await;
    assert!(matches!(&events[0], Ok(Event::Started { model, .. }) if model == "m1"));
    assert!(matches!(&events[1], Ok(Event::Session(id)) if id == "ses_1"));
    let response = finished(&events);
    assert_eq!(
        (response.text().as_str(), response.stop),
        ("From seven to ten.", FinishReason::EndTurn)
    );
    let body = &server.bodies("POST /session/ses_1/message")[0];
    assert_eq!(
        body["model"],
        json!({ "providerID": "acme", "modelID": "m1" })
    );
    assert_eq!(body["system"], "You are Ada.");
    assert!(
        body["parts"][0]["text"]
            .as_str()
            .is_some_and(|text| text.contains("When is breakfast?"))
    );
    let tools: Vec<_> = body["tools"].as_object().expect("a map").iter().collect();
    assert_eq!(
        tools[0],
        (&"*".to_owned(), &json!(false)),
        "first, because the last rule that fits decides"
    );
    assert!(body["tools"]["read"] == true && body["tools"]["attache_*"] == true);
    assert!(body["tools"]["bash"].is_null() && body["tools"]["edit"].is_null());
    for seen in server.seen() {
        let head = seen.head.to_lowercase();
        assert!(head.contains("x-opencode-directory: /tmp"), "{head}");
        assert!(
            head.contains("authorization: basic b3blbmnvzgu6ahvudgvymmh1bnrlcji="),
            "{head}"
        );
    }
}

#[tokio::test]
async fn usage_is_the_last_value_of_every_message_summed() {
    let mut first = info("msg_1");
    first["tokens"]["input"] = json!(900);
    let second = answer("msg_2", &[text("p", "msg_2", "Done.")]);
    let old = info("msg_1");
    let after = json!([{ "info": first, "parts": [] }, second]);
    let streams = vec![vec![message(old.clone()), message(old)]];
    let server = OpenCode::start(Play {
        streams,
        after,
        reply: (200, second),
        ..Play::default()
    })
    .await;
    let events = play(server.provider().as_ref(), &request(new(), Tier::ReadOnly)).await;
    let usage = finished(&events).usage;
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens
        ),
        (1000, 40, 14)
    );
    assert_eq!(usage.cost_micros, Some(25_000));
}

#[tokio::test]
async fn every_round_is_told_once_and_captured_for_whoever_asked() {
    let finish = |id: &str, session: &str, reason: &str| {
        json!({ "type": "step-finish", "id": id, "sessionID": session,
        "messageID": "msg_1", "reason": reason, "cost": 0.002, "tokens": { "input": 10, "output": 5 } })
    };
    let stranger = finish("prt_9", "ses_other", "tool-calls");
    let frames = vec![
        message(info("msg_1")),
        updated(finish("prt_1", "ses_1", "tool-calls")),
        updated(finish("prt_1", "ses_1", "tool-calls")),
        updated(stranger),
        updated(finish("prt_2", "ses_1", "stop")),
    ];
    let play = Play {
        streams: vec![frames],
        when: When::Streams(1),
        ..Play::default()
    };
    let server = OpenCode::start(play).await;
    let (provider, request) = (server.provider(), request(new(), Tier::ReadOnly));
    let wire = provider.encode_request(&request).expect("a body");
    let capture = Arc::new(Capture::default());
    let context = CallContext {
        capture: Some(capture.clone()),
        ..context(CancellationToken::new())
    };
    let events: Vec<_> = provider.stream(&wire, context).collect().await;
    let rounds = events.iter().filter_map(|event| match event {
        Ok(Event::Round { usage, goes_on }) => Some((usage.cost_micros, *goes_on)),
        _ => None,
    });
    assert_eq!(
        rounds.collect::<Vec<_>>(),
        [(Some(2_000), true), (Some(2_000), false)]
    );

    let kept = capture.kept();
    assert_eq!(
        (kept.sent.as_str(), kept.form),
        (wire.as_str(), Some(Form::Lines))
    );
    let lines = String::from_utf8(kept.received).expect("text");
    assert!(
        !lines.contains("ses_other"),
        "another session is nobody's business: {lines}"
    );
    // The lines alone give the same: frames, lists of messages, and at last the one that answered.
    let (mut parts, mut replayed) = (
        Parts::new("ses_1", request.agent.as_ref().expect("terms")),
        Vec::new(),
    );
    for line in lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
    {
        match &line {
            Value::Array(_) => replayed.extend(parts.catch_up(&line)),
            frame if frame["type"].is_string() => replayed.extend(parts.frame(frame).0),
            answer => replayed.extend(parts.catch_up(&json!([answer]))),
        }
    }
    let told: Vec<_> = events
        .iter()
        .flatten()
        .filter(|event| !is_frame_of_call(event))
        .cloned()
        .collect();
    assert_eq!(replayed, told);
    assert_eq!(parts.usage(), finished(&events).usage);
}

/// What the call itself adds to what the server says.
fn is_frame_of_call(event: &Event) -> bool {
    matches!(
        event,
        Event::Started { .. } | Event::Session(_) | Event::Finished(_)
    )
}

#[tokio::test]
async fn tool_parts_become_calls_with_one_result_strangers_do_not() {
    let mut stranger = completed("c9", "bash", "x");
    stranger["sessionID"] = json!("ses_other");
    let failed = tool(
        "c2",
        "grep",
        json!({ "status": "error", "input": {}, "error": "no such file" }),
    );
    let frames = vec![
        json!({ "type": "session.idle", "properties": { "sessionID": "ses_1" } }), // before anything was busy
        message(info("msg_1")),
        updated(tool(
            "c1",
            "read",
            json!({ "status": "pending", "input": {} }),
        )),
        updated(running("c1", "read")),
        updated(running("c1", "read")),
        updated(stranger),
        updated(completed("c1", "read", "seven to ten")),
        updated(failed),
        updated(running("c3", "attache_send_email")),
    ];
    let server = OpenCode::start(Play {
        streams: vec![frames],
        when: When::Streams(1),
        ..Play::default()
    })
    .await;
    let events = play(server.provider().as_ref(), &request(new(), Tier::ReadOnly)).await;
    let expected = [
        "call read",
        "ok seven to ten",
        "call grep",
        "error no such file",
        "call mcp__attache__send_email",
    ];
    assert_eq!(trace(&events), expected);
    assert_eq!(finished(&events).text(), "From seven to ten.");
}

#[tokio::test]
async fn a_lost_stream_is_made_up_for_with_no_call_missed_or_doubled() {
    let first = vec![message(info("msg_1")), updated(running("c1", "read"))];
    // While nobody listened: c1 ended, c2 came and went.
    let third = vec![
        updated(completed("c2", "grep", "b")),
        updated(running("c3", "glob")),
    ];
    let parts = [
        completed("c1", "read", "a"),
        completed("c2", "grep", "b"),
        completed("c3", "glob", "c"),
    ];
    let reply = answer("msg_2", &[text("p", "msg_2", "Done.")]);
    let after = json!([{ "info": info("msg_1"), "parts": parts }, reply]);
    let play_it = Play {
        streams: vec![first, vec![], third],
        after,
        reply: (200, reply),
        when: When::Streams(3),
        ..Play::default()
    };
    let server = OpenCode::start(play_it).await;
    let events = play(server.provider().as_ref(), &request(new(), Tier::ReadOnly)).await;
    let mut trace = trace(&events);
    trace.sort();
    assert_eq!(
        trace,
        [
            "call glob",
            "call grep",
            "call read",
            "ok a",
            "ok b",
            "ok c"
        ]
    );
    assert_eq!(finished(&events).text(), "Done.");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_stream_that_is_cut_at_any_byte_misses_and_doubles_no_call() {
    let frames = vec![
        updated(running("c1", "read")),
        updated(completed("c1", "read", "a")),
    ];
    let length = "data: {\"type\":\"server.connected\",\"properties\":{}}\n\n".len()
        + frames
            .iter()
            .map(|frame| format!("data: {frame}\n\n").len())
            .sum::<usize>();
    let at = |cut: usize| {
        let reply = answer("msg_2", &[text("p", "msg_2", "Done.")]);
        let told = json!({ "info": info("msg_1"), "parts": [completed("c1", "read", "a")] });
        let after = json!([told, reply]);
        let (streams, when) = (vec![frames.clone(), vec![]], When::Streams(2));
        let play_it = Play {
            streams,
            after,
            reply: (200, reply),
            when,
            stream_cut: Some(cut),
            ..Play::default()
        };
        async move {
            let server = OpenCode::start(play_it).await;
            let events = play(server.provider().as_ref(), &request(new(), Tier::ReadOnly)).await;
            (cut, trace(&events), finished(&events).text())
        }
    };
    for some in cuts(length + 1, 7).chunks(32) {
        for (cut, trace, text) in
            futures_util::future::join_all(some.iter().map(|cut| at(*cut))).await
        {
            assert_eq!(trace, ["call read", "ok a"], "cut after {cut}");
            assert_eq!(text, "Done.", "cut after {cut}");
        }
    }
}

#[tokio::test]
async fn permissions_are_answered_by_the_tier() {
    for (tier, expected) in [(Tier::ReadOnly, "reject"), (Tier::Full, "once")] {
        let asked = json!({ "type": "permission.asked", "properties": { "id": "per_1", "sessionID": "ses_1",
            "permission": "bash", "patterns": ["rm *"], "metadata": { "command": "rm x" }, "always": [] } });
        let frames = vec![asked.clone(), asked];
        let server = OpenCode::start(Play {
            streams: vec![frames],
            when: When::Permission,
            ..Play::default()
        })
        .await;
        let events = play(server.provider().as_ref(), &request(new(), tier)).await;
        assert_eq!(
            server.bodies("POST /permission/per_1/reply"),
            [json!({ "reply": expected })]
        );
        let denied = if tier == Tier::Full {
            vec![]
        } else {
            vec!["denied bash".to_owned()]
        };
        assert_eq!(trace(&events), denied);
    }
}

#[tokio::test]
async fn a_session_that_goes_on_tells_only_what_is_new() {
    let old = completed("c0", "read", "of old");
    let reply = answer("msg_2", &[text("p", "msg_2", "Done.")]);
    let before = json!([{ "info": info("msg_1"), "parts": [old] }]);
    let after = json!([before[0], reply]);
    let server = OpenCode::start(Play {
        before,
        after,
        reply: (200, reply),
        ..Play::default()
    })
    .await;
    let resumed = AgentSession::Resume {
        id: "ses_1".into(),
        used: None,
    };
    let events = play(
        server.provider().as_ref(),
        &request(resumed, Tier::ReadOnly),
    )
    .await;
    assert!(trace(&events).is_empty());
    assert_eq!(finished(&events).usage.input_tokens, 100);
    assert!(server.bodies("POST /session").is_empty());
}

#[tokio::test]
async fn the_events_of_a_call_keep_to_the_contract() {
    let server = OpenCode::start(Play::default()).await;
    let provider = server.provider();
    let wire = provider
        .encode_request(&request(new(), Tier::None))
        .expect("a body");
    let context = super::server::context(CancellationToken::new());
    let response = complete(provider.as_ref(), &wire, context)
        .await
        .expect("an answer");
    assert_eq!(response.model_served, "m1");
}
