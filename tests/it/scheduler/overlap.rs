//! Runs that are not over when the next slot comes due, and where runs stand.

use super::world::{World, at};
use crate::app::db;
use attache::domain::ThreadId;

async fn hourly(name: &str, options: &str) -> World {
    let world = World::at("2026-06-01T06:30:00Z").await;
    add(&world, name, options);
    world.sync().await;
    world
}

fn add(world: &World, name: &str, options: &str) {
    let head = format!("name: {name}\nschedule: 0 * * * *\ntimezone: UTC\n{options}");
    world.write(&format!("{name}.md"), &format!("---\n{head}\n---\nGo."));
}

#[tokio::test]
async fn buffer_one_keeps_the_first_overlapping_slot_skips_later_ones() {
    let world = hourly("r", "overlap: buffer_one\ngrace: 12h").await;
    assert_eq!(world.tick_at("2026-06-01T07:00:00Z").await.fired.len(), 1);
    assert_eq!(world.tick_at("2026-06-01T08:00:00Z").await.waiting, 1);
    assert_eq!(world.tick_at("2026-06-01T09:00:00Z").await.skipped, 1);
    world.audit().await;
    world.answer_runs().await;
    let report = world.tick_at("2026-06-01T09:30:00Z").await;
    assert_eq!(report.fired.len(), 1);
    assert_eq!(
        world.scheduler.tick().await.expect("a tick").fired,
        [],
        "it fires once"
    );
    assert_eq!(
        world.history().await,
        [
            "2026-06-01T07:00:00.000Z fired",
            "2026-06-01T08:00:00.000Z fired",
            "2026-06-01T09:00:00.000Z skipped_overlap"
        ]
    );
    // What waited and what comes due in the same beat: both have their turn, one after the other.
    assert_eq!(world.tick_at("2026-06-01T10:00:00Z").await.waiting, 1);
    world.answer_runs().await;
    let report = world.tick_at("2026-06-01T11:00:00Z").await;
    assert_eq!(
        (report.fired.len(), report.waiting, report.skipped),
        (1, 1, 0),
        "{report:?}"
    );
    assert_eq!(world.notices().await, []);
}

#[tokio::test]
async fn a_slow_run_never_delays_the_slot_of_another_responsibility() {
    let world = hourly("slow", "catch_up: latest").await;
    add(&world, "quick", "catch_up: latest");
    world.sync().await;
    assert_eq!(world.tick_at("2026-06-01T07:00:00Z").await.fired.len(), 2);
    let claimed = world.store.claim_runs(4, 2).await.expect("claims");
    assert_eq!(claimed.len(), 2);
    let quick = world.row("quick.md").await;
    for (hour, run) in [("08", 1), ("09", 2), ("10", 3)] {
        // Only the quick one ends.
        let sql =
            "UPDATE runs SET state = 'succeeded', stop_reason = 'answered', finished_at = 'x' WHERE id IN
            (SELECT run_id FROM responsibility_slots WHERE responsibility_id = $1)";
        db::query(sql)
            .bind(quick.id.as_str())
            .execute(&mut world.rows().await)
            .await
            .expect("an end");
        let report = world.tick_at(&format!("2026-06-01T{hour}:00:00Z")).await;
        assert_eq!((report.fired.len(), report.skipped), (1, 1), "{report:?}");
        assert_eq!(report.fired[0].0, quick.id);
        let next = world.store.claim_runs(4, 2).await.expect("claims");
        assert_eq!(
            next.len(),
            1,
            "round {run}: it is worked on at once, beside the slow one"
        );
    }
}

#[tokio::test]
async fn open_runs_of_letters_in_the_thread_do_not_count() {
    let world = hourly("r", "overlap: skip").await;
    world.tick_at("2026-06-01T07:00:00Z").await;
    world.answer_runs().await;
    // A letter that answers the persona's: a run in the same thread, of nobody's slot.
    let sql = "INSERT INTO runs (id, persona_id, thread_id, trigger, trigger_message_id, profile, state, created_at)
        SELECT 'letter', persona_id, thread_id, 'email', trigger_message_id, 'thread', 'queued', created_at FROM runs";
    db::query(sql)
        .execute(&mut world.rows().await)
        .await
        .expect("a run");
    let report = world.tick_at("2026-06-01T08:00:00Z").await;
    assert_eq!((report.fired.len(), report.skipped), (1, 0), "{report:?}");
    // Its own does.
    assert_eq!(world.tick_at("2026-06-01T09:00:00Z").await.skipped, 1);
}

