//! The API for programs: the bytes of `--json`, keys with scopes and ends, errors that a program can read.

use super::site::{Page, Site};
use crate::app::db;
use crate::approvals::scene::CONTACT;
use crate::notices::refused_login;
use attache::store::{NewNotice, NewWebToken, WebScope};
use reqwest::Method;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Makes a key as the command line does; gives its id and its secret.
/// A key that reads, with its id; it is good for this many days.
pub async fn key(site: &Site, days: u64) -> (String, String) {
    let store = &site.scene.world.app.engine.store;
    let secret = format!("att_{}", store.clock().new_secret());
    let new = NewWebToken {
        name: "a test".to_owned(),
        scopes: vec![WebScope::READ],
        created_by: "uid 0".to_owned(),
        expires_at: store
            .clock()
            .now()
            .plus(Duration::from_secs(days * 24 * 3600)),
        secret: secret.clone(),
    };
    (store.add_web_token(new).await.expect("a key"), secret)
}

async fn get(site: &Site, secret: &str, path: &str) -> Page {
    let bearer = format!("Bearer {secret}");
    site.send(
        Method::GET,
        path,
        &[("authorization", bearer.as_str())],
        &[],
    )
    .await
}

/// What the command line prints.
fn printed(site: &Site, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .arg("--workspace")
        .arg(site.scene.world.app.workspace.path())
        .arg("--json")
        .args(args);
    let done = command.output().expect("the binary");
    assert!(
        done.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8(done.stdout).expect("text")
}

#[tokio::test]
#[ignore = "second tier"]
async fn records_are_the_bytes_of_the_command_line() {
    let site = Site::start().await;
    let run = site.scene.writes(CONTACT, "l1", "").await;
    let question = site.scene.approves().await;
    let app = &site.scene.world.app;
    let thread = app
        .row("SELECT thread_id FROM runs WHERE id = $1", &run)
        .await[0]
        .clone()
        .expect("a thread");
    let (_, secret) = key(&site, 1).await;
    for (path, args) in [
        (format!("/api/v1/runs/{run}"), vec!["runs", "show", &run]),
        (
            format!("/api/v1/threads/{thread}?limit=100"),
            vec!["threads", "show", &thread],
        ),
        (
            format!("/api/v1/approvals/{question}"),
            vec!["approvals", "show", &question],
        ),
    ] {
        let answer = get(&site, &secret, &path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(answer.body, printed(&site, &args), "{path}");
    }
    for (path, args) in [
        ("/api/v1/runs", vec!["runs", "list"]),
        ("/api/v1/approvals", vec!["approvals", "history"]),
        ("/api/v1/deliveries", vec!["outbox", "list", "--all"]),
        ("/api/v1/notices", vec!["notices", "list"]),
        ("/api/v1/memory", vec!["memory", "list", "--all"]),
        ("/api/v1/personas", vec!["persona", "list"]),
    ] {
        let answer = get(&site, &secret, path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let listed: Value = serde_json::from_str(&printed(&site, &args)).expect("json");
        assert_eq!(answer.json()["items"], listed, "{path}");
    }
    let conversations = get(&site, &secret, "/api/v1/conversations?limit=1")
        .await
        .json();
    assert_eq!(conversations["items"][0]["subject"], "Tuesday");
    assert_eq!(conversations["items"][0]["run"]["state"], "succeeded");
    let usage = get(&site, &secret, "/api/v1/usage?by=model").await.json();
    assert_eq!(usage["sums"][0]["what"], "scripted/test");
    for path in [
        format!("/api/v1/runs/{run}/context"),
        "/api/v1/slots".to_owned(),
        "/livez".to_owned(),
    ] {
        assert_eq!(get(&site, &secret, &path).await.status, 200, "{path}");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_key_is_good_until_it_ends_or_is_revoked_and_changes_nothing() {
    let site = Site::with_a_question().await;
    let store = &site.scene.world.app.engine.store;
    let clock = &site.scene.world.app.workspace.clock;
    let (id, secret) = key(&site, 2).await;
    assert_eq!(get(&site, &secret, "/api/v1/runs").await.status, 200);
    let before = site.database().await;
    assert_eq!(get(&site, &secret, "/api/v1/runs").await.status, 200);
    assert!(
        site.database().await == before,
        "its use was noted a moment ago"
    );
    for wrong in [
        secret.to_ascii_uppercase(),
        secret[..20].to_owned(),
        format!("{secret}0"),
        String::new(),
    ] {
        let answer = get(&site, &wrong, "/api/v1/runs").await;
        assert_eq!(answer.status, 401, "{wrong}");
        assert_eq!(answer.json()["error"]["code"], "unauthorized");
    }
    // A key opens no page and decides nothing.
    for path in ["/", "/approvals"] {
        assert_eq!(get(&site, &secret, path).await.status, 403, "{path}");
    }
    let question = &site.scene.open().await[0];
    let bearer = format!("Bearer {secret}");
    let path = format!("/approvals/{}/approve", question.id);
    let form = [("sha256", question.sha256.as_str())];
    let decided = site
        .send(
            Method::POST,
            &path,
            &[("authorization", bearer.as_str())],
            &form,
        )
        .await;
    assert_eq!(decided.status, 403);
    let (other, _) = key(&site, 2).await;
    assert!(
        store
            .revoke_web_token(&other, "cli")
            .await
            .expect("revoked")
    );
    clock.advance(Duration::from_secs(2 * 24 * 3600));
    assert_eq!(
        get(&site, &secret, "/api/v1/runs").await.status,
        401,
        "over"
    );
    let (id2, secret2) = key(&site, 2).await;
    assert_ne!(id, id2);
    clock.advance(Duration::from_secs(61));
    assert_eq!(get(&site, &secret2, "/api/v1/runs").await.status, 200);
    assert!(store.revoke_web_token(&id2, "cli").await.expect("revoked"));
    assert_eq!(
        get(&site, &secret2, "/api/v1/runs").await.status,
        401,
        "revoked"
    );
}

#[tokio::test]
async fn whoever_guesses_keys_waits_and_a_good_key_does_not() {
    let site = Site::start().await;
    let (_, secret) = key(&site, 2).await;
    for _ in 0..10 {
        assert_eq!(get(&site, "att_0", "/api/v1/runs").await.status, 401);
    }
    let answer = get(&site, "att_0", "/api/v1/runs").await;
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert_eq!(answer.json()["error"]["retryable"], true);
    assert_eq!(get(&site, &secret, "/api/v1/runs").await.status, 200);
}

#[tokio::test]
async fn errors_name_what_is_wrong_and_reads_have_tags() {
    let site = Site::start().await;
    site.scene.writes(CONTACT, "l1", "").await;
    let login = site.login().await;
    for (path, status, code) in [
        ("/api/v1/runs?colour=red", 400, "invalid_request"),
        ("/api/v1/runs?limit=0", 400, "invalid_request"),
        ("/api/v1/runs?state=asleep", 400, "invalid_request"),
        ("/api/v1/conversations?cursor=x", 400, "invalid_request"),
        ("/api/v1/runs/00000000", 404, "not_found"),
        ("/api/v1/threads/x", 404, "not_found"),
        ("/api/v1/nothing", 404, "not_found"),
    ] {
        let answer = site.get(&login, path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        let error = &answer.json()["error"];
        assert_eq!(error["code"], code, "{path}");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{path}"
        );
    }
    let first = site.get(&login, "/api/v1/runs").await;
    let tag = first.header("etag").to_owned();
    assert!(!tag.is_empty());
    let headers = [
        ("cookie", login.cookie.as_str()),
        ("if-none-match", tag.as_str()),
    ];
    let again = site.send(Method::GET, "/api/v1/runs", &headers, &[]).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let page = site.get(&login, "/api/v1/runs?limit=1").await.json();
    assert_eq!(page["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(page["next"], Value::Null);
}

/// A site whose lists have two items at least.
async fn with_lists() -> Site {
    let site = Site::with_a_question().await;
    site.scene.writes(CONTACT, "l2", "").await;
    let (app, clock) = (&site.scene.world.app, &site.scene.world.app.workspace.clock);
    let duty = "---\nname: Count\nschedule: 0 7 * * 1\n---\nCount the kettles.\n";
    app.workspace
        .write("personas/ada/responsibilities/count.md", duty);
    let scheduler = app.engine.web_parts().scheduler;
    scheduler.sync().await.expect("the file is read");
    let rows = app.engine.store.responsibilities().await.expect("rows");
    let remember = "INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust,
          readers_json, audience_json, said_by, said_at, created_at, created_by, confirmed_at)
        SELECT $1, persona_id, scope, scope_key, $2, kind, text, text_sha256, status, trust, readers_json, audience_json,
          said_by, said_at, created_at, created_by, confirmed_at FROM memory LIMIT 1";
    for number in 0..3 {
        let notice = NewNotice {
            detail: format!("host{number}"),
            ..refused_login(&format!("n{number}"), &number.to_string())
        };
        let emitted = app.engine.store.emit_notice(notice).await;
        assert!(emitted.expect("a notice"));
        clock.advance(Duration::from_secs(60));
        scheduler.start(&rows[0]).await.expect("a run");
        app.drain().await;
        let remember = db::query(remember)
            .bind(format!("more-{number}"))
            .bind(number + 2);
        let mut rows = app.workspace.rows().await;
        remember.execute(&mut rows).await.expect("an entry");
    }
    site
}

/// Reads a list item by item.
async fn by_cursor(site: &Site, secret: &str, list: &str, most: usize) -> Vec<Value> {
    let (mut read, mut cursor) = (Vec::new(), String::new());
    while read.len() <= most {
        let query: String = form_urlencoded::byte_serialize(cursor.as_bytes()).collect();
        let path = format!("/api/v1/{list}limit=1&cursor={query}");
        let part = get(site, secret, &path).await.json();
        read.extend(part["items"].as_array().expect("items").clone());
        match part["next"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return read,
        }
    }
    panic!("{list} goes on for ever");
}

#[tokio::test]
async fn every_list_is_read_to_its_end_by_its_cursor() {
    let site = with_lists().await;
    let (_, secret) = key(&site, 1).await;
    for (list, refuses) in [
        ("conversations?", false),
        ("runs?", false),
        ("slots?", false),
        ("approvals?", true),
        ("approvals?state=open&", true),
        ("deliveries?", true),
        ("notices?", true),
        ("memory?", true),
    ] {
        let whole = get(&site, &secret, &format!("/api/v1/{list}limit=500")).await;
        let whole = whole.json()["items"].as_array().expect("items").clone();
        assert!(whole.len() >= 2, "{list}: {whole:?}");
        assert_eq!(
            by_cursor(&site, &secret, list, whole.len()).await,
            whole,
            "{list}"
        );
        if refuses {
            let wrong = get(&site, &secret, &format!("/api/v1/{list}cursor=nothing")).await;
            assert_eq!(wrong.status, 404, "{list}: {}", wrong.body);
        }
    }
}
