//! When a mail is made, what it folds, and that neither a crash nor a second look tells anything twice or never.

use super::{HOUR, facts, fail, failing, failing_app, mails, refused_login};
use crate::app::{TestApp, Workspace, note};
use attache::store::PowerCut;
use futures_util::future::join_all;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_run_that_fails_for_good_is_told_to_owners_at_once_and_once() {
    let workspace = Workspace::new(&failing());
    workspace.set(
        "configs/gateway.json",
        "/owners",
        json!(["olga@home.test", "Otto@Home.test", "OLGA@home.test"]),
    );
    let app = workspace.start().await;
    let run = app.run_of(&note("a@guest.example", "", "Hello?")).await;
    for _ in 0..3 {
        app.drain().await;
        app.workspace.clock.advance(HOUR);
    }
    app.check().await;
    assert_eq!(app.outcome(&run).await.2.as_deref(), Some("permission"));
    let [notice] = &app.notices()[..] else {
        panic!("{:?}", app.notices())
    };
    assert_eq!(
        notice.subject,
        "[attache] a run of ada failed: the provider does not allow the request"
    );
    let first: Vec<&str> = notice.text.lines().take(3).collect();
    assert_eq!(
        first[0],
        "A run of ada failed: the provider does not allow the request."
    );
    assert!(first[2].starts_with("What to do: "), "{}", notice.text);
    assert!(
        notice
            .text
            .contains(" (UTC): no answer to `Bob <bob@guest.example>`: the provider does not allow the request (about `Breakfast`, ")
            && !notice.text.contains("http"),
        "{}",
        notice.text
    );
    assert_eq!(notice.from[0].spec, "ada@engine.test");
    assert_eq!(
        notice.automatic.auto_submitted.as_deref(),
        Some("auto-generated")
    );
    assert_eq!(
        notice.automatic.auto_response_suppress.as_deref(),
        Some("dr, rn, nrn, oof, autoreply")
    );
    for said in [
        run.as_str(),
        "Breakfast",
        "attache runs retry --failed --class permission --persona ada --yes",
    ] {
        assert!(notice.text.contains(said), "{}", notice.text);
    }
    let stored = mails(&app).await;
    assert_eq!(stored.len(), 1);
    let (sender, to, _, state) = &stored[0];
    assert_eq!(
        (sender.as_str(), to.as_str(), state.as_str()),
        ("", "Otto@home.test olga@home.test", "done")
    );
    assert_eq!(
        facts(&app).await,
        [("run_failed:permission:ada".to_owned(), 1, 1)]
    );
}

