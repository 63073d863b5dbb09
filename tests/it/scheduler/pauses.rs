//! Pauses, failures in a row, and what the owner is told of slots.

use super::world::{World, at};
use crate::app::db;
use attache::store::FAILURES_MAX;

async fn hourly(options: &str) -> World {
    let world = World::at("2026-06-01T00:30:00Z").await;
    world.write(
        "r.md",
        &format!("---\nname: R\nschedule: 0 * * * *\ntimezone: UTC\n{options}\n---\nGo."),
    );
    world.sync().await;
    world
}

/// Fires and fails `n` slots from one o'clock on.
async fn fail(world: &World, n: u32) {
    for hour in 1..=n {
        assert_eq!(
            world
                .tick_at(&format!("2026-06-01T{hour:02}:00:00Z"))
                .await
                .fired
                .len(),
            1,
            "{hour}"
        );
        assert_eq!(world.fail_runs().await, 1);
    }
}

#[tokio::test]
async fn five_failures_pause_with_one_notice_and_a_person_resumes() {
    let world = hourly("catch_up: latest").await;
    fail(&world, FAILURES_MAX).await;
    assert_eq!(world.row("r.md").await.failures, 5);
    let report = world.tick_at("2026-06-01T06:00:00Z").await;
    assert_eq!(
        (report.fired.len(), report.paused.len(), report.passed),
        (0, 1, 1),
        "{report:?}"
    );
    for hour in ["07", "08", "10"] {
        assert_eq!(
            world
                .tick_at(&format!("2026-06-01T{hour}:00:00Z"))
                .await
                .fired,
            []
        );
    }
    let told = world.notices().await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "responsibility_paused");
    let paused = &world.slots().await[0];
    assert_eq!(
        (paused.state.as_str(), paused.missed_count),
        ("paused", 5),
        "one row grows"
    );
    assert_eq!(
        (paused.slot_at, paused.missed_until),
        (at("2026-06-01T06:00:00Z"), Some(at("2026-06-01T10:00:00Z")))
    );
    world.audit().await;
    // What came due before the resumption is accounted for by it, and nothing fires in retrospect.
    world.clock.set(at("2026-06-01T12:10:00Z"));
    let row = world.row("r.md").await;
    assert!(world.scheduler.resume(&row).await.expect("an answer"));
    assert!(
        !world.scheduler.resume(&row).await.expect("an answer"),
        "it is no longer as it was seen"
    );
    assert_eq!(world.slots().await[0].missed_count, 7);
    let row = world.row("r.md").await;
    assert_eq!((row.failures, row.paused), (0, None));
    assert_eq!(
        world.tick_at("2026-06-01T12:59:00Z").await,
        Default::default()
    );
    assert_eq!(world.tick_at("2026-06-01T13:00:00Z").await.fired.len(), 1);
    world.audit().await;
}

#[tokio::test]
async fn nothing_fires_between_the_fifth_failure_and_the_pause() {
    let world = hourly("catch_up: latest").await;
    fail(&world, FAILURES_MAX).await;
    // A firing that was computed before the pause was seen, as by another process.
    world.clock.set(at("2026-06-01T06:00:00Z"));
    let in_flight = super::slots::firing(&world.row("r.md").await, "message-1", "run-1");
    let fired = world.store.fire_slot(in_flight).await.expect("an answer");
    assert_eq!(fired, attache::store::Fired::Stale);
    // The control: one failure less, and the same firing fires.
    let sql = "UPDATE responsibilities SET failures = 4";
    db::query(sql)
        .execute(&mut world.rows().await)
        .await
        .expect("a change");
    let in_flight = super::slots::firing(&world.row("r.md").await, "message-1", "run-1");
    let fired = world.store.fire_slot(in_flight).await.expect("an answer");
    assert!(matches!(fired, attache::store::Fired::Run(_)), "{fired:?}");
}

#[tokio::test]
async fn a_success_starts_the_count_anew_and_a_cancelled_run_does_not() {
    let world = hourly("catch_up: latest").await;
    fail(&world, 4).await;
    assert_eq!(world.tick_at("2026-06-01T05:00:00Z").await.fired.len(), 1);
    world.end_runs().await; // cancels
    assert_eq!(world.row("r.md").await.failures, 4);
    assert_eq!(world.tick_at("2026-06-01T06:00:00Z").await.fired.len(), 1);
    world.answer_runs().await;
    assert_eq!(world.row("r.md").await.failures, 0);
    // Five failures, and the last one is retried before anybody looks: nothing is paused.
    for hour in 7..=11 {
        assert_eq!(
            world
                .tick_at(&format!("2026-06-01T{hour:02}:00:00Z"))
                .await
                .fired
                .len(),
            1
        );
        world.fail_runs().await;
    }
    let failed = world
        .store
        .failed_runs(&Default::default())
        .await
        .expect("runs");
    let last = failed.last().expect("a run").clone();
    assert_eq!(
        world.store.retry_runs(vec![last]).await.expect("a retry"),
        1
    );
    world.answer_runs().await;
    let report = world.tick_at("2026-06-01T12:00:00Z").await;
    assert_eq!(
        (report.fired.len(), report.paused.len()),
        (1, 0),
        "{report:?}"
    );
}

