//! What is answered for a name that nobody proved is counted apart from what its owner is answered.

use super::world::{USUAL, World};
use crate::app::Workspace;
use serde_json::json;

const CAROL: &str = "carol@partner.test";

async fn world(limits: serde_json::Value) -> World {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "Yes." }] }));
    workspace.set("configs/gateway.json", "/limits", limits);
    World::in_workspace(workspace, json!({})).await
}

/// What becomes of a letter, once it is worked off.
async fn disposition(world: &World, eml: &str) -> String {
    let accepted = world.hand_over(eml, None).await.expect("taken");
    world.app.drain().await;
    let sql = "SELECT disposition FROM messages WHERE id = $1";
    world
        .app
        .row(sql, accepted.copies[0].message.as_str())
        .await
        .remove(0)
        .expect("a disposition")
}

#[tokio::test]
async fn forged_letters_use_up_nothing_of_the_sender_named_in_them() {
    let world = world(json!({ "replies_per_hour_max": 3 })).await;
    let forged = |n: usize| world.plain(CAROL, &format!("forged{n}"), "");
    let genuine = |n: usize| {
        world.signed(
            "partner.test",
            &world.plain(CAROL, &format!("genuine{n}"), ""),
        )
    };
    let mut outcomes = Vec::new();
    for n in 0..5 {
        outcomes.push(disposition(&world, &forged(n)).await);
    }
    for n in 0..5 {
        outcomes.push(disposition(&world, &genuine(n)).await);
    }
    outcomes.push(disposition(&world, &forged(9)).await);
    let (run, filed) = ("run", "filed:rate_limited");
    assert_eq!(
        outcomes,
        [
            run, run, run, filed, filed, run, run, run, filed, filed, filed
        ]
    );
    assert_eq!(
        world.app.sent().len(),
        6,
        "nobody's mailbox gets more than the bound twice"
    );
    world.app.check().await;
}

#[tokio::test]
async fn forged_letters_do_not_end_a_thread_for_the_one_whose_it_is() {
    let world = world(json!({ "alternations_max": 4 })).await;
    let reply = "In-Reply-To: <first@x.test>\r\n";
    let first = world.signed("partner.test", &world.plain(CAROL, "first", ""));
    assert_eq!(disposition(&world, &first).await, "run");
    let mut outcomes = Vec::new();
    for n in 0..4 {
        outcomes.push(disposition(&world, &world.plain(CAROL, &format!("f{n}"), reply)).await);
    }
    assert_eq!(
        outcomes,
        ["run", "run", "filed:alternations", "filed:alternations"]
    );
    let fields: Vec<&str> = USUAL.into_iter().chain(["In-Reply-To"]).collect();
    let second = world.plain(CAROL, "second", reply);
    let second = world.signed_with("partner.test", &second, &fields, |signer| signer);
    assert_eq!(disposition(&world, &second).await, "run");
    let sql = "SELECT count(DISTINCT thread_id) || '' FROM messages WHERE disposition <> $1";
    assert_eq!(
        world.app.row(sql, "notice").await[0].as_deref(),
        Some("1"),
        "all of them in one thread"
    );
    world.app.check().await;
}

#[tokio::test]
async fn the_model_is_told_how_its_correspondent_was_proven() {
    let world = world(json!({})).await;
    let reply = "Cc: dan@partner.test\r\nReply-To: desk@partner.test\r\n";
    for (letter, told) in [
        (
            world.signed("partner.test", &world.plain(CAROL, "t1", "")),
            "sender: contact (proven)\\n",
        ),
        (
            world.signed("partner.test", &world.plain(CAROL, "t2", reply)),
            "sender: contact (proven)\\n",
        ),
        (
            world.plain(CAROL, "t3", reply),
            "sender: unauthenticated (anybody can write that name)\\n",
        ),
    ] {
        let accepted = world.hand_over(&letter, None).await.expect("taken");
        world.app.drain().await;
        let sql = "SELECT id FROM runs WHERE trigger_message_id = $1";
        let run = world
            .app
            .row(sql, accepted.copies[0].message.as_str())
            .await
            .remove(0)
            .expect("a run");
        let prompt = world.app.prompts(&run).await[0].to_string();
        assert!(prompt.contains(told), "{told}\n{prompt}");
    }
}
