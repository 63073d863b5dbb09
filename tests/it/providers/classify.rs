//! The table of failures: every cell of it, vendor by status; what a status means alone; what the words add.

use super::fixture;
use attache::domain::ErrorClass::{self, *};
use attache::providers::Parameter::{
    BareCalls, MaxCompletionTokens, OutputSchema, Reasoning, SentReasoning, StreamUsage, Strict,
    Temperature, ToolChoice, Tools,
};
use attache::providers::transport::classify::Family::{
    self, Anthropic, Gemini, Grok, Ollama, OpenAi, OpenRouter,
};
use attache::providers::transport::classify::{http_failure, stream_failure};
use attache::providers::{
    Phase, PriorAttempts, ProviderError, RetryDecision, RetryLimits, Size, retry_decision,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::time::Duration;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v)))
        .collect()
}

fn error(kind: &str, code: &str, message: &str) -> String {
    let mut error = json!({"message": message});
    for (key, value) in [("type", kind), ("code", code)] {
        if !value.is_empty() {
            error[key] = Value::String(value.to_owned());
        }
    }
    json!({"type": "error", "error": error}).to_string()
}

/// A page of a proxy.
const PAGE: &str =
    "<!doctype html><html><head><title>Sorry</title></head><body>nothing here</body></html>";
/// A plain complaint in most vendors' envelope.
const PLAIN: &str = r#"{"error":{"message":"x"}}"#;
const FAMILIES: [Family; 6] = [Anthropic, OpenAi, Grok, OpenRouter, Gemini, Ollama];

fn family(vendor: &str) -> Family {
    match vendor {
        "anthropic" => Anthropic,
        "openai" => OpenAi,
        "grok" => Grok,
        "openrouter" => OpenRouter,
        "gemini" => Gemini,
        "ollama" => Ollama,
        other => panic!("no vendor `{other}`"),
    }
}

/// The cells of the table: vendor, status, headers and body; the class and the wait that follow. Bodies are made up in the
/// documented shapes.
#[test]
fn every_cell_of_the_table_has_its_class_and_its_wait() {
    let table = std::fs::read_to_string(fixture("statuses.jsonl")).expect("it exists");
    let mut cells = 0;
    for line in table.lines() {
        let cell: Value = serde_json::from_str(line).expect("a cell");
        let mut pairs = HeaderMap::new();
        for (name, value) in cell["headers"].as_object().into_iter().flatten() {
            let value = HeaderValue::from_str(value.as_str().expect("text")).expect("a value");
            pairs.insert(
                HeaderName::from_bytes(name.as_bytes()).expect("a name"),
                value,
            );
        }
        let status = u16::try_from(cell["status"].as_u64().expect("a status")).expect("a status");
        let vendor = family(cell["vendor"].as_str().expect("a vendor"));
        let failure = http_failure(
            vendor,
            status,
            &pairs,
            cell["body"].as_str().expect("a body"),
        );
        let seconds = failure.retry_after.map(|wait| wait.as_secs_f64());
        let expected = (
            cell["class"].as_str().expect("a class"),
            cell["wait_seconds"].as_f64(),
        );
        assert_eq!((failure.class.as_str(), seconds), expected, "{line}");
        assert_eq!(
            (failure.http_status, failure.phase),
            (Some(status), Phase::BeforeFirstByte)
        );
        cells += 1;
    }
    assert!(cells > 90, "the table has only {cells} cells");
}

