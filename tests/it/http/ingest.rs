//! Letters over HTTP, by a key. It is checked, each answer says whether to come again, and a
//! letter proves its sender by its own bytes.

use super::site::{Page, Site};
use crate::app::db;
use crate::approvals::scene::CONTACT;
use attache::store::{NewWebToken, PowerCut, WebScope};
use serde_json::{Value, json};
use std::time::Duration;

async fn site() -> Site {
    site_with(json!({})).await
}

async fn site_with(ingest: Value) -> Site {
    Site::configured(
        &json!({ "rules": [{ "say": "From seven to ten." }] }),
        |workspace| {
            workspace.persona("cy", "Cy");
            workspace.set("configs/gateway.json", "/ingest", ingest);
        },
    )
    .await
}

/// Makes a key and gives its secret.
pub async fn key(site: &Site, scope: &str) -> String {
    let store = &site.scene.world.app.engine.store;
    let secret = format!("att_{}", store.clock().new_secret());
    let new = NewWebToken {
        name: "a front door".to_owned(),
        scopes: vec![WebScope::parse(scope).expect("a scope")],
        created_by: "uid 0".to_owned(),
        expires_at: store.clock().now().plus(Duration::from_secs(3600)),
        secret: secret.clone(),
    };
    store.add_web_token(new).await.expect("a key");
    secret
}

fn plain(id: &str) -> String {
    format!(
        "From: Bob <bob@guest.example>\r\nTo: ada@engine.test\r\nSubject: Breakfast\r\nMessage-ID: <{id}@x.test>\r\n\r\nWhen?\r\n"
    )
}

async fn by_key(site: &Site, secret: &str, more: &[(&str, &str)], letter: &str) -> Page {
    let bearer = format!("Bearer {secret}");
    let mut headers = vec![
        ("authorization", bearer.as_str()),
        ("content-type", "message/rfc822"),
    ];
    headers.extend_from_slice(more);
    let body = letter.as_bytes().to_vec();
    site.send_bytes("/ingest/ada", &headers, body).await
}

/// The columns by which a letter is known, of the message with this Message-ID.
async fn stored(site: &Site, id: &str) -> Vec<Option<String>> {
    let sql = "SELECT m.persona_id, m.trust, r.envelope_json FROM messages m JOIN raw_letters r ON r.id = m.raw_id WHERE m.message_id = $1";
    let id = format!("{id}@x.test");
    site.scene.world.app.row(sql, &id).await
}

async fn letters(site: &Site) -> i64 {
    let mut rows = site.scene.world.app.workspace.rows().await;
    let sql = "SELECT count(*) FROM messages WHERE direction = 'inbound'";
    db::query_scalar(sql)
        .fetch_one(&mut rows)
        .await
        .expect("a count")
}

#[tokio::test]
async fn a_letter_by_a_key_is_stored_and_answered_and_a_retry_is_harmless() {
    let site = site().await;
    let secret = key(&site, "ingest:ada").await;
    let envelope = [
        ("x-mail-from", "<carol+1@partner.test>"),
        ("x-rcpt-to", "ada@engine.test"),
    ];
    let letter = site
        .scene
        .signed(CONTACT, "ada@engine.test", "h1", "", "When is breakfast?");
    let answer = by_key(&site, &secret, &envelope, &letter).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let copy = answer.json()["copies"][0].clone();
    assert_eq!(
        (&copy["persona"], &copy["outcome"]),
        (&json!("ada"), &json!("run"))
    );
    assert!(copy["run"].is_string() && copy["message"].is_string());
    let again = by_key(&site, &secret, &envelope, &letter).await;
    assert_eq!(again.status, 200);
    assert_eq!(again.json()["copies"][0]["outcome"], "duplicate");
    // The signature over the bytes proves the sender, as by SMTP.
    let row = stored(&site, "h1").await;
    assert_eq!(row[1].as_deref(), Some("contact"), "{row:?}");
    let envelope = row[2].clone().expect("an envelope");
    assert!(envelope.contains("carol+1@partner.test"), "{envelope}");
    assert!(envelope.contains("\"http\""), "{envelope}");
    site.scene.world.app.drain().await;
    let answers = site.scene.world.app.sent();
    assert_eq!(answers.len(), 1, "answered once");
    // Line ends of Unix, and no Message-ID: the same letter stays a duplicate.
    let bare = "From: bob@guest.example\nTo: ada@engine.test\nSubject: x\n\nWhen?\n";
    for outcome in ["filed", "duplicate"] {
        let answer = by_key(&site, &secret, &[], bare).await;
        assert_eq!(
            answer.json()["copies"][0]["outcome"],
            outcome,
            "{}",
            answer.body
        );
    }
    site.scene.world.app.drain().await;
    site.scene.world.app.check().await;
}

