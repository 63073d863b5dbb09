//! What a request leaves out, and the check of a provider.

use super::*;

fn schema() -> Option<OutputSchema> {
    Some(OutputSchema {
        name: "answer".into(),
        schema: json!({"type": "object", "required": ["ok"]}),
    })
}

#[test]
fn a_schema_binds_the_answer_or_stands_in_the_prompt() {
    let asked = Request {
        output: schema(),
        model: "gemini-3-pro".into(),
        ..request("hi")
    };
    let body = wire(&asked);
    assert_eq!(
        body["generationConfig"]["responseMimeType"],
        "application/json"
    );
    assert_eq!(
        body["generationConfig"]["responseJsonSchema"],
        json!({"type": "object", "required": ["ok"]})
    );
    assert!(!body["systemInstruction"].to_string().contains("required"));
    let refused = Request {
        without: vec![Parameter::OutputSchema],
        ..asked.clone()
    };
    let older = Request {
        model: "gemini-2.5-pro".into(),
        ..asked.clone()
    };
    for spoken in [refused, older.clone()] {
        let body = wire(&spoken);
        assert_eq!(
            body["generationConfig"],
            json!({"maxOutputTokens": 1024}),
            "{}",
            spoken.model
        );
        assert!(body["systemInstruction"].to_string().contains("required"));
    }
    let toolless = Request {
        tools: vec![],
        ..older
    };
    assert_eq!(
        wire(&toolless)["generationConfig"]["responseMimeType"],
        "application/json"
    );
}

#[test]
fn what_was_refused_before_is_left_out() {
    let settings = |think| ProviderSettings {
        base_url: Some("http://127.0.0.1:9".into()),
        think: Some(think),
        ..Default::default()
    };
    let generation = |think, without: &[Parameter]| {
        let provider = build("gemini", &settings(think)).expect("sound");
        let asked = Request {
            temperature: Some(0.5),
            without: without.to_vec(),
            ..request("hi")
        };
        wire_of(&*provider, &asked)["generationConfig"].clone()
    };
    let all = json!({"maxOutputTokens": 1024, "temperature": 0.5,
        "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "low"}});
    assert_eq!(generation(Think::Low, &[]), all);
    assert_eq!(
        generation(Think::On, &[])["thinkingConfig"],
        json!({"includeThoughts": true})
    );
    assert_eq!(
        generation(Think::Off, &[])["thinkingConfig"],
        json!({"thinkingBudget": 0})
    );
    let without = [Parameter::Temperature, Parameter::Reasoning];
    assert_eq!(
        generation(Think::Low, &without),
        json!({"maxOutputTokens": 1024})
    );
}

#[tokio::test]
async fn what_it_refuses_of_a_request_is_named_to_be_left_out() {
    let table = [
        (
            "Function calling with a response mime type: 'application/json' is unsupported",
            Parameter::OutputSchema,
        ),
        (
            "Unknown name \"responseJsonSchema\" at 'generation_config'",
            Parameter::OutputSchema,
        ),
        (
            "Budget 0 is invalid. This model only works in thinking mode.",
            Parameter::Reasoning,
        ),
        (
            "Thinking level is not supported for this model.",
            Parameter::Reasoning,
        ),
    ];
    for (message, parameter) in table {
        let body =
            json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}});
        let server = Server::start(vec![Reply::new(400, &[JSON], &body.to_string())]).await;
        let provider = adapter("gemini", &server.url);
        let wire = provider.encode_request(&request("hello")).expect("sound");
        let failed = complete(&*provider, &wire, context())
            .await
            .expect_err("refused");
        assert_eq!(
            (failed.class, failed.refused),
            (ErrorClass::BadRequest, Some(parameter)),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_check_lists_the_models_with_the_key_in_its_header() {
    let list =
        r#"{"models":[{"name":"models/gemini-3-pro"},{"name":"tunedModels/mine"},{"odd":1}]}"#;
    let server = Server::start(vec![Reply::new(200, &[JSON], list)]).await;
    let health = adapter("gemini", &server.url)
        .check(context())
        .await
        .expect("it answers");
    let models = vec!["gemini-3-pro".to_owned(), "tunedModels/mine".to_owned()];
    let endpoint = Some(format!("{}/v1beta", server.url));
    assert_eq!(
        health,
        ProviderCheck {
            endpoint,
            models,
            ..ProviderCheck::default()
        }
    );
    let seen = server.seen().remove(0);
    assert_eq!(
        seen.head.lines().next(),
        Some("GET /v1beta/models?pageSize=1000 HTTP/1.1")
    );
    assert_eq!(
        (
            seen.header("x-goog-api-key"),
            seen.head.matches(KEY).count()
        ),
        (Some(KEY), 1)
    );
    let wrong = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": format!("bad {KEY}"),
        "details": [{"reason": "API_KEY_INVALID"}]}});
    for (reply, class) in [
        (
            Reply::new(400, &[JSON], &wrong.to_string()),
            ErrorClass::Auth,
        ),
        (Reply::new(200, &[JSON], "{}"), ErrorClass::Protocol),
        (
            Reply::new(302, &[("location", "http://127.0.0.1:9/")], ""),
            ErrorClass::Config,
        ),
    ] {
        let server = Server::start(vec![reply]).await;
        let failed = adapter("gemini", &server.url)
            .check(context())
            .await
            .expect_err("it fails");
        assert_eq!(failed.class, class);
        assert!(!failed.message.contains(KEY), "{failed}");
    }
}

#[tokio::test]
async fn events_come_as_they_are_written() {
    let mut decoder = GeminiDecoder::new(Some("r".into()), 0);
    let first = parts(
        json!([{"text": "hm", "thought": true}, {"text": "a"}, {"text": ""}]),
        None,
    );
    let events = decoder.feed("", &first.to_string()).expect("sound");
    let started = Event::Started {
        provider_request_id: Some("r".into()),
        model: String::new(),
    };
    assert_eq!(
        events,
        [
            started,
            Event::ThinkingDelta("hm".into()),
            Event::TextDelta("a".into())
        ]
    );
    let call = parts(
        json!([{"functionCall": {"name": "look", "args": {"n": 1}}}]),
        None,
    );
    let events = decoder.feed("", &call.to_string()).expect("sound");
    assert!(
        matches!(&events[..], [Event::ToolCall { name, .. }] if name == "look"),
        "{events:?}"
    );
    assert!(decoder.finish().is_err(), "no reason came");
}

#[test]
fn schemas_of_tools_go_as_they_are() {
    let mut asked = request("hi");
    asked.tools = vec![tool("look")];
    let mut schema = Value::clone(&asked.tools[0].input_schema);
    schema["additionalProperties"] = json!(false);
    asked.tools[0].input_schema = schema.into();
    let declared = &wire(&asked)["tools"][0]["functionDeclarations"][0];
    assert_eq!(
        (
            declared.get("parameters"),
            &declared["parametersJsonSchema"]
        ),
        (None, &*asked.tools[0].input_schema)
    );
}
