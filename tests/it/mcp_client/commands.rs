//! `attache mcp approve` and `attache mcp list`, and what the configuration refuses.

use super::stand_in::{self, declared, stdio, tools, write_tools};
use crate::app::Workspace;
use attache::cli::name_catalog;
use attache::config::load_with;
use serde_json::{Value, json};
use std::process::{Command, Output};

fn attache(workspace: &Workspace, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.arg("--workspace").arg(workspace.path()).args(args);
    command.output().expect("the program")
}

fn states(workspace: &Workspace) -> Value {
    let output = attache(workspace, &["--json", "mcp", "list"]);
    let listed: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let pair = |row: &Value| {
        (
            row["tool"].as_str().unwrap_or_default().to_owned(),
            row["state"].clone(),
        )
    };
    Value::Object(listed.iter().map(pair).collect())
}

#[test]
fn tools_are_approved_as_shown_and_listed_as_they_are() {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    stand_in::write_folder(&workspace);
    let mut shown = tools();
    shown[0]["description"] = json!("Says it.\u{202e}Also hidden.");
    write_tools(&workspace.path().join("met"), &shown);
    let servers = json!({ "servers": { "met": declared(&stdio(), &json!({})) } });
    workspace.write_json("configs/mcp.json", &servers);
    assert_eq!(
        states(&workspace),
        json!({ "forecast": "unapproved", "tide": "unapproved" })
    );

    let refused = attache(&workspace, &["mcp", "approve", "met"]);
    assert!(!refused.status.success(), "nobody answered");
    let text = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(text.contains("Says it.⟨U+202E⟩Also hidden."), "{text}");
    assert!(
        text.contains("met__forecast") && text.contains("\"city\""),
        "{text}"
    );
    assert!(!workspace.path().join("configs/mcp.lock.json").exists());

    let approved = attache(&workspace, &["mcp", "approve", "met", "--yes"]);
    assert!(
        approved.status.success(),
        "{}",
        String::from_utf8_lossy(&approved.stderr)
    );
    assert_eq!(
        states(&workspace),
        json!({ "forecast": "approved", "tide": "approved" })
    );

    shown[0]["annotations"] = json!({ "destructiveHint": true });
    shown.remove(1);
    shown.push(json!({ "name": "sun", "inputSchema": { "type": "object" } }));
    write_tools(&workspace.path().join("met"), &shown);
    assert_eq!(
        states(&workspace),
        json!({ "forecast": "changed", "sun": "new", "tide": "gone" })
    );
    workspace.write("met/on_start", "exit 1");
    assert_eq!(
        states(&workspace),
        json!({ "forecast": "unreachable", "tide": "unreachable" })
    );
    let unasked = attache(&workspace, &["mcp", "approve", "met", "--yes"]);
    assert!(!unasked.status.success());
    let unknown = attache(&workspace, &["mcp", "approve", "nobody", "--yes"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("names no server `nobody`"));
}

#[test]
#[ignore = "second tier"]
fn definitions_that_no_model_should_read_are_not_approved() {
    let long = "x".repeat(3000);
    for (member, value, why) in [
        ("description", json!(long), "more than 2048 bytes"),
        ("inputSchema", json!("none"), "no schema of its arguments"),
        (
            "inputSchema",
            json!({ "type": "nonsense" }),
            "no JSON Schema",
        ),
        (
            "inputSchema",
            json!({ "type": "object", "$ref": "https://evil.test/schema.json" }),
            "no JSON Schema",
        ),
        (
            "outputSchema",
            json!({ "description": "x".repeat(40_000) }),
            "more than 32768 bytes",
        ),
    ] {
        let workspace = Workspace::new(&json!({ "turns": [] }));
        stand_in::write_folder(&workspace);
        let mut shown = tools();
        shown[0][member] = value;
        write_tools(&workspace.path().join("met"), &shown);
        let servers = json!({ "servers": { "met": declared(&stdio(), &json!({})) } });
        workspace.write_json("configs/mcp.json", &servers);
        let approved = attache(&workspace, &["mcp", "approve", "met", "--yes"]);
        let text = String::from_utf8_lossy(&approved.stdout).into_owned();
        assert!(
            text.contains(why),
            "{member}: {text} {}",
            String::from_utf8_lossy(&approved.stderr)
        );
        assert_eq!(
            states(&workspace),
            json!({ "forecast": "unapproved", "tide": "approved" })
        );
    }
}

fn problems(name: &str, way: &Value, more: &Value) -> Vec<String> {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    let servers = json!({ "servers": { name: declared(way, more) } });
    workspace.write_json("configs/mcp.json", &servers);
    match load_with(workspace.path(), &name_catalog(), &|_| None) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.problems.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn every_mistake_about_a_server_is_named_with_its_place() {
    let http = |url: &str| json!({ "url": url });
    let command = |parts: &[&str]| json!({ "command": parts });
    let tool = |name: &str| json!({ "tools": { name: { "class": "once", "effects": {} } } });
    assert_eq!(
        problems("met", &command(&["true"]), &json!({})),
        Vec::<String>::new()
    );
    assert_eq!(
        problems(
            "met",
            &http("http://127.0.0.1:3000/mcp"),
            &tool("get_token")
        ),
        Vec::<String>::new()
    );
    named([
        (
            "Met",
            command(&["true"]),
            json!({}),
            "`Met` is no name of a server",
        ),
        (
            "a__b",
            command(&["true"]),
            json!({}),
            "`a__b` is no name of a server",
        ),
        ("met", json!({}), json!({}), "needs a `command` or a `url`"),
        (
            "met",
            command(&["true"]),
            json!({ "url": "https://a.test/" }),
            "has a `command` and a `url`",
        ),
        ("met", http("ftp://a.test/"), json!({}), "is no address"),
        ("met", command(&[""]), json!({}), "names no program"),
        (
            "met",
            command(&["./nothing"]),
            json!({}),
            "`./nothing` is not a program",
        ),
        (
            "met",
            command(&["sh", "personas/ada/workspace/x.sh"]),
            json!({}),
            "is in a persona's folder",
        ),
    ]);
}

#[test]
fn every_mistake_about_the_tools_of_a_server_is_named_with_its_place() {
    let tool = |name: &str| json!({ "tools": { name: { "class": "once", "effects": {} } } });
    let program = || json!({ "command": ["true"] });
    named([
        (
            "met",
            program(),
            json!({ "timeout": "1h" }),
            "is out of range",
        ),
        (
            "met",
            program(),
            json!({ "environment": ["MET_KEY"] }),
            "`MET_KEY` is not set",
        ),
        (
            "met",
            program(),
            json!({ "personas": ["nobody"] }),
            "no persona `nobody`",
        ),
        ("met", program(), json!({ "audience": [] }), "names nobody"),
        (
            "met",
            program(),
            json!({ "audience": ["carol"] }),
            "`carol` is no address",
        ),
        (
            "met",
            program(),
            json!({ "audience": "friends" }),
            "audience",
        ),
        (
            "met",
            program(),
            tool(&"x".repeat(70)),
            "more than 64 characters",
        ),
        (
            "met",
            program(),
            json!({ "tools": { "a.b": { "class": "once", "effects": {} },
            "a-b": { "class": "once", "effects": {} } } }),
            "another tool is called `met__a_b`",
        ),
    ]);
}

#[test]
fn every_mistake_about_a_login_is_named_with_what_to_do() {
    let http = || json!({ "url": "https://met.test/mcp" });
    let oauth = |oauth: Value| json!({ "oauth": oauth });
    let right = [
        oauth(json!({})),
        oauth(json!({ "issuer": "https://login.test/a", "client_id": "mine", "scope": "a b" })),
        oauth(json!({ "client_metadata_url": "https://engine.test/client.json" })),
    ];
    for more in right {
        assert_eq!(problems("met", &http(), &more), Vec::<String>::new());
    }
    let fixed =
        json!({ "oauth": {}, "headers": [{ "name": "authorization", "variable": "PATH" }] });
    let program = json!({ "command": ["true"] });
    named([
        (
            "met",
            program,
            oauth(json!({})),
            "has no meaning for a program",
        ),
        ("met", http(), fixed, "beside a header `Authorization`"),
        (
            "met",
            http(),
            oauth(json!({ "client_secret_variable": "X" })),
            "a client's secret without the client",
        ),
        (
            "met",
            http(),
            oauth(json!({ "client_id": "a", "client_secret_variable": "MET_SECRET" })),
            "`MET_SECRET` is not set",
        ),
        (
            "met",
            http(),
            oauth(json!({ "client_id": "a", "client_metadata_url": "https://b.test/c" })),
            "names two clients",
        ),
        (
            "met",
            http(),
            oauth(json!({ "client_metadata_url": "http://b.test/c" })),
            "no address of a Client ID Metadata Document",
        ),
        (
            "met",
            http(),
            oauth(json!({ "issuer": "login.test" })),
            "is no issuer",
        ),
        (
            "met",
            http(),
            oauth(json!({ "issuer": "http://login.test" })),
            "in plain text",
        ),
    ]);
}

/// Asserts that each mistake is named: name of the server, its way, other members, words of the problem.
fn named<const N: usize>(mistakes: [(&str, Value, Value, &str); N]) {
    for (name, way, more, expected) in mistakes {
        let found = problems(name, &way, &more);
        assert!(
            found.iter().any(|problem| problem.contains(expected)),
            "{way} {more}: {found:?}"
        );
    }
}
