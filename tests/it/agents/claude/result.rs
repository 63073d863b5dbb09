//! The last line of a call of Claude Code: stop reason, errors, usage.

use super::*;

#[test]
fn the_last_line_counts_with_all_its_traps() {
    let end = |more: Value| read(Tier::Full, &[init(&[]), result(more)]).2;
    let class = |more: Value| end(more).expect_err("it failed").class;
    // A failed API is a success of the program.
    assert_eq!(
        class(json!({"is_error": true, "result": "API Error", "api_error_status": 529})),
        ErrorClass::Overloaded
    );
    assert_eq!(
        class(json!({"is_error": true, "result": "Invalid API key · Please run /login"})),
        ErrorClass::Auth
    );
    assert_eq!(
        class(
            json!({"is_error": true, "result": "Credit balance is too low", "api_error_status": 400})
        ),
        ErrorClass::Billing
    );
    assert_eq!(
        class(json!({"is_error": true, "result": "Prompt is too long", "api_error_status": 400})),
        ErrorClass::ContextOverflow
    );
    assert_eq!(
        class(
            json!({"subtype": "error_during_execution", "is_error": true, "errors": ["No conversation found with session ID: s"]})
        ),
        ErrorClass::SessionMissing
    );
    assert_eq!(
        class(json!({"subtype": "error_max_structured_output_retries", "is_error": true})),
        ErrorClass::OutputInvalid
    );
    let spent = json!({"is_error": true, "total_cost_usd": 0.5, "usage": {"input_tokens": 9, "output_tokens": 4}});
    let spent = end(spent)
        .expect_err("it failed")
        .used
        .expect("it says what it used");
    assert_eq!(
        (spent.input_tokens, spent.output_tokens, spent.cost_micros),
        (9, 4, Some(500_000))
    );
    assert_eq!(
        end(json!({"is_error": true})).expect_err("it failed").used,
        None,
        "nobody knows"
    );
    let limited = end(json!({"subtype": "error_max_turns", "is_error": true, "result": null}))
        .expect("partial");
    assert_eq!(limited.stop, FinishReason::LimitTurns);
    assert_eq!(
        end(json!({"subtype": "error_max_budget_usd"}))
            .expect("partial")
            .stop,
        FinishReason::LimitCost
    );
    assert_eq!(
        end(json!({"stop_reason": "refusal"})).expect("an end").stop,
        FinishReason::Refused
    );
    assert_eq!(
        end(json!({"structured_output": {"ok": 1}}))
            .expect("an end")
            .text(),
        r#"{"ok":1}"#
    );
}

#[test]
fn a_notice_of_a_task_is_no_answer_and_a_denial_is_an_event() {
    let task = json!({"origin": {"kind": "task-notification"}, "result": "Not ours."});
    let (_, _, answer) = read(Tier::Full, &[init(&[]), result(task), result(json!({}))]);
    assert_eq!(answer.expect("an end").text(), "Done.");
    let denied = json!({"permission_denials": [{"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "x"}}]});
    let (_, events, _) = read(Tier::Full, &[init(&[]), result(denied)]);
    assert!(
        matches!(&events[..], [.., Event::Denied { name, .. }] if name == "Bash"),
        "{events:?}"
    );
}

#[test]
fn a_used_up_plan_says_when_it_is_full_again() {
    let at = NOW / 1000 + 90;
    let limit = json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": at}});
    let failed = result(json!({"is_error": true, "result": "You've hit your limit"}));
    for lines in [
        vec![init(&[]), limit.clone(), failed],
        vec![init(&[]), limit.clone()],
    ] {
        let error = read(Tier::Full, &lines).2.expect_err("limited");
        assert_eq!(
            (error.class, error.retry_after),
            (ErrorClass::RateLimited, Some(Duration::from_secs(90)))
        );
    }
    // Paid beyond the plan: it answers all the same.
    assert!(
        read(Tier::Full, &[init(&[]), limit, result(json!({}))])
            .2
            .is_ok()
    );
}

#[test]
fn lines_of_one_message_count_once_and_sub_agents_do_not_answer() {
    let says = |id: &str, parent: Value, block: Value| {
        json!({"type": "assistant", "parent_tool_use_id": parent, "message": {"id": id, "model": "claude-y",
            "content": [block], "usage": {"input_tokens": 10, "output_tokens": 4}}})
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = json!({"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a"}});
    let answered = json!({"type": "user", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "A"}], "is_error": false}]}});
    let delta = json!({"type": "stream_event", "parent_tool_use_id": null,
        "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Fin"}}});
    let foreign = says("m9", json!("t1"), text("Sub-agent."));
    let ended = json!({"type": "result", "subtype": "error_max_turns"});
    let lines = [
        init(&["Read"]),
        says("m1", Value::Null, text("Let me see. ")),
        says("m1", Value::Null, call.clone()),
        says("m1", Value::Null, call),
        answered.clone(),
        answered,
        says("m2", Value::Null, text("Final.")),
        delta,
        foreign,
        ended,
    ];
    let (_, events, answer) = read(Tier::ReadOnly, &lines);
    let response = answer.expect("an end");
    assert_eq!(
        (response.text().as_str(), response.model_served.as_str()),
        ("Final.", "claude-y")
    );
    assert_eq!(
        (response.usage.input_tokens, response.usage.output_tokens),
        (30, 12)
    );
    let calls = events
        .iter()
        .filter(|event| matches!(event, Event::ObservedCall { .. }))
        .count();
    let results: Vec<_> = events
        .iter()
        .filter(|event| matches!(event, Event::ObservedResult { .. }))
        .collect();
    assert_eq!((calls, results.len()), (1, 1));
    assert_eq!(
        *results[0],
        Event::ObservedResult {
            id: "t1".into(),
            content: "A".into(),
            is_error: false
        }
    );
    assert!(events.contains(&Event::TextDelta("Fin".into())));
}

#[test]
fn every_model_of_a_call_is_counted() {
    let models = json!({"modelUsage": {
        "big": {"inputTokens": 5, "outputTokens": 7, "cacheReadInputTokens": 100, "cacheCreationInputTokens": 9, "costUSD": 0.01},
        "small": {"inputTokens": 50, "outputTokens": 1, "costUSD": 0.000_5}},
        "usage": {"input_tokens": 5, "output_tokens": 7}, "total_cost_usd": 0.010_5});
    let response = read(Tier::Full, &[init(&[]), result(models)])
        .2
        .expect("an end");
    assert_eq!(response.breakdown.len(), 2);
    assert_eq!(
        (response.usage.input_tokens, response.usage.output_tokens),
        (55, 8)
    );
    assert_eq!(
        (response.usage.cache_read_tokens, response.usage.cost_micros),
        (100, Some(10_500))
    );
    assert_eq!(response.breakdown[1].usage.cost_micros, Some(500));
}
