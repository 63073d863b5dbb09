//! Answers in a form, by the real adapters: asked for in each vendor's own way, and in words where a server refuses that.

use super::server::Seen;
use super::strict::{Refusal, Strict, say};
use super::strict_openai::{check_of, judged_by};
use super::threads::{serve_from, server};
use crate::app::{TestApp, Workspace};
use crate::structured::{CANONICAL, GOOD, WRONG, fire, output, with_duty};
use serde_json::{Value, json};

/// A responsibility with a form for its answer, worked off by this server, with no tools on offer.
async fn worked_off(provider: &str, server: &Strict) -> (TestApp, String) {
    let workspace = with_duty(Workspace::new(&json!({ "turns": [] })));
    serve_from(&workspace, &[(provider, server)]);
    workspace.set("personas/ada/persona.json", "/tools", json!([]));
    fire(workspace).await
}

/// Where a vendor wants the schema.
fn schema_of<'b>(provider: &str, body: &'b Value) -> &'b Value {
    match provider {
        "gemini" => &body["generationConfig"]["responseJsonSchema"],
        "ollama" => &body["format"],
        "compat:answers" => &body["text"]["format"]["schema"],
        _ => &body["response_format"]["json_schema"]["schema"],
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_form_is_asked_for_in_the_vendors_own_way_and_held_to() {
    for provider in [
        "openai",
        "grok",
        "openrouter",
        "compat:house",
        "compat:answers",
        "gemini",
        "ollama",
    ] {
        let server = server(provider, vec![say(WRONG), say(GOOD)]).await;
        let (app, run) = worked_off(provider, &server).await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        let asked = server.accepted();
        assert_eq!(asked.len(), 2, "{provider}: the first answer does not fit");
        for body in &asked {
            assert_eq!(
                schema_of(provider, body)["required"],
                json!(["guests", "total"]),
                "{provider}: {body}"
            );
            assert_eq!(
                body.to_string().matches("additionalProperties").count(),
                1,
                "{provider}: not in words too"
            );
        }
        assert!(
            asked[1].to_string().contains("at `/total`"),
            "{provider}: {}",
            asked[1]
        );
        assert_eq!(
            output(&app, &run).await,
            Some((CANONICAL.to_owned(), 1)),
            "{provider}"
        );
        assert_eq!(app.outcome(&run).await.0, "succeeded", "{provider}");
    }
}

#[tokio::test]
async fn a_form_is_put_into_words_where_there_is_no_way_of_its_own() {
    let server = server("anthropic", vec![say(GOOD)]).await;
    let (app, run) = worked_off("anthropic", &server).await;
    assert_eq!(server.refused(), Vec::<String>::new());
    let [body] = server.accepted().try_into().expect("one request");
    assert!(
        body["system"].to_string().contains("additionalProperties"),
        "{body}"
    );
    assert_eq!(output(&app, &run).await, Some((CANONICAL.to_owned(), 0)));
}

/// A server of this dialect that knows no forms.
fn formless(seen: &Seen) -> Result<Value, Refusal> {
    let body = check_of("compat")(seen)?;
    if body.get("response_format").is_none() {
        return Ok(body);
    }
    let why =
        "Unsupported parameter: 'response_format' is not supported with this model.".to_owned();
    let error = json!({ "message": why, "type": "invalid_request_error", "param": "response_format",
        "code": "unsupported_parameter" });
    Err(Refusal {
        status: 400,
        body: json!({ "error": error }),
        why,
    })
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_server_that_refuses_forms_is_asked_in_words_from_then_on() {
    let server = judged_by(formless, vec![say(WRONG), say(GOOD)]).await;
    let (app, run) = worked_off("compat:house", &server).await;
    assert_eq!(
        server.refused().len(),
        1,
        "one refusal is enough: {:?}",
        server.refused()
    );
    let asked = server.accepted();
    assert_eq!(asked.len(), 2);
    for body in &asked {
        assert!(body.to_string().contains("additionalProperties"), "{body}");
    }
    assert_eq!(output(&app, &run).await, Some((CANONICAL.to_owned(), 1)));
    assert_eq!(app.outcome(&run).await.0, "succeeded");
}
