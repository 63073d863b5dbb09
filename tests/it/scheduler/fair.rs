//! Claims are fair: whoever has a backlog does not hold up anybody else.

use super::world::World;
use crate::app::db;
use std::collections::BTreeMap;

/// A world whose personas have so many runs queued, each in a thread of its own, in this order.
async fn queued(backlogs: &[(&str, usize)]) -> World {
    let world = World::at("2026-06-01T06:59:30Z").await;
    world.install("minutely.md");
    world.sync().await;
    world.tick_at("2026-06-01T07:00:00Z").await;
    world.answer_runs().await;
    let mut rows = world.rows().await;
    for (persona, count) in backlogs {
        let ids = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)";
        let threads = format!(
            "INSERT INTO threads (id, conversation_id, persona_id, subject, created_at, updated_at) {ids}
             SELECT $1 || i, t.conversation_id, $1, '', '', '' FROM n, (SELECT * FROM threads LIMIT 1) t"
        );
        let runs = format!(
            "INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at) {ids}
             SELECT $1 || i, $1, $1 || i, 'email', m.id, 'thread', 'queued', '2026-06-01T07:00:00.000Z'
             FROM n, (SELECT * FROM messages LIMIT 1) m"
        );
        for sql in [threads, runs] {
            let insert = db::query(sqlx::AssertSqlSafe(sql)).bind(*persona);
            insert
                .bind(i64::try_from(*count).expect("small"))
                .execute(&mut rows)
                .await
                .expect("rows");
        }
    }
    world
}

async fn claim(world: &World, limit: usize, per_persona: usize) -> Vec<String> {
    let runs = world
        .store
        .claim_runs(limit, per_persona)
        .await
        .expect("claims");
    runs.into_iter().map(|run| run.id.to_string()).collect()
}

#[tokio::test]
async fn a_backlog_of_thousands_does_not_hide_the_runs_of_others() {
    let world = queued(&[("busy", 3000), ("calm", 1), ("rare", 1)]).await;
    assert_eq!(
        claim(&world, 4, 2).await,
        ["busy1", "busy2", "calm1", "rare1"]
    );
    assert_eq!(
        claim(&world, 4, 2).await,
        Vec::<String>::new(),
        "its places are taken"
    );
    world.answer_runs().await;
}

#[tokio::test]
async fn who_has_fewest_runs_at_work_is_first_then_who_waits_longest() {
    let world = queued(&[("anna", 5), ("bert", 5), ("carl", 5)]).await;
    assert_eq!(claim(&world, 1, 4).await, ["anna1"]);
    assert_eq!(claim(&world, 2, 4).await, ["bert1", "carl1"]);
    // One each, before anybody has a second one of this claim.
    assert_eq!(
        claim(&world, 4, 4).await,
        ["anna2", "anna3", "bert2", "carl2"]
    );
    assert_eq!(claim(&world, 100, 4).await.len(), 3 * 4 - 7);
    let mut per_persona = BTreeMap::<String, usize>::new();
    for id in db::query_scalar::<String>("SELECT persona_id FROM runs WHERE state = 'running'")
        .fetch_all(&mut world.rows().await)
        .await
        .expect("runs")
    {
        *per_persona.entry(id).or_default() += 1;
    }
    assert!(
        per_persona.values().all(|running| *running == 4),
        "{per_persona:?}"
    );
}

#[tokio::test]
async fn one_persona_alone_may_have_every_place_that_it_is_allowed() {
    let world = queued(&[("busy", 1000)]).await;
    assert_eq!(
        claim(&world, 400, 400).await.len(),
        256,
        "one look is bounded"
    );
    assert_eq!(claim(&world, 400, 400).await.len(), 400 - 256);
    assert_eq!(claim(&world, 400, 400).await.len(), 0);
}
