//! Whom a run asks, and which tools it may use.

use super::{fire, ready, saying, work};
use crate::app::{TestApp, Workspace, note};
use crate::fallback::{refuses, says, tries, workspace};
use crate::mcp::client::Client;
use crate::providers::server::Server;
use crate::replay::attache;
use serde_json::{Value, json};

#[tokio::test]
async fn its_own_model_comes_first_the_personas_fallbacks_behind_it() {
    let one = Server::start(vec![
        says("By another model."),
        refuses(503, &[]),
        says("A letter's."),
    ])
    .await;
    let two = Server::start(vec![says("By the fallback.")]).await;
    let app = ready(workspace(&one, Some(&two)), &json!({ "model": "large" })).await;
    let run = work(&app).await;
    assert_eq!(tries(&app, &run).await, ["0 compat:one/large answered"]);
    let run = work(&app).await;
    assert_eq!(
        tries(&app, &run).await,
        ["0 compat:one/large overloaded", "0 compat:two/m2 answered"]
    );
    let letter = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        tries(&app, &letter).await,
        ["0 compat:one/m1 answered"],
        "letters are asked as before"
    );
    app.check().await;
}

#[tokio::test]
async fn a_provider_that_only_a_responsibility_names_is_asked() {
    let (one, optional) = (
        Server::start(Vec::new()).await,
        Server::start(vec![says("Spare.")]).await,
    );
    let place = workspace(&one, None);
    place.set(
        "configs/inference.json",
        "/providers/compat:spare",
        json!({ "base_url": optional.url }),
    );
    let app = ready(place, &json!({ "provider": "compat:spare", "model": "m9" })).await;
    let run = work(&app).await;
    assert_eq!(tries(&app, &run).await, ["0 compat:spare/m9 answered"]);
    assert_eq!((one.seen().len(), app.sent().len()), (0, 1));
    app.check().await;
}

#[tokio::test]
async fn a_provider_that_is_nowhere_fails_the_run_and_says_which() {
    let app = ready(
        saying(&["Never."]),
        &json!({ "provider": "compat:gone", "model": "m" }),
    )
    .await;
    let run = work(&app).await;
    let row = app
        .row(
            "SELECT state, error_class, error_message FROM runs WHERE id = $1",
            &run,
        )
        .await;
    assert_eq!(
        (row[0].as_deref(), row[1].as_deref()),
        (Some("failed"), Some("config"))
    );
    assert!(
        row[2]
            .as_deref()
            .unwrap_or_default()
            .contains("`compat:gone` is not configured"),
        "{row:?}"
    );
}

#[tokio::test]
async fn money_is_set_aside_for_the_model_that_is_asked() {
    let one = Server::start(vec![says("Cheap.")]).await;
    let place = workspace(&one, None);
    place.set(
        "configs/inference.json",
        "/budget",
        json!({ "day_usd_max": 5 }),
    );
    let price = json!({ "provider": "compat:one", "model": "m1", "input": 1, "output": 1 });
    place.write_json(
        "configs/prices.json",
        &json!({ "version": "test", "prices": [price] }),
    );
    let app = ready(place, &json!({ "model": "large" })).await;
    let run = work(&app).await;
    let row = app
        .row(
            "SELECT state, error_class, error_message FROM runs WHERE id = $1",
            &run,
        )
        .await;
    assert_eq!(
        (row[0].as_deref(), row[1].as_deref()),
        (Some("failed"), Some("config")),
        "{row:?}"
    );
    assert!(
        row[2]
            .as_deref()
            .unwrap_or_default()
            .contains("what `large` of `compat:one` costs"),
        "{row:?}"
    );
    assert_eq!(
        one.seen().len(),
        0,
        "nobody is asked whose price nobody knows"
    );
}