/// What a status means when the body says nothing that anybody knows: a page of a proxy, nothing, or nonsense.
#[test]
fn a_status_alone_has_a_class_whoever_stands_behind_it() {
    let table: &[(&[u16], ErrorClass)] = &[
        (&[201, 202, 204, 206], Protocol),
        (&[301, 302, 307, 308], Config),
        (
            &[400, 405, 406, 410, 415, 418, 421, 422, 426, 431, 451],
            BadRequest,
        ),
        (&[401], Auth),
        (&[402], Billing),
        (&[403], Permission),
        (&[404], ModelNotFound),
        (&[408, 504], Timeout),
        (&[409, 498, 499], Transient),
        (&[413], RequestTooLarge),
        (&[429], RateLimited),
        (&[503, 529], Overloaded),
        (
            &[
                500, 501, 502, 505, 507, 508, 511, 520, 521, 522, 523, 524, 525, 526, 527, 530, 599,
            ],
            Transient,
        ),
    ];
    for family in FAMILIES {
        for (statuses, class) in table {
            for status in *statuses {
                for body in [PAGE, PLAIN, "", "nonsense", "[]", "null"] {
                    // Cerebras's habit, and that of nobody else.
                    let cerebras =
                        family == OpenAi && body.is_empty() && matches!(status, 400 | 413);
                    let expected = if cerebras { ContextOverflow } else { *class };
                    let failure = http_failure(family, *status, &HeaderMap::new(), body);
                    assert_eq!(
                        (failure.class, failure.retry_after),
                        (expected, None),
                        "{family:?} {status} {body}"
                    );
                    assert_eq!((failure.refused, failure.window_tokens), (None, None));
                }
            }
        }
        let failure = http_failure(family, 502, &HeaderMap::new(), PAGE);
        assert_eq!(failure.message, "HTTP 502: Sorry");
    }
}

/// Servers that take no tools, each in its own words; the file says where they come from.
#[test]
fn every_refusal_of_tools_is_understood_and_none_that_is_about_something_else() {
    let table = std::fs::read_to_string(fixture("toolless.jsonl")).expect("it exists");
    for line in table.lines() {
        let case: Value = serde_json::from_str(line).expect("a case");
        assert!(
            case["source"].as_str().is_some_and(|from| !from.is_empty()),
            "{line}"
        );
        let status = u16::try_from(case["status"].as_u64().expect("a status")).expect("a status");
        let family = family(case["family"].as_str().expect("a family"));
        let failure = http_failure(family, status, &HeaderMap::new(), &case["body"].to_string());
        assert_eq!(failure.refused, Some(Tools), "{line}");
        let (tried, size) = (
            PriorAttempts {
                calls: 1,
                ..PriorAttempts::default()
            },
            Size::default(),
        );
        let limits = RetryLimits {
            attempts_max: 3,
            inline_wait_max: Duration::from_secs(60),
            left: Duration::from_secs(600),
            fallback_on_refusal: false,
            jitter_seed: 7,
        };
        assert_eq!(
            retry_decision(&failure, tried, limits, size),
            RetryDecision::Downgrade(Tools)
        );
    }
    assert!(table.lines().count() >= 16);
    let others = [
        "Thinking mode does not support this tool_choice",
        "Function calling with a response mime type: 'application/json' is unsupported",
        "Invalid schema for function 'look': 'x' is not of type 'object'",
        "tools[0].function.name: string does not match pattern",
        "Code execution is not enabled for models/gemma-3-27b-it",
        "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
        "This model does not support image input",
        "tool_choice 'required' is not supported",
    ];
    for message in others {
        let body = json!({"error": {"message": message}}).to_string();
        let failure = http_failure(OpenAi, 400, &HeaderMap::new(), &body);
        assert_ne!(failure.refused, Some(Tools), "{message}");
    }
}

