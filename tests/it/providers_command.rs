//! `attache providers`: the real binary against a loopback server; what it captures is a fixture like ours.

use crate::app::{Workspace, note};
use crate::providers::conformance::{decode_pieces, decoder};
use crate::providers::server::{Reply, Server};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const KEY: &str = "hunter2/hunter2-hunter2";
const JSON: (&str, &str) = ("content-type", "application/json");

struct Answer {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stderr))
    }
}

/// Runs `attache providers …` beside the servers of this test.
async fn providers(workspace: &Workspace, args: &[&str]) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().ends_with("_API_KEY") {
            command.env_remove(name);
        }
    }
    command
        .env("OPENAI_API_KEY", KEY)
        .current_dir(workspace.path())
        .arg("providers")
        .args(args);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .expect("no panic");
    let output = output.expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    let answer = Answer {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    assert!(
        !answer.stdout.contains(KEY) && !answer.stderr.contains(KEY),
        "the key was printed"
    );
    answer
}

/// Ada asks `openai` at this server, everybody else the script.
fn workspace(url: &str) -> Workspace {
    let workspace = Workspace::new(&json!({ "turns": [{ "say": "Hello." }] }));
    workspace.set(
        "configs/inference.json",
        "/providers/openai",
        json!({ "base_url": url }),
    );
    workspace.set("personas/ada/persona.json", "/provider", json!("openai"));
    workspace.set("personas/ada/persona.json", "/model", json!("model-a"));
    workspace
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/providers/openai")
        .join(name);
    std::fs::read_to_string(path).expect("a fixture")
}

fn models(ids: &[&str]) -> Reply {
    let list: Vec<Value> = ids.iter().map(|id| json!({ "id": id })).collect();
    Reply::new(
        200,
        &[JSON],
        &json!({ "object": "list", "data": list }).to_string(),
    )
}

