//! What a capture keeps: the bytes of one call, both ways, as they travelled.

use super::server::{Reply, Server, Then};
use super::{adapter, context, fixture, request};
use attache::providers::{CallContext, Capture, CapturedCall, Form, complete};
use std::sync::Arc;

async fn captured(dialect: &str, reply: Reply) -> CapturedCall {
    let server = Server::start(vec![reply]).await;
    let provider = adapter(dialect, &server.url);
    let wire = provider.encode_request(&request("hello")).expect("sound");
    let capture = Arc::new(Capture::default());
    let context = CallContext {
        capture: Some(capture.clone()),
        ..context()
    };
    let _outcome = complete(&*provider, &wire, context).await;
    let kept = capture.kept();
    assert_eq!(kept.sent, wire);
    kept
}

#[tokio::test]
async fn an_answer_is_kept_byte_by_byte_however_framed_and_ended() {
    for dialect in ["anthropic", "openai"] {
        let body = std::fs::read_to_string(fixture(&format!("{dialect}/one_call.sse")))
            .expect("it exists");
        for reply in [Reply::stream(&body), Reply::chunked(&body, Then::Close)] {
            let kept = captured(dialect, reply).await;
            assert_eq!((kept.form, kept.is_cut), (Some(Form::ServerSent), false));
            assert_eq!(String::from_utf8_lossy(&kept.received), body);
        }
    }
    let json = [("content-type", "application/json")];
    let kept = captured("openai", Reply::new(200, &json, r#"{"odd": true}"#)).await;
    assert_eq!(
        (kept.form, kept.received.as_slice()),
        (Some(Form::Whole), br#"{"odd": true}"#.as_slice())
    );
    let kept = captured("openai", Reply::new(429, &json, "slow down")).await;
    assert_eq!(
        (kept.form, kept.received.as_slice()),
        (Some(Form::Refusal(429)), b"slow down".as_slice())
    );
}