#[tokio::test]
async fn a_pause_by_a_person_ends_what_waits_and_tells_nobody() {
    let world = hourly("catch_up: all").await;
    assert_eq!(world.tick_at("2026-06-01T04:30:00Z").await.fired.len(), 1);
    let row = world.row("r.md").await;
    assert!(world.scheduler.pause(&row.id).await.expect("an answer"));
    assert!(
        !world.scheduler.pause(&row.id).await.expect("an answer"),
        "it is paused"
    );
    world.answer_runs().await;
    let report = world.tick_at("2026-06-01T06:30:00Z").await;
    assert_eq!((report.fired.len(), report.passed), (0, 2), "{report:?}");
    let slots = world.slots().await;
    let states: Vec<_> = slots
        .iter()
        .map(|slot| (slot.state.as_str(), slot.missed_count))
        .collect();
    assert_eq!(
        states,
        [("paused", 3), ("paused", 1), ("paused", 1), ("fired", 0)]
    );
    assert_eq!(world.notices().await, []);
    world.audit().await;
    // A person may start it by hand all the same.
    world
        .scheduler
        .start(&world.row("r.md").await)
        .await
        .expect("a run");
}

#[tokio::test]
async fn a_file_that_is_renamed_stays_paused_and_keeps_its_failures() {
    let text = |name: &str, prompt: &str| {
        format!("---\nname: {name}\nschedule: 0 * * * *\ntimezone: UTC\n---\n{prompt}")
    };
    // What the file is called and says after it was renamed, and whether it is the one that was paused.
    let cases = [
        ("renamed", "R", "Go.", true),
        ("renamed, with another prompt", "R", "Go now.", true),
        ("renamed, with another name", "S", "Go.", true),
        ("another one", "S", "Stay.", false),
    ];
    for (case, name, prompt, is_the_paused_one) in cases {
        let world = hourly("catch_up: latest").await;
        fail(&world, 2).await;
        assert!(
            world
                .scheduler
                .pause(&world.row("r.md").await.id)
                .await
                .expect("an answer")
        );
        std::fs::remove_file(world.path("r.md")).expect("a file that goes");
        world.write("anew.md", &text(name, prompt));
        world.sync().await;
        let row = world.row("anew.md").await;
        let inherited = if is_the_paused_one {
            (true, 2)
        } else {
            (false, 0)
        };
        assert_eq!((row.paused.is_some(), row.failures), inherited, "{case}");
        let fired = world.tick_at("2026-06-01T06:00:00Z").await.fired.len();
        assert_eq!(fired, usize::from(!is_the_paused_one), "{case}");
        world.audit().await;
    }
}

#[tokio::test]
async fn a_pause_goes_to_and_fro_with_a_file_until_its_resumption() {
    let world = hourly("catch_up: latest").await;
    assert!(
        world
            .scheduler
            .pause(&world.row("r.md").await.id)
            .await
            .expect("an answer")
    );
    std::fs::rename(world.path("r.md"), world.path("anew.md")).expect("a file that moves");
    world.sync().await;
    let row = world.row("anew.md").await;
    assert!(row.paused.is_some() && world.scheduler.resume(&row).await.expect("an answer"));
    std::fs::rename(world.path("anew.md"), world.path("r.md")).expect("a file that moves back");
    world.sync().await;
    assert_eq!(
        world.row("r.md").await.paused,
        None,
        "it was resumed under its other name"
    );
    // A new file beside it begins anew.
    assert!(
        world
            .scheduler
            .pause(&world.row("r.md").await.id)
            .await
            .expect("an answer")
    );
    std::fs::copy(world.path("r.md"), world.path("copy.md")).expect("a copy");
    world.sync().await;
    assert_eq!(world.row("copy.md").await.paused, None, "nothing went");
    world.audit().await;
}

