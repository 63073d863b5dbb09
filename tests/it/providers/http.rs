//! Real sockets: what the adapters put on the wire, and how calls end when the other side misbehaves.

use super::server::{Reply, Server, Then};
use super::{KEY, adapter, context, fixture, request};
use attache::config::ProviderSettings;
use attache::domain::ErrorClass;
use attache::providers::{
    CallContext, Event, Phase, Provider, ProviderError, Response, build, complete, key_variable,
};
use futures_util::StreamExt;
use secrecy::SecretString;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DIALECTS: &[&str] = &["anthropic", "openai", "gemini", "ollama"];
/// Those that cannot be asked elsewhere than on this machine without a key.
const KEYED: &[&str] = &["anthropic", "openai", "gemini"];

fn text(dialect: &str) -> String {
    let ending = if dialect == "ollama" { "ndjson" } else { "sse" };
    std::fs::read_to_string(fixture(&format!("{dialect}/text.{ending}"))).expect("it exists")
}

/// The beginning of an answer, with at least one whole piece.
fn half(body: &str) -> &str {
    let middle = (body.len() / 2..)
        .find(|at| body.is_char_boundary(*at))
        .expect("it ends somewhere");
    &body[..middle]
}

async fn ask(provider: &dyn Provider, context: CallContext) -> Result<Response, ProviderError> {
    let wire = provider.encode_request(&request("hello"))?;
    complete(provider, &wire, context).await
}

async fn failure(dialect: &str, reply: Reply) -> ProviderError {
    let server = Server::start(vec![reply]).await;
    ask(&*adapter(dialect, &server.url), context())
        .await
        .expect_err("it fails")
}

fn json_reply(status: u16, headers: &[(&str, &str)], body: &str) -> Reply {
    let headers: Vec<_> = headers
        .iter()
        .copied()
        .chain([("content-type", "application/json")])
        .collect();
    Reply::new(status, &headers, body)
}

#[tokio::test]
async fn a_request_carries_its_key_in_one_header_and_nowhere_else() {
    let expected = [
        (
            "anthropic",
            "POST /v1/messages HTTP/1.1",
            "x-api-key",
            KEY.to_owned(),
        ),
        (
            "openai",
            "POST /v1/chat/completions HTTP/1.1",
            "authorization",
            format!("Bearer {KEY}"),
        ),
        (
            "gemini",
            "POST /v1beta/models/model-x:streamGenerateContent?alt=sse HTTP/1.1",
            "x-goog-api-key",
            KEY.to_owned(),
        ),
        (
            "ollama",
            "POST /api/chat HTTP/1.1",
            "authorization",
            format!("Bearer {KEY}"),
        ),
    ];
    for (dialect, line, header, value) in expected {
        let server = Server::start(vec![Reply::stream(&text(dialect)).in_words_of(dialect)]).await;
        let provider = adapter(dialect, &server.url);
        ask(&*provider, context()).await.expect("it answers");
        let seen = server.seen().remove(0);
        assert_eq!(seen.head.lines().next(), Some(line));
        assert_eq!(seen.header(header), Some(value.as_str()));
        assert_eq!(seen.header("content-type"), Some("application/json"));
        let version = (dialect == "anthropic").then_some("2023-06-01");
        assert_eq!(seen.header("anthropic-version"), version);
        assert_eq!(
            seen.body,
            provider.encode_request(&request("hello")).expect("sound"),
            "what was stored was sent"
        );
        assert_eq!(
            (
                seen.head.matches(KEY).count(),
                seen.body.matches(KEY).count()
            ),
            (1, 0)
        );
    }
}

