//! The scripted provider: every kind of answer and of failure that its format offers.

use super::{context, fixture, request};
use attache::config::ProviderSettings;
use attache::domain::ErrorClass;
use attache::providers::scripted::Scripted;
use attache::providers::{
    Block, CallContext, FinishReason, Message, Phase, Provider, ProviderError, Request, Response,
    Role, ToolArgs, ToolChoice, build, complete,
};
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const LETTER: &str =
    "From: Bob <bob@people.test>\nDate: 3 May\nSubject: Tea\n\nPlease write to me.\nBob";

fn demo() -> Box<dyn Provider> {
    let settings = ProviderSettings {
        script: Some(fixture("scripted/demo.json")),
        ..Default::default()
    };
    build("scripted", &settings).expect("the fixture is sound")
}

async fn ask(
    provider: &dyn Provider,
    request: &Request,
    context: CallContext,
) -> Result<Response, ProviderError> {
    let wire = provider.encode_request(request)?;
    complete(provider, &wire, context).await
}

async fn answer(text: &str) -> Result<Response, ProviderError> {
    ask(&*demo(), &request(text), context()).await
}

fn after(tool: &str, content: &str, is_error: bool) -> Request {
    let mut request = request("Subject: Tea\n\nwrite to me");
    let args = ToolArgs::Object(serde_json::Map::new());
    let call = Block::ToolCall {
        id: "a".into(),
        name: tool.into(),
        args,
        provider_state: None,
    };
    request.messages.push(Message {
        role: Role::Assistant,
        blocks: vec![call],
    });
    let content = content.into();
    let result = Block::ToolResult {
        call_id: "a".into(),
        name: tool.into(),
        content,
        is_error,
    };
    request.messages.push(Message {
        role: Role::User,
        blocks: vec![result],
    });
    request
}

#[tokio::test]
async fn placeholders_take_the_letters_parts() {
    let response = answer(LETTER).await.expect("it answers");
    let calls: Vec<_> = response.calls().collect();
    let body = "Please write to me.\nBob";
    let args = json!({"to": ["bob@people.test"], "subject": "Re: Tea",
        "body": "You wrote: Please write to me. on 3 May", "tags": [1, {"raw": body}]});
    assert_eq!(
        calls,
        vec![(
            "call_0_0",
            "send_email",
            &ToolArgs::Object(args.as_object().unwrap().clone())
        )]
    );
    assert_eq!(
        (response.text().as_str(), response.stop.clone()),
        ("One moment.", FinishReason::ToolUse)
    );
    assert_eq!(
        (response.usage.cache_read_tokens, response.usage.cost_micros),
        (40, Some(12))
    );
    assert_eq!(response.model_served, "scripted-demo");
}

#[tokio::test]
async fn what_is_filled_in_is_not_a_template() {
    let script = r#"{"turns": [{"say": "{{text}} {{"}]}"#;
    let provider = Scripted::from_json(script).expect("sound");
    let response = ask(&provider, &request("{{subject}}"), context())
        .await
        .expect("it answers");
    assert_eq!(response.text(), "{{subject}} {{");
}

