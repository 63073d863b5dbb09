//! What programs may ask of an answer by OpenAI's API: its length, its form.

use super::door::{Door, events, messages, text};
use crate::app::db;
use crate::extract::made::png;
use crate::structured::{CANONICAL, GOOD, SCHEMA, WRONG};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

fn cut_off() -> Value {
    json!({ "rules": [
        { "when": { "contains": "xyzzy" }, "say": "", "stop": "max_tokens" },
        { "when": { "turn": 0, "contains": "long" }, "say": "Forty se", "stop": "max_tokens" },
        { "say": "ats." },
    ] })
}

fn asks(text: &str, more: Value) -> Value {
    let mut body = json!({ "model": "ada", "messages": messages(&[text]) });
    let members = more.as_object().expect("members").clone();
    body.as_object_mut().expect("an object").extend(members);
    body
}

#[tokio::test]
async fn a_length_lowers_the_limit_of_the_answer_and_never_raises_it() {
    let door = Door::start(&cut_off()).await;
    let mut limits = Vec::new();
    for more in [
        json!({}),
        json!({ "max_tokens": 30 }),
        json!({ "max_completion_tokens": 31, "max_tokens": 90 }),
        json!({ "max_tokens": 10_000_000 }),
    ] {
        let answer = door
            .post("/v1/chat/completions", &[], &asks("Hello", more))
            .await;
        assert_eq!(
            (text(&answer).as_str(), answer.header("x-attache-ignored")),
            ("ats.", "")
        );
        let prompts = door.app().prompts(answer.header("x-attache-run")).await;
        limits.push(prompts[0]["max_output_tokens"].as_u64().expect("a limit"));
    }
    assert_eq!(
        (limits[1], limits[2], limits[3] == limits[0]),
        (30, 31, true),
        "{limits:?}"
    );
    let body = json!({ "model": "ada", "input": "Hello", "max_output_tokens": 32 });
    let answer = door.post("/v1/responses", &[], &body).await;
    let prompts = door.app().prompts(answer.header("x-attache-run")).await;
    assert_eq!(prompts[0]["max_output_tokens"], 32);
    for wrong in [json!({ "max_tokens": 0 }), json!({ "max_tokens": "many" })] {
        let refused = door
            .post("/v1/chat/completions", &[], &asks("Hello", wrong))
            .await;
        let error = &refused.json()["error"];
        assert_eq!(
            (refused.status, &error["param"]),
            (400, &json!("max_tokens"))
        );
    }
    // Every run is executed again over its record: the limit is part of it.
    door.app().check().await;
}

#[tokio::test]
async fn an_answer_of_the_length_that_was_asked_for_is_told_as_cut() {
    let door = Door::start(&cut_off()).await;
    let bounded = json!({ "max_tokens": 3 });
    let answer = door
        .post("/v1/chat/completions", &[], &asks("A long one", bounded))
        .await;
    assert_eq!(text(&answer), "Forty se");
    assert_eq!(answer.json()["choices"][0]["finish_reason"], "length");
    assert_eq!(door.count("requests").await, "1", "it is not gone on with");
    let outcome = door.app().outcome(answer.header("x-attache-run")).await;
    assert_eq!(outcome.1.as_deref(), Some("limit_output"));
    let next = ["A long one", "Forty se", "Hello"];
    let next = door.says(&next).await;
    assert_eq!(
        next.header("x-attache-thread"),
        answer.header("x-attache-thread")
    );
    // The control: without a length the engine has the model go on.
    let whole = door.says(&["A long one"]).await;
    assert_eq!(text(&whole), "Forty seats.");
    assert_eq!(whole.json()["choices"][0]["finish_reason"], "stop");
    let empty = asks("xyzzy", json!({ "max_tokens": 3 }));
    let empty = door.post("/v1/chat/completions", &[], &empty).await;
    assert_eq!(
        (
            text(&empty).as_str(),
            &empty.json()["choices"][0]["finish_reason"]
        ),
        ("", &json!("length"))
    );
    let streamed = asks("A long one", json!({ "max_tokens": 3, "stream": true }));
    let streamed = door.post("/v1/chat/completions", &[], &streamed).await;
    assert_eq!(
        events(&streamed.body).last().expect("a chunk")["choices"][0]["finish_reason"],
        "length"
    );
    let body = json!({ "model": "ada", "input": "A long one", "max_output_tokens": 3 });
    let response = door.post("/v1/responses", &[], &body).await;
    let again = door
        .get(&format!(
            "/v1/responses/{}",
            response.header("x-attache-run")
        ))
        .await;
    for object in [response.json(), again.json()] {
        assert_eq!(
            (&object["status"], &object["incomplete_details"]["reason"]),
            (&json!("incomplete"), &json!("max_output_tokens"))
        );
        assert_eq!(object["output"][0]["content"][0]["text"], "Forty se");
    }
    let body =
        json!({ "model": "ada", "input": "A long one", "max_output_tokens": 3, "stream": true });
    let told = events(&door.post("/v1/responses", &[], &body).await.body);
    assert_eq!(
        told.last().expect("an event")["type"],
        "response.incomplete"
    );
    door.app().check().await;
}

