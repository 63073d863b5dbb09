//! Answers that are none, or not whole, and requests that a vendor will not take as they are: what the loop makes of them.

use crate::app::{TestApp, note};
use crate::fallback::{says, tries, workspace};
use crate::providers::server::{Reply, Seen, Server};
use serde_json::{Value, json};

/// One choice, with usage and the end mark.
fn chunk(delta: &Value, finish: &str) -> Reply {
    let choice = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let usage =
        json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 10 } });
    Reply::stream(&format!(
        "data: {choice}\n\ndata: {usage}\n\ndata: [DONE]\n\n"
    ))
}

/// The limit of the answer went into thinking.
fn only_thinks() -> Reply {
    chunk(
        &json!({ "reasoning_content": "Breakfast is a wide field." }),
        "length",
    )
}

/// Calls `read_file`, with words or thoughts beside the call.
fn reads(beside: &Value) -> Reply {
    let function = json!({ "name": "read_file", "arguments": r#"{"path":"knowledge/house.md"}"# });
    let mut delta = beside.clone();
    delta["tool_calls"] =
        json!([{ "index": 0, "id": "call_1", "type": "function", "function": function }]);
    chunk(&delta, "tool_calls")
}

fn refuses(status: u16, error: &Value) -> Reply {
    let json = [("content-type", "application/json")];
    Reply::new(status, &json, &json!({ "error": error }).to_string())
}

fn body(seen: &Seen) -> Value {
    serde_json::from_str(&seen.body).expect("JSON")
}

fn limit(seen: &Seen) -> u64 {
    body(seen)["max_completion_tokens"]
        .as_u64()
        .expect("a limit")
}

/// A letter to an engine that asks the first server, then the second; gives its run.
async fn letter_to(one: &Server, two: Option<&Server>) -> (TestApp, String) {
    let app = workspace(one, two).start().await;
    let run = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    app.check().await;
    (app, run)
}

async fn facts(app: &TestApp) -> String {
    let found = app
        .row(
            "SELECT group_concat(summary || ' ' || hint) FROM notices WHERE $1 = $1",
            "",
        )
        .await;
    found[0].clone().unwrap_or_default()
}

#[tokio::test]
async fn an_answer_cut_before_its_first_word_is_asked_with_more_room() {
    let server = Server::answering(|seen, _| match limit(seen) {
        limit if limit > 4096 => says("From seven."),
        _ => only_thinks(),
    })
    .await;
    let (app, run) = letter_to(&server, None).await;
    assert_eq!(
        tries(&app, &run).await,
        ["0 compat:one/m1 output_limit", "0 compat:one/m1 answered"]
    );
    assert_eq!(
        server.seen().iter().map(limit).collect::<Vec<_>>(),
        [4096, 16_384]
    );
    assert_eq!(
        app.outcome(&run).await,
        ("succeeded".into(), Some("answered".into()), None)
    );
    assert!(app.sent()[0].text.contains("From seven."));
    let used = app
        .row(
            "SELECT CAST(output_tokens AS TEXT) FROM runs WHERE id = $1",
            &run,
        )
        .await;
    assert_eq!(
        used[0].as_deref(),
        Some("20"),
        "what went into thinking was paid, too"
    );
}

#[tokio::test]
async fn room_that_was_made_once_is_there_for_the_rest_of_the_run() {
    let server =
        Server::answering(
            |seen, _| match (limit(seen), seen.body.contains("tool_call_id")) {
                (4096, _) => only_thinks(),
                (_, false) => reads(&json!({})),
                (_, true) => says("From seven."),
            },
        )
        .await;
    let (app, run) = letter_to(&server, None).await;
    assert_eq!(
        server.seen().iter().map(limit).collect::<Vec<_>>(),
        [4096, 16_384, 16_384]
    );
    assert_eq!(app.outcome(&run).await.0, "succeeded");
}

#[tokio::test]
async fn an_answer_without_a_word_goes_elsewhere_or_fails_and_is_told() {
    let one = Server::start(vec![only_thinks()]).await;
    let (app, run) = letter_to(&one, None).await;
    assert_eq!(tries(&app, &run).await, ["0 compat:one/m1 output_limit"; 2]);
    let (state, _, class) = app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), class.as_deref(), app.sent().len()),
        ("failed", Some("output_limit"), 0)
    );
    let told = facts(&app).await;
    assert!(told.contains("max_output_tokens"), "{told}");

    let two = Server::start(vec![says("From seven.")]).await;
    let (app, run) = letter_to(&one, Some(&two)).await;
    assert_eq!(
        tries(&app, &run).await.last().map(String::as_str),
        Some("0 compat:two/m2 answered")
    );
    assert_eq!(
        limit(&two.seen()[0]),
        4096,
        "what one model needs says nothing of another"
    );
    assert_eq!(app.outcome(&run).await.0, "succeeded");
}