#[test]
fn a_bad_request_says_which_parameter_it_was_refused_for() {
    let with = |param: &str, code: &str, message: &str| {
        json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}})
            .to_string()
    };
    let said = |message: &str| json!({"error": {"message": message}}).to_string();
    const INVALID: &str = "Client specified an invalid argument";
    let xai = |message: &str| json!({"code": INVALID, "error": message}).to_string();
    let fastapi = json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]});
    #[rustfmt::skip]
    let table = [
        // By `param` and `code`, whatever the sentence.
        (with("temperature", "unsupported_value", "x"), Some(Temperature)),
        (
            with("max_tokens", "unsupported_parameter", "Use 'max_completion_tokens' instead."),
            Some(MaxCompletionTokens),
        ),
        (with("stream_options", "unknown_parameter", "x"), Some(StreamUsage)),
        (with("stream_options.include_usage", "unknown_parameter", "x"), Some(StreamUsage)),
        (with("tools[0].function.strict", "unknown_parameter", "x"), Some(Strict)),
        (with("response_format", "unsupported_parameter", "x"), Some(OutputSchema)),
        (
            with(
                "response_format",
                "",
                "Invalid schema for response_format 'answer': 'additionalProperties' is required",
            ),
            Some(Strict),
        ),
        (
            with(
                "tools[0].function.parameters",
                "invalid_function_parameters",
                "Invalid schema for function 'look'",
            ),
            Some(Strict),
        ),
        (with("reasoning_effort", "unsupported_parameter", "x"), Some(Reasoning)),
        (fastapi.to_string(), Some(StreamUsage)),
        // `param` names something else: the sentence does not count.
        (with("top_p", "unsupported_parameter", "`temperature` is not supported"), None),
        // By the sentence, where there is no `param`.
        (
            said(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            ),
            Some(MaxCompletionTokens),
        ),
        (said("`temperature` may only be set to 1 when thinking is enabled"), Some(Temperature)),
        (said("Unrecognized request argument supplied: stream_options"), Some(StreamUsage)),
        (said("property 'strict' is unsupported"), Some(Strict)),
        (said("This model does not support `response_format` of type json_schema"), Some(OutputSchema)),
        (xai("Argument not supported on this model: reasoningEffort"), Some(Reasoning)),
        // A value that is wrong is not a parameter that is refused, and a word within a word is none.
        (with("max_tokens", "invalid_value", "max_tokens is too large: 100000"), None),
        (said("max_tokens is too large: 100000"), None),
        (said("access is unsupported in restricted regions"), None),
        (said("messages: roles must alternate"), None),
    ];
    for (body, refused) in table {
        for status in [400, 422] {
            let failure = http_failure(OpenAi, status, &HeaderMap::new(), &body);
            let found = (failure.class, failure.refused);
            assert_eq!(found, (BadRequest, refused), "{status} {body}");
        }
    }
    let limited = with("temperature", "unsupported_value", "x"); // Mended so if it is a bad request.
    let failure = http_failure(OpenAi, 500, &HeaderMap::new(), &limited);
    assert_eq!(failure.refused, None);
}

#[test]
fn a_bad_request_says_whether_reasoning_was_too_much_or_missed() {
    let table = [
        (
            "Thinking mode does not support this tool_choice",
            ToolChoice,
        ),
        // What was thought before a call: DeepSeek, Moonshot, and those who want none of it.
        (
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            BareCalls,
        ),
        (
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
            BareCalls,
        ),
        (
            "messages.2.reasoning_content: Extra inputs are not permitted",
            SentReasoning,
        ),
        (
            "'messages.2' : for 'role:assistant' ... ('messages.2' : property 'reasoning' is unsupported)",
            SentReasoning,
        ),
    ];
    for (said, refused) in table {
        let body = json!({ "error": { "message": said } }).to_string();
        let failure = http_failure(OpenAi, 400, &HeaderMap::new(), &body);
        assert_eq!(
            (failure.class, failure.refused),
            (BadRequest, Some(refused)),
            "{said}"
        );
    }
}

#[test]
fn an_overflow_says_how_much_the_model_takes() {
    let table = [
        (Anthropic, error("invalid_request_error", "", "prompt is too long: 213462 tokens > 200000 maximum"), Some(200_000)),
        (OpenAi, error("", "context_length_exceeded", "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."), Some(8192)),
        (Grok, r#"{"code":"x","error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}"#.into(), Some(131_072)),
        (OpenAi, r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"x","n_prompt_tokens":9000,"n_ctx":4096}}"#.into(), Some(4096)),
        (OpenAi, error("", "context_length_exceeded", "Your input exceeds the context window of this model."), None),
    ];
    for (family, body, window) in table {
        let failure = http_failure(family, 400, &HeaderMap::new(), &body);
        assert_eq!(
            (failure.class, failure.window_tokens),
            (ContextOverflow, window),
            "{body}"
        );
    }
    let late = stream_failure(
        OpenRouter,
        &json!({"code": 400, "message": "maximum context length is 9 tokens"}),
    );
    assert_eq!((late.class, late.window_tokens), (ContextOverflow, Some(9)));
    assert_eq!(
        stream_failure(
            Ollama,
            &json!("the input exceeds the available context size")
        )
        .class,
        ContextOverflow
    );
}

