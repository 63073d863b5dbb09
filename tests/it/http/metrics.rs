//! Metrics: in the text format of Prometheus, by a key of their own, and without anything of a letter.

use super::ingest::key;
use super::site::{Page, Site};
use crate::app::database::is_postgres;
use crate::approvals::scene::CONTACT;
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeMap;

async fn scrape(site: &Site, secret: &str) -> Page {
    let bearer = format!("Bearer {secret}");
    let headers = [("authorization", bearer.as_str())];
    site.send(Method::GET, "/metrics", &headers, &[]).await
}

/// A workspace whose persona answers every letter at once.
async fn answering() -> Site {
    let script = json!({ "rules": [{ "say": "From seven to ten." }] });
    Site::configured(&script, |_| {}).await
}

/// Values by series. Every line must be a comment or a sample, and every sample of a family that was announced.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut announced = Vec::new();
    let mut found = BTreeMap::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            announced.push(family.split(' ').next().expect("a name").to_owned());
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a sample");
        let name = series.split('{').next().expect("a name");
        assert!(
            announced.iter().any(|family| name.starts_with(family)),
            "{line}"
        );
        let value = value
            .parse()
            .unwrap_or_else(|_| panic!("no number: {line}"));
        assert!(
            found.insert(series.to_owned(), value).is_none(),
            "{series} twice"
        );
    }
    found
}

#[tokio::test]
async fn what_happened_is_counted_once_however_often_it_is_read() {
    let site = answering().await;
    let secret = key(&site, "metrics").await;
    let before = samples(&scrape(&site, &secret).await.body);
    site.scene.writes(CONTACT, "m1", "").await;
    site.scene.world.app.drain().await;
    let first = scrape(&site, &secret).await;
    assert_eq!(first.status, 200);
    let again = samples(&scrape(&site, &secret).await.body);
    let first = samples(&first.body);
    let letters = r#"attache_letters_total{persona="ada",state="run"}"#;
    let ended = r#"attache_run_changes_total{persona="ada",state="succeeded"}"#;
    for series in [letters, ended, "attache_run_seconds_count"] {
        let grown = first[series] - before.get(series).unwrap_or(&0.0);
        assert!(
            (grown - 1.0).abs() < f64::EPSILON,
            "{series} grew by {grown}"
        );
        assert!(
            (again[series] - first[series]).abs() < f64::EPSILON,
            "{series} is counted anew"
        );
    }
    assert_eq!(first[r#"attache_runs{state="queued"}"#], 0.0);
    assert_eq!(first["attache_feed_gaps_total"], 0.0);
    assert!(is_postgres() || first["attache_database_bytes"] > 0.0);
    assert!(first["process_open_fds"] > 0.0);
    assert!(
        first
            .keys()
            .any(|series| series.starts_with("attache_tokens_total{model="))
    );
}

#[tokio::test]
async fn nothing_of_a_letter_is_in_the_numbers() {
    let site = answering().await;
    let secret = key(&site, "metrics").await;
    site.scene.writes(CONTACT, "kumquat", "").await;
    let told = scrape(&site, &secret).await.body.to_lowercase();
    assert!(told.contains("attache_letters_total"));
    for word in [
        "carol",
        "partner",
        "tuesday",
        "kumquat",
        "engine.test",
        "seven",
    ] {
        assert!(!told.contains(word), "{word} is in {told}");
    }
}

#[tokio::test]
async fn the_key_of_a_collector_reads_numbers_and_nothing_else() {
    let site = Site::start().await;
    let (metrics, read) = (key(&site, "metrics").await, key(&site, "read").await);
    assert_eq!(
        site.send(Method::GET, "/metrics", &[], &[]).await.status,
        401
    );
    assert_eq!(scrape(&site, &read).await.status, 403);
    let bearer = format!("Bearer {metrics}");
    let headers = [("authorization", bearer.as_str())];
    for path in ["/api/v1/runs", "/api/v1/conversations", "/v1/models"] {
        let answer = site.send(Method::GET, path, &headers, &[]).await;
        assert_eq!(answer.status, 403, "{path}");
    }
}