#[tokio::test]
async fn a_refusal_of_the_larger_limit_does_not_hide_what_was_wrong() {
    let server = Server::answering(|seen, _| match limit(seen) {
        4096 => only_thinks(),
        _ => refuses(
            400,
            &json!({ "message": "max_completion_tokens is too large: at most 8192" }),
        ),
    })
    .await;
    let (app, run) = letter_to(&server, None).await;
    let (state, _, class) = app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), class.as_deref()),
        ("failed", Some("output_limit"))
    );
    let message = app
        .row("SELECT error_message FROM runs WHERE id = $1", &run)
        .await
        .remove(0);
    assert!(
        message
            .as_deref()
            .is_some_and(|said| said.contains("at most 8192")),
        "{message:?}"
    );
}

#[tokio::test]
async fn a_beginning_is_mailed_when_its_continuation_has_no_word() {
    let server = Server::answering(|_, before| match before {
        0 => chunk(&json!({ "content": "From seven" }), "length"),
        _ => only_thinks(),
    })
    .await;
    let (app, run) = letter_to(&server, None).await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let text = app.sent().remove(0).text;
    assert!(
        text.contains("From seven") && text.contains("was cut off"),
        "{text}"
    );
}

/// DeepSeek's and Moonshot's rule: what was thought before a call comes back with the call.
fn wants_its_reasoning(seen: &Seen) -> Option<Reply> {
    let messages = body(seen)["messages"].as_array().expect("messages").clone();
    let lacks = |message: &&Value| {
        message.get("tool_calls").is_some() && message["reasoning_content"] != json!("Let me look.")
    };
    messages.iter().any(|message| lacks(&message)).then(|| {
        let why = "The `reasoning_content` in the thinking mode must be passed back to the API.";
        refuses(
            400,
            &json!({ "message": why, "type": "invalid_request_error" }),
        )
    })
}

