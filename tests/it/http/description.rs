//! The description of the API: every path of it, as the table of routes has them.

use super::site::Site;
use attache::http::{ROUTES, RouteAccess, RouteMethod};
use reqwest::Method;
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
    // Besides them: whether it lives, and whether it takes letters.
    assert_eq!(count, own.count() + 2);
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
    for path in ["/healthz", "/readyz"] {
        let answer = site.send(Method::GET, path, &[], &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let ready = site.send(Method::GET, "/readyz", &[], &[]).await.json();
    assert_eq!(
        (&ready["ready"], &ready["database"]),
        (&true.into(), &true.into())
    );
}