#[tokio::test]
async fn an_answer_of_a_schema_is_its_value_and_nothing_else() {
    let script = json!({ "rules": [
        { "when": { "contains": "does not fit" }, "say": GOOD },
        { "when": { "turn": 0, "contains": "who" }, "say": WRONG },
        { "when": { "contains": "object" }, "say": "{\"a\": 1}" },
        { "say": GOOD },
    ] });
    let door = Door::start(&script).await;
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let form = json!({ "type": "json_schema", "json_schema": { "name": "arrivals", "strict": true, "schema": schema } });
    let form = json!({ "response_format": form });
    let answer = door
        .post(
            "/v1/chat/completions",
            &[],
            &asks("Who comes?", form.clone()),
        )
        .await;
    assert_eq!(text(&answer), CANONICAL);
    let sql = "SELECT o.repairs || '' FROM run_outputs o WHERE o.run_id = $1";
    let row = door.app().row(sql, answer.header("x-attache-run")).await;
    assert_eq!(row, [Some("1".to_owned())], "it was repaired once");
    let turns = ["Who comes?", CANONICAL, "Is that all?"];
    let next = door.says(&turns).await;
    assert_eq!(
        next.header("x-attache-thread"),
        answer.header("x-attache-thread")
    );
    let mut streamed = asks("Well?", form.clone());
    streamed["stream"] = json!(true);
    let streamed = door.post("/v1/chat/completions", &[], &streamed).await;
    let deltas: String = events(&streamed.body)
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(deltas, CANONICAL);
    let body = json!({ "model": "ada", "input": "An object.", "text": { "format": { "type": "json_object" } } });
    let object = door.post("/v1/responses", &[], &body).await.json();
    assert_eq!(object["output"][0]["content"][0]["text"], "{\"a\":1}");
    let refused = json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n", "schema": 7 } } });
    let refused = door
        .post("/v1/chat/completions", &[], &asks("Who?", refused))
        .await;
    let error = &refused.json()["error"];
    assert_eq!(
        (refused.status, &error["param"], &error["code"]),
        (
            400,
            &json!("response_format.json_schema.schema"),
            &json!("invalid_json_schema")
        )
    );
    door.app().check().await;
}