#[tokio::test]
async fn answers_depend_on_the_newest_result() {
    let sent = after("send_email", r#"{"ok":true,"result":{"id":"d1"}}"#, false);
    assert_eq!(
        ask(&*demo(), &sent, context())
            .await
            .expect("it answers")
            .text(),
        "Sent, as d1."
    );
    let failed = after(
        "send_email",
        r#"{"ok":false,"error":{"message":"no route"}}"#,
        true,
    );
    let text = ask(&*demo(), &failed, context())
        .await
        .expect("it answers")
        .text();
    assert_eq!(text, "The mail could not be sent: no route");
    let mut closing = after("read_file", "\"half\"", false);
    closing.tool_choice = ToolChoice::None;
    let text = ask(&*demo(), &closing, context())
        .await
        .expect("it answers")
        .text();
    assert_eq!(text, "I had to stop before I was done. So far: \"half\"");
}

#[tokio::test]
async fn a_model_can_misbehave_in_every_way() {
    let two = answer("do two things").await.expect("it answers");
    assert_eq!(
        (two.calls().count(), two.stop.clone()),
        (2, FinishReason::ToolUse)
    );
    let broken = answer("broken arguments").await.expect("it answers");
    assert!(matches!(
        broken.calls().next(),
        Some((_, "send_email", ToolArgs::Malformed { .. }))
    ));
    let unknown = answer("unknown tool").await.expect("it answers");
    assert!(matches!(
        unknown.calls().next(),
        Some(("r1", "launch_rocket", ToolArgs::Object(_)))
    ));
    assert_eq!(
        answer("nothing at all").await.expect("it answers").text(),
        ""
    );
    assert_eq!(
        answer("forbidden").await.expect("it answers").stop,
        FinishReason::Refused
    );
    assert_eq!(
        answer("too long").await.expect("it answers").stop,
        FinishReason::MaxTokens
    );
}

#[tokio::test]
async fn a_failure_happens_as_often_as_the_script_says_per_run() {
    let provider = demo();
    let ask_as = |run: &str| {
        let context = CallContext {
            run_id: run.into(),
            ..context()
        };
        let (provider, request) = (&provider, request("busy once"));
        async move { ask(&**provider, &request, context).await }
    };
    for run in ["run-1", "run-2"] {
        let error = ask_as(run).await.expect_err("the first attempt fails");
        assert_eq!(
            (error.class, error.http_status),
            (ErrorClass::RateLimited, Some(429))
        );
        assert_eq!(error.retry_after, Some(Duration::from_millis(1500)));
        assert_eq!(
            ask_as(run)
                .await
                .expect("the second attempt succeeds")
                .text(),
            "Now it works."
        );
    }
    for _ in 0..3 {
        let error = ask(&*provider, &request("busy always"), context())
            .await
            .expect_err("it never works");
        assert_eq!(
            (error.class, error.phase),
            (ErrorClass::Overloaded, Phase::BeforeFirstByte)
        );
    }
    let error = answer("cut off").await.expect_err("it breaks");
    assert_eq!(
        (error.class, error.phase),
        (ErrorClass::Transient, Phase::MidStream)
    );
}

#[tokio::test]
async fn a_hanging_model_ends_with_the_call() {
    let provider = demo();
    let cancel = CancellationToken::new();
    let hanging = CallContext {
        cancel: cancel.clone(),
        ..context()
    };
    let request = request("hang");
    let (outcome, ()) = tokio::join!(ask(&*provider, &request, hanging), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(outcome.map_err(|e| e.class), Err(ErrorClass::Cancelled));
    let impatient = CallContext {
        deadline: Duration::from_millis(20),
        ..context()
    };
    let outcome = ask(&*provider, &request, impatient).await;
    assert_eq!(outcome.map_err(|e| e.class), Err(ErrorClass::Timeout));
    let impatient = CallContext {
        idle: Duration::from_millis(20),
        ..context()
    };
    let outcome = ask(&*provider, &request, impatient).await;
    assert_eq!(outcome.map_err(|e| e.class), Err(ErrorClass::Timeout));
}

#[tokio::test]
async fn turns_answer_in_order_and_then_the_script_is_named() {
    let provider = demo();
    let mut asked = request("hm");
    let texts = ["Ada answers.", "Ada answers."];
    for (turn_index, text) in (0..).zip(texts) {
        let response = ask(
            &*provider,
            &asked,
            CallContext {
                turn_index,
                ..context()
            },
        )
        .await;
        assert_eq!(response.expect("a rule answers").text(), text);
    }
    asked.system.clear();
    for (turn_index, text) in (0..).zip(["First turn.", "Second turn, hm"]) {
        let response = ask(
            &*provider,
            &asked,
            CallContext {
                turn_index,
                ..context()
            },
        )
        .await;
        assert_eq!(response.expect("a turn answers").text(), text);
    }
    let error = ask(
        &*provider,
        &asked,
        CallContext {
            turn_index: 2,
            ..context()
        },
    )
    .await
    .expect_err("no answer");
    assert_eq!(error.class, ErrorClass::Config);
    assert!(
        error.message.contains("demo.json") && error.message.contains("turn 2"),
        "{error}"
    );
}

#[test]
fn a_wrong_script_says_where() {
    let cases = [
        (r#"{"turns": [{"sya": "x"}]}"#, "turns[0]"),
        (r#"{"turns": [{}]}"#, "turns[0]"),
        (
            r#"{"turns": [{"when": {"turn": 1}, "say": "x"}]}"#,
            "make it a rule",
        ),
        (
            r#"{"rules": [{"say": "x"}, {"error": {"class": "tired"}}]}"#,
            "no error class `tired`",
        ),
        (
            r#"{"rules": [{"say": "{{sbject}}"}]}"#,
            "no placeholder `sbject`",
        ),
        (
            r#"{"rules": [{"call": [{"tool": "t", "args": {"a": [{"b": "{{result:x}}"}]}}]}]}"#,
            "`result:x`",
        ),
        (
            r#"{"rules": [{"call": [{"tool": "t", "args": {"a": 1}, "raw": "{"}]}]}"#,
            "either `args` or `raw`",
        ),
        (
            r#"{"rules": [{"error": {"class": "timeout", "times": 1}}]}"#,
            "rules[0]",
        ),
        (r#"{"turns": []} x"#, "trailing"),
    ];
    for (script, expected) in cases {
        let error = Scripted::from_json(script).err().expect(script);
        assert_eq!(
            (error.class, error.phase),
            (ErrorClass::Config, Phase::Config)
        );
        assert!(error.message.contains(expected), "{error}");
    }
}

#[test]
fn a_missing_script_is_an_error_of_the_configuration() {
    let error = build("scripted", &ProviderSettings::default())
        .err()
        .expect("no script");
    assert_eq!(
        (error.class, error.phase),
        (ErrorClass::Config, Phase::Config)
    );
    let settings = ProviderSettings {
        script: Some("/nowhere/script.json".into()),
        ..Default::default()
    };
    let error = build("scripted", &settings).err().expect("no such file");
    assert!(error.message.contains("/nowhere/script.json"), "{error}");
}

#[test]
fn an_unknown_provider_is_answered_with_the_known_ones() {
    let error = build("antropic", &ProviderSettings::default())
        .err()
        .expect("unknown");
    assert_eq!(
        (error.class, error.phase),
        (ErrorClass::Unsupported, Phase::Config)
    );
    assert!(
        error.message.contains("`antropic`") && error.message.contains("scripted"),
        "{error}"
    );
}
