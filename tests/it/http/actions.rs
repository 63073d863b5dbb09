//! Actions of the API: the same handlers as the pages', once for each `Idempotency-Key`, and none that an owner decides by a key.

use super::site::Site;
use crate::app::db;
use crate::approvals::scene::CONTACT;
use attache::http::{ROUTES, RouteAccess, RouteMethod};
use reqwest::Method;
use serde_json::{Value, json};

/// Makes a key with these scopes.
async fn key(site: &Site, scopes: &[&str]) -> String {
    let secret = site.key(scopes).await;
    format!("Bearer {secret}")
}

/// The run that waits for its owner.
async fn waiting_run(site: &Site) -> String {
    site.scene.writes(CONTACT, "l1", "").await;
    let sql = "SELECT id FROM runs WHERE state = $1";
    let row = site.scene.world.app.row(sql, "waiting_approval").await;
    row[0].clone().expect("a run")
}

#[tokio::test]
async fn a_key_cancels_a_run_once_however_often_it_asks() {
    let site = Site::start().await;
    let id = waiting_run(&site).await;
    let key = key(&site, &["admin"]).await;
    let path = format!("/api/v1/runs/{id}/cancel");
    let headers = [("authorization", key.as_str()), ("idempotency-key", "one")];
    let first = site.json(Method::POST, &path, &headers, &json!({})).await;
    assert_eq!(first.status, 200, "{}", first.body);
    assert_eq!(first.json(), json!({ "run": id, "outcome": "cancelled" }));
    let before = site.database().await;
    let again = site.json(Method::POST, &path, &headers, &json!({})).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    // The control: without the key, the second request finds a run that has ended.
    let bare = [("authorization", key.as_str())];
    let without = site.json(Method::POST, &path, &bare, &json!({})).await;
    assert_eq!(without.status, 409, "{}", without.body);
    assert!(
        site.database().await == before,
        "a second request changed something"
    );
    let retry = format!("/api/v1/runs/{id}/retry");
    let other = site.json(Method::POST, &retry, &headers, &json!({})).await;
    assert_eq!(other.status, 409, "{}", other.body);
    assert!(other.body.contains("another request"), "{}", other.body);
}

#[tokio::test]
async fn a_refused_request_frees_its_key_and_one_without_an_answer_does_not() {
    let site = Site::start().await;
    let id = waiting_run(&site).await;
    let key = key(&site, &["admin"]).await;
    let headers = [("authorization", key.as_str()), ("idempotency-key", "k")];
    let retry = format!("/api/v1/runs/{id}/retry");
    for _ in 0..2 {
        let refused = site.json(Method::POST, &retry, &headers, &json!({})).await;
        assert_eq!(refused.status, 409);
        assert!(refused.body.contains("can be retried"), "{}", refused.body);
    }
    let cancel = format!("/api/v1/runs/{id}/cancel");
    let done = site.json(Method::POST, &cancel, &headers, &json!({})).await;
    assert_eq!(done.status, 200, "{}", done.body);
    // As after a crash between the change and the answer.
    let mut rows = site.scene.world.app.workspace.rows().await;
    let forget = db::query("UPDATE api_calls SET answer = NULL");
    forget.execute(&mut rows).await.expect("a crash");
    let unknown = site.json(Method::POST, &cancel, &headers, &json!({})).await;
    assert_eq!(unknown.status, 409);
    assert!(unknown.body.contains("not known"), "{}", unknown.body);
}

#[tokio::test]
async fn no_key_decides_what_its_owner_decides() {
    let site = Site::with_a_question().await;
    let everything = key(
        &site,
        &["read", "admin", "chat:ada", "send:ada", "ingest:ada"],
    )
    .await;
    let question = site.scene.open().await.remove(0).id;
    let before = site.database().await;
    let mut tried = 0;
    for route in ROUTES {
        let is_owners = route.method == RouteMethod::Post && route.access == RouteAccess::Session;
        if !is_owners {
            continue;
        }
        let path = route.path.replace("{id}", &question);
        let headers = [("authorization", everything.as_str())];
        let body = json!({ "sha256": "x", "words": "yes" });
        let answer = site.json(Method::POST, &path, &headers, &body).await;
        assert_eq!(answer.status, 403, "{}: {}", route.path, answer.body);
        tried += 1;
    }
    assert!(tried >= 20, "{tried}");
    assert!(site.database().await == before, "a key decided something");
}

#[tokio::test]
async fn a_session_decides_by_json_with_its_token_in_the_header() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let question = site.scene.open().await.remove(0).id;
    let path = format!("/api/v1/approvals/{question}");
    let shown = site.get(&login, &path).await.json();
    let origin = site.origin();
    let own = [
        ("cookie", login.cookie.as_str()),
        ("origin", origin.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    let body = json!({ "sha256": shown["sha256"], "words": "not today" });
    let reject = format!("{path}/reject");
    let without = site.json(Method::POST, &reject, &own, &body).await;
    assert_eq!(without.status, 403, "{}", without.body);
    let with = [
        own.as_slice(),
        &[("x-form-token", login.form_token.as_str())],
    ]
    .concat();
    let done = site.json(Method::POST, &reject, &with, &body).await;
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(done.json(), json!({ "id": question, "state": "rejected" }));
}

#[tokio::test]
async fn bodies_that_are_no_object_are_refused_with_what_would_do() {
    let site = Site::start().await;
    let key = key(&site, &["admin"]).await;
    let headers = [("authorization", key.as_str())];
    let path = "/api/v1/halt";
    for (body, says) in [
        (json!([]), "no JSON"),
        (json!({ "reason": {} }), "`reason` is to be a text"),
        (json!({ "persona": "nobody" }), "no such persona"),
    ] {
        let answer = site.json(Method::POST, path, &headers, &body).await;
        assert!(matches!(answer.status, 400 | 404), "{body}");
        assert!(answer.body.contains(says), "{}", answer.body);
    }
    let form = site.send(Method::POST, path, &headers, &[]).await;
    assert!(form.body.contains("application/json"), "{}", form.body);
    let halted = site
        .json(
            Method::POST,
            path,
            &headers,
            &json!({ "persona": "ada", "reason": "a test" }),
        )
        .await;
    let halts: Value = halted.json();
    assert_eq!(halts[0]["persona"], "ada", "{halts}");
}
