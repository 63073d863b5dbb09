//! Letters over HTTP: by a key, by Mailgun, by Postmark. Each proof is checked, each answer says whether to come again, and a
//! letter proves its sender by its own bytes.

use super::site::{Page, Site};
use crate::app::db;
use crate::approvals::scene::CONTACT;
use crate::webhooks::receiver::hmac_sha256;
use attache::domain::Timestamp;
use attache::store::{NewWebToken, PowerCut, WebScope};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const SIGNING_KEY: &str = "mailgun-signing-key";
const PASSWORD: &str = "postmark-password";

async fn site() -> Site {
    site_with(json!({
        "mailgun": { "signing_key_variable": "MAILGUN_SIGNING_KEY" },
        "postmark": { "user": "postmark", "password_variable": "POSTMARK_PASSWORD" },
    }))
    .await
}

async fn site_with(ingest: Value) -> Site {
    Site::configured(
        &json!({ "rules": [{ "say": "From seven to ten." }] }),
        |workspace| {
            workspace.persona("cy", "Cy");
            let of = |door: &str, line: &str| match ingest.get(door) {
                Some(_) => format!("{line}\n"),
                None => String::new(),
            };
            let secrets = of("mailgun", &format!("MAILGUN_SIGNING_KEY={SIGNING_KEY}"))
                + &of("postmark", &format!("POSTMARK_PASSWORD={PASSWORD}"));
            workspace.set("configs/gateway.json", "/ingest", ingest);
            workspace.write(".secrets", &secrets);
            let path = workspace.path().join(".secrets");
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
                .expect("its mode");
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

/// A request of Mailgun's: time, token and signature as it makes them.
fn mailgun_form(at: Timestamp, token: &str, key: &str, letter: &str) -> Vec<(String, String)> {
    let timestamp = (at.as_millis() / 1000).to_string();
    let signature: String = hmac_sha256(key.as_bytes(), format!("{timestamp}{token}").as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    [
        ("recipient", "ada@engine.test"),
        ("sender", "bob@guest.example"),
        ("timestamp", &timestamp),
        ("token", token),
        ("signature", &signature),
        ("body-mime", letter),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

async fn by_mailgun(site: &Site, form: &[(String, String)]) -> Page {
    let body = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(form)
        .finish();
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    site.send_bytes("/ingest/mailgun/mime", &headers, body.into_bytes())
        .await
}

#[tokio::test]
async fn mailgun_signs_a_time_and_a_token_and_each_brings_one_letter() {
    let site = site().await;
    let now = site.scene.world.now();
    let seconds = Duration::from_secs;
    let good = |token: &str, letter: &str| mailgun_form(now, token, SIGNING_KEY, letter);
    for (form, what) in [
        (
            mailgun_form(now, "t0", "another key", &plain("m0")),
            "another key",
        ),
        (
            mailgun_form(now.minus(seconds(121)), "t0", SIGNING_KEY, &plain("m0")),
            "old",
        ),
        (
            mailgun_form(now.plus(seconds(121)), "t0", SIGNING_KEY, &plain("m0")),
            "from the future",
        ),
        (good("", &plain("m0")), "no token"),
        (Vec::new(), "nothing"),
    ] {
        assert_eq!(by_mailgun(&site, &form).await.status, 401, "{what}");
    }
    assert_eq!(letters(&site).await, 0);
    let answer = by_mailgun(&site, &good("t1", &plain("m1"))).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    // The answer was lost: the same request again.
    let again = by_mailgun(&site, &good("t1", &plain("m1"))).await;
    assert_eq!(again.json()["copies"][0]["outcome"], "duplicate");
    // Somebody saw the request, and sends another letter with its signature.
    let stolen = by_mailgun(&site, &good("t1", &plain("m2"))).await;
    assert_eq!(stolen.status, 401, "{}", stolen.body);
    assert_eq!(letters(&site).await, 1);
    // A route without `mime` at its end sends no raw letter: never again.
    let parsed: Vec<_> = good("t2", "")
        .into_iter()
        .filter(|(name, _)| name != "body-mime")
        .collect();
    assert_eq!(by_mailgun(&site, &parsed).await.status, 406);
    let mut elsewhere = good("t3", &plain("m3"));
    elsewhere[0].1 = "nobody@elsewhere.test".to_owned();
    assert_eq!(by_mailgun(&site, &elsewhere).await.status, 406);
    // As a form of parts, in bytes that are no UTF-8.
    let parts: String = good("t4", &plain("m4"))
        .iter()
        .map(|(name, value)| {
            format!("--limit\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        })
        .collect();
    let headers = [("content-type", "multipart/form-data; boundary=limit")];
    let body = format!("{parts}--limit--\r\n").into_bytes();
    let answer = site.send_bytes("/ingest/mailgun", &headers, body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let row = stored(&site, "m4").await;
    assert!(
        row[2]
            .as_deref()
            .is_some_and(|envelope| envelope.contains("bob@guest.example"))
    );
}

#[tokio::test]
async fn a_token_of_mailgun_is_remembered_by_the_next_engine() {
    let site = site().await;
    let store = &site.scene.world.app.engine.store;
    let ends_at = site.scene.world.now().plus(Duration::from_secs(360));
    let claim = |letter: &'static [u8]| store.claim_ingest_token("t1", letter, ends_at);
    assert!(claim(b"one").await.expect("stored"));
    assert!(claim(b"one").await.expect("stored"), "a retry");
    assert!(!claim(b"two").await.expect("stored"));
    // It is in the database, and forgotten when it is too old for any use.
    let clock = &site.scene.world.app.workspace.clock;
    clock.advance(Duration::from_secs(361));
    assert!(claim(b"two").await.expect("stored"));
    let mut rows = site.scene.world.app.workspace.rows().await;
    let count: i64 = db::query_scalar("SELECT count(*) FROM ingest_tokens")
        .fetch_one(&mut rows)
        .await
        .expect("a count");
    assert_eq!(count, 1);
}

#[tokio::test]
async fn postmark_is_known_by_its_password_and_hands_in_raw_letters_only() {
    let site = site().await;
    let record = json!({ "RawEmail": plain("p1"), "OriginalRecipient": "ada@engine.test", "From": "bob@guest.example" });
    let basic =
        |password: &str| format!("Basic {}", STANDARD.encode(format!("postmark:{password}")));
    let send = async |authorization: String, record: &Value| {
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        let body = record.to_string().into_bytes();
        site.send_bytes("/ingest/postmark", &headers, body).await
    };
    for wrong in [
        basic("postmark"),
        basic(""),
        format!("Bearer {PASSWORD}"),
        String::new(),
    ] {
        assert_eq!(send(wrong, &record).await.status, 401);
    }
    assert_eq!(letters(&site).await, 0);
    let answer = send(basic(PASSWORD), &record).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(
        stored(&site, "p1").await[2]
            .as_deref()
            .is_some_and(|text| text.contains("bob@guest.example"))
    );
    let bare = send(basic(PASSWORD), &json!({ "TextBody": "x" })).await;
    assert_eq!(bare.status, 400);
    assert!(bare.body.contains("RawEmail"), "{}", bare.body);
    // What no retry changes ends Postmark's retries.
    let elsewhere = json!({ "RawEmail": plain("p2"), "OriginalRecipient": "x@elsewhere.test" });
    assert_eq!(send(basic(PASSWORD), &elsewhere).await.status, 403);
}

#[tokio::test]
async fn a_door_that_is_not_configured_lets_nobody_in() {
    let site = site_with(json!({})).await;
    let form = mailgun_form(site.scene.world.now(), "t1", "", &plain("m1"));
    assert_eq!(by_mailgun(&site, &form).await.status, 401);
    let headers = [
        ("authorization", "Basic Og=="),
        ("content-type", "application/json"),
    ];
    let answer = site
        .send_bytes("/ingest/postmark", &headers, b"{}".to_vec())
        .await;
    assert_eq!(answer.status, 401);
}

/// Whoever has proved nothing yet holds the memory of eight letters at most, and keeps no key waiting.
#[tokio::test]
async fn letters_of_unknown_callers_take_a_bounded_part_of_the_memory() {
    let site = site().await;
    let head = format!(
        "POST /ingest/mailgun HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 9000\r\n\r\nbody-mime=",
        site.address
    );
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(site.address).await.expect("connected");
        stream.write_all(head.as_bytes()).await.expect("sent");
        slow.push(stream);
    }
    let form = mailgun_form(site.scene.world.now(), "t1", SIGNING_KEY, &plain("m1"));
    let refused = async {
        loop {
            let answer = by_mailgun(&site, &form).await;
            if answer.status == 503 {
                return answer;
            }
            crate::app::glance().await;
        }
    };
    let refused = tokio::time::timeout(Duration::from_secs(10), refused).await;
    assert_eq!(refused.expect("refused").header("retry-after"), "31");
    let secret = key(&site, "ingest:ada").await;
    assert_eq!(by_key(&site, &secret, &[], &plain("k1")).await.status, 200);
    drop(slow);
    let taken = async {
        while by_mailgun(&site, &form).await.status != 200 {
            crate::app::glance().await;
        }
    };
    let taken = tokio::time::timeout(Duration::from_secs(10), taken).await;
    taken.expect("there is room again");
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
