//! A persona that fetches a page for its owner, and does not for everybody.

use super::servers::{Site, Then};
use crate::app::{TestApp, Workspace, proven_note};
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use serde_json::{Value, json};

const STRANGER: &str = "Eve <eve@evil.test>";

fn fetches(url: &str) -> Value {
    json!({ "turns": [
        { "call": [{ "tool": "web_fetch", "args": { "url": url } }] },
        { "say": "It says: {{result:/result/content}}" },
    ] })
}

/// A workspace in which this site is opened.
fn opens(workspace: &Workspace, site: &Site) {
    let web = json!({ "fetch": { "private_targets": [site.target()] } });
    workspace.write_json("configs/web.json", &web);
}

#[tokio::test]
async fn a_letter_that_asks_for_a_page_is_answered_by_what_it_says() {
    let site = Site::page("text/html", "<p>Open from seven to ten.</p>").await;
    let scene = Scene::with(&fetches(&site.url("/hours")), |workspace| {
        opens(workspace, &site);
    })
    .await;
    for (number, sender) in [OWNER, CONTACT].into_iter().enumerate() {
        let run = scene.writes(sender, &format!("q{number}"), "").await;
        let app = &scene.world.app;
        assert_eq!(
            app.trace(&run).await,
            ["call web_fetch", "ok web_fetch"],
            "{sender}"
        );
        assert!(
            app.sent()[number].text.contains("Open from seven to ten."),
            "{sender}"
        );
        assert_eq!(site.requests().len(), number + 1);
    }
    // Executes both runs again by their records: the site is not asked.
    scene.world.app.check().await;
    assert_eq!(site.requests().len(), 2);
}

#[tokio::test]
async fn strangers_have_no_page_fetched() {
    let site = Site::page("text/plain", "hours").await;
    let scene = Scene::with(&fetches(&site.url("/")), |workspace| {
        opens(workspace, &site);
    })
    .await;
    let run = scene.writes(STRANGER, "q1", "").await;
    assert_eq!(
        scene.world.app.trace(&run).await,
        ["call web_fetch", "policy_denied web_fetch"]
    );
    assert_eq!(site.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn without_the_file_there_is_no_such_tool() {
    let site = Site::page("text/plain", "hours").await;
    let app = TestApp::start(fetches(&site.url("/"))).await;
    let run = app
        .run_of(&proven_note("q1@guest.example", "", "When?"))
        .await;
    app.drain().await;
    assert_eq!(
        app.trace(&run).await,
        ["call web_fetch", "unknown_tool web_fetch"]
    );
    assert_eq!(site.requests(), Vec::<String>::new());
}

/// WF01, WF02: what the run has read may leave in a URL as little as in a mail, and not even a name server hears of it.
#[tokio::test]
async fn what_others_may_not_read_leaves_in_no_url() {
    let site = Site::page("text/plain", "thanks").await;
    let url = format!("{}?secret={{{{result:/result/content}}}}", site.url("/"));
    let script = json!({ "turns": [
        { "call": [{ "tool": "read_file", "args": { "path": "active.md" } }] },
        { "call": [{ "tool": "web_fetch", "args": { "url": url } }] },
        { "say": "Done." },
    ] });
    let scene = Scene::with(&script, |workspace| opens(workspace, &site)).await;
    let run = scene.writes(OWNER, "q1", "").await;
    let trace = scene.world.app.trace(&run).await;
    assert_eq!(trace[..2], ["call read_file", "ok read_file"], "{trace:?}");
    let open = scene.open().await;
    assert_eq!(open.len(), 1, "the owner is asked: {trace:?}");
    assert_eq!(open[0].reason["code"], "not_a_reader");
    assert_eq!(site.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn a_page_that_does_not_come_is_waited_for_as_long_as_was_set() {
    let site = Site::start("HTTP/1.1 200 OK\r\n", Then::Hold).await;
    let scene = Scene::with(&fetches(&site.url("/")), |workspace| {
        opens(workspace, &site);
        let times = json!({ "web_fetch": "300ms" });
        workspace.set("configs/inference.json", "/tool_timeouts", times);
    })
    .await;
    let run = scene.writes(OWNER, "q1", "").await;
    let app = &scene.world.app;
    let trace = app.trace(&run).await;
    assert_eq!(trace, ["call web_fetch", "timed_out web_fetch"]);
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    app.check().await;
}