#[tokio::test]
async fn a_key_brings_letters_for_its_persona_and_for_no_other() {
    let site = site().await;
    let (own, other) = (
        key(&site, "ingest:ada").await,
        key(&site, "ingest:cy").await,
    );
    let reading = key(&site, "read").await;
    let before = letters(&site).await;
    for (secret, more, status) in [
        (&other, &[][..], 403),
        (&reading, &[][..], 403),
        (&"att_0000".to_owned(), &[][..], 401),
        (&own, &[("x-rcpt-to", "cy@engine.test")][..], 403),
        (&own, &[("x-rcpt-to", "nobody@engine.test")][..], 403),
        (&own, &[("x-rcpt-to", "anna@elsewhere.test")][..], 403),
        (&own, &[("x-rcpt-to", "no address")][..], 400),
        (&own, &[("x-mail-from", "no address")][..], 400),
    ] {
        let answer = by_key(&site, secret, more, &plain("n1")).await;
        assert_eq!(answer.status, status, "{more:?}: {}", answer.body);
    }
    let bearer = format!("Bearer {own}");
    for (path, kind, status) in [
        ("/ingest/ada", "text/plain", 400),
        ("/ingest/cy", "message/rfc822", 403),
        ("/ingest/nobody", "message/rfc822", 403),
        ("/ingest/ADA%20", "message/rfc822", 404),
    ] {
        let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
        let answer = site
            .send_bytes(path, &headers, plain("n1").into_bytes())
            .await;
        assert_eq!(answer.status, status, "{path} {kind}: {}", answer.body);
    }
    assert_eq!(letters(&site).await, before, "a refused letter was stored");
    // The control. A letter that names another persona comes to the one of the path.
    let to_cy = plain("n1").replace("ada@engine.test", "cy@engine.test");
    let answer = by_key(&site, &own, &[], &to_cy).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["copies"][0]["persona"], "ada");
}

#[tokio::test]
async fn each_answer_says_whether_to_come_again() {
    let site = site().await;
    let secret = key(&site, "ingest:ada").await;
    let limit = site.scene.world.app.engine.config.limits.letter_bytes_max;
    let large = format!("{}{}", plain("n1"), "x".repeat(limit));
    let answer = by_key(&site, &secret, &[], &large).await;
    assert_eq!(answer.status, 413, "{}", answer.body);
    assert_eq!(answer.json()["error"]["retryable"], false);
    let mbox = format!(
        "From a@b.test Fri Nov 20 09:00:00 2026\r\n{0}\r\nFrom a@b.test Fri Nov 20 09:00:00 2026\r\n{0}",
        plain("n1")
    );
    let answer = by_key(&site, &secret, &[], &mbox).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    // The disk fails at the commit: nothing is stored, and the caller keeps the letter.
    site.scene
        .world
        .app
        .engine
        .store
        .cut_power(PowerCut::BeforeCommit(0));
    let failed = by_key(&site, &secret, &[], &plain("n2")).await;
    assert_eq!(failed.status, 503, "{}", failed.body);
    assert_eq!(failed.header("retry-after"), "60");
    assert_eq!(failed.json()["error"]["retryable"], true);
    assert_eq!(letters(&site).await, 0);
}

