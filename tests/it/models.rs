//! Models as they are: without tools, with small windows. What was learnt of one is kept, shown, and known to its next letter.

use crate::app::{TestApp, Workspace, proven_note as note};
use crate::fallback::tries;
use crate::guest_house::run as command;
use crate::providers::server::{Reply, Seen, Server};
use serde_json::{Value, json};
use std::path::Path;

/// Refuses tools as Ollama does, and answers everything else with these words.
fn toolless(words: &str) -> Value {
    let error = json!({ "class": "bad_request", "refused": "tools", "message": "m does not support tools" });
    json!({ "rules": [{ "when": { "tools": true }, "error": error }, { "say": words }] })
}

fn workspace(script: &Value) -> Workspace {
    let workspace = Workspace::new(script).talkative();
    workspace.write(
        "configs/prompts/system.md",
        "You are {{ persona.name }}.{% if \"grep\" in tools %} Use `grep`.{% endif %}",
    );
    workspace
}

async fn answered(app: &TestApp, id: &str, body: &str) -> String {
    let id = format!("{id}@guest.example");
    let run = app.run_of(&note(&id, "", body)).await;
    app.drain().await;
    run
}

async fn report(app: &TestApp, run: &str) -> Value {
    let sql = "SELECT context_report_json FROM runs WHERE id = $1";
    let text = app.row(sql, run).await.remove(0).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

async fn message(app: &TestApp, run: &str) -> String {
    let sql = "SELECT error_message FROM runs WHERE id = $1";
    app.row(sql, run).await.remove(0).unwrap_or_default()
}

/// Dates what was learnt as of now, for commands, which have the clock of this machine.
fn dated_now(workspace: &Path) {
    let file = workspace.join("data/models.json");
    let text = std::fs::read_to_string(&file).expect("it is kept");
    let mut models: Value = serde_json::from_str(&text).expect("JSON");
    for model in models.as_array_mut().expect("models") {
        model["learnt_ms"] = json!(chrono::Utc::now().timestamp_millis());
    }
    std::fs::write(file, models.to_string()).expect("a file");
}

#[tokio::test]
async fn a_model_without_tools_is_asked_without_them_and_that_is_kept() {
    let app = workspace(&toolless("From seven.\n\nAda")).start().await;
    let run = answered(&app, "1", "When is breakfast?").await;
    let once = ["0 scripted/test bad_request", "0 scripted/test answered"];
    assert_eq!(tries(&app, &run).await, once);
    let prompts = app.prompts(&run).await;
    assert!(
        prompts[0].to_string().contains("Use `grep`."),
        "{prompts:?}"
    );
    assert!(!prompts[1].to_string().contains("grep"), "{}", prompts[1]);
    let note = report(&app, &run).await["note"].to_string();
    assert!(note.contains("takes no tools"), "{note}");
    app.check().await;

    // The next letter begins with what is known, and so does one after a restart.
    let run = answered(&app, "2", "And dinner?").await;
    assert_eq!(tries(&app, &run).await, ["0 scripted/test answered"]);
    let app = app.restart().await;
    let run = answered(&app, "3", "And lunch?").await;
    assert_eq!(tries(&app, &run).await, ["0 scripted/test answered"]);
    assert_eq!(app.sent().len(), 3);
    app.check().await;

    // After a week it is asked anew: somebody may have started its server with tools.
    let week = std::time::Duration::from_secs(7 * 24 * 3600);
    app.workspace.clock.advance(week);
    let run = answered(&app, "4", "And tea?").await;
    assert_eq!(tries(&app, &run).await, once);
    app.check().await;
}

#[tokio::test]
async fn what_a_model_lacks_is_shown_and_forgotten_when_it_works() {
    let app = workspace(&toolless("From seven.\n\nAda")).start().await;
    answered(&app, "1", "When is breakfast?").await;
    let TestApp { workspace, engine } = app;
    drop(engine);
    dated_now(workspace.path());
    let path = workspace.path();
    let listed = command(path, &["providers", "list"]);
    assert!(
        listed.stdout.contains("test (takes no tools)"),
        "{}",
        listed.stdout
    );
    let listed = command(path, &["providers", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(listed[0]["learnt"][0]["takes_tools"], false, "{listed}");
    let checked = command(path, &["config", "check"]);
    let said = format!("{}{}", checked.stdout, checked.stderr);
    for words in ["takes no tools", "set `tools` to `[]`"] {
        assert!(said.contains(words), "{said}");
    }
    // A persona without tools has lost nothing.
    workspace.set("personas/ada/persona.json", "/tools", json!([]));
    let checked = command(path, &["config", "check"]);
    let said = format!("{}{}", checked.stdout, checked.stderr);
    assert!(!said.contains("takes no tools"), "{said}");
    // The probe calls a tool, and this time it is called.
    let echo = json!({ "turns": [{ "call": [{ "tool": "echo", "args": { "text": "ready" } }] }] });
    workspace.write("configs/script.json", &echo.to_string());
    command(path, &["providers", "test", "scripted"]);
    let listed = command(path, &["providers", "list"]);
    assert!(
        !listed.stdout.contains("takes no tools"),
        "{}",
        listed.stdout
    );
}

#[tokio::test]
async fn a_call_in_the_text_of_a_model_without_tools_is_no_call() {
    let call = r#"<tool_call>{"name": "read_file", "arguments": {"path": "knowledge/house.md"}}</tool_call>"#;
    let app = workspace(&toolless(call)).start().await;
    for id in ["1", "2"] {
        let run = answered(&app, id, "When is breakfast?").await;
        assert_eq!(
            app.trace(&run).await,
            Vec::<String>::new(),
            "nothing was executed"
        );
    }
    assert_eq!(app.sent().len(), 0, "nor mailed");
    app.check().await;
}

#[tokio::test]
async fn a_refusal_that_only_quotes_the_words_is_not_believed() {
    // It fails whatever is left out: then tools were not the reason.
    let error =
        json!({ "class": "bad_request", "refused": "tools", "message": "no such function: tools" });
    let app = workspace(&json!({ "rules": [{ "say": "", "error": error }] }))
        .start()
        .await;
    let run = answered(&app, "1", "When is breakfast?").await;
    assert_eq!(app.outcome(&run).await.0, "failed");
    assert!(!app.workspace.path().join("data/models.json").exists());
    app.check().await;
}

#[tokio::test]
async fn where_nothing_can_be_left_out_the_failure_names_the_remedy() {
    let unknown = json!({ "class": "bad_request", "message": "function schemas: unheard of" });
    let cases = [
        (
            toolless("Fine."),
            json!("tool_only"),
            "`\"reply\": \"final\"`",
        ),
        (
            json!({ "rules": [{ "say": "", "error": unknown }] }),
            json!("final"),
            "`\"tools\": []`",
        ),
    ];
    for (script, reply, remedy) in cases {
        let workspace = workspace(&script);
        workspace.set("personas/ada/persona.json", "/reply", reply);
        let app = workspace.start().await;
        let run = answered(&app, "1", "When is breakfast?").await;
        assert_eq!(app.outcome(&run).await.0, "failed");
        let message = message(&app, &run).await;
        assert!(message.contains(remedy), "{message}");
        let notices = app.notices();
        let told = notices
            .iter()
            .any(|mail| mail.text.contains("\"tools\": []"));
        assert!(told, "{notices:?}");
        app.check().await;
    }
}

#[tokio::test]
async fn a_fallback_that_takes_tools_is_offered_them() {
    let down = json!({ "class": "overloaded", "message": "busy" });
    let refuses = json!({ "class": "bad_request", "refused": "tools", "message": "x does not support tools" });
    let script = json!({ "rules": [
        { "when": { "model": "test", "tools": true }, "error": refuses },
        { "when": { "model": "test", "contains": "dinner" }, "say": "", "error": down },
        { "say": "From seven.\n\nAda" },
    ] });
    let workspace = workspace(&script);
    let second = json!([{ "provider": "scripted", "model": "second" }]);
    workspace.set("configs/inference.json", "/fallback", second);
    workspace.set(
        "configs/inference.json",
        "/retry",
        json!({ "call_attempts_max": 1 }),
    );
    let app = workspace.start().await;
    answered(&app, "1", "When is breakfast?").await;
    let run = answered(&app, "2", "And dinner?").await;
    let all = ["0 scripted/test overloaded", "0 scripted/second answered"];
    assert_eq!(tries(&app, &run).await, all);
    let prompts = app.prompts(&run).await;
    let offered = |request: &Value| request["tools"].as_array().map_or(0, Vec::len);
    assert_eq!((offered(&prompts[0]), offered(&prompts[1]) > 0), (0, true));
    app.check().await;
}

/// A server with this window, in the words of llama.cpp (`server-context.cpp`, `send_error` with `exceed_context_size_error`);
/// four characters are a token to it.
fn llama(seen: &Seen, window: usize) -> Reply {
    let asked: Value = serde_json::from_str(&seen.body).expect("JSON");
    let texts = asked["messages"].as_array().expect("messages").iter();
    let texts: usize = texts
        .map(|message| message["content"].to_string().len())
        .sum();
    let tools = asked
        .get("tools")
        .map_or(0, |tools| tools.to_string().len());
    let tokens = (texts + tools) / 4;
    if tokens > window {
        let message = format!(
            "the request exceeds the available context size ({window} tokens), try increasing it"
        );
        let error = json!({ "error": { "code": 400, "message": message, "type": "exceed_context_size_error",
            "n_prompt_tokens": tokens, "n_ctx": window } });
        return Reply::new(
            400,
            &[("content-type", "application/json")],
            &error.to_string(),
        );
    }
    let piece = json!({ "id": "1", "model": "m", "choices": [{ "index": 0, "delta": { "content": "We have room.\n\nAda" },
        "finish_reason": null }] });
    let end = json!({ "id": "1", "model": "m", "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    Reply::stream(&format!("data: {piece}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
}

/// The prompts and the context of `attache init`, a model of that server, and a thread of twenty messages.
async fn long_thread(window: usize, block: Value) -> (Server, TestApp) {
    let server = Server::answering(move |seen, _| llama(seen, window)).await;
    let workspace = workspace(&json!({ "turns": [] }));
    let sample = attache::cli::sample::FILES.iter();
    for (path, text) in sample
        .filter(|(path, _)| path.starts_with("configs/prompts") || *path == "configs/context.json")
    {
        workspace.write(path, text);
    }
    workspace.set("configs/inference.json", "/provider", json!("compat:house"));
    workspace.set("configs/inference.json", "/model", json!("m"));
    let mut of_house = json!({ "base_url": server.url });
    for (key, value) in block.as_object().into_iter().flatten() {
        of_house[key] = value.clone();
    }
    workspace.set(
        "configs/inference.json",
        "/providers/compat:house",
        of_house,
    );
    let app = workspace.start().await;
    for n in 0..10 {
        let body = format!(
            "Letter {n}. {}",
            "We would like to come with our bicycles. ".repeat(8)
        );
        app.run_of(&in_thread(n, &body)).await;
        app.drain().await;
    }
    (server, app)
}

fn in_thread(n: usize, body: &str) -> String {
    let more = match n {
        0 => String::new(),
        _ => "References: <0@guest.example>\nIn-Reply-To: <0@guest.example>\n".to_owned(),
    };
    note(&format!("{n}@guest.example"), &more, body)
}

/// Five hundred words.
fn long_letter() -> String {
    format!(
        "The last one. {}",
        "Is there a room with a view of the lake for us? ".repeat(42)
    )
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_long_letter_of_a_long_thread_is_answered_in_any_window() {
    for window in [2048, 4096, 8192] {
        let (server, app) = long_thread(window, json!({})).await;
        let before = server.seen().len();
        let run = app.run_of(&in_thread(10, &long_letter())).await;
        app.drain().await;
        assert_eq!(app.outcome(&run).await.0, "succeeded", "{window}");
        // The window was learnt from an earlier letter, so this one is shortened before it is sent.
        let all = tries(&app, &run).await;
        assert_eq!(all, ["0 compat:house/m answered"], "{window}");
        assert_eq!(server.seen().len(), before + 1);
        assert_eq!(app.sent().len(), 11, "{window}");
        let report = report(&app, &run).await;
        if window < 8192 {
            let note = report["note"].to_string();
            assert!(note.contains("schedule_create"), "{window}: {note}");
            let history = report["entries"].as_array().expect("entries").iter();
            let mut history = history.filter(|entry| entry["resolver"] == "thread-history");
            let outcome = history.next().expect("the history")["outcome"].clone();
            assert!(
                outcome == "trimmed" || outcome == "dropped",
                "{window}: {report}"
            );
        }
        println!(
            "{window}: {} of {} tokens, {}",
            report["used_tokens"], report["budget_tokens"], report["note"]
        );
        app.check().await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn rare_tools_go_before_exchanges_and_basic_ones_stay() {
    let mut between = 0;
    for window in [5200, 4900, 4600, 4300] {
        let (_server, app) = long_thread(window, json!({})).await;
        let run = app
            .run_of(&in_thread(10, "The last one. Is there a room?"))
            .await;
        app.drain().await;
        let prompt = app.prompts(&run).await.remove(0);
        let (text, tools) = (prompt.to_string(), prompt["tools"].to_string());
        let has_past = text.contains("Letter 0.");
        let (has_basic, has_rare) = (
            tools.contains("\"grep\""),
            tools.contains("schedule_create"),
        );
        assert!(text.contains("The last one."), "{window}: {text}");
        assert!(has_past || !has_rare, "{window}: {tools}");
        assert!(has_basic || !has_past, "{window}: {tools}");
        between += usize::from(has_past && has_basic && !has_rare);
        app.check().await;
    }
    assert!(between > 0, "no window shows the order");
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_window_in_the_settings_is_kept_to_from_the_first_letter() {
    let (server, app) = long_thread(4096, json!({ "context_tokens": 4096 })).await;
    app.run_of(&in_thread(10, &long_letter())).await;
    app.drain().await;
    assert_eq!(server.seen().len(), 11, "nothing was sent twice");
    let body: Value = serde_json::from_str(&server.seen()[0].body).expect("JSON");
    assert_eq!(
        body["max_completion_tokens"], 1024,
        "a quarter is for the answer"
    );
    assert!(!app.workspace.path().join("data/models.json").exists());
    app.check().await;
}

/// Models that answer in odd forms; the file says where each form comes from.
#[tokio::test]
#[ignore = "second tier"]
async fn of_odd_models_only_letters_are_mailed_and_no_letter_is_kept_back() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/odd_models.jsonl");
    let table = std::fs::read_to_string(table).expect("it exists");
    let (mut letters, mut wrong) = (0, Vec::new());
    for line in table.lines() {
        let odd: Value = serde_json::from_str(line).expect("a model");
        let name = odd["model"].as_str().expect("a name");
        assert!(
            odd["source"].as_str().is_some_and(|from| from.len() > 10),
            "{name}"
        );
        for answer in odd["answers"].as_array().expect("answers") {
            let says = answer["says"].as_array().expect("turns").iter();
            let mut turns: Vec<Value> = says.map(|text| json!({ "say": text })).collect();
            turns.resize(8, turns.last().cloned().unwrap_or_default());
            let app = TestApp::start(json!({ "turns": turns })).await;
            let run = answered(&app, "1", "When is breakfast?").await;
            let mails: Vec<String> = app
                .sent()
                .iter()
                .map(|mail| mail.text.trim().to_owned())
                .collect();
            let wanted: Vec<&str> = answer["mailed"].as_str().into_iter().collect();
            if mails != wanted {
                wrong.push(format!(
                    "{name}: {}: {mails:?}, {:?}",
                    answer["says"],
                    app.outcome(&run).await
                ));
            }
            // What is kept back has an end that somebody is told of: a draft or a failure.
            if wanted.is_empty() && app.notices().is_empty() {
                wrong.push(format!("{name}: {}: nobody is told", answer["says"]));
            }
            letters += 1;
            app.check().await;
        }
    }
    println!("{letters} letters through odd models");
    assert!(letters >= 40, "{letters}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
