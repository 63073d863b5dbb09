//! Rules at work on runs.

use crate::approvals::scene::{CONTACT, OWNER, Scene, asks};
use serde_json::{Value, json};
use std::time::Duration;

const STRANGER: &str = "Mallory <mallory@evil.test>";

async fn with_rules(rules: Value) -> Scene {
    Scene::with(&asks(), |workspace| {
        workspace.write_json("configs/policy.json", &json!({ "rules": rules }));
    })
    .await
}

/// What became of the mail to somebody new, with these rules, for each sender.
async fn outcomes(rules: Value) -> [String; 3] {
    let scene = with_rules(rules).await;
    let mut outcomes = [const { String::new() }; 3];
    for (place, (from, id)) in [(OWNER, "o"), (CONTACT, "c"), (STRANGER, "s")]
        .into_iter()
        .enumerate()
    {
        let run = scene.writes(from, id, "").await;
        let (state, ..) = scene.world.app.outcome(&run).await;
        let trace = scene.world.app.trace(&run).await;
        outcomes[place] = match (state.as_str(), trace.get(1)) {
            ("waiting_approval", _) => "asked".to_owned(),
            (_, Some(result)) => result.split(' ').next().unwrap_or_default().to_owned(),
            (_, None) => "nothing".to_owned(),
        };
    }
    scene.world.app.check().await;
    outcomes
}

#[tokio::test]
async fn the_table_decides_without_a_rule() {
    assert_eq!(
        outcomes(json!([])).await,
        ["asked", "asked", "recipient_not_allowed"]
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_rule_narrows_the_table_and_widens_it_where_it_may() {
    let allow = json!([{ "id": "a", "effect": "allow", "tool": "send_email", "when": { "every_recipient": "*@new.test" } }]);
    assert_eq!(outcomes(allow).await, ["ok", "ok", "ok"]);
    let deny = json!([{ "id": "d", "effect": "deny", "tool": "send_*", "when": { "recipient": "eve@*" }, "why": "not her" }]);
    assert_eq!(
        outcomes(deny).await,
        ["policy_denied", "policy_denied", "policy_denied"]
    );
    let levels = json!([
        { "id": "owner", "effect": "allow", "when": { "sender": "owner" } },
        { "id": "rest", "effect": "deny", "when": { "sender": "<owner", "recipients": "outside" } },
    ]);
    assert_eq!(
        outcomes(levels).await,
        ["ok", "policy_denied", "policy_denied"]
    );
}

/// A tool that no call of could be allowed is not offered.
#[tokio::test]
#[ignore = "second tier"]
async fn a_tool_that_is_denied_or_hidden_is_not_offered() {
    for effect in ["deny", "hide"] {
        let scene = with_rules(json!([{ "id": "h", "effect": effect, "tool": "send_email", "when": { "sender": "contact" } }])).await;
        let offered = async |from, id| {
            let run = scene.writes(from, id, "").await;
            let prompts = scene.world.app.prompts(&run).await;
            prompts[0].to_string().contains("send_email")
        };
        assert!(!offered(CONTACT, "c").await, "{effect}");
        assert!(offered(OWNER, "o").await, "{effect}");
        let run = scene.writes(CONTACT, "c2", "").await;
        assert_eq!(
            scene.world.app.trace(&run).await,
            ["call send_email", "unknown_tool send_email"]
        );
        scene.world.app.check().await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_rule_ends_by_its_day_and_by_its_uses() {
    let scene = with_rules(json!([
        { "id": "twice", "effect": "allow", "tool": "send_email", "uses_max": 2 },
    ]))
    .await;
    for id in ["a", "b", "c"] {
        scene.writes(CONTACT, id, "").await;
    }
    assert_eq!((scene.to_eve().len(), scene.open().await.len()), (2, 1));
    // The count outlives the engine.
    let app = scene.world.app.restart().await;
    let uses = app.engine.store.policy_uses(&["twice", "other"]).await;
    assert_eq!(uses.ok(), Some(vec![("twice".to_owned(), 2)]));

    let tomorrow = chrono::Utc::now().date_naive().succ_opt().expect("a day");
    let scene = with_rules(json!([
        { "id": "today", "effect": "allow", "tool": "send_email", "until": tomorrow.to_string() },
    ]))
    .await;
    scene.writes(CONTACT, "a", "").await;
    scene
        .world
        .app
        .workspace
        .clock
        .advance(Duration::from_secs(24 * 3600));
    scene.writes(OWNER, "b", "").await;
    assert_eq!((scene.to_eve().len(), scene.open().await.len()), (1, 1));
}

#[tokio::test]
async fn a_personas_rules_stand_behind_the_first_files() {
    let scene = Scene::with(&asks(), |workspace| {
        workspace.write_json(
            "configs/policy.json",
            &json!({ "rules": [{ "id": "house", "effect": "deny", "tool": "send_email", "when": { "sender": "contact" } }] }),
        );
        workspace.write_json(
            "personas/ada/policy.json",
            &json!({ "rules": [{ "id": "ada", "effect": "allow", "tool": "send_email" }] }),
        );
    })
    .await;
    scene.writes(CONTACT, "c", "").await;
    assert!(scene.to_eve().is_empty(), "the first file's rule stands");
    scene.writes(OWNER, "o", "").await;
    assert_eq!(scene.to_eve().len(), 1);
}

/// What a run has read of others is asked about before it is mailed to somebody who was not told.
#[tokio::test]
async fn mail_of_others_goes_to_its_readers_and_is_asked_about_for_anybody_else() {
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "search_email", "args": { "query": "KAPPA" } }] },
        { "when": { "turn": 1 }, "call": [{ "tool": "send_email", "args":
            { "to": ["{{header:X}}carol@partner.test"], "subject": "As you wrote", "body": "KAPPA" } }] },
        { "when": { "turn": 2 }, "call": [{ "tool": "send_email", "args":
            { "to": ["dan@partner.test"], "subject": "As she wrote", "body": "KAPPA" } }] },
        { "say": "Done." },
    ] });
    let scene = Scene::with(&script, |workspace| {
        workspace.set(
            "configs/security.json",
            "/send_allow",
            json!(["*@partner.test"]),
        );
    })
    .await;
    let secret = scene.signed(
        CONTACT,
        "ada@engine.test",
        "k",
        "List-Id: <quiet.partner.test>\r\n",
        "KAPPA is the word.",
    );
    scene
        .deliver(&secret, "ada@engine.test")
        .await
        .expect("filed");
    let run = scene.writes(OWNER, "o", "").await;
    let app = &scene.world.app;
    assert_eq!(
        app.trace(&run).await,
        [
            "call search_email",
            "ok search_email",
            "call send_email",
            "ok send_email",
            "call send_email"
        ]
    );
    let question = scene.only_question().await;
    assert_eq!(question.reason["code"], "not_a_reader");
    assert!(
        question.view.starts_with("To: dan@partner.test"),
        "{}",
        question.view
    );
    assert_eq!(
        question.label["readers"]["only"],
        json!(["ada@engine.test", "carol@partner.test"])
    );
}
