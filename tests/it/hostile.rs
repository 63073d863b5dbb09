//! Providers that mean harm: whatever they send, a run ends, the next one is answered, and nothing is asked for ever.

use crate::app::{TestApp, note};
use crate::fallback::{says, workspace};
use crate::providers::server::{Reply, Seen, Server, Then};
use serde_json::{Value, json};
use std::time::Duration;

const EVENTS: &[(&str, &str)] = &[("content-type", "text/event-stream")];

fn data(body: &str) -> Reply {
    Reply::stream(&format!("data: {body}\n\ndata: [DONE]\n\n"))
}

fn delta(delta: &Value, reason: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] })
}

/// A call of `list_files` with these arguments, as the model wrote them.
fn calls(arguments: &str) -> Reply {
    let function = json!({ "name": "list_files", "arguments": arguments });
    let call = json!({ "index": 0, "id": "x", "type": "function", "function": function });
    data(&delta(&json!({ "tool_calls": [call] }), "tool_calls").to_string())
}

fn nested(levels: usize) -> String {
    format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
}

/// One run against a server that answers each call with this; gives how often it was asked, and state and class.
async fn one_run(
    answer: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
) -> (usize, String, String) {
    let server = Server::answering(answer).await;
    let app = workspace(&server, None);
    app.set(
        "configs/inference.json",
        "/retry",
        json!({ "call_attempts_max": 2, "run_attempts_max": 2 }),
    );
    app.set(
        "configs/inference.json",
        "/timeouts",
        json!({ "call": "20s", "idle": "1s" }),
    );
    let app = app.start().await;
    let run = app.run_of(&note("q@guest.example", "", "When?")).await;
    for _ in 0..4 {
        tokio::time::timeout(Duration::from_secs(120), app.drain())
            .await
            .expect("it comes to an end");
        app.workspace.clock.advance(Duration::from_secs(90_000));
    }
    let (state, _, class) = app.outcome(&run).await;
    app.check().await;
    (server.seen().len(), state, class.unwrap_or_default())
}