#[tokio::test]
async fn a_notice_says_times_in_the_personas_zone_and_links_to_the_page_of_its_subject() {
    let workspace = Workspace::new(&failing());
    workspace.set(
        "personas/ada/persona.json",
        "/timezone",
        json!("Europe/Berlin"),
    );
    let origin = json!(["https://desk.home.test"]);
    let pages = json!([{ "kind": "http", "address": "127.0.0.1:0", "origins": origin }]);
    workspace.set("configs/gateway.json", "/listeners", pages);
    let app = workspace.start().await;
    let run = app.run_of(&note("a@guest.example", "", "Hello?")).await;
    app.drain().await;
    let notice = app.notices().remove(0);
    assert!(
        notice.text.contains(" (Europe/Berlin): "),
        "{}",
        notice.text
    );
    let html = notice.html.expect("an HTML part");
    let link = format!("<a href=\"https://desk.home.test/r/{run}\">");
    assert!(html.contains(&link), "no {link}: {html}");
    assert_eq!(html.matches("href").count(), 1, "{html}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn two_mails_account_for_a_thousand_failures_in_an_hour() {
    let app = failing_app().await;
    for minute in 0..50 {
        let emitted = (0..20).map(|n| {
            let id = format!("{minute}-{n}");
            app.engine.store.emit_notice(refused_login(&id, &id))
        });
        assert!(
            join_all(emitted)
                .await
                .into_iter()
                .all(|emitted| emitted.expect("stored"))
        );
        app.drain().await;
        app.workspace.clock.advance(Duration::from_secs(60));
    }
    assert_eq!(
        app.notices().len(),
        1,
        "the first is told at once, the others wait"
    );
    app.workspace.clock.advance(HOUR);
    app.drain().await;
    app.workspace.clock.advance(HOUR * 24);
    app.drain().await;
    let notices = app.notices();
    assert_eq!(notices.len(), 2);
    let told: i64 = facts(&app).await.iter().map(|(_, _, told)| told).sum();
    assert_eq!(told, 1000);
    // The first mail tells the twenty of its minute, the second the others, each ten of them in words.
    for (notice, more) in notices.iter().zip(["And 10 more", "And 970 more"]) {
        assert!(notice.text.contains(more), "{}", notice.text);
        assert_eq!(
            notice.text.matches("answers our login with 535").count(),
            10
        );
    }
    assert!(
        notices[1].text.contains("since 49-19"),
        "the newest are spelled out: {}",
        notices[1].text
    );
    assert!(!notices[1].text.contains("since 1-0\n"));
}

#[tokio::test]
async fn causes_wait_for_no_other_and_a_fact_raised_again_is_the_same() {
    let app = failing_app().await;
    let store = &app.engine.store;
    assert!(
        store
            .emit_notice(refused_login("1", "nine"))
            .await
            .expect("stored")
    );
    assert!(
        !store
            .emit_notice(refused_login("2", "nine"))
            .await
            .expect("stored")
    );
    fail(&app, 2, "x").await;
    assert_eq!(app.notices().len(), 2);
    assert_eq!(
        facts(&app).await,
        [
            ("run_failed:permission:ada".to_owned(), 2, 2),
            ("transport_refused:relay.example".to_owned(), 1, 1)
        ]
    );
    // A run that an operator queued again and that fails again is news.
    let run = app.run_of(&note("again@guest.example", "", "?")).await;
    app.drain().await;
    let run = attache::domain::RunId::new(run);
    store.retry_run(&run).await.expect("queued");
    app.workspace.clock.advance(HOUR);
    app.drain().await;
    app.workspace.clock.advance(HOUR);
    app.drain().await;
    assert_eq!(
        facts(&app).await[0],
        ("run_failed:permission:ada".to_owned(), 4, 4)
    );
}

#[tokio::test]
async fn runs_succeeded_cancelled_or_waiting_to_retry_are_not_told() {
    let script = json!({ "rules": [
        { "when": { "contains": "overloaded" }, "error": { "class": "overloaded", "retry_after_ms": 900_000 } },
        { "say": "Good day." },
    ] });
    let app = TestApp::start(script).await;
    app.receive(&note("fine@guest.example", "", "Hello"))
        .await
        .expect("taken");
    let waits = app
        .run_of(&note("waits@guest.example", "", "You are overloaded"))
        .await;
    app.drain().await;
    assert_eq!(app.outcome(&waits).await.0, "waiting_retry");
    let waits = attache::domain::RunId::new(waits);
    app.engine
        .store
        .request_cancel(&waits)
        .await
        .expect("cancelled");
    app.drain().await;
    assert_eq!((app.notices().len(), facts(&app).await.len()), (0, 0));
}

#[tokio::test]
async fn without_owners_facts_are_kept_and_told_when_there_are_some() {
    let workspace = Workspace::new(&failing());
    workspace.set("configs/gateway.json", "/owners", json!([]));
    let app = workspace.start().await;
    fail(&app, 1, "x").await;
    assert_eq!(
        facts(&app).await,
        [("run_failed:permission:ada".to_owned(), 1, 0)]
    );
    app.workspace
        .set("configs/gateway.json", "/owners", json!(["olga@home.test"]));
    let app = app.restart().await;
    app.drain().await;
    assert_eq!(app.notices().len(), 1);
}

#[tokio::test]
async fn the_engine_speaks_in_the_configured_name_personas_in_theirs() {
    let workspace = Workspace::new(&failing());
    workspace.persona("bea", "Bea");
    workspace.set(
        "configs/gateway.json",
        "/notices",
        json!({ "persona": "bea" }),
    );
    let app = workspace.start().await;
    app.engine
        .store
        .emit_notice(refused_login("1", "nine"))
        .await
        .expect("stored");
    fail(&app, 1, "x").await;
    let mut from: Vec<String> = app
        .notices()
        .iter()
        .map(|notice| notice.from[0].spec.clone())
        .collect();
    from.sort();
    assert_eq!(from, ["ada@engine.test", "bea@engine.test"]);
    app.check().await;
}

#[tokio::test]
async fn an_unusable_responsibility_is_told_once_per_revision() {
    let app = failing_app().await;
    let file = "personas/ada/responsibilities/digest.md";
    let (good, bad) = (
        "---\nname: A\nschedule: 0 9 * * *\n---\nGo.",
        "---\nname: A\nschedule: soon\n---\nGo.",
    );
    // The second complaint is the first one again; the last comes back after the file was good.
    for (text, told) in [
        ("half a fi", 1),
        ("half a file", 1),
        (bad, 2),
        (good, 2),
        (bad, 3),
    ] {
        app.workspace.write(file, text);
        for _ in 0..2 {
            app.engine
                .scheduler()
                .sync()
                .await
                .expect("the store works");
            app.drain().await;
        }
        let found = facts(&app).await;
        assert_eq!(
            (found[0].0.as_str(), found[0].1),
            ("responsibility_broken:ada", told),
            "{text}"
        );
    }
    let app = app.restart().await;
    app.engine
        .scheduler()
        .sync()
        .await
        .expect("the store works");
    assert_eq!(
        facts(&app).await,
        [("responsibility_broken:ada".to_owned(), 3, 1)]
    );
    let notice = &app.notices()[0];
    assert_eq!(
        notice.subject,
        "[attache] a responsibility of ada cannot be used"
    );
    assert!(notice.text.contains(file), "{}", notice.text);
}

/// Lets one run fail, with the power going at the given commit, and then every engine live happily.
async fn interrupted(cut: PowerCut) -> bool {
    let mut app = failing_app().await;
    app.engine.store.cut_power(cut);
    let letter = note("a@guest.example", "", "Hello?");
    let mut struck = false;
    if app.receive(&letter).await.is_err() {
        struck = true;
        app = app.restart().await;
        app.receive(&letter).await.expect("taken");
    }
    app.workspace.clock.advance(Duration::from_millis(10));
    struck |= app.engine.drain().await.is_err();
    for _ in 0..3 {
        app = app.restart().await;
        app.workspace.clock.advance(HOUR * 2);
        app.drain().await;
    }
    app.check().await;
    assert_eq!(
        facts(&app).await,
        [("run_failed:permission:ada".to_owned(), 1, 1)],
        "{cut:?}"
    );
    let states: Vec<String> = mails(&app).await.into_iter().map(|mail| mail.3).collect();
    assert_eq!(states, ["done"], "{cut:?}");
    let mut ids: Vec<_> = app
        .notices()
        .into_iter()
        .map(|notice| notice.message_id)
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 1, "{cut:?}");
    struck
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_power_cut_at_any_commit_loses_and_doubles_no_notice() {
    for side in [PowerCut::BeforeCommit, PowerCut::AfterCommit] {
        let mut struck_at = 0;
        for commit in 1..100 {
            if !interrupted(side(commit)).await {
                break;
            }
            struck_at = commit;
        }
        // Letter, claim, turn, failure with its fact, mail with its mark, claim, point of no return, outcome.
        assert!(
            (8..99).contains(&struck_at),
            "only {struck_at} commits were tried"
        );
    }
}