#[tokio::test]
async fn a_slot_that_does_not_end_within_its_grace_time_is_told_once() {
    let world = hourly("grace: 10m\noverlap: buffer_one").await;
    assert_eq!(world.tick_at("2026-06-01T01:00:00Z").await.fired.len(), 1);
    world.tick_at("2026-06-01T01:09:59Z").await;
    assert_eq!(world.notices().await, []);
    for time in ["01:10:00", "01:10:01", "01:40:00"] {
        world.tick_at(&format!("2026-06-01T{time}Z")).await;
        let told = world.notices().await;
        assert_eq!(told.len(), 1, "{time}: {told:?}");
        assert_eq!(told[0].0, "slot_overdue");
        assert!(told[0].1.contains("2026-06-01T01:00:00.000Z"), "{told:?}");
    }
    // One that waits is overdue as well.
    world.tick_at("2026-06-01T02:00:00Z").await;
    world.tick_at("2026-06-01T02:10:00Z").await;
    let told = world.notices().await;
    assert!(
        told.len() == 2 && told[1].1.contains("waits for its turn"),
        "{told:?}"
    );
    // One that ends in time is not.
    world.answer_runs().await;
    world.tick_at("2026-06-01T02:20:00Z").await;
    world.answer_runs().await;
    assert_eq!(world.tick_at("2026-06-01T03:00:00Z").await.fired.len(), 1);
    world.answer_runs().await;
    world.tick_at("2026-06-01T03:30:00Z").await;
    assert_eq!(world.notices().await.len(), 2);
}

#[tokio::test]
async fn a_search_that_finds_no_slot_is_told_once_and_repeated_hourly() {
    let world = hourly("catch_up: latest").await;
    // No calendar has such a day; a file that says so is refused, so the row is made by hand.
    let sql =
        "UPDATE responsibilities SET schedule = '0 0 30 2 *', next_slot_at = NULL, fire_at = NULL";
    db::query(sql)
        .execute(&mut world.rows().await)
        .await
        .expect("a change");
    let row = world.row("r.md").await;
    if attache::schedule_file::timing::Timing::parse(&row.schedule, chrono_tz::UTC).is_err() {
        // Then the row is spoilt and told, which is as loud.
        world.scheduler.tick().await.expect("a tick");
        assert_eq!(world.notices().await[0].0, "responsibility_broken");
        let next = attache::store::NextSlot {
            at: None,
            fire_at: Some(at("2026-06-01T01:30:00Z")),
            is_done: false,
        };
        world
            .store
            .search_again(&row.id, world.row("r.md").await.version, next)
            .await
            .expect("a note");
        world
            .store
            .search_again(&row.id, world.row("r.md").await.version, next)
            .await
            .expect("a note");
        let told = world.notices().await;
        assert_eq!(
            told.iter()
                .filter(|(_, text)| text.contains("no next slot"))
                .count(),
            1,
            "{told:?}"
        );
        return;
    }
    for (time, looked) in [("00:30:00", true), ("00:31:00", false), ("01:30:00", true)] {
        let before = world.row("r.md").await.next.fire_at;
        world.tick_at(&format!("2026-06-01T{time}Z")).await;
        assert_eq!(
            world.row("r.md").await.next.fire_at != before,
            looked,
            "{time}"
        );
    }
    assert_eq!(world.notices().await.len(), 1);
}

#[tokio::test]
async fn the_last_run_is_the_last_success_failures_swallow_no_letters() {
    let world = World::at("2026-06-01T00:30:00Z").await;
    let prompt = "{% if last_run %}Since {{ last_run }}{% else %}First{% endif %}";
    world.write(
        "r.md",
        &format!("---\nname: R\nschedule: 0 * * * *\ntimezone: UTC\n---\n{prompt}"),
    );
    world.sync().await;
    let mut told = Vec::new();
    for (hour, succeeds) in [(1, true), (2, false), (3, true), (4, true)] {
        let fired = world
            .tick_at(&format!("2026-06-01T{hour:02}:00:00Z"))
            .await
            .fired;
        let snapshot =
            db::query_scalar("SELECT prompt_snapshot FROM responsibility_slots WHERE run_id = $1");
        let snapshot: String = snapshot
            .bind(fired[0].1.as_str())
            .fetch_one(&mut world.rows().await)
            .await
            .expect("a slot");
        told.push(snapshot);
        match succeeds {
            true => world.answer_runs().await,
            false => assert_eq!(world.fail_runs().await, 1),
        }
    }
    let since = |hour: u32| format!("Since 2026-06-01T{hour:02}:00:00+00:00");
    assert_eq!(told, ["First".to_owned(), since(1), since(1), since(3)]);
}