#[tokio::test]
async fn results_of_a_server_are_believed_where_the_configuration_names_it() {
    let result = "Authentication-Results: mx.front.test; dkim=pass header.d=partner.test\r\n";
    for (ingest, trust) in [
        (json!({ "authserv_id": "mx.front.test" }), "contact"),
        (json!({ "authserv_id": "mx.other.test" }), "unauthenticated"),
        (json!({}), "unauthenticated"),
    ] {
        let site = site_with(ingest.clone()).await;
        let secret = key(&site, "ingest:ada").await;
        let date = site.scene.world.now().to_utc().to_rfc2822();
        let letter = plain("a1").replace("bob@guest.example", "carol@partner.test");
        let letter = format!("{result}Date: {date}\r\n{letter}");
        let answer = by_key(&site, &secret, &[], &letter).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let row = stored(&site, "a1").await;
        assert_eq!(row[1].as_deref(), Some(trust), "{ingest}");
    }
}

/// What no longer exists is answered as any unknown path, and reads no body.
#[tokio::test]
async fn forms_of_single_providers_are_not_taken() {
    let site = site_with(json!({})).await;
    let secret = key(&site, "ingest:ada").await;
    let bearer = format!("Bearer {secret}");
    let form = ("content-type", "application/x-www-form-urlencoded");
    for (path, headers, status) in [
        ("/ingest/mailgun", vec![form], 401),
        ("/ingest/mailgun/mime", vec![form], 404),
        (
            "/ingest/postmark",
            vec![("content-type", "application/json")],
            401,
        ),
        // They are names of personas like any other.
        (
            "/ingest/mailgun",
            vec![("authorization", bearer.as_str()), form],
            403,
        ),
        (
            "/ingest/ada",
            vec![("authorization", bearer.as_str()), form],
            400,
        ),
        (
            "/ingest/ada",
            vec![
                ("authorization", bearer.as_str()),
                ("content-type", "application/json"),
            ],
            400,
        ),
    ] {
        let answer = site
            .send_bytes(path, &headers, b"body-mime=x".to_vec())
            .await;
        assert_eq!(answer.status, status, "{path} {headers:?}: {}", answer.body);
    }
    assert_eq!(letters(&site).await, 0);
}

/// The guide's lines, on an engine that serves.
#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_the_guide_hand_a_letter_in() {
    if std::process::Command::new("curl")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("SKIPPED: no curl");
        return;
    }
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/receive-http.md");
    let page = std::fs::read_to_string(page).expect("the guide");
    let lines: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("$ curl "))
        .collect();
    assert!(lines.len() >= 2, "{lines:?}");
    let site = site().await;
    let secret = key(&site, "ingest:ada").await;
    let folder = tempfile::tempdir().expect("a folder");
    let letter = site
        .scene
        .signed(CONTACT, "ada@engine.test", "g1", "", "When?");
    std::fs::write(folder.path().join("letter.eml"), letter).expect("a letter");
    let mut outcomes = Vec::new();
    for line in lines {
        let line = line
            .replace("http://127.0.0.1:8025", &site.origin())
            .replace("porter@guesthouse.example", "ada@engine.test")
            .replace("/ingest/porter", "/ingest/ada");
        let (folder, secret) = (folder.path().to_owned(), secret.clone());
        let run = tokio::task::spawn_blocking(move || {
            std::process::Command::new("sh")
                .args(["-c", &format!("curl --noproxy '*' {line}")])
                .current_dir(folder)
                .env("KEY", secret)
                .output()
        });
        let output = run.await.expect("no panic").expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text} {complaint}");
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        outcomes.push(answer["copies"][0]["outcome"].as_str().map(str::to_owned));
    }
    let expected = ["run", "duplicate"].map(|word| Some(word.to_owned()));
    assert_eq!(outcomes, expected);
}