fn keyed(key: &str) -> [(&'static str, &str); 1] {
    [("idempotency-key", key)]
}

#[tokio::test]
async fn a_request_with_a_key_is_one_run_however_often_it_comes() {
    let script = json!({ "rules": [{ "say": "Forty seats." }] });
    let mut door = Door::start(&script).await;
    let body = asks("How many seats?", json!({}));
    // Both are on their way before there is an answer: they wait for the same run.
    let first = door.sends("/v1/chat/completions", &keyed("k1"), &body);
    let second = door.sends("/v1/chat/completions", &keyed("k1"), &body);
    let (first, second) = (door.answer(first).await, door.answer(second).await);
    assert_eq!(
        (text(&first), first.body == second.body),
        ("Forty seats.".to_owned(), true)
    );
    let third = door.post("/v1/chat/completions", &keyed("k1"), &body).await;
    assert_eq!(third.body, first.body);
    let other = asks("How many chairs?", json!({}));
    let refused = door
        .post("/v1/chat/completions", &keyed("k1"), &other)
        .await;
    assert_eq!(
        (
            refused.status,
            &refused.json()["error"]["code"],
            refused.header("x-should-retry")
        ),
        (409, &json!("idempotency_conflict"), "false")
    );
    assert_eq!(door.count("runs").await, "1");
    // Another program's key is another one, and one that says nothing is refused.
    door.secret = door.site.key(&["chat:ada"]).await;
    let own = door
        .post("/v1/chat/completions", &keyed("k1"), &other)
        .await;
    assert_eq!(text(&own), "Forty seats.");
    let long = "k".repeat(201);
    let refused = door
        .post("/v1/chat/completions", &keyed(&long), &body)
        .await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["param"]),
        (400, &json!("Idempotency-Key"))
    );
    assert_eq!(door.count("runs").await, "2");
}

#[tokio::test]
async fn a_key_gives_a_stream_a_response_and_an_error_again() {
    let script = json!({ "rules": [{ "when": { "contains": "no such thing" }, "error": { "class": "bad_request" } }, { "say": "Forty seats." }] });
    let door = Door::start(&script).await;
    let streamed = asks("How many seats?", json!({ "stream": true }));
    let live = door
        .post("/v1/chat/completions", &keyed("k2"), &streamed)
        .await;
    let again = door
        .post("/v1/chat/completions", &keyed("k2"), &streamed)
        .await;
    let said = |page: &super::site::Page| -> String {
        let chunks = events(&page.body);
        let deltas = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
        deltas.collect()
    };
    assert_eq!(
        (said(&live).as_str(), said(&again).as_str()),
        ("Forty seats.", "Forty seats.")
    );
    assert_eq!(live.header("x-attache-run"), again.header("x-attache-run"));
    let response = json!({ "model": "ada", "input": "How many?", "background": true });
    let queued = door.post("/v1/responses", &keyed("k3"), &response).await;
    door.app().drain().await;
    let later = door.post("/v1/responses", &keyed("k3"), &response).await;
    assert_eq!(
        (
            queued.json()["id"] == later.json()["id"],
            &later.json()["status"]
        ),
        (true, &json!("completed"))
    );
    let failing = asks("no such thing", json!({}));
    let failed = door
        .post("/v1/chat/completions", &keyed("k4"), &failing)
        .await;
    let again = door
        .post("/v1/chat/completions", &keyed("k4"), &failing)
        .await;
    assert_eq!(
        (failed.status, again.status, failed.body == again.body),
        (500, 500, true)
    );
    assert_eq!(door.count("runs").await, "3");
    door.app().check().await;
}

fn data_url(kind: &str, bytes: &[u8]) -> String {
    format!("data:{kind};base64,{}", STANDARD.encode(bytes))
}

async fn attachments(door: &Door, run: &str) -> Vec<Vec<Option<String>>> {
    let sql = "SELECT a.filename, a.content_type, a.size_bytes || '' FROM attachments a
        JOIN runs r ON r.trigger_message_id = a.message_id WHERE r.id = $1 ORDER BY a.id";
    let mut rows = door.app().workspace.rows().await;
    let rows = db::query(sql)
        .bind(run)
        .fetch_all(&mut rows)
        .await
        .expect("rows");
    let row = |row: &db::Row| (0..3).map(|at| row.get(at)).collect();
    rows.iter().map(row).collect()
}

