//! The description of the API: every path of it, as the table of routes has them.

use super::site::{Login, Site};
use attache::http::{ROUTES, RouteAccess, RouteMethod};
use reqwest::Method;
use serde_json::Value;
use std::collections::BTreeSet;

#[tokio::test]
async fn every_path_of_the_api_is_described_and_nothing_else() {
    let site = Site::start().await;
    let answer = site
        .send(Method::GET, "/api/v1/openapi.json", &[], &[])
        .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let described = answer.json();
    assert_eq!(described["openapi"], "3.1.1");
    let mut ids = BTreeSet::new();
    let mut count = 0;
    for (path, operations) in described["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            count += 1;
            let id = operation["operationId"].as_str().expect("an id");
            assert!(ids.insert(id.to_owned()), "{id} twice");
            assert!(
                !operation["summary"].as_str().expect("words").is_empty(),
                "{path}"
            );
            let route = ROUTES.iter().find(|route| {
                route.path == path && (route.method == RouteMethod::Get) == (method == "get")
            });
            let route = route.unwrap_or_else(|| panic!("{method} {path} is no route"));
            let ways = operation["security"].as_array().expect("ways").len();
            assert_eq!(ways == 0, route.access == RouteAccess::Anyone, "{path}");
            let holes = path.matches('{').count();
            let parameters = operation["parameters"].as_array();
            let in_path = parameters.map_or(0, |parameters| {
                let is_in_path = |one: &&serde_json::Value| one["in"] == "path";
                parameters.iter().filter(is_in_path).count()
            });
            assert_eq!(in_path, holes, "{path}");
        }
    }
    let own = ROUTES
        .iter()
        .filter(|route| route.path.starts_with("/api/v1/"));
    // Besides them: whether it lives, whether it takes letters, and numbers.
    assert_eq!(count, own.count() + 3);
}

#[tokio::test]
async fn words_that_a_path_does_not_know_are_refused_with_those_it_knows() {
    let site = Site::start().await;
    let login = site.login().await;
    let wrong = site.get(&login, "/api/v1/runs?stat=failed").await;
    assert_eq!(wrong.status, 400);
    assert!(
        wrong
            .body
            .contains("no word `stat` here; there are: persona, state"),
        "{}",
        wrong.body
    );
    let none = site.get(&login, "/api/v1/personas?x=1").await;
    assert!(none.body.contains("there is none"), "{}", none.body);
    for path in ["/livez", "/readyz"] {
        let answer = site.send(Method::GET, path, &[], &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let ready = site.send(Method::GET, "/readyz", &[], &[]).await.json();
    assert_eq!(
        (&ready["ready"], &ready["database"]),
        (&true.into(), &true.into())
    );
}

/// Paths that a read may take in a workspace with one thread, run, question and entry, and the path of the table.
async fn paths(site: &Site, login: &Login) -> Vec<(&'static str, String)> {
    let first = async |list: &str| {
        let items = site.get(login, list).await.json();
        items["items"][0]["id"]
            .as_str()
            .unwrap_or("none")
            .to_owned()
    };
    let run = first("/api/v1/runs").await;
    let app = &site.scene.world.app;
    let message = "SELECT trigger_message_id FROM runs WHERE id = $1";
    let message = app.row(message, &run).await[0].clone().expect("a message");
    let (thread, question) = (
        first("/api/v1/conversations").await,
        first("/api/v1/approvals").await,
    );
    let mut paths = vec![
        ("/api/v1/threads/{id}", format!("/api/v1/threads/{thread}")),
        ("/api/v1/runs/{id}", format!("/api/v1/runs/{run}")),
        (
            "/api/v1/runs/{id}/context",
            format!("/api/v1/runs/{run}/context"),
        ),
        (
            "/api/v1/messages/{id}",
            format!("/api/v1/messages/{message}"),
        ),
        (
            "/api/v1/approvals/{id}",
            format!("/api/v1/approvals/{question}"),
        ),
        (
            "/api/v1/approvals/{id}/rule",
            format!("/api/v1/approvals/{question}/rule"),
        ),
        (
            "/api/v1/personas/{id}/file",
            "/api/v1/personas/ada/file?name=PERSONA.md".to_owned(),
        ),
    ];
    let without_holes = ROUTES.iter().filter(|route| {
        let is_read = route.method == RouteMethod::Get && route.access == RouteAccess::Read;
        let is_record = route.path.starts_with("/api/v1/") && route.path != "/api/v1/events";
        is_read && is_record && !route.path.contains('{')
    });
    paths.extend(without_holes.map(|route| (route.path, route.path.to_owned())));
    paths
}

/// Lets a schema refuse members that it does not name, where it names some. Members that it has by cases stand in the cases, each
/// of which knows its own only.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let names_some = members.contains_key("properties");
            if names_some {
                members.insert("unevaluatedProperties".to_owned(), false.into());
            }
            for (name, value) in members.iter_mut() {
                let is_cases = ["oneOf", "anyOf", "allOf"].contains(&name.as_str());
                if !(names_some && is_cases) {
                    strict(value);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(strict),
        _ => {}
    }
}

/// Returns what an answer has that its description does not let it have.
fn problems(described: &Value, path: &str, method: &str, answer: &Value) -> Vec<String> {
    let content = &described["paths"][path][method]["responses"]["200"]["content"];
    let mut schema = content["application/json"]["schema"].clone();
    assert!(
        schema.is_object(),
        "{method} {path} says nothing of its answer"
    );
    schema["components"] = described["components"].clone();
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    validator
        .iter_errors(answer)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[tokio::test]
async fn answers_have_the_members_that_the_description_names() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let described = site.get(&login, "/api/v1/openapi.json").await.json();
    let mut lists_with_items = 0;
    for (path, asked) in paths(&site, &login).await {
        let answer = site.get(&login, &asked).await;
        assert_eq!(answer.status, 200, "{asked}: {}", answer.body);
        let answer = answer.json();
        let found = problems(&described, path, "get", &answer);
        assert!(found.is_empty(), "{path}: {found:#?}\n{answer:#}");
        lists_with_items += usize::from(!answer["items"][0].is_null());
        // The control: a member more, and one less.
        if path == "/api/v1/runs" {
            let mut wrong = answer.clone();
            wrong["items"][0]["more"] = true.into();
            assert_eq!(problems(&described, path, "get", &wrong).len(), 1);
            let first = wrong["items"][0].as_object_mut().expect("a run");
            first.remove("state");
            assert_eq!(problems(&described, path, "get", &wrong).len(), 2);
        }
    }
    assert!(lists_with_items >= 4, "{lists_with_items}");
}
