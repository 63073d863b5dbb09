//! What Ollama refuses, and the check of a server.

use super::*;

#[tokio::test]
async fn what_the_server_refuses_is_told_apart() {
    let table = [
        (
            404,
            r#"model "model-x" not found, try pulling it first"#,
            ErrorClass::ModelNotFound,
            None,
        ),
        (
            400,
            r#""model-x" does not support thinking"#,
            ErrorClass::BadRequest,
            Some(Parameter::Reasoning),
        ),
        (
            400,
            r#""model-x" does not support tools"#,
            ErrorClass::BadRequest,
            Some(Parameter::Tools),
        ),
        (
            503,
            "server busy, please try again.  maximum pending requests exceeded",
            ErrorClass::Overloaded,
            None,
        ),
        (
            500,
            "llama runner process has terminated: signal: killed",
            ErrorClass::Transient,
            None,
        ),
        (401, "unauthorized", ErrorClass::Auth, None),
    ];
    for (status, message, class, refused) in table {
        let body = json!({"error": message}).to_string();
        let server = Server::start(vec![Reply::new(status, &[JSON], &body)]).await;
        let provider = adapter("ollama", &server.url);
        let wire = provider.encode_request(&request("hello")).expect("sound");
        let failed = complete(&*provider, &wire, context())
            .await
            .expect_err("refused");
        assert_eq!(
            (failed.class, failed.refused),
            (class, refused),
            "{message}"
        );
        let hint = failed.message.contains("`ollama pull model-x`");
        assert_eq!(hint, class == ErrorClass::ModelNotFound, "{failed}");
    }
}

#[tokio::test]
async fn an_error_on_a_line_of_its_own_ends_the_answer() {
    let table = [
        ("server busy, please try again", ErrorClass::Overloaded),
        (
            "the input length exceeds the context length of 4096",
            ErrorClass::ContextOverflow,
        ),
        (
            "prompt too long; exceeded max context length by 12 tokens",
            ErrorClass::ContextOverflow,
        ),
        (
            "an error was encountered while running the model",
            ErrorClass::Transient,
        ),
    ];
    for (message, class) in table {
        let failed = decode(&[said(json!({"content": "a"})), json!({"error": message})]).await;
        let failed = failed.expect_err("an error");
        assert_eq!(
            (failed.class, failed.phase),
            (class, Phase::MidStream),
            "{message}"
        );
    }
}

#[tokio::test]
async fn an_overflow_the_server_finds_says_the_size_of_the_memory() {
    // What the runner says comes as a text within the text.
    let runner = json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9000,
        "n_ctx": 8192, "message": "request (9000 tokens) exceeds the available context size (8192 tokens)"}});
    let body = json!({"error": runner.to_string()}).to_string();
    let server = Server::start(vec![Reply::new(400, &[JSON], &body)]).await;
    let provider = adapter("ollama", &server.url);
    let wire = provider.encode_request(&request("hello")).expect("sound");
    let failed = complete(&*provider, &wire, context())
        .await
        .expect_err("too long");
    assert_eq!(
        (failed.class, failed.window_tokens),
        (ErrorClass::ContextOverflow, Some(8192))
    );
    assert_eq!(
        failed.provider_code.as_deref(),
        Some("exceed_context_size_error")
    );
}

#[tokio::test]
async fn an_answer_to_a_question_that_was_cut_is_no_answer() {
    let counted = |input: u64, answer: u64| json!({"done": true, "done_reason": "stop", "prompt_eval_count": input, "eval_count": answer});
    for (input, answer) in [(4096, 0), (4096, 9), (4000, 97), (9000, 1)] {
        let failed = decode(&[said(json!({"content": "a"})), counted(input, answer)])
            .await
            .expect_err("cut");
        let told = (failed.class, failed.phase, failed.window_tokens);
        assert_eq!(
            told,
            (ErrorClass::ContextOverflow, Phase::MidStream, Some(4096)),
            "{input} {answer}"
        );
    }
    assert!(decode(&[counted(4000, 96)]).await.is_ok(), "it just fits");
}

#[tokio::test]
async fn a_check_tells_the_version_and_the_models() {
    let version = Reply::new(200, &[JSON], r#"{"version":"0.13.1"}"#);
    let tags = |list: &str| Reply::new(200, &[JSON], &format!(r#"{{"models":{list}}}"#));
    let server = Server::start(vec![
        version.clone(),
        tags(r#"[{"name":"qwen3:8b"},{"odd":1}]"#),
    ])
    .await;
    let health = adapter("ollama", &server.url)
        .check(context())
        .await
        .expect("it answers");
    let (endpoint, version_told) = (Some(server.url.clone()), Some("0.13.1".to_owned()));
    let expected = ProviderCheck {
        endpoint,
        version: version_told,
        models: vec!["qwen3:8b".into()],
        note: None,
    };
    assert_eq!(health, expected);
    let lines: Vec<String> = server
        .seen()
        .iter()
        .map(|seen| seen.head.lines().next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        lines,
        ["GET /api/version HTTP/1.1", "GET /api/tags HTTP/1.1"]
    );
    let server = Server::start(vec![version, tags("[]")]).await;
    let health = adapter("ollama", &server.url)
        .check(context())
        .await
        .expect("it answers");
    assert!(health.note.is_some_and(|note| note.contains("ollama pull")));
    for (reply, class) in [
        (
            Reply::new(302, &[("location", "http://127.0.0.1:9/")], ""),
            ErrorClass::Config,
        ),
        (
            Reply::new(401, &[JSON], &format!(r#"{{"error":"no {KEY}"}}"#)),
            ErrorClass::Auth,
        ),
        (Reply::new(200, &[JSON], "no JSON"), ErrorClass::Protocol),
    ] {
        let server = Server::start(vec![reply]).await;
        let failed = adapter("ollama", &server.url)
            .check(context())
            .await
            .expect_err("it fails");
        assert_eq!(failed.class, class);
        assert!(!failed.message.contains(KEY), "{failed}");
    }
}

#[test]
fn no_key_is_needed_anywhere_but_https_is() {
    let at = |base_url: &str, key: Option<&str>| {
        let api_key = key.map(SecretString::from);
        let settings = ProviderSettings {
            base_url: Some(base_url.into()),
            api_key,
            ..Default::default()
        };
        build("ollama", &settings)
            .map(|_| ())
            .map_err(|e| (e.class, e.phase))
    };
    assert_eq!(
        build("ollama", &ProviderSettings::default())
            .map(|_| ())
            .map_err(|e| e.message),
        Ok(())
    );
    assert_eq!(at("https://models.example", None), Ok(()));
    assert_eq!(at("https://models.example", Some(KEY)), Ok(()));
    assert_eq!(
        at("http://models.example", None),
        Err((ErrorClass::Config, Phase::Config))
    );
}
