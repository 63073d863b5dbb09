//! Vectors of texts: what each form sends, what it reads, and which answers it refuses. The server takes sound requests only.

use super::server::{Reply, Seen, Server};
use super::{KEY, context};
use attache::config::ProviderSettings;
use attache::domain::ErrorClass;
use attache::providers::ProviderError;
use attache::providers::embeddings::{
    EmbeddedKind, EmbeddingAnswer, EmbeddingClient, EmbeddingRequest, adapters,
};
use secrecy::SecretString;
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

fn client(provider: &str, base_url: &str) -> EmbeddingClient {
    let settings = ProviderSettings {
        name: provider.to_owned(),
        base_url: Some(base_url.to_owned()),
        api_key: Some(SecretString::from(KEY)),
        ..ProviderSettings::default()
    };
    EmbeddingClient::new(provider, &settings).expect("a client")
}

async fn asked(
    provider: &str,
    server: &Server,
    (texts, dimensions): (&[&str], Option<u32>),
) -> Result<EmbeddingAnswer, ProviderError> {
    let client = client(provider, &server.url);
    let request = EmbeddingRequest {
        model: "embed-1",
        dimensions,
        kind: EmbeddedKind::Question,
        texts,
    };
    let encoded = client.encode(&request);
    client.embed(&request, &encoded, &context()).await
}

/// Answers as OpenAI does, with the vectors in the order that `places` says, or refuses what OpenAI would refuse.
fn openai_form(seen: &Seen, path: &str, places: &[usize]) -> Reply {
    let refuse = |why: &str| {
        let body = json!({"error": {"message": why, "type": "invalid_request_error"}});
        Reply::new(400, &[JSON], &body.to_string())
    };
    let body: Value = match serde_json::from_str(&seen.body) {
        Ok(body) => body,
        Err(_) => return refuse("no JSON"),
    };
    let members: Vec<&str> = body
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    let known = ["model", "input", "encoding_format", "dimensions"];
    let texts = body["input"].as_array().cloned().unwrap_or_default();
    let is_text = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty());
    if !seen.head.starts_with(&format!("POST {path} ")) {
        return refuse("another path");
    }
    if seen.header("authorization") != Some(&format!("Bearer {KEY}")) {
        return refuse("no key");
    }
    if members.iter().any(|member| !known.contains(member))
        || body["model"] != "embed-1"
        || body["encoding_format"] != "float"
        || texts.is_empty()
        || !texts.iter().all(is_text)
    {
        return refuse("another body");
    }
    let length = body["dimensions"].as_u64().unwrap_or(2);
    let vector = |place: usize| -> Vec<f64> {
        (0..length)
            .map(|n| if n == 0 { 1.0 } else { place as f64 })
            .collect()
    };
    let data: Vec<Value> = places
        .iter()
        .map(|place| json!({"object": "embedding", "index": place, "embedding": vector(*place)}))
        .collect();
    let usage = json!({"prompt_tokens": 7, "total_tokens": 7});
    let body = json!({"object": "list", "data": data, "model": "embed-1", "usage": usage});
    Reply::new(200, &[JSON], &body.to_string())
}

