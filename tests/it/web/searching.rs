//! The search of the web by three services: what they are asked, what is taken from their answers, what is refused.

use super::servers::{Answers, Site, Then, page};
use crate::app::Workspace;
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use attache::web::{SearchHit, SearchService, WebSearcher};
use serde_json::{Value, json};
use std::time::Duration;

const STRANGER: &str = "Eve <eve@evil.test>";
const SEARCH_TIME: Duration = Duration::from_secs(15);

fn searcher(service: SearchService, site: &Site) -> WebSearcher {
    let key = Some("k-e-y".to_owned().into());
    WebSearcher::new(service, &site.url(""), key, Answers::of(&[&[]]))
}

/// An answer in the form of a service, with hits of which some are none.
fn answer(service: SearchService) -> String {
    let hits = |snippet: &str| {
        let mut hits: Vec<Value> = vec![
            json!({ "url": "https://inn.example/rooms", "title": "Rooms <b>&amp;</b> rates", snippet: "The <strong>ferry</strong>\nlands at \u{1b}[2Jseven." }),
            json!({ "url": "javascript:alert(1)", "title": "No page" }),
            json!({ "url": "https://inn.example/a b", "title": "No URL" }),
            json!({ "url": "http://other.example/", "title": null, "more": { "x": 1 } }),
        ];
        hits.extend((0..20).map(|n| json!({ "url": format!("https://many.example/{n}"), "title": "t".repeat(5_000), snippet: "s" })));
        hits
    };
    match service {
        SearchService::Searxng => {
            json!({ "query": "ferry", "results": hits("content"), "answers": [] })
        }
        SearchService::Brave => {
            json!({ "type": "search", "web": { "type": "search", "results": hits("description") } })
        }
        SearchService::Tavily => {
            json!({ "query": "ferry", "results": hits("content"), "response_time": 1.2 })
        }
    }
    .to_string()
}

#[tokio::test]
async fn every_service_is_asked_in_its_form_and_its_hits_are_plain_and_bounded() {
    for (service, asked) in [
        (
            SearchService::Searxng,
            vec!["GET /search?q=ferry+%26+rooms&format=json "],
        ),
        (
            SearchService::Brave,
            vec![
                "GET /res/v1/web/search?q=ferry+%26+rooms&count=10 ",
                "x-subscription-token: k-e-y",
            ],
        ),
        (
            SearchService::Tavily,
            vec![
                "POST /search ",
                "authorization: Bearer k-e-y",
                r#""query":"ferry & rooms""#,
            ],
        ),
    ] {
        let site = Site::page("application/json", &answer(service)).await;
        let hits = searcher(service, &site)
            .search("ferry & rooms", SEARCH_TIME)
            .await
            .expect("hits");
        let first = SearchHit {
            url: "https://inn.example/rooms".to_owned(),
            title: "Rooms & rates".to_owned(),
            snippet: "The ferry lands at [2Jseven.".to_owned(),
        };
        let plain = |hit: &SearchHit| SearchHit {
            title: hit.title.replace('*', ""),
            snippet: hit.snippet.replace('*', ""),
            ..hit.clone()
        };
        assert_eq!(plain(&hits[0]), first, "{service:?}");
        assert_eq!(hits[1].url, "http://other.example/");
        assert_eq!(hits.len(), 10);
        assert!(hits.iter().all(|hit| hit.title.chars().count() <= 200));
        let request = site.requests().remove(0);
        for part in asked {
            assert!(request.contains(part), "{service:?}: {request}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_none_is_a_sentence_and_bounded() {
    let status = |status: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}")
    };
    let moved = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:{port}/elsewhere\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let endless = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"results\": [";
    for (answer, then, code) in [
        (status("401 Unauthorized"), Then::Close, "search_refused"),
        (status("403 Forbidden"), Then::Close, "search_refused"),
        (status("429 Too Many Requests"), Then::Close, "search_limit"),
        (status("500 Oops"), Then::Close, "http_status"),
        (moved.to_owned(), Then::Close, "http_status"),
        (
            page("text/html", "<p>Search with JavaScript</p>"),
            Then::Close,
            "search_unreadable",
        ),
        (
            page("application/json", "{\"results\": 7}"),
            Then::Close,
            "search_unreadable",
        ),
        (
            endless.to_owned(),
            Then::Repeat("{\"url\":\"https://x.example/\"},"),
            "too_large",
        ),
    ] {
        let site = Site::start(&answer, then).await;
        let error = searcher(SearchService::Tavily, &site)
            .search("ferry", SEARCH_TIME)
            .await
            .expect_err("no hits");
        assert_eq!(error.code, code, "{answer}");
        assert!(!error.message.contains("k-e-y"), "{}", error.message);
        assert_eq!(
            site.requests().len(),
            1,
            "a key goes nowhere else: {answer}"
        );
    }
}

fn searches() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "web_search", "args": { "query": "ferry" } }] },
        { "say": "Found: {{result:/result/results/0/snippet}}" },
    ] })
}

fn opens(workspace: &Workspace, site: &Site) {
    let web = json!({ "search": { "service": "searxng", "base_url": site.url("") } });
    workspace.write_json("configs/web.json", &web);
}

#[tokio::test]
async fn a_letter_is_answered_by_what_was_found_and_strangers_search_nothing() {
    let site = Site::page("application/json", &answer(SearchService::Searxng)).await;
    let scene = Scene::with(&searches(), |workspace| opens(workspace, &site)).await;
    let app = &scene.world.app;
    let run = scene.writes(CONTACT, "q1", "").await;
    assert_eq!(app.trace(&run).await, ["call web_search", "ok web_search"]);
    assert!(
        app.sent()[0].text.contains("lands at"),
        "{}",
        app.sent()[0].text
    );
    let run = scene.writes(STRANGER, "q2", "").await;
    assert_eq!(
        app.trace(&run).await,
        ["call web_search", "policy_denied web_search"]
    );
    assert_eq!(site.requests().len(), 1);
    // Executes the runs again by their records: the service is not asked.
    app.check().await;
    assert_eq!(site.requests().len(), 1);
}

#[tokio::test]
async fn what_not_everybody_may_read_is_in_no_query_without_the_owner() {
    let site = Site::page("application/json", &answer(SearchService::Searxng)).await;
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "search_email", "args": { "query": "KAPPA" } }] },
        { "when": { "turn": 1 }, "call": [{ "tool": "web_search", "args": { "query": "KAPPA" } }] },
        { "say": "Done." },
    ] });
    let scene = Scene::with(&script, |workspace| opens(workspace, &site)).await;
    let quiet = "List-Id: <quiet.partner.test>\r\n";
    let secret = scene.signed(CONTACT, "ada@engine.test", "k", quiet, "KAPPA is the word.");
    scene
        .deliver(&secret, "ada@engine.test")
        .await
        .expect("filed");
    scene.writes(OWNER, "q1", "").await;
    assert_eq!(scene.open().await.len(), 1);
    assert_eq!(site.requests().len(), 0);
}