#[tokio::test]
#[ignore = "second tier"]
async fn whatever_a_provider_streams_the_run_ends_in_the_right_class() {
    let said = |text: &str| delta(&json!({ "content": text }), "stop").to_string();
    let body = String::from_utf8(says("Seven.").bytes).expect("text");
    let (_, body) = body.split_once("\r\n\r\n").expect("a head");
    let raw = |head: &str, body: &[u8], then| {
        let mut bytes = format!("{head}\r\n\r\n").into_bytes();
        bytes.extend_from_slice(body);
        Reply { bytes, then }
    };
    let ok = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
    let cases: Vec<(&str, Reply, &str)> = vec![
        ("the control", says("Seven."), ""),
        ("HTTP/1.0 without a length", raw("HTTP/1.0 200 OK\r\ncontent-type: text/event-stream", body.as_bytes(), Then::Close), ""),
        ("a byte order mark", Reply::stream(&format!("\u{feff}{body}")), ""),
        ("chunks with trailers", raw(&format!("{ok}\r\ntransfer-encoding: chunked\r\ntrailer: x-sum"),
            format!("{:x}\r\n{body}\r\n0\r\nx-sum: 1\r\n\r\n", body.len()).as_bytes(), Then::KeepAlive), ""),
        ("a type of no stream", Reply::new(200, &[("content-type", "text/plain")], body), ""),
        ("no type", Reply::new(200, &[], body), ""),
        ("a web page", Reply::new(200, &[("content-type", "text/html; charset=x")], "<html>"), "protocol"),
        ("a compressed body that nobody asked for", raw(&format!("{ok}\r\ncontent-encoding: gzip\r\ncontent-length: 6"), &[31, 139, 8, 0, 1, 2], Then::KeepAlive), "protocol"),
        ("a length that is a lie", raw(&format!("{ok}\r\ncontent-length: 99999"), &body.as_bytes()[..20], Then::Close), "transient"),
        ("two lengths", raw(&format!("{ok}\r\ncontent-length: 5\r\ncontent-length: 9"), body.as_bytes(), Then::Close), "transient"),
        ("no answer at all", raw("", b"", Then::Close), "transient"),
        ("a status of no kind", Reply::new(299, EVENTS, body), "protocol"),
        ("a redirect", Reply::new(302, &[("location", "http://127.0.0.1:1/")], ""), "config"),
        ("half a surrogate pair", data(r#"{"choices":[{"index":0,"delta":{"content":"\ud83d"},"finish_reason":"stop"}]}"#), "protocol"),
        ("a null in the text", data(&said("Se\u{0}ven.")), ""),
        ("the same key twice", data(r#"{"choices":[],"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}"#), ""),
        ("numbers as text", data(r#"{"choices":[{"index":"0","delta":{"content":"a"},"finish_reason":"stop"}]}"#), ""),
        ("an event of a hundred thousand levels", data(&nested(100_000)), "protocol"),
        ("one of a hundred", data(&nested(100)), "protocol"),
        ("bytes of no text", raw(&format!("{ok}\r\nconnection: close"), b"data: \xff\xfe\n\n", Then::Close), "protocol"),
        ("a model of a million letters", data(&json!({ "model": "m".repeat(1_000_000), "choices": [{ "index": 0, "delta": { "content": "a" }, "finish_reason": "stop" }] }).to_string()), ""),
        ("a model with a null", data(&json!({ "model": "m\u{0}'\"", "choices": [{ "index": 0, "delta": { "content": "a" }, "finish_reason": "stop" }] }).to_string()), ""),
        ("a reason of a million letters", data(&delta(&json!({ "content": "a" }), &"r".repeat(1_000_000)).to_string()), ""),
        ("seventeen megabytes of one line", Reply::stream(&format!("data: {}", "x".repeat(17 << 20))).then(Then::Close), "protocol"),
        ("seventeen megabytes of pings", Reply::stream(&": ping\n\n".repeat((17 << 20) / 8)).then(Then::Close), "protocol"),
        ("pings and then nothing", raw(&format!("{ok}\r\ncontent-length: 999999"), b": ping\n\n", Then::Hold), "timeout"),
    ];
    let mut wrong = Vec::new();
    for (what, reply, class) in cases {
        let (asked, state, found) = one_run(move |_, _| reply.clone()).await;
        let expected = if class.is_empty() {
            "succeeded"
        } else {
            "failed"
        };
        if (state.as_str(), found.as_str()) != (expected, class) {
            wrong.push(format!("{what}: {state} {found}"));
        }
        assert!(asked <= 4, "{what}: asked {asked} times");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

type Answer = Box<dyn Fn(&Seen, usize) -> Reply + Send + Sync>;

const PARAMETERS: &[&str] = &[
    "temperature",
    "max_tokens",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "stream_options",
    "response_format",
    "max_completion_tokens",
    "reasoning_effort",
    "stream",
    "messages",
];

fn refuses_each_parameter(_: &Seen, asked: usize) -> Reply {
    let name = PARAMETERS[asked % PARAMETERS.len()];
    let message = format!("Unsupported parameter: '{name}' is not supported with this model.");
    let error = json!({ "message": message, "param": name, "code": "unsupported_parameter" });
    Reply::new(400, &[], &json!({ "error": error }).to_string())
}

fn finds_everything_too_long(_: &Seen, asked: usize) -> Reply {
    let window = 1000 + asked * 1000;
    let message = format!(
        "This model's maximum context length is {window} tokens. However, you asked for more."
    );
    let error = json!({ "message": message, "code": "context_length_exceeded" });
    Reply::new(400, &[], &json!({ "error": error }).to_string())
}

fn always(reply: Reply) -> Answer {
    Box::new(move |_, _| reply.clone())
}

fn says_only(said: Value, reason: &str) -> Answer {
    always(data(&delta(&said, reason).to_string()))
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_provider_that_never_stops_asking_for_more_is_left() {
    let turned_away = |status, headers: &[(&str, &str)]| always(Reply::new(status, headers, "{}"));
    let yesterday = "Thu, 01 Jan 1970 00:00:00 GMT";
    let unreadable = json!({ "choices": [{ "index": 0, "delta": { "content": "a" }, "finish_reason": "stop",
        "native_finish_reason": "MALFORMED_FUNCTION_CALL" }] });
    let cases: Vec<(&str, Answer, &str)> = vec![
        (
            "come back at once",
            turned_away(429, &[("retry-after", "0")]),
            "rate_limited",
        ),
        (
            "again, by all means",
            turned_away(400, &[("x-should-retry", "true"), ("retry-after-ms", "0")]),
            "bad_request",
        ),
        (
            "never",
            turned_away(429, &[("retry-after", "99999999999999999999")]),
            "rate_limited",
        ),
        (
            "yesterday",
            turned_away(503, &[("retry-after", yesterday)]),
            "overloaded",
        ),
        (
            "each parameter in turn",
            Box::new(refuses_each_parameter),
            "bad_request",
        ),
        (
            "too long, however short",
            Box::new(finds_everything_too_long),
            "context_overflow",
        ),
        ("an empty answer", says_only(json!({}), "stop"), "protocol"),
        (
            "cut off for ever",
            says_only(json!({ "content": "and " }), "length"),
            "",
        ),
        (
            "a call that cannot be read",
            always(data(&unreadable.to_string())),
            "",
        ),
        ("the same call for ever", always(calls("{}")), "no_answer"),
        ("arguments that are none", always(calls("[1")), "no_answer"),
    ];
    for (what, answer, class) in cases {
        let (asked, state, found) = one_run(answer).await;
        assert!(asked <= 12, "{what}: asked {asked} times");
        let expected = if class.is_empty() {
            "succeeded"
        } else {
            "failed"
        };
        assert_eq!(
            (state.as_str(), found.as_str()),
            (expected, class),
            "{what}"
        );
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn deep_arguments_are_the_models_to_mend_and_the_run_resumable() {
    for levels in [10, 63, 64, 100, 120, 125, 126, 127, 128, 100_000] {
        let server = Server::answering(move |_, n| match n {
            0 => calls(&format!("{{\"path\":{}}}", nested(levels))),
            1 => Reply::new(401, &[], "{}"),
            _ => says("Seven."),
        })
        .await;
        let app = workspace(&server, None).start().await;
        let run = app.run_of(&note("q@guest.example", "", "When?")).await;
        app.drain().await;
        assert_eq!(
            app.outcome(&run).await.2.as_deref(),
            Some("auth"),
            "{levels}"
        );
        let app: TestApp = app.restart().await;
        app.engine
            .store
            .retry_run(&attache::domain::RunId::new(&run))
            .await
            .expect("queued");
        app.drain().await;
        assert_eq!(app.outcome(&run).await.0, "succeeded", "{levels}");
        let trace = app.trace(&run).await;
        let code = if levels < 64 {
            "invalid_arguments"
        } else {
            "malformed_arguments"
        };
        assert_eq!(
            trace,
            ["call list_files".to_owned(), format!("{code} list_files")],
            "{levels}"
        );
        // The next letter is answered with this history before it.
        let next = app
            .run_of(&note(
                "r@guest.example",
                "References: <q@guest.example>\n",
                "And?",
            ))
            .await;
        app.drain().await;
        assert_eq!(app.outcome(&next).await.0, "succeeded", "{levels}");
        app.check().await;
    }
}