#[tokio::test]
async fn images_and_files_of_a_message_are_its_attachments() {
    let door = Door::start(&json!({ "rules": [{ "say": "A square." }] })).await;
    let picture = data_url("image/png", &png(80, 80));
    let content = json!([{ "type": "text", "text": "What is it?" },
        { "type": "image_url", "image_url": { "url": picture, "detail": "low" } },
        { "type": "file", "file": { "filename": "../a list.txt", "file_data": data_url("text/plain", b"one, two") } }]);
    let first = json!({ "model": "ada", "messages": [{ "role": "user", "content": content }] });
    let answer = door.post("/v1/chat/completions", &[], &first).await;
    assert_eq!(text(&answer), "A square.");
    let run = answer.header("x-attache-run");
    let word = |text: &str| Some(text.to_owned());
    let size = png(80, 80).len().to_string();
    let stored = [
        vec![word("attachment-1.png"), word("image/png"), Some(size)],
        vec![word("a list.txt"), word("text/plain"), word("8")],
    ];
    assert_eq!(attachments(&door, run).await, stored);
    let prompts = door.app().prompts(run).await;
    let blocks = prompts[0]["messages"].to_string();
    assert!(blocks.contains("attachment-1.png"), "{blocks}");
    // The conversation goes on with its files, and without them it is another one.
    let goes_on = |content: Value| {
        json!({ "model": "ada", "messages": [{ "role": "user", "content": content },
            { "role": "assistant", "content": "A square." }, { "role": "user", "content": "Sure?" }] })
    };
    let next = door
        .post("/v1/chat/completions", &[], &goes_on(content))
        .await;
    assert_eq!(
        next.header("x-attache-thread"),
        answer.header("x-attache-thread")
    );
    assert_eq!(
        attachments(&door, next.header("x-attache-run")).await.len(),
        0
    );
    let other = door
        .post("/v1/chat/completions", &[], &goes_on(json!("What is it?")))
        .await;
    assert_ne!(
        other.header("x-attache-thread"),
        answer.header("x-attache-thread")
    );
    let input =
        json!([{ "role": "user", "content": [{ "type": "input_image", "image_url": picture }] }]);
    let body = json!({ "model": "ada", "input": input });
    let response = door.post("/v1/responses", &[], &body).await;
    assert_eq!(response.json()["status"], "completed", "{}", response.body);
    assert_eq!(
        attachments(&door, response.header("x-attache-run"))
            .await
            .len(),
        1
    );
    door.app().check().await;
}

#[tokio::test]
async fn files_are_fetched_from_nowhere_and_bounded_as_those_of_letters() {
    let door = Door::prepared(&json!({ "rules": [{ "say": "Noted." }] }), |workspace| {
        let limits = json!({ "letter_bytes_max": 100_000 });
        workspace.set("configs/gateway.json", "/limits", limits);
    })
    .await;
    let sink = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}/a.png", sink.local_addr().expect("bound"));
    let large = data_url("image/png", &vec![7; 100_001]);
    let many: Vec<Value> = (0..21)
        .map(|_| json!({ "type": "file", "file": { "file_data": "AAEC" } }))
        .collect();
    for (content, status, param) in [
        (
            json!([{ "type": "image_url", "image_url": { "url": address } }]),
            400,
            "messages[0].content[0].image_url.url",
        ),
        (
            json!([{ "type": "file", "file": { "file_id": "f1" } }]),
            400,
            "messages[0].content[0].file.file_id",
        ),
        (
            json!([{ "type": "file", "file": { "file_data": "?" } }]),
            400,
            "messages[0].content[0].file.file_data",
        ),
        (
            json!([{ "type": "input_audio", "input_audio": {} }]),
            400,
            "messages[0].content[0]",
        ),
        (
            json!([{ "type": "image_url", "image_url": { "url": large } }]),
            413,
            "messages",
        ),
        (json!(many), 400, "messages"),
    ] {
        let body = json!({ "model": "ada", "messages": [{ "role": "user", "content": content }] });
        let refused = door.post("/v1/chat/completions", &[], &body).await;
        let error = &refused.json()["error"];
        assert_eq!(
            (refused.status, error["param"].as_str()),
            (status, Some(param)),
            "{error}"
        );
    }
    let picture = json!([{ "type": "input_image", "image_url": "data:image/png;base64,AAEC" }]);
    let body = json!({ "model": "ada", "input": [{ "role": "assistant", "content": picture }, { "role": "user", "content": "x" }] });
    let refused = door.post("/v1/responses", &[], &body).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["param"]),
        (400, &json!("input[0].content[0]"))
    );
    assert_eq!(door.count("runs").await, "0");
    let asked = tokio::time::timeout(std::time::Duration::ZERO, sink.accept()).await;
    assert!(asked.is_err(), "an address was asked");
}
