//! `runs answer last`: the newest letter that a persona may be told to answer.

use crate::app::db;
use crate::identity::world::World;

/// The rule of the newest letter, and whether `last` is that letter.
const NEWEST: [(&str, bool); 19] = [
    ("unauthenticated", true),
    ("unverifiable", true),
    ("not_addressed", true),
    ("rate_limited", true),
    ("alternations", true),
    ("hop_limit", true),
    ("malformed", true),
    ("null_sender", true),
    ("robot_sender", true),
    ("list", true),
    ("bounce_address", true),
    ("approval_answer", false),
    ("unproven_answer", false),
    ("stale_answer", false),
    ("command", false),
    ("bounce", false),
    ("bounce_unknown", false),
    ("own_mail", false),
    ("unreadable", false),
];

#[tokio::test]
async fn the_last_letter_to_answer_is_no_decision_command_or_bounce() {
    let world = World::start().await;
    for id in ["first", "second"] {
        let letter = world.plain(&format!("{id}@unknown.test"), id, "");
        world.hand_over(&letter, None).await.expect("filed");
    }
    let mut rows = world.app.workspace.rows().await;
    for (rule, is_last) in NEWEST {
        let sql = "UPDATE messages SET disposition = $1 WHERE message_id = 'second@x.test'";
        let changed = db::query(sql)
            .bind(format!("filed:{rule}"))
            .execute(&mut rows)
            .await;
        assert_eq!(changed.expect("changed").rows_affected(), 1);
        let found = world
            .app
            .engine
            .store
            .newest_unanswered()
            .await
            .expect("read");
        let sender = found.expect("a letter").sender;
        let wanted = if is_last {
            "second@unknown.test"
        } else {
            "first@unknown.test"
        };
        assert!(sender.contains(wanted), "{rule}: {sender}");
    }
    let sql = "UPDATE messages SET disposition = 'filed:command'";
    db::query(sql).execute(&mut rows).await.expect("changed");
    let found = world
        .app
        .engine
        .store
        .newest_unanswered()
        .await
        .expect("read");
    assert_eq!(found, None);
}
