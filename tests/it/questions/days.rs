//! A year of questions with an engine that is let go again and again: each has one effect, or none.

use super::dice::{Dice, many};
use crate::app::db;
use crate::app::rows::unpacked;
use crate::app::{TestApp, Workspace, dated_by, proven_note};
use crate::approvals::scene::decision;
use attache::domain::ApprovalState;
use attache::store::{ApprovalVerdict, ApprovalView, ListPage};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const YEAR: Duration = Duration::from_secs(365 * 86_400);

async fn open(app: &TestApp) -> Vec<ApprovalView> {
    let store = &app.engine.store;
    let open = store
        .approvals(Some(ApprovalState::Open), None, ListPage::first(100))
        .await;
    open.expect("questions")
}

/// Lets one question be asked, and perhaps others be decided, by an engine that ends in between.
async fn step(mut app: TestApp, number: usize, dice: &mut Dice) -> TestApp {
    let note = proven_note(
        &format!("s{number}@guest.example"),
        "",
        &format!("Step {number}."),
    );
    app.run_of(&dated_by(&app.workspace.clock, &note)).await;
    // Before the run, after it, or after a decision whose effect nobody has carried out yet.
    let when = dice.below(3);
    if when == 0 {
        app = app.restart().await;
    }
    app.drain().await;
    if when == 1 {
        app = app.restart().await;
    }
    for question in open(&app).await {
        let verdict = match dice.below(5) {
            0 | 1 => ApprovalVerdict::Approve,
            2 => ApprovalVerdict::Reject,
            _ => continue,
        };
        let store = &app.engine.store;
        let decided = store
            .decide_approval(&question.id, decision(verdict, ""))
            .await;
        decided.expect("decided");
    }
    if when == 2 {
        app = app.restart().await;
    }
    app.drain().await;
    app
}

#[tokio::test]
#[ignore = "second tier"]
async fn in_a_year_of_restarts_each_question_has_one_end() {
    let steps = many("ATTACHE_RESTARTS", 24);
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "send_email", "args":
            { "to": ["eve@new.test"], "subject": "The plan", "body": "{{body}}" } }] },
        { "say": "It is done, or it is not." },
    ] });
    let mut app = Workspace::new(&script).talkative().start().await;
    let mut dice = Dice(4);
    let apart = YEAR / u32::try_from(steps).expect("few");
    for number in 0..steps {
        app = step(app, number, &mut dice).await;
        app.workspace.clock.advance(apart);
    }
    app.workspace.clock.advance(Duration::from_secs(80 * 3600));
    app.drain().await;
    let ends = ends(&app).await;
    let sent = app.sent();
    let is_hers = |mail: &&attache::domain::Email| mail.to[0].spec == "eve@new.test";
    let mails = sent.iter().filter(is_hers).count();
    println!("B-4: 365 days, {steps} restarts, the questions ended as {ends:?}, {mails} mails");
    assert_eq!(ends.values().sum::<usize>(), steps);
    assert_eq!(
        ends.get("approved"),
        Some(&mails),
        "as many mails as approvals"
    );
    assert!(ends.len() >= 3 && !ends.contains_key("open"), "{ends:?}");
    app.check().await;
}

/// The ends of all questions, each with its mail or without.
async fn ends(app: &TestApp) -> BTreeMap<String, usize> {
    let mut rows = app.workspace.rows().await;
    // A mail belongs to the question whose frozen bytes it has.
    let sql = "SELECT a.state, r.state,
          a.run_id, a.mail_bytes FROM approvals a JOIN runs r ON r.id = a.run_id";
    let found = db::query(sql).fetch_all(&mut rows).await.expect("rows");
    let mut ends = BTreeMap::new();
    for row in &found {
        let (state, run): (&str, &str) = (row.get(0), row.get(1));
        let (id, frozen): (&str, Option<&[u8]>) = (row.get(2), row.get(3));
        let sql = "SELECT bytes FROM deliveries WHERE run_id = $1";
        let sent = db::query(sql).bind(id).fetch_all(&mut rows).await;
        let sent = sent.expect("mails");
        let is_frozen = |mail: &&db::Row| Some(unpacked(mail.get(0)).as_slice()) == frozen;
        let mails = sent.iter().filter(is_frozen).count();
        let is_approved = state == ApprovalState::Approved.as_str();
        assert_eq!(mails, usize::from(is_approved), "{state}");
        assert_eq!(run, "succeeded", "{state}");
        *ends.entry(state.to_owned()).or_default() += 1;
    }
    ends
}