#[tokio::test]
async fn a_run_stands_in_the_thread_its_file_names_or_comes_home() {
    let world = hourly("other", "catch_up: latest").await;
    world.tick_at("2026-06-01T07:00:00Z").await;
    let named = world.row("other.md").await.thread.expect("a thread");
    std::fs::remove_file(world.path("other.md")).expect("removed");
    add(&world, "r", "catch_up: latest");
    world.sync().await;
    world.answer_runs().await;
    world.tick_at("2026-06-01T08:00:00Z").await;
    let own = world.row("r.md").await.thread.expect("a thread");
    assert_ne!(own, named);
    add(&world, "r", &format!("deliver_to:\n  thread: {named}"));
    world.sync().await;
    assert_eq!(world.row("r.md").await.error, None);
    // The open run stands at home, the next one is to stand elsewhere: they overlap all the same.
    assert_eq!(world.tick_at("2026-06-01T09:00:00Z").await.skipped, 1);
    world.answer_runs().await;
    assert_eq!(world.tick_at("2026-06-01T10:00:00Z").await.fired.len(), 1);
    assert_eq!(world.row("r.md").await.thread, Some(named.clone()));
    assert_eq!(world.tick_at("2026-06-01T11:00:00Z").await.skipped, 1);
    add(&world, "r", "catch_up: latest");
    world.sync().await;
    world.answer_runs().await;
    assert_eq!(world.tick_at("2026-06-01T12:00:00Z").await.fired.len(), 1);
    assert_eq!(world.row("r.md").await.thread, Some(own));
    world.audit().await;
}

#[tokio::test]
async fn whoever_is_written_to_anew_gets_nothing_others_were_told() {
    let world = hourly("r", "deliver_to: store").await;
    let mut threads = Vec::new();
    // The owner may read what was stored; Ann may not, nor may Ben what Ann was told, nor Ann what the owner was.
    let options = [
        "deliver_to: mail",
        "deliver_to:\n  mail: [ann@example.test]",
        "deliver_to:\n  mail: [ben@friends.test]",
        "deliver_to: store",
    ];
    for (hour, options) in (7..).zip([None].into_iter().chain(options.map(Some))) {
        if let Some(options) = options {
            add(&world, "r", options);
            world.sync().await;
            assert_eq!(world.row("r.md").await.error, None, "{options}");
        }
        assert_eq!(
            world
                .tick_at(&format!("2026-06-01T{hour:02}:00:00Z"))
                .await
                .fired
                .len(),
            1
        );
        world.answer_runs().await;
        threads.push(world.row("r.md").await.thread.expect("a thread"));
    }
    assert_eq!(threads[0], threads[1]);
    let apart: std::collections::BTreeSet<_> =
        threads[1..].iter().map(ToString::to_string).collect();
    assert_eq!(apart.len(), 4, "{threads:?}");
    world.audit().await;
}

#[tokio::test]
async fn a_slot_whose_thread_is_gone_is_missed_and_told() {
    let world = hourly("r", "catch_up: latest").await;
    let sql = "UPDATE responsibilities SET run_options_json = $1";
    let options = "{\"deliver_to\":{\"thread\":\"nowhere\"}}";
    db::query(sql)
        .bind(options)
        .execute(&mut world.rows().await)
        .await
        .expect("terms");
    let report = world.tick_at("2026-06-01T07:00:00Z").await;
    assert_eq!(report.fired, []);
    let slot = &world.slots().await[0];
    assert_eq!((slot.state.as_str(), slot.missed_count), ("missed", 1));
    assert!(
        slot.note
            .as_deref()
            .is_some_and(|note| note.contains("`nowhere`")),
        "{slot:?}"
    );
    // A late one too, and by hand.
    world.tick_at("2026-06-01T08:30:00Z").await;
    assert_eq!(
        world.history().await[1],
        "2026-06-01T08:00:00.000Z missed 1"
    );
    let told = world.notices().await;
    assert_eq!(told.len(), 2, "{told:?}");
    let error = world
        .scheduler
        .start(&world.row("r.md").await)
        .await
        .expect_err("no thread");
    assert!(
        format!("{error:?}").contains(ThreadId::new("nowhere").as_str()),
        "{error:?}"
    );
    assert_eq!(world.now(), at("2026-06-01T08:30:00Z"));
    world.audit().await;
}