#[tokio::test]
async fn a_list_says_who_uses_what_and_how_it_fared_and_never_the_key() {
    let app = Workspace::new(&json!({ "turns": [{ "error": { "class": "bad_request" } }] }))
        .start()
        .await;
    app.run_of(&note("a@guest.example", "", "Hello?")).await;
    app.drain().await;
    let workspace = app.workspace;
    drop(app.engine);
    workspace.set(
        "configs/inference.json",
        "/providers/openai",
        json!({ "base_url": "http://127.0.0.1:9/v1" }),
    );
    workspace.set("personas/ada/persona.json", "/provider", json!("openai"));
    workspace.set("personas/ada/persona.json", "/model", json!("model-a"));
    let listed = providers(&workspace, &["list", "--json"]).await;
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let listed = listed.json();
    let of = |name: &str| {
        let found = listed
            .as_array()
            .expect("a list")
            .iter()
            .find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}")).clone()
    };
    let openai = of("openai");
    assert_eq!(
        openai["used_by"],
        json!([{ "who": "persona ada", "model": "model-a" }])
    );
    assert_eq!(
        openai["key"],
        json!({ "needed": true, "set": true, "variable": "OPENAI_API_KEY" })
    );
    assert_eq!(
        (&openai["endpoint"], &openai["loop_owner"]),
        (&json!("http://127.0.0.1:9/v1"), &json!("engine"))
    );
    assert_eq!(
        (&openai["calls"], &openai["last_failure"]),
        (&json!(0), &Value::Null)
    );
    let scripted = of("scripted");
    assert_eq!(
        scripted["used_by"],
        json!([{ "who": "default", "model": "test" }])
    );
    assert_eq!(
        (&scripted["failures"], &scripted["last_success_at"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(scripted["last_failure"]["class"], "bad_request");
    let anthropic = of("anthropic");
    assert_eq!(
        (&anthropic["used_by"], &anthropic["key"]["set"]),
        (&json!([]), &json!(false))
    );
    let text = providers(&workspace, &["list"]).await.stdout;
    assert!(
        text.contains("ANTHROPIC_API_KEY is not set") && text.contains("persona ada"),
        "{text}"
    );
}

#[tokio::test]
async fn success_and_failure_of_runs_are_counted_once_per_call() {
    let script = json!({ "turns": [{ "call": [{ "tool": "list_files", "args": {} }] }, { "say": "Done." }] });
    let app = crate::app::TestApp::start(script).await;
    app.run_of(&note("a@guest.example", "", "Hello?")).await;
    app.drain().await;
    let [scripted] = app
        .engine
        .store
        .provider_calls()
        .await
        .expect("rows")
        .try_into()
        .expect("one provider");
    assert_eq!(
        (
            scripted.provider.as_str(),
            scripted.calls,
            scripted.failures
        ),
        ("scripted", 2, 0)
    );
    assert_eq!(
        (scripted.last_model.as_deref(), scripted.last_failure_at),
        (Some("test"), None)
    );
    assert!(scripted.last_success_at.is_some() && scripted.last_latency_ms.is_some());
}

#[tokio::test]
async fn a_check_fails_with_what_to_do_and_succeeds_when_all_works() {
    let server = Server::start(vec![models(&["model-a", "model-b"])]).await;
    let place = workspace(&server.url);
    let good = providers(&place, &["check", "--json"]).await;
    assert_eq!(good.code, Some(0), "{}{}", good.stdout, good.stderr);
    let good = good.json();
    let openai = &good.as_array().expect("a list")[0];
    assert_eq!(
        (&openai["name"], &openai["ok"], &openai["models"]),
        (&json!("openai"), &json!(true), &json!(2))
    );
    assert_eq!(
        openai["in_use"],
        json!([{ "model": "model-a", "listed": true, "did_you_mean": null }])
    );
    assert!(openai["latency_ms"].is_u64());
    assert_eq!(
        good.as_array().map(Vec::len),
        Some(2),
        "only what is in use is asked"
    );

    place.set("personas/ada/persona.json", "/model", json!("modle-b"));
    let misspelt = providers(&place, &["check"]).await;
    assert_eq!(misspelt.code, Some(1));
    assert!(
        misspelt
            .stdout
            .contains("`modle-b` is not among its models; did you mean `model-b`?"),
        "{}",
        misspelt.stdout
    );

    let refusing = Server::start(vec![Reply::new(
        401,
        &[JSON],
        &format!(r#"{{"error":{{"message":"no {KEY}"}}}}"#),
    )])
    .await;
    let place = workspace(&refusing.url);
    let refused = providers(&place, &["check", "openai"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stdout.contains("does not work: auth") && refused.stdout.contains("OPENAI_API_KEY"),
        "{}",
        refused.stdout
    );
    let unknown = providers(&place, &["check", "opnai"]).await;
    assert_eq!(unknown.code, Some(66), "{}", unknown.stderr);
}

#[tokio::test]
async fn what_a_test_captures_is_a_fixture_like_ours() {
    let stub = vec![
        Reply::stream(&fixture("text.sse")),
        Reply::stream(&fixture("one_call.sse")),
    ];
    let server = Server::start(stub).await;
    let place = workspace(&server.url);
    let tried = providers(
        &place,
        &["test", "openai", "--capture", "captured/openai", "--json"],
    )
    .await;
    let folder = place.path().join("captured/openai");
    let told = tried.json();
    assert_eq!(
        (&told["model"], &told["calls"][0]["ok"]),
        (&json!("model-a"), &json!(true)),
        "{told}"
    );
    // The stub's call is of another tool than the one on offer, and that is said.
    assert_eq!(
        (tried.code, &told["calls"][1]["ok"]),
        (Some(1), &json!(false)),
        "{told}"
    );
    for (name, seen) in ["text", "one_call"].iter().zip(server.seen()) {
        let answer = std::fs::read(folder.join(format!("{name}.sse"))).expect("an answer");
        assert_eq!(
            String::from_utf8_lossy(&answer),
            fixture(&format!("{name}.sse"))
        );
        let request = std::fs::read_to_string(folder.join(format!("{name}.request.json")))
            .expect("a request");
        assert_eq!(request, seen.body, "what was sent is what was written down");
        let decoder = || decoder("openai");
        let replayed = decode_pieces(decoder(), vec![&answer]).await;
        assert_eq!(
            replayed,
            decode_pieces(decoder(), vec![fixture(&format!("{name}.sse")).as_bytes()]).await
        );
        assert!(replayed.is_ok());
    }
    let asked = server.seen().len();
    let again = providers(&place, &["test", "openai", "--capture", "captured/openai"]).await;
    assert_eq!(
        (again.code, server.seen().len()),
        (Some(73), asked),
        "refused before any call: {}",
        again.stderr
    );
}

#[cfg(unix)]
#[tokio::test]
async fn captures_are_for_their_owner_alone_and_hold_no_secret() {
    use std::os::unix::fs::PermissionsExt;
    let spoken = |text: &str| fixture("text.sse").replacen("Grüß", text, 1);
    // Escaped as some servers write a slash, and beside a key of somebody else's.
    let leaky = spoken("hunter2\\/hunter2-hunter2 and sk-proj-abcdefghijkl");
    assert_ne!(leaky, fixture("text.sse"), "the fixture says so");
    let echo = fixture("one_call.sse").replace("send_email", "echo");
    // In pieces no bigger than a few bytes, so that the secret is split between them on the wire.
    let server = Server::start(vec![chopped(&leaky), Reply::stream(&echo)]).await;
    let place = workspace(&server.url);
    let tried = providers(&place, &["test", "openai", "--capture", "captured"]).await;
    assert_eq!(tried.code, Some(0), "{}{}", tried.stdout, tried.stderr);
    let folder = place.path().join("captured");
    let mode = |path: &Path| {
        std::fs::metadata(path)
            .expect("it exists")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&folder), 0o700);
    for file in std::fs::read_dir(&folder).expect("a folder") {
        let path = file.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("text");
        assert_eq!(mode(&path), 0o600);
        assert!(
            !text.contains("hunter2") && !text.contains("sk-proj"),
            "{text}"
        );
    }
    let clean = std::fs::read(folder.join("text.sse")).expect("a capture");
    let replayed = decode_pieces(decoder("openai"), vec![&clean])
        .await
        .expect("still an answer");
    assert!(
        replayed.text().starts_with("[redacted] and [redacted]"),
        "{}",
        replayed.text()
    );
}

fn chopped(body: &str) -> Reply {
    let head =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n";
    let mut bytes = head.as_bytes().to_vec();
    for piece in body.as_bytes().chunks(5) {
        bytes.extend(
            format!("{:x}\r\n", piece.len())
                .bytes()
                .chain(piece.iter().copied())
                .chain(*b"\r\n"),
        );
    }
    bytes.extend(b"0\r\n\r\n");
    Reply {
        bytes,
        then: crate::providers::server::Then::KeepAlive,
    }
}

#[tokio::test]
async fn a_failed_call_is_captured_too() {
    let server = Server::start(vec![Reply::new(
        429,
        &[JSON],
        r#"{"error":{"message":"slow down"}}"#,
    )])
    .await;
    let place = workspace(&server.url);
    let tried = providers(&place, &["test", "openai", "--capture", "captured"]).await;
    assert_eq!(tried.code, Some(1));
    assert!(tried.stdout.contains("rate_limited"), "{}", tried.stdout);
    let body =
        std::fs::read_to_string(place.path().join("captured/text.429.txt")).expect("a capture");
    assert_eq!(body, r#"{"error":{"message":"slow down"}}"#);
    let nobody = providers(&place, &["test", "anthropic"]).await;
    assert_eq!(nobody.code, Some(2), "no model: {}", nobody.stderr);
}
