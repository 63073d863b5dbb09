//! `forward_email`: the mail whole, under a note, to whoever may have it; the owner is asked about everybody else.

use super::search::{as_owner, run_deps};
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use serde_json::{Value, json};

#[tokio::test]
async fn a_mail_is_forwarded_whole_below_a_note() {
    let mut run_deps = run_deps().await;
    as_owner(&mut run_deps);
    let args = json!({ "id": "m1", "to": "owner@home.test", "note": "For **you**." });
    let forwarded = run_deps.call("forward_email", args).await.expect("a draft");
    let draft = forwarded.mail.expect("a mail");
    assert_eq!(draft.subject, "Fwd: Late supper");
    assert!(!draft.is_reply);
    let expected =
        "For **you**.\n\n> Forwarded message\n>\n> From: Carol Kern <carol@partner.test>  \n";
    assert!(draft.body.starts_with(expected), "{}", draft.body);
    assert!(
        draft
            .body
            .ends_with("> May we eat at ten? We are four.  \n"),
        "{}",
        draft.body
    );
    assert_eq!(forwarded.result["queued"], true);
    for (args, expected) in [
        (
            json!({ "id": "m5", "to": "owner@home.test" }),
            "message_not_found",
        ),
        (
            json!({ "id": "m1", "to": "ada@engine.test" }),
            "recipient_is_self",
        ),
        (json!({ "id": "m1", "to": "no address" }), "bad_address"),
        (
            json!({ "id": "m1", "to": "owner@home.test", "note": "a\u{1b}[2J" }),
            "bad_note",
        ),
    ] {
        assert_eq!(run_deps.failure("forward_email", args).await.0, expected);
    }
}

/// Finds the letter about KAPPA and forwards it to these, one after another.
fn forwards(to: &[&str]) -> Value {
    let mut turns = vec![
        json!({ "when": { "turn": 0 }, "call": [{ "tool": "search_email", "args": { "query": "KAPPA" } }] }),
    ];
    for (turn, address) in (1..).zip(to) {
        let args = json!({ "id": "{{header:X-Id}}", "to": address, "note": "See below." });
        turns.push(json!({ "when": { "turn": turn }, "call": [{ "tool": "forward_email", "args": args }] }));
    }
    turns.push(json!({ "say": "Done." }));
    json!({ "rules": turns })
}

#[tokio::test]
async fn whoever_may_not_read_a_mail_gets_it_with_the_owners_yes_alone() {
    let mut script = forwards(&["carol@partner.test", "dan@partner.test"]);
    for turn in [1, 2] {
        script["rules"][turn]["call"][0]["args"]["id"] = json!("{{result:/result/messages/0/id}}");
    }
    // The second call finds the id in the first one's place: a search stands between.
    script["rules"][2]["call"] = json!([
        { "tool": "search_email", "args": { "query": "KAPPA" } },
    ]);
    let again = json!({ "when": { "turn": 3 }, "call": [{ "tool": "forward_email", "args":
        { "id": "{{result:/result/messages/0/id}}", "to": "dan@partner.test" } }] });
    let rules = script["rules"].as_array_mut().expect("rules");
    rules.insert(3, again);
    let scene = Scene::with(&script, |workspace| {
        let allow = json!(["*@partner.test"]);
        workspace.set("configs/security.json", "/send_allow", allow);
    })
    .await;
    let quiet = "List-Id: <quiet.partner.test>\r\n";
    let secret = scene.signed(CONTACT, "ada@engine.test", "k", quiet, "KAPPA is the word.");
    scene
        .deliver(&secret, "ada@engine.test")
        .await
        .expect("filed");
    let run = scene.writes(OWNER, "o", "").await;
    let app = &scene.world.app;
    let trace = app.trace(&run).await;
    assert_eq!(
        trace,
        [
            "call search_email",
            "ok search_email",
            "call forward_email",
            "ok forward_email",
            "call search_email",
            "ok search_email",
            "call forward_email",
        ]
    );
    let sent = app.sent();
    let to_carol = sent
        .iter()
        .find(|mail| mail.subject.starts_with("Fwd: "))
        .expect("a mail");
    assert!(
        to_carol.text.contains("KAPPA is the word."),
        "{}",
        to_carol.text
    );
    let question = scene.only_question().await;
    assert_eq!(question.reason["code"], "not_a_reader");
    assert!(
        question.view.starts_with("To: dan@partner.test"),
        "{}",
        question.view
    );
    app.check().await;
}
