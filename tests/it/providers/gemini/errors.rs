//! What Gemini refuses, and errors within a stream.

use super::*;

#[tokio::test]
async fn an_error_inside_the_stream_fails_by_its_own_code() {
    let table = [
        (
            json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x"}),
            ErrorClass::RateLimited,
        ),
        (
            json!({"status": "DEADLINE_EXCEEDED", "message": "x"}),
            ErrorClass::Timeout,
        ),
        (
            json!({"code": 500, "status": "INTERNAL", "message": "x"}),
            ErrorClass::Transient,
        ),
        (
            json!({"code": 400, "status": "INVALID_ARGUMENT",
                "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}),
            ErrorClass::ContextOverflow,
        ),
    ];
    for (error, class) in table {
        let begun = parts(json!([{"text": "a"}]), None);
        let failed = decode(&[begun, json!({"error": error})])
            .await
            .expect_err("an error");
        assert_eq!(
            (failed.class, failed.phase),
            (class, Phase::MidStream),
            "{error}"
        );
    }
    for broken in [
        json!({"odd": 1}),
        json!([]),
        parts(json!([{"functionCall": {"args": {}}}]), Some("STOP")),
    ] {
        let failed = decode(std::slice::from_ref(&broken))
            .await
            .expect_err("broken");
        assert_eq!(
            (failed.class, failed.phase),
            (ErrorClass::Protocol, Phase::MidStream),
            "{broken}"
        );
    }
}

/// A reply's body and what it must become: class, vendor's name, the least and the most seconds to wait.
type Refusal = (u16, Value, ErrorClass, &'static str, Option<(u64, u64)>);

#[tokio::test]
async fn what_the_vendor_refuses_is_told_apart() {
    let detail = |status: &str, details: Value| json!({"status": status, "message": "x", "details": details});
    let delay = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"});
    let reply_limits = |id: &str| json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]});
    let minute = json!([
        reply_limits("GenerateRequestsPerMinutePerProjectPerModel"),
        delay
    ]);
    let day = json!([
        reply_limits("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
        delay
    ]);
    let key =
        json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
    #[rustfmt::skip]
    let table: [Refusal; 7] = [
        (400, detail("INVALID_ARGUMENT", key), ErrorClass::Auth, "INVALID_ARGUMENT", None),
        (400, detail("INVALID_ARGUMENT", json!([])), ErrorClass::BadRequest, "INVALID_ARGUMENT", None),
        (400, detail("FAILED_PRECONDITION", json!([])), ErrorClass::Permission, "FAILED_PRECONDITION", None),
        (404, detail("NOT_FOUND", json!([])), ErrorClass::ModelNotFound, "NOT_FOUND", None),
        (
            429,
            detail("RESOURCE_EXHAUSTED", minute),
            ErrorClass::RateLimited,
            "RESOURCE_EXHAUSTED",
            Some((34, 35)),
        ),
        (
            429,
            detail("RESOURCE_EXHAUSTED", day),
            ErrorClass::RateLimited,
            "RESOURCE_EXHAUSTED",
            Some((3600, 86400)),
        ),
        (503, detail("UNAVAILABLE", json!([])), ErrorClass::Overloaded, "UNAVAILABLE", None),
    ];
    for (status, mut error, class, name, waits) in table {
        error["code"] = json!(status);
        // Without `alt=sse` even an error comes inside an array.
        for body in [json!({"error": error}), json!([{"error": error}])] {
            let server = Server::start(vec![Reply::new(status, &[JSON], &body.to_string())]).await;
            let provider = adapter("gemini", &server.url);
            let wire = provider.encode_request(&request("hello")).expect("sound");
            let failed = complete(&*provider, &wire, context())
                .await
                .expect_err("refused");
            assert_eq!(
                (failed.class, failed.provider_code.as_deref()),
                (class, Some(name)),
                "{body}"
            );
            let fits = |wait: Duration| {
                waits.is_some_and(|(least, most)| (least..=most).contains(&wait.as_secs()))
            };
            assert_eq!(failed.retry_after.is_some(), waits.is_some(), "{body}");
            assert!(
                failed.retry_after.is_none_or(fits),
                "{body}: {:?}",
                failed.retry_after
            );
        }
    }
}

#[tokio::test]
async fn a_model_name_that_leads_elsewhere_is_refused_and_not_sent() {
    let server = Server::start(vec![Reply::stream("")]).await;
    let provider = adapter("gemini", &server.url);
    let wire = provider.encode_request(&request("hello")).expect("sound");
    for model in [
        "",
        "a/b",
        "models/",
        "models/a/b",
        "x?key=1",
        "x#y",
        "x%2f",
        "..",
        "models/..",
        "a:b",
        "ä",
        "a b",
    ] {
        let named = Request {
            model: model.into(),
            ..request("hello")
        };
        let refused = provider.encode_request(&named).expect_err(model);
        assert_eq!(
            (refused.class, refused.phase),
            (ErrorClass::BadRequest, Phase::BeforeSend),
            "{model}"
        );
        let context = CallContext {
            model: model.into(),
            ..context()
        };
        let refused = complete(&*provider, &wire, context).await.expect_err(model);
        assert_eq!(
            (refused.class, refused.phase),
            (ErrorClass::BadRequest, Phase::BeforeSend),
            "{model}"
        );
    }
    assert_eq!(server.connections(), 0);
    for (model, path) in [
        ("gemini-3-pro.1_x", "models/gemini-3-pro.1_x"),
        ("models/m", "models/m"),
        ("tunedModels/mine-1", "tunedModels/mine-1"),
    ] {
        let seen = server.seen().len();
        let context = CallContext {
            model: model.into(),
            ..context()
        };
        complete(&*provider, &wire, context)
            .await
            .expect_err("an empty answer");
        let line = format!("POST /v1beta/{path}:streamGenerateContent?alt=sse HTTP/1.1");
        assert_eq!(server.seen()[seen].head.lines().next(), Some(line.as_str()));
    }
}