#[tokio::test]
async fn a_base_url_may_end_with_the_version() {
    for (dialect, line) in [
        ("anthropic", "POST /v1/messages "),
        ("openai", "POST /v1/chat/completions "),
    ] {
        let server = Server::start(vec![Reply::stream(&text(dialect)).in_words_of(dialect)]).await;
        ask(
            &*adapter(dialect, &format!("{}/v1/", server.url)),
            context(),
        )
        .await
        .expect("it answers");
        assert!(server.seen()[0].head.starts_with(line));
    }
    let server = Server::start(vec![Reply::stream(&text("gemini"))]).await;
    ask(
        &*adapter("gemini", &format!("{}/v1/", server.url)),
        context(),
    )
    .await
    .expect("it answers");
    assert!(
        server.seen()[0]
            .head
            .starts_with("POST /v1/models/model-x:streamGenerateContent?alt=sse ")
    );
    let server = Server::start(vec![Reply::stream(&text("openai"))]).await;
    ask(
        &*adapter("openai", &format!("{}/api", server.url)),
        context(),
    )
    .await
    .expect("it answers");
    assert!(
        server.seen()[0]
            .head
            .starts_with("POST /api/chat/completions "),
        "another path is taken as it is"
    );
}

#[tokio::test]
async fn one_connection_serves_many_calls_however_bodies_are_framed() {
    for dialect in DIALECTS {
        let body = text(dialect);
        for reply in [Reply::stream(&body), Reply::chunked(&body, Then::KeepAlive)]
            .map(|reply| reply.in_words_of(dialect))
        {
            let server = Server::start(vec![reply]).await;
            let provider = adapter(dialect, &server.url);
            for _ in 0..20 {
                ask(&*provider, context()).await.expect("it answers");
            }
            assert_eq!(
                (server.seen().len(), server.connections()),
                (20, 1),
                "{dialect}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_ignores_streaming_is_understood() {
    let bodies = [
        r#"{"id":"m","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{}}"#,
        r#"{"id":"m","model":"m","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#,
        r#"[{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}]"#,
        r#"{"model":"m","message":{"content":"hi"},"done":true,"done_reason":"stop"}"#,
    ];
    for (dialect, body) in DIALECTS.iter().zip(bodies) {
        let server = Server::start(vec![json_reply(200, &[], body)]).await;
        let response = ask(&*adapter(dialect, &server.url), context())
            .await
            .expect("it answers");
        assert_eq!(response.text(), "hi");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn silence_ends_with_a_timeout_before_and_inside_the_answer() {
    for dialect in DIALECTS {
        let body = text(dialect);
        let half = half(&body);
        let mute = Reply {
            bytes: Vec::new(),
            then: Then::Hold,
        };
        let replies = [
            (mute, Phase::BeforeFirstByte),
            (
                Reply::chunked(half, Then::Hold).in_words_of(dialect),
                Phase::MidStream,
            ),
        ];
        for (reply, phase) in replies {
            let server = Server::start(vec![reply]).await;
            let provider = adapter(dialect, &server.url);
            let short = Duration::from_millis(100);
            let bounds = [
                (
                    CallContext {
                        idle: short,
                        ..context()
                    },
                    "silent for 100 ms",
                ),
                (
                    CallContext {
                        deadline: short,
                        ..context()
                    },
                    "no complete answer within 100 ms",
                ),
            ];
            for (impatient, why) in bounds {
                let error = ask(&*provider, impatient)
                    .await
                    .expect_err("nothing more comes");
                assert_eq!(
                    (error.class, error.phase, error.message.as_str()),
                    (ErrorClass::Timeout, phase, why)
                );
            }
        }
    }
}

#[tokio::test]
async fn a_cancelled_or_dropped_call_closes_its_connection() {
    for dialect in DIALECTS {
        let body = text(dialect);
        let half = half(&body);
        let server =
            Server::start(vec![Reply::chunked(half, Then::Hold).in_words_of(dialect)]).await;
        let provider = adapter(dialect, &server.url);
        let wire = provider.encode_request(&request("hello")).expect("sound");
        let cancel = CancellationToken::new();
        let mut events = provider.stream(
            &wire,
            CallContext {
                cancel: cancel.clone(),
                ..context()
            },
        );
        assert!(matches!(
            events.next().await,
            Some(Ok(Event::Started { .. }))
        ));
        cancel.cancel();
        let rest: Vec<_> = events.collect().await;
        let last = rest.last().cloned().map(|event| event.map_err(|e| e.class));
        assert_eq!(last, Some(Err(ErrorClass::Cancelled)));
        server.hung_up.notified().await;
        let mut events = provider.stream(&wire, context());
        assert!(matches!(
            events.next().await,
            Some(Ok(Event::Started { .. }))
        ));
        drop(events);
        server.hung_up.notified().await;
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_transient() {
    for dialect in DIALECTS {
        let body = text(dialect);
        let half = half(&body);
        let mut short = Reply::stream(&body).then(Then::Close).in_words_of(dialect);
        short.bytes.truncate(short.bytes.len() - 100);
        for reply in [
            short,
            Reply::chunked(half, Then::Close).in_words_of(dialect),
        ] {
            let error = failure(dialect, reply).await;
            assert_eq!(
                (error.class, error.phase),
                (ErrorClass::Transient, Phase::MidStream)
            );
        }
        let error = failure(
            dialect,
            Reply {
                bytes: Vec::new(),
                then: Then::Close,
            },
        )
        .await;
        assert_eq!(
            (error.class, error.phase),
            (ErrorClass::Transient, Phase::BeforeFirstByte)
        );
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_transient() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    for dialect in DIALECTS {
        let error = ask(&*adapter(dialect, &url), context())
            .await
            .expect_err("nobody listens");
        assert_eq!(
            (error.class, error.phase),
            (ErrorClass::Transient, Phase::BeforeSend)
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for dialect in DIALECTS {
        let elsewhere =
            Server::start(vec![Reply::stream(&text(dialect)).in_words_of(dialect)]).await;
        for status in [301, 302, 307, 308] {
            let error = failure(
                dialect,
                Reply::new(status, &[("location", &elsewhere.url)], ""),
            )
            .await;
            assert_eq!(
                (error.class, error.http_status),
                (ErrorClass::Config, Some(status))
            );
        }
        assert_eq!(elsewhere.connections(), 0);
    }
}

#[tokio::test]
async fn a_rate_limit_says_how_long_to_wait() {
    let body = r#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#;
    for dialect in DIALECTS {
        let error = failure(dialect, json_reply(429, &[("retry-after", "7")], body)).await;
        assert_eq!(
            (error.class, error.retry_after),
            (ErrorClass::RateLimited, Some(Duration::from_secs(7)))
        );
        assert_eq!(error.provider_code.as_deref(), Some("rate_limit_error"));
        assert_eq!(error.phase, Phase::BeforeFirstByte);
    }
}

#[tokio::test]
async fn a_key_that_the_provider_repeats_is_not_passed_on() {
    let before = format!(
        r#"{{"error":{{"message":"Incorrect API key provided: {KEY} or sk-other-key-123456"}}}}"#
    );
    let inside = format!(
        "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"message\":\"bad key {KEY}\"}}}}\n\n"
    );
    let line = format!("{{\"error\":\"bad key {KEY}\"}}\n");
    for dialect in DIALECTS {
        let inside = if *dialect == "ollama" {
            Reply::lines(&line)
        } else {
            Reply::stream(&inside)
        };
        for reply in [json_reply(401, &[], &before), inside] {
            let error = failure(dialect, reply).await;
            assert!(!format!("{error:?}").contains(KEY), "{error:?}");
            assert!(!format!("{error:?}").contains("sk-other"), "{error:?}");
            assert!(error.message.contains("[redacted]"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_web_page_is_never_an_answer() {
    let page =
        "<!doctype html><html><head><title>502 Bad gateway</title></head><body>long</body></html>";
    for dialect in DIALECTS {
        let html = [("content-type", "text/html; charset=utf-8")];
        let error = failure(dialect, Reply::new(200, &html, page)).await;
        assert_eq!(error.class, ErrorClass::Protocol);
        let error = failure(dialect, Reply::new(502, &html, page)).await;
        assert_eq!(
            (error.class, error.message.as_str()),
            (ErrorClass::Transient, "HTTP 502: 502 Bad gateway")
        );
        let error = failure(
            dialect,
            Reply::stream(&format!("{page}\n")).in_words_of(dialect),
        )
        .await;
        assert_eq!(error.class, ErrorClass::Protocol);
        let error = failure(dialect, json_reply(200, &[], "{\"cut\":")).await;
        assert_eq!(error.class, ErrorClass::Protocol);
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_request_longer_than_the_vendor_takes_is_never_sent() {
    for (dialect, bytes_max) in DIALECTS
        .iter()
        .zip([32_000_000, 20_000_000, 20_000_000, 20_000_000])
    {
        let server = Server::start(vec![Reply::stream(&text(dialect)).in_words_of(dialect)]).await;
        let provider = adapter(dialect, &server.url);
        let mut wire = "x".repeat(bytes_max);
        complete(&*provider, &wire, context())
            .await
            .expect("as long as may be");
        wire.push('x');
        let error = complete(&*provider, &wire, context())
            .await
            .expect_err("one byte too many");
        assert_eq!(
            (error.class, error.phase),
            (ErrorClass::RequestTooLarge, Phase::BeforeSend)
        );
        assert!(error.message.contains("context_tokens_max"), "{error}");
        assert_eq!(server.seen().len(), 1, "{dialect}");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn an_endless_answer_is_cut_off() {
    let endless = format!("data: {}\n\n", "x".repeat(17 * 1024 * 1024));
    for dialect in DIALECTS {
        for reply in [
            Reply::stream(&endless).in_words_of(dialect),
            json_reply(200, &[], &endless),
        ] {
            let error = failure(dialect, reply).await;
            assert_eq!(
                (error.class, error.phase),
                (ErrorClass::Protocol, Phase::MidStream)
            );
            assert!(error.message.contains("longer than"), "{error}");
        }
    }
}

#[test]
fn settings_that_expose_the_key_or_cannot_work_are_refused() {
    let with = |base_url: &str, key: Option<&str>| ProviderSettings {
        base_url: Some(base_url.into()),
        api_key: key.map(SecretString::from),
        ..Default::default()
    };
    for dialect in KEYED {
        let refusal = |settings: &ProviderSettings| {
            build(dialect, settings).err().map(|e| (e.class, e.phase))
        };
        let variable = key_variable(dialect).expect("it needs a key");
        let keyless = build(dialect, &ProviderSettings::default())
            .err()
            .expect("no key");
        assert_eq!(
            (keyless.class, keyless.phase),
            (ErrorClass::Auth, Phase::Config)
        );
        assert!(keyless.message.contains(variable), "{keyless}");
        let auth = Some((ErrorClass::Auth, Phase::Config));
        assert_eq!(refusal(&with("https://models.example", Some(" "))), auth);
        assert_eq!(
            refusal(&with("https://models.example", Some("two\nlines"))),
            auth
        );
        let config = Some((ErrorClass::Config, Phase::Config));
        for url in [
            "http://models.example",
            "ftp://127.0.0.1",
            "https://me:secret@models.example",
            "https://models.example/?key=secret",
            "not a url",
        ] {
            assert_eq!(refusal(&with(url, Some(KEY))), config, "{url}");
        }
        for url in [
            "https://models.example/v1",
            "http://127.0.0.1:1",
            "http://[::1]:1/v1",
            "http://localhost",
        ] {
            assert_eq!(refusal(&with(url, Some(KEY))), None, "{url}");
        }
        assert_eq!(
            refusal(&with("http://127.0.0.1:1", None)),
            None,
            "a model on this machine needs no key"
        );
    }
    assert_eq!(
        (key_variable("scripted"), key_variable("nobody")),
        (None, None)
    );
}