#[test]
fn an_overflow_is_recognised_in_every_vendors_words() {
    let sentences = [
        "prompt is too long: 213462 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "input length and max_tokens exceed context limit: 9 + 9 > 10",
        "Your input exceeds the context window of this model",
        "This model's maximum context length is 8192 tokens. However, you requested",
        "the model's context length is only 4096 tokens",
        "The input token count (1200000) exceeds the maximum number of tokens allowed",
        "This model's maximum prompt length is 131072",
        "Please reduce the length of the messages or completion.",
        "prompt token count of 200 exceeds the limit of 100",
        "the request exceeds the available context size",
        "tokens to keep from the initial prompt is greater than the context length",
        "Prompt contains 99 tokens, too large for model with 10 maximum context length",
        "invalid params, context window exceeds limit",
        "Your request exceeded model token limit: 8",
        "Input is too long for requested model.",
    ];
    for sentence in sentences {
        for status in [400, 422, 500] {
            let failure = http_failure(OpenAi, status, &HeaderMap::new(), &error("", "", sentence));
            assert_eq!(failure.class, ContextOverflow, "{status} {sentence}");
        }
    }
    let coded = error("invalid_request_error", "context_length_exceeded", "x");
    assert_eq!(
        http_failure(OpenAi, 400, &HeaderMap::new(), &coded).class,
        ContextOverflow
    );
    let limited = error(
        "",
        "",
        "Request too large: maximum context length per rate limit, tokens per min",
    );
    assert_eq!(
        http_failure(OpenAi, 400, &HeaderMap::new(), &limited).class,
        BadRequest
    );
}

#[test]
fn an_error_inside_a_stream_is_classified_by_its_name() {
    let table = [
        ("invalid_request_error", BadRequest),
        ("authentication_error", Auth),
        ("billing_error", Billing),
        ("permission_error", Permission),
        ("not_found_error", ModelNotFound),
        ("request_too_large", RequestTooLarge),
        ("rate_limit_error", RateLimited),
        ("rate_limit_exceeded", RateLimited),
        ("insufficient_quota", Billing),
        ("context_length_exceeded", ContextOverflow),
        ("api_error", Transient),
        ("server_error", Transient),
        ("overloaded_error", Overloaded),
        ("server_is_overloaded", Overloaded),
        ("timeout_error", Timeout),
        ("never_heard_of", Transient),
    ];
    for (name, class) in table {
        let failure = stream_failure(Anthropic, &json!({"type": name, "message": "x"}));
        assert_eq!(
            (failure.class, failure.phase),
            (class, Phase::MidStream),
            "{name}"
        );
        assert_eq!(failure.provider_code.as_deref(), Some(name));
    }
}

/// After the first of three calls, with time enough and the shortest jitter.
fn decide(error: &ProviderError) -> RetryDecision {
    let minute = Duration::from_secs(60);
    let patience = RetryLimits {
        attempts_max: 3,
        inline_wait_max: minute,
        left: minute * 10,
        fallback_on_refusal: false,
        jitter_seed: 0,
    };
    retry_decision(
        error,
        PriorAttempts {
            calls: 1,
            ..PriorAttempts::default()
        },
        patience,
        Size::default(),
    )
}

#[test]
fn the_providers_wait_and_word_arrive() {
    let asked = |pairs: &[(&'static str, &'static str)], body: &str| {
        http_failure(OpenAi, 429, &headers(pairs), body)
    };
    let delay = r#"[{"error":{"code":429,"message":"x","details":[{"@type":"t"},{"retryDelay":"34.07s"}]}}]"#;
    assert_eq!(
        asked(&[], delay).retry_after,
        Some(Duration::from_millis(34070))
    );
    assert_eq!(
        asked(&[("retry-after-ms", "20")], delay).retry_after,
        Some(Duration::from_millis(20))
    );
    let vetoed = asked(&[("x-should-retry", "false")], "{}");
    let decision = decide(&vetoed);
    assert_eq!(decision, RetryDecision::Reschedule(Duration::from_secs(30)));
    let forced = http_failure(
        OpenAi,
        400,
        &headers(&[("x-should-retry", "true")]),
        "{\"error\":\"x\"}",
    );
    let decision = decide(&forced);
    assert_eq!(decision, RetryDecision::RetryNow(Duration::ZERO));
}

#[test]
fn a_message_is_one_short_line() {
    let body = error("", "", &format!("a\n\n b {}", "ü".repeat(5000)));
    let message = http_failure(OpenAi, 400, &HeaderMap::new(), &body).message;
    assert!(
        message.starts_with("HTTP 400: a b üü") && message.chars().count() <= 500,
        "{message}"
    );
    assert_eq!(
        http_failure(OpenAi, 503, &HeaderMap::new(), "").message,
        "HTTP 503"
    );
}