#[test]
fn what_a_responsibility_asks_for_is_looked_at_before_it_is_due() {
    let schedule = |front: &str| {
        format!("---\nname: Report\nschedule: \"0 9 * * *\"\n{front}---\n\nWhat came in?\n")
    };
    let own = "provider: openai\nmodel: gpt-x\n";
    // Front matter, whether a key is there, what the check says.
    let cases = [
        ("model: test\n", true, None),
        ("model: large\n", true, None),
        (
            "model: large\nbudget_usd: 0.5\n",
            true,
            Some("what `large` of `scripted` costs"),
        ),
        (
            "budget_usd: 0.5\n",
            true,
            Some("what `test` of `scripted` costs"),
        ),
        (own, true, None),
        (own, false, Some("provider `openai` cannot be used")),
    ];
    for (front, has_key, problem) in cases {
        let place = saying(&["Never."]);
        place.set("configs/inference.json", "/providers/openai", json!({}));
        if has_key {
            place.write(".secrets", "OPENAI_API_KEY=sk-test-0123456789abcdef\n");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(place.path().join(".secrets"), mode).expect("a mode");
        }
        place.write("personas/ada/responsibilities/report.md", &schedule(front));
        let said = attache(place.path(), &["config", "check"]);
        match problem {
            None => assert!(
                said.1.contains("the configuration is good"),
                "{front}: {said:?}"
            ),
            Some(problem) => {
                let line = said.1.lines().find(|line| line.contains(problem));
                let line = line.unwrap_or_else(|| panic!("{front}: {said:?}"));
                assert!(
                    line.starts_with("personas/ada/responsibilities/report.md"),
                    "{line}"
                );
            }
        }
    }
}

/// Names of the tools of a run's first request.
async fn offered(app: &TestApp, run: &str) -> Vec<String> {
    let request = app.prompts(run).await.remove(0);
    let tools = request["tools"].as_array().expect("tools").clone();
    tools
        .iter()
        .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
        .collect()
}

fn calling(tool: &str, args: &Value) -> Workspace {
    let call = json!([{ "tool": tool, "args": args }]);
    Workspace::new(&json!({ "turns": [{ "call": call }, { "say": "Done." }, { "say": "Done." }] }))
}

#[tokio::test]
async fn only_tools_of_its_list_that_its_persona_has_too_are_offered() {
    let place = calling("read_file", &json!({ "path": "knowledge/house.md" }));
    place.set(
        "personas/ada/persona.json",
        "/tools",
        json!(["read_file", "list_files"]),
    );
    let app = ready(place, &json!({ "tools": ["send_email", "read_file"] })).await;
    let run = work(&app).await;
    assert_eq!(offered(&app, &run).await, ["read_file"]);
    assert_eq!(app.trace(&run).await, ["call read_file", "ok read_file"]);
    let letter = app
        .run_of(&note("q@guest.example", "", "When is breakfast?"))
        .await;
    app.drain().await;
    assert_eq!(
        offered(&app, &letter).await.len(),
        2,
        "letters have all that the persona has"
    );
    app.check().await;
}

#[tokio::test]
async fn a_call_of_a_tool_outside_the_list_fails_as_an_unknown_one() {
    let mail = json!({ "to": ["olga@home.test"], "subject": "Hello", "body": "Hello." });
    for (options, result) in [
        (json!({ "tools": ["read_file"] }), "unknown_tool"),
        (json!({}), "ok"),
    ] {
        let app = ready(calling("send_email", &mail), &options).await;
        let run = work(&app).await;
        assert_eq!(app.outcome(&run).await.0, "succeeded", "{options}");
        assert_eq!(
            app.trace(&run).await,
            ["call send_email".to_owned(), format!("{result} send_email")]
        );
        let is_mailed = app.sent().iter().any(|mail| mail.subject == "Hello");
        assert_eq!(is_mailed, result == "ok", "{options}");
        app.check().await;
    }
}

#[tokio::test]
async fn a_slot_keeps_the_terms_with_which_it_fired() {
    let one = Server::start(vec![says("As it was.")]).await;
    let app = ready(workspace(&one, None), &json!({ "model": "large" })).await;
    let run = fire(&app).await;
    super::set_terms(&app, &json!({ "model": "other" })).await;
    app.drain().await;
    assert_eq!(tries(&app, &run).await, ["0 compat:one/large answered"]);
    app.check().await;
}

#[tokio::test]
async fn an_agent_gets_the_tools_of_the_list_and_no_others() {
    let app = ready(saying(&["Never."]), &json!({ "tools": ["read_file"] })).await;
    let run = fire(&app).await;
    assert_eq!(
        app.engine
            .store
            .claim_runs(1, 1)
            .await
            .expect("a claim")
            .len(),
        1
    );
    let mut agent = Client::ready(app.workspace.path(), &run).await;
    let said = agent.request("tools/list", json!({})).await;
    let tools = said["result"]["tools"].as_array().expect("a list");
    let names: Vec<_> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert_eq!(names, ["read_file"]);
    let (failed, said) = agent.call("list_files", json!({})).await;
    assert!(failed && said["error"]["code"] == "unknown_tool", "{said}");
    let (failed, said) = agent
        .call("read_file", json!({ "path": "knowledge/house.md" }))
        .await;
    assert!(
        !failed && said.to_string().contains("From seven to ten"),
        "{said}"
    );
    agent.end().await;
}
