//! A definition that cannot work is named at the start, with what to do.

use super::own_tool;
use crate::app::Workspace;
use attache::cli::name_catalog;
use attache::config::load_with;
use serde_json::{Value, json};

fn problems(name: &str, more: &Value) -> Vec<String> {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    own_tool(&workspace, name, "true", more);
    match load_with(workspace.path(), &name_catalog(), &|_| None) {
        Ok(config) => {
            assert_eq!(config.own_tools.len(), 1);
            Vec::new()
        }
        Err(errors) => errors.problems.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn every_mistake_in_a_definition_is_named_with_its_place() {
    assert_eq!(problems("weather", &json!({})), Vec::<String>::new());
    let long = json!({ "x": { "type": "string", "description": "d".repeat(20_000) } });
    for (name, more, expected) in [
        (
            "send_email",
            json!({}),
            "`send_email` is a tool of the engine",
        ),
        ("Weather", json!({}), "`Weather` is no name of a tool"),
        (
            "weather",
            json!({ "command": ["./nothing"] }),
            "`./nothing` is not a program",
        ),
        ("weather", json!({ "command": [""] }), "names no program"),
        (
            "weather",
            json!({ "command": ["../../../personas/ada/workspace/run"] }),
            "is in a persona's folder",
        ),
        (
            "weather",
            json!({ "command": ["sh", "../../../personas/ada/x.sh"] }),
            "is in a persona's folder",
        ),
        (
            "weather",
            json!({ "arguments": { "type": "string" } }),
            "is no schema of an object",
        ),
        (
            "weather",
            json!({ "arguments": { "properties": { "x": { "type": "nonsense" } } } }),
            "is no JSON Schema",
        ),
        (
            "weather",
            json!({ "arguments": { "properties": long } }),
            "has more than 16384 bytes",
        ),
        ("weather", json!({ "timeout": "1h" }), "is out of range"),
        (
            "weather",
            json!({ "environment": ["WEATHER_KEY"] }),
            "`WEATHER_KEY` is not set",
        ),
        (
            "weather",
            json!({ "personas": ["nobody"] }),
            "no persona `nobody`",
        ),
        ("weather", json!({ "class": "sometimes" }), "class"),
        ("weather", json!({ "effects": { "flies": true } }), "flies"),
    ] {
        let found = problems(name, &more);
        assert!(
            found.iter().any(|problem| problem.contains(expected)),
            "{name} {more}: {found:?}"
        );
        assert!(
            found
                .iter()
                .all(|problem| problem.contains(&format!("configs/tools/{name}/tool.json"))),
            "{found:?}"
        );
    }
}

#[test]
fn a_script_without_its_interpreter_is_refused_with_what_to_do() {
    let check = |program: &[u8]| {
        let workspace = Workspace::new(&json!({ "turns": [] }));
        own_tool(&workspace, "weather", "true", &json!({}));
        let path = workspace.path().join("configs/tools/weather/run");
        std::fs::write(path, program).expect("written");
        match load_with(workspace.path(), &name_catalog(), &|_| None) {
            Ok(_) => String::new(),
            Err(errors) => errors.problems[0].to_string(),
        }
    };
    for text in ["echo 21\n", "", "\n#!/bin/sh\necho 21\n"] {
        let found = check(text.as_bytes());
        assert!(
            found.contains("`./run` is a script without `#!`") && found.contains("#!/bin/sh"),
            "{text}: {found}"
        );
    }
    for program in [
        b"#!/bin/sh\necho 21\n".as_slice(),
        b"\x7fELF\x02\x01\x01\0\0\0",
    ] {
        assert_eq!(check(program), "");
    }
}
