//! Policy files that cannot be right: each problem is said with its place.

use crate::app::Workspace;
use attache::config::ConfigErrors;
use serde_json::{Value, json};

fn problems(policy: &Value) -> Vec<String> {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    workspace.write_json("configs/policy.json", policy);
    let names = attache::cli::name_catalog();
    match attache::config::load(workspace.path(), &names) {
        Ok(_) => Vec::new(),
        Err(ConfigErrors { problems }) => problems
            .iter()
            .map(|problem| format!("{}: {}", problem.path, problem.message))
            .collect(),
    }
}

#[test]
fn what_can_never_be_is_an_error_that_says_where() {
    let rule = |more: Value| {
        let mut rule = json!({ "id": "r", "effect": "deny" });
        for (key, value) in more.as_object().expect("an object") {
            rule[key] = value.clone();
        }
        json!({ "rules": [rule] })
    };
    let cases = [
        (
            rule(json!({ "when": { "colour": "red" } })),
            "rules[0].when.colour: no fact `colour`",
        ),
        (
            rule(json!({ "when": { "floor": "friend" } })),
            "rules[0].when.floor: `floor` is a level",
        ),
        (
            rule(json!({ "tool": "send_mail" })),
            "rules[0].tool: no tool `send_mail`",
        ),
        (
            rule(json!({ "persona": "nobody" })),
            "rules[0].persona: no persona `nobody`",
        ),
        (
            rule(json!({ "until": "soon" })),
            "rules[0].until: `soon` is no day",
        ),
        (
            rule(json!({ "effect": "hide", "when": { "recipient": "*" } })),
            "rules[0].effect: a tool is hidden before a call",
        ),
        (
            json!({ "rules": [{ "id": "a", "effect": "deny" }, { "id": "a", "effect": "ask", "persona": "ada" }] }),
            "rules[1].id: two rules are called `a`",
        ),
        (
            json!({ "rules": [
                { "id": "all", "effect": "ask", "tool": "send_*", "when": { "sender": ">=unknown" } },
                { "id": "never", "effect": "allow", "tool": "send_email", "when": { "sender": "contact", "mails": 0 } },
            ] }),
            "rules[1]: rule `never` never decides: `all` matches whenever it does",
        ),
        (
            json!({ "approvals": { "expires_after": "5s" } }),
            "approvals.expires_after: `5s` is too short",
        ),
    ];
    for (policy, wanted) in cases {
        let found = problems(&policy);
        assert!(
            found.iter().any(|problem| problem.starts_with(wanted)),
            "{wanted}: {found:?}"
        );
    }
}

#[test]
fn rules_that_overlap_are_no_error() {
    for rules in [
        json!([{ "id": "a", "effect": "ask", "when": { "sender": "contact" } }, { "id": "b", "effect": "deny" }]),
        json!([{ "id": "a", "effect": "ask", "until": "2040-01-01" }, { "id": "b", "effect": "deny" }]),
        json!([{ "id": "a", "effect": "ask", "uses_max": 3 }, { "id": "b", "effect": "deny" }]),
        json!([{ "id": "a", "effect": "ask", "persona": "ada" }, { "id": "b", "effect": "deny" }]),
        json!([{ "id": "a", "effect": "ask", "when": { "recipient": "*@x.test" } },
            { "id": "b", "effect": "deny", "when": { "recipient": ["*@x.test", "*@y.test"] } }]),
    ] {
        assert_eq!(
            problems(&json!({ "rules": rules })),
            [] as [&str; 0],
            "{rules}"
        );
    }
}

#[test]
fn a_personas_file_puts_that_persona_out_of_service() {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    workspace.persona("bea", "Bea");
    workspace.write("personas/bea/policy.json", "{ \"rules\": [ }");
    let names = attache::cli::name_catalog();
    let config = attache::config::load(workspace.path(), &names).expect("the others serve");
    let out: Vec<&str> = config
        .personas
        .out_of_service()
        .iter()
        .map(|out| out.name.as_str())
        .collect();
    assert_eq!(out, ["bea"]);
}