#[tokio::test]
async fn reasoning_before_a_call_goes_back_under_the_name_it_had() {
    let server = Server::answering(|seen, before| {
        wants_its_reasoning(seen).unwrap_or_else(|| match before {
            0 => reads(&json!({ "reasoning_content": "Let me look." })),
            1 => chunk(
                &json!({ "reasoning_content": "Read.", "content": "From seven." }),
                "stop",
            ),
            _ => says("On Sundays, too."),
        })
    })
    .await;
    let (app, run) = letter_to(&server, None).await;
    assert_eq!(
        app.outcome(&run).await,
        ("succeeded".into(), Some("answered".into()), None)
    );
    for message in body(&server.seen()[1])["messages"]
        .as_array()
        .expect("messages")
    {
        // DeepSeek's older model refuses the reasoning of an answer without calls.
        assert_eq!(
            message.get("reasoning_content").is_some(),
            message.get("tool_calls").is_some()
        );
    }

    // Groq's name for it.
    let server = Server::answering(|_, before| match before {
        0 => reads(&json!({ "reasoning": "Let me look." })),
        _ => says("From seven."),
    })
    .await;
    let (_app, _run) = letter_to(&server, None).await;
    let second = server.seen()[1].body.clone();
    assert!(
        second.contains(r#""reasoning":"Let me look.""#) && !second.contains("reasoning_content")
    );
}

#[tokio::test]
async fn a_server_gets_no_reasoning_it_refuses_but_what_it_misses() {
    let picky = Server::answering(|seen, before| match (before, seen.body.contains("reasoning_content")) {
        (0, _) => reads(&json!({ "reasoning_content": "Let me look." })),
        (_, true) => refuses(
            422,
            &json!({ "message": "messages.2.reasoning_content: Extra inputs are not permitted" }),
        ),
        (_, false) => says("From seven."),
    })
    .await;
    let (app, run) = letter_to(&picky, None).await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");

    // A call that another provider made has no reasoning of this one's.
    let one = Server::answering(|_, before| match before {
        0 => reads(&json!({})),
        _ => refuses(401, &json!({ "message": "gone" })),
    })
    .await;
    let two = Server::answering(|seen, _| {
        let messages = body(seen)["messages"].as_array().expect("messages").clone();
        let lacks = |message: &Value| {
            message.get("tool_calls").is_some() && message.get("reasoning_content").is_none()
        };
        let why =
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2";
        match messages.iter().any(lacks) {
            true => refuses(400, &json!({ "message": why })),
            false => says("From seven."),
        }
    })
    .await;
    let (app, run) = letter_to(&one, Some(&two)).await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_request_above_the_rate_limit_shrinks_then_goes_elsewhere() {
    let too_large = |status| {
        let why = "Request too large for m1 on tokens per minute (TPM): Limit 6000, Requested 7214";
        refuses(
            status,
            &json!({ "message": why, "type": "tokens", "code": "rate_limit_exceeded" }),
        )
    };
    for status in [413, 429] {
        let one = Server::start(vec![too_large(status)]).await;
        let two = Server::start(vec![says("From seven.")]).await;
        let (app, run) = letter_to(&one, Some(&two)).await;
        assert_eq!(
            tries(&app, &run).await,
            [
                "0 compat:one/m1 context_overflow",
                "0 compat:one/m1 context_overflow",
                "0 compat:two/m2 answered"
            ]
        );
        let sizes: Vec<usize> = one.seen().iter().map(|seen| seen.body.len()).collect();
        assert!(sizes[1] < sizes[0], "tools are left out: {sizes:?}");
    }
    // A body that is too large by itself goes elsewhere as well.
    let one = Server::start(vec![Reply::new(413, &[], "")]).await;
    let two = Server::start(vec![says("From seven.")]).await;
    let (app, run) = letter_to(&one, Some(&two)).await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
}

#[tokio::test]
async fn a_model_that_is_not_known_is_looked_for_at_the_next_provider() {
    let one = Server::start(vec![refuses(
        400,
        &json!({ "message": "m1 is not a valid model ID" }),
    )])
    .await;
    let two = Server::start(vec![says("From seven.")]).await;
    let (app, run) = letter_to(&one, Some(&two)).await;
    let expected = [
        "0 compat:one/m1 model_not_found",
        "0 compat:two/m2 answered",
    ];
    assert_eq!(tries(&app, &run).await, expected);
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_call_that_its_vendor_could_not_read_is_written_again() {
    let unread = json!({ "message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<" });
    let inside = Reply::stream(&format!("data: {}\n\n", json!({ "error": unread })));
    for reply in [refuses(400, &unread), inside] {
        let server = Server::start(vec![reply, says("From seven.")]).await;
        let (app, run) = letter_to(&server, None).await;
        assert_eq!(
            app.outcome(&run).await,
            ("succeeded".into(), Some("answered".into()), None)
        );
        assert!(
            server.seen()[1].body.contains("could not be read"),
            "the model is told"
        );
    }
    // Whoever never writes one that can be read comes to an end.
    let server = Server::start(vec![refuses(400, &unread)]).await;
    let (app, run) = letter_to(&server, None).await;
    assert!(server.seen().len() <= 5, "{} calls", server.seen().len());
    assert_ne!(app.outcome(&run).await.0, "waiting_retry");
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_answer_too_large_for_a_mail_is_kept_and_never_paid_twice() {
    let long: String = (0..120_000).map(|n| format!("Item {n}. ")).collect();
    let server = Server::start(vec![says(&long)]).await;
    let (app, run) = letter_to(&server, None).await;
    let (state, _, class) = app.outcome(&run).await;
    assert_eq!(
        (state.as_str(), class.as_deref()),
        ("failed", Some("answer_too_large"))
    );
    assert_eq!(
        tries(&app, &run).await,
        ["0 compat:one/m1 answered"],
        "what was paid is recorded"
    );
    let sql =
        "SELECT iif(length(response_json) > 1000000, '1', '0') FROM run_turns WHERE run_id = $1";
    assert_eq!(app.row(sql, &run).await[0].as_deref(), Some("1"));
    let used = app
        .row(
            "SELECT CAST(output_tokens AS TEXT) FROM runs WHERE id = $1",
            &run,
        )
        .await;
    assert_eq!(used[0].as_deref(), Some("10"));
    let told = facts(&app).await;
    assert!(told.contains("answer_too_large"), "{told}");
    app.engine
        .store
        .retry_run(&attache::domain::RunId::new(&run))
        .await
        .expect("queued again");
    app.drain().await;
    assert_eq!(server.seen().len(), 1, "a retry does not pay again");
}