#[tokio::test]
async fn openais_form_is_asked_at_the_path_of_each_server_and_read_by_its_index() {
    for (provider, path) in [
        ("openai", "/v1/embeddings"),
        ("openrouter", "/v1/embeddings"),
        ("compat:local", "/v1/embeddings"),
        ("ollama", "/v1/embeddings"),
    ] {
        let server = Server::answering(move |seen, _| openai_form(seen, path, &[1, 0])).await;
        let answer = asked(provider, &server, (&["one", "two"], None)).await;
        let answer = answer.unwrap_or_else(|error| panic!("{provider}: {error}"));
        let half = 1.0 / 2f32.sqrt();
        assert_eq!(
            answer.vectors,
            [vec![1.0, 0.0], vec![half, half]],
            "{provider}"
        );
        assert_eq!(
            (answer.usage.input_tokens, answer.usage.estimated),
            (7, false)
        );
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn the_length_of_vectors_is_asked_for_and_held_to() {
    let server = Server::answering(|seen, _| openai_form(seen, "/v1/embeddings", &[0])).await;
    let answer = asked("openai", &server, (&["one"], Some(3)))
        .await
        .expect("sound");
    assert_eq!(answer.vectors[0].len(), 3);
    // A server that ignores the wish.
    let stubborn = json!({"data": [{"index": 0, "embedding": [1, 0]}]}).to_string();
    let server = Server::start(vec![Reply::new(200, &[JSON], &stubborn)]).await;
    let error = asked("openai", &server, (&["one"], Some(3)))
        .await
        .expect_err("refused");
    assert_eq!(error.class, ErrorClass::Protocol);
    assert!(error.message.contains("2 numbers, and 3"), "{error}");
}

#[tokio::test]
async fn an_answer_with_other_vectors_than_were_asked_for_is_a_clear_error() {
    let one = |index: Value, vector: Value| json!({"index": index, "embedding": vector});
    let cases = [
        (
            json!({"data": [one(json!(0), json!([1]))]}),
            "1 vectors for 2 texts",
        ),
        (
            json!({"data": [one(json!(0), json!([1])), one(json!(0), json!([1]))]}),
            "the same `index`",
        ),
        (
            json!({"data": [one(json!(0), json!([1])), one(json!(2), json!([1]))]}),
            "no `index` of a text",
        ),
        (
            json!({"data": [one(json!(0), json!([1])), one(json!(-1), json!([1]))]}),
            "no `index` of a text",
        ),
        (
            json!({"data": [one(json!(0), json!([1])), one(json!(null), json!([1]))]}),
            "no `index` of a text",
        ),
        (
            json!({"data": [one(json!(0), json!([1])), one(json!(1), json!([1, 2]))]}),
            "2 numbers, and 1",
        ),
        (
            json!({"data": [one(json!(0), json!([1])), one(json!(1), json!("AACAPw=="))]}),
            "no list of numbers",
        ),
        (
            json!({"data": [one(json!(0), json!([1])), one(json!(1), json!([null]))]}),
            "in place of a finite number",
        ),
        (
            json!({"data": [one(json!(0), json!([0])), one(json!(1), json!([0]))]}),
            "no length",
        ),
        (
            json!({"data": [one(json!(0), json!([])), one(json!(1), json!([]))]}),
            "0 numbers",
        ),
        (json!({"vectors": []}), "no `data`"),
    ];
    for (body, words) in cases {
        let server = Server::start(vec![Reply::new(200, &[JSON], &body.to_string())]).await;
        let error = asked("openai", &server, (&["one", "two"], None))
            .await
            .expect_err("refused");
        assert_eq!(error.class, ErrorClass::Protocol, "{body}");
        assert!(
            error
                .message
                .replace("not a list", "no list")
                .contains(words),
            "{body}: {error}"
        );
    }
}

#[tokio::test]
async fn tokens_are_estimated_where_the_server_counts_none() {
    let body = json!({"data": [{"index": 0, "embedding": [1]}], "usage": {"prompt_tokens": 0}});
    let server = Server::start(vec![Reply::new(200, &[JSON], &body.to_string())]).await;
    let answer = asked("compat:x", &server, (&["fourteen chars"], None))
        .await
        .expect("sound");
    assert_eq!(
        (answer.usage.input_tokens, answer.usage.estimated),
        (4, true)
    );
}

#[tokio::test]
async fn gemini_is_told_what_the_texts_are_for() {
    let answer = json!({"embeddings": [{"values": [0, 2]}, {"values": [3, 0]}]}).to_string();
    let server = Server::start(vec![Reply::new(200, &[JSON], &answer)]).await;
    let answer = asked("gemini", &server, (&["one", "two"], Some(2)))
        .await
        .expect("sound");
    assert_eq!(answer.vectors, [vec![0.0, 1.0], vec![1.0, 0.0]]);
    assert!(answer.usage.estimated);
    let seen = &server.seen()[0];
    let path = "POST /v1beta/models/embed-1:batchEmbedContents ";
    assert!(seen.head.starts_with(path), "{}", seen.head);
    assert_eq!(seen.header("x-goog-api-key"), Some(KEY));
    let one = |text: &str| {
        json!({"model": "models/embed-1", "content": {"parts": [{"text": text}]}, "taskType": "RETRIEVAL_QUERY",
            "outputDimensionality": 2})
    };
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    assert_eq!(body, json!({"requests": [one("one"), one("two")]}));
    let short = json!({"embeddings": [{"values": [1]}]}).to_string();
    let server = Server::start(vec![Reply::new(200, &[JSON], &short)]).await;
    let error = asked("gemini", &server, (&["one", "two"], None))
        .await
        .expect_err("refused");
    assert!(error.message.contains("1 vectors for 2 texts"), "{error}");
}

#[tokio::test]
async fn a_refusal_has_its_class_and_never_the_key() {
    let body = json!({"error": {"message": format!("wrong key {KEY}"), "type": "invalid_api_key"}});
    let server = Server::start(vec![Reply::new(401, &[JSON], &body.to_string())]).await;
    let error = asked("openai", &server, (&["one"], None))
        .await
        .expect_err("refused");
    assert_eq!(error.class, ErrorClass::Auth);
    assert!(!error.message.contains(KEY), "{error}");
    assert!(!error.may_be_billed());
}

#[test]
fn a_provider_that_makes_no_vectors_says_which_do() {
    let error = EmbeddingClient::new("anthropic", &ProviderSettings::default());
    let error = error.err().expect("refused");
    assert_eq!(error.class, ErrorClass::Unsupported);
    for name in adapters() {
        assert!(error.message.contains(name), "{error}");
    }
}
