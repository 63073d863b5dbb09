//! Checks of the HTTP adapters: the list of models is asked for with the key and under the same guard as a call.

use super::server::{Reply, Server, Then};
use super::{KEY, adapter, context};
use attache::domain::ErrorClass;
use attache::providers::{CallContext, ProviderCheck};
use std::time::Duration;

const LIST: &str =
    r#"{"object":"list","data":[{"id":"model-a"},{"id":"model-b","owned_by":"x"},{"name":"odd"}]}"#;
const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn a_check_lists_the_models_and_costs_nothing() {
    let lines = [
        (
            "anthropic",
            "",
            "GET /v1/models?limit=1000 HTTP/1.1",
            "x-api-key",
        ),
        (
            "anthropic",
            "/v1",
            "GET /v1/models?limit=1000 HTTP/1.1",
            "x-api-key",
        ),
        ("openai", "", "GET /v1/models HTTP/1.1", "authorization"),
        (
            "openai",
            "/api/v1",
            "GET /api/v1/models HTTP/1.1",
            "authorization",
        ),
    ];
    for (dialect, path, line, header) in lines {
        let server = Server::start(vec![Reply::new(200, &[JSON], LIST)]).await;
        let url = format!("{}{path}", server.url);
        let health = adapter(dialect, &url)
            .check(context())
            .await
            .expect("it answers");
        let models = vec!["model-a".to_owned(), "model-b".to_owned()];
        assert_eq!(
            health,
            ProviderCheck {
                endpoint: Some(url),
                models,
                ..ProviderCheck::default()
            },
            "{dialect}"
        );
        let [seen] = server.seen().try_into().expect("one request");
        assert_eq!(
            (seen.head.lines().next(), seen.body.as_str()),
            (Some(line), "")
        );
        assert!(
            seen.header(header)
                .is_some_and(|value| value.ends_with(KEY))
        );
        assert_eq!(seen.head.matches(KEY).count(), 1);
    }
}

#[tokio::test]
async fn a_server_without_a_list_passes_and_says_what_was_not_tried() {
    let server = Server::start(vec![Reply::new(404, &[JSON], r#"{"detail":"Not Found"}"#)]).await;
    let health = adapter("openai", &server.url)
        .check(context())
        .await
        .expect("it is there");
    assert!(health.models.is_empty() && health.note.is_some_and(|note| note.contains("not tried")));
}

#[tokio::test]
async fn a_check_fails_as_a_call_would_and_never_shows_the_key() {
    let quoting = format!(r#"{{"error":{{"message":"wrong key {KEY}"}}}}"#);
    let elsewhere = [("location", "http://127.0.0.1:9/models"), JSON];
    let long = format!("[{}1]", "1,".repeat(5 * 1024 * 1024));
    let mute = Reply {
        bytes: Vec::new(),
        then: Then::Hold,
    };
    let cases = [
        (Reply::new(401, &[JSON], &quoting), ErrorClass::Auth),
        (Reply::new(302, &elsewhere, ""), ErrorClass::Config),
        (Reply::new(503, &[], ""), ErrorClass::Overloaded),
        (
            Reply::new(
                200,
                &[("content-type", "text/html")],
                "<title>Log in</title>",
            ),
            ErrorClass::Protocol,
        ),
        (Reply::new(200, &[JSON], "not JSON"), ErrorClass::Protocol),
        (Reply::new(200, &[JSON], &long), ErrorClass::Protocol),
        (mute, ErrorClass::Timeout),
    ];
    for (reply, class) in cases {
        for dialect in ["anthropic", "openai"] {
            let server = Server::start(vec![reply.clone()]).await;
            let patience = CallContext {
                idle: Duration::from_millis(300),
                ..context()
            };
            let error = adapter(dialect, &server.url)
                .check(patience)
                .await
                .expect_err("it fails");
            assert_eq!(error.class, class, "{dialect}: {error}");
            assert!(!error.message.contains(KEY), "{error}");
            assert_eq!(server.seen().len(), 1, "no redirect is followed");
        }
    }
    let error = adapter("openai", "http://127.0.0.1:9")
        .check(context())
        .await
        .expect_err("nobody is there");
    assert_eq!(error.class, ErrorClass::Transient);
}
