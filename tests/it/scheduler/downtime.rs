//! What becomes of slots that came due while nobody looked: the table of downtimes, windows, order, and jumps of the clock.

mod edits;

use super::world::{World, at};
use crate::app::database::is_sqlite_only;
use crate::app::db;
use attache::domain::{CatchUp, PausedBy, ResponsibilityId, SlotOptions};
use attache::schedule_file::timing::Timing;
use attache::scheduler::slots::ScheduleInForce;
use attache::store::{CATCHING_UP_MAX, NextSlot, PowerCut};
use std::collections::BTreeSet;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn every(schedule: &str, options: &str, now: &str) -> World {
    let world = World::at(now).await;
    world.write(
        "r.md",
        &format!("---\nname: R\nschedule: '{schedule}'\ntimezone: UTC\n{options}\n---\nGo."),
    );
    world.sync().await;
    world
}

/// Ticks until nothing waits, ending the runs of each tick; gives the slots that fired, in order.
async fn caught_up(world: &World) -> Vec<String> {
    let mut fired = Vec::new();
    for _ in 0..100 {
        let report = world.scheduler.tick().await.expect("a tick");
        assert!(report.problems.is_empty(), "{report:?}");
        for (_, run) in &report.fired {
            let slots = world.slots().await;
            let slot = slots
                .iter()
                .find(|slot| slot.run.as_ref() == Some(run))
                .expect("its slot");
            fired.push(slot.slot_at.to_string());
        }
        world.answer_runs().await;
        if report.fired.is_empty() {
            return fired;
        }
    }
    panic!("it never ends: {fired:?}");
}

/// Every slot of an hourly schedule is accounted for once, whatever the downtime and the policy.
#[tokio::test]
#[ignore = "second tier"]
async fn each_policy_accounts_for_downtimes_of_a_minute_to_two_years() {
    // (downtime, policy) -> fired, counted as missed, notices. The engine goes down at 06:59:30, the first slot is at 07:00.
    let table = [
        (MINUTE, "latest", 1, 0, 0),
        (MINUTE, "skip", 1, 0, 0),
        (MINUTE, "all", 1, 0, 0),
        (HOUR + MINUTE * 10, "latest", 1, 1, 0),
        (HOUR + MINUTE * 10, "skip", 0, 2, 1),
        (HOUR + MINUTE * 10, "all", 2, 0, 0),
        (DAY * 30, "latest", 1, 719, 0),
        (DAY * 30, "skip", 0, 720, 1),
        (DAY * 30, "all", 24, 696, 1),
        (DAY * 730, "latest", 1, 17_519, 0),
        (DAY * 730, "skip", 0, 17_520, 1),
        (DAY * 730, "all", 24, 17_496, 1),
    ];
    for (downtime, policy, fired, missed, notices) in table {
        let world = every(
            "0 * * * *",
            &format!("catch_up: {policy}"),
            "2026-06-01T06:59:30Z",
        )
        .await;
        world.clock.set(world.now().plus(downtime));
        let began = caught_up(&world).await;
        let case = format!("{downtime:?} {policy}");
        assert_eq!(began.len(), fired, "{case}: {began:?}");
        assert!(began.is_sorted(), "{case}: {began:?}");
        let counted: i64 = world
            .slots()
            .await
            .iter()
            .map(|slot| slot.missed_count)
            .sum();
        assert_eq!(counted, missed, "{case}: {:?}", world.history().await);
        let told = world.notices().await;
        assert_eq!(told.len(), notices, "{case}: {told:?}");
        assert!(
            told.iter().all(|(kind, _)| kind == "slots_missed"),
            "{case}: {told:?}"
        );
        world.audit().await;
        // Nothing of it comes back.
        world.clock.set(world.now().plus(MINUTE / 3));
        assert_eq!(caught_up(&world).await, Vec::<String>::new(), "{case}");
    }
}

#[tokio::test]
async fn all_fires_oldest_first_and_each_waits_for_the_one_before() {
    let world = every("0 * * * *", "catch_up: all", "2026-06-01T06:30:00Z").await;
    let report = world.tick_at("2026-06-01T10:30:00Z").await;
    assert_eq!((report.fired.len(), report.waiting), (1, 4), "{report:?}");
    for hour in ["08", "09", "10"] {
        assert_eq!(
            world.scheduler.tick().await.expect("a tick").fired,
            [],
            "the run before is open"
        );
        world.audit().await;
        world.answer_runs().await;
        assert_eq!(world.scheduler.tick().await.expect("a tick").fired.len(), 1);
        let newest = world.row("r.md").await.last_fired_at.expect("a slot");
        assert_eq!(newest, at(&format!("2026-06-01T{hour}:00:00Z")));
    }
    assert_eq!(world.notices().await, []);
}

#[tokio::test]
async fn after_downtime_at_most_two_late_runs_work_and_delay_no_slot() {
    let world = World::at("2026-06-01T06:30:00Z").await;
    for n in 0..9 {
        let head = format!("name: R{n}\nschedule: 0 7 * * *\ntimezone: UTC");
        world.write(&format!("r{n}.md"), &format!("---\n{head}\n---\nGo."));
    }
    world.write(
        "now.md",
        "---\nname: Now\nschedule: 30 8 * * *\ntimezone: UTC\n---\nGo.",
    );
    world.sync().await;
    let report = world.tick_at("2026-06-01T08:30:00Z").await;
    assert_eq!(
        (report.fired.len(), report.waiting),
        (1 + 2, 9),
        "{report:?}"
    );
    assert_eq!(CATCHING_UP_MAX, 2);
    let mut fired: BTreeSet<_> = report.fired.into_iter().map(|(id, _)| id).collect();
    for _ in 0..4 {
        assert_eq!(
            world.scheduler.tick().await.expect("a tick").fired,
            [],
            "both places are taken"
        );
        world.answer_runs().await;
        fired.extend(
            world
                .scheduler
                .tick()
                .await
                .expect("a tick")
                .fired
                .into_iter()
                .map(|(id, _)| id),
        );
    }
    assert_eq!(fired.len(), 10, "nobody was left out");
    world.audit().await;
}

#[tokio::test]
async fn a_late_run_that_is_parked_gives_its_place_away() {
    let world = World::at("2026-06-01T06:30:00Z").await;
    for n in 0..4 {
        let head = format!("name: R{n}\nschedule: 0 7 * * *\ntimezone: UTC");
        world.write(&format!("r{n}.md"), &format!("---\n{head}\n---\nGo."));
    }
    world.sync().await;
    assert_eq!(world.tick_at("2026-06-01T08:30:00Z").await.fired.len(), 2);
    let park = "UPDATE runs SET state = 'waiting_retry', error_class = 'budget', next_attempt_at = '2026-07-01T00:00:00.000Z'";
    db::query(park)
        .execute(&mut world.rows().await)
        .await
        .expect("parked runs");
    assert_eq!(world.scheduler.tick().await.expect("a tick").fired.len(), 2);
    world.audit().await;
}

#[tokio::test]
async fn a_slot_that_waits_beyond_the_window_is_missed_and_told() {
    let options = "catch_up: all\ncatch_up_window: 3h";
    let world = every("0 * * * *", options, "2026-06-01T06:30:00Z").await;
    assert_eq!(world.tick_at("2026-06-01T08:30:00Z").await.fired.len(), 1);
    // Its run takes days, with an engine that is not there.
    world.clock.set(at("2026-06-03T08:30:00Z"));
    world.answer_runs().await;
    let report = world.scheduler.tick().await.expect("a tick");
    assert!(report.missed > 0, "{report:?}");
    let began = caught_up(&world).await;
    assert!(
        began.iter().all(|slot| slot.starts_with("2026-06-03")),
        "{began:?}"
    );
    let slots = world.slots().await;
    let eight = slots
        .iter()
        .find(|slot| slot.slot_at == at("2026-06-01T08:00:00Z"))
        .expect("a row");
    assert_eq!(
        (eight.state.as_str(), eight.missed_count),
        ("missed", 1),
        "{eight:?}"
    );
    let told = world.notices().await;
    assert!(
        told.iter()
            .any(|(_, summary)| summary.contains("waited for longer")),
        "{told:?}"
    );
    world.audit().await;
}

#[tokio::test]
async fn a_clock_jump_of_400_days_misses_what_lies_between() {
    let world = every("0 9 * * *", "catch_up: latest", "2026-06-01T00:00:00Z").await;
    world.clock.set(at("2027-07-06T00:00:00Z"));
    assert_eq!(caught_up(&world).await, ["2027-07-05T09:00:00.000Z"]);
    assert_eq!(world.slots().await[1].missed_count, 399);
    assert_eq!(world.tick_at("2027-07-06T09:00:00Z").await.fired.len(), 1);
}

#[tokio::test]
async fn a_clock_put_right_by_a_year_does_not_silence_what_it_touched() {
    let world = every("0 9 * * *", "catch_up: latest", "2026-06-01T00:00:00Z").await;
    let before = world.scheduler.times();
    world.clock.set(at("2027-06-01T08:00:00Z"));
    assert_eq!(caught_up(&world).await, ["2027-05-31T09:00:00.000Z"]);
    let wrong = world.scheduler.times();
    world.clock.set(at("2026-06-02T08:00:00Z"));
    assert!(
        world.scheduler.mind_clock(wrong).await.1,
        "a step of the clock"
    );
    assert_eq!(world.tick_at("2026-06-02T09:00:00Z").await.fired.len(), 1);
    world.audit().await;
    // An hour ahead is made up for by waiting, and nothing fires twice.
    world.answer_runs().await;
    let right = world.scheduler.times();
    world.clock.set(at("2026-06-02T07:00:00Z"));
    assert!(world.scheduler.mind_clock(right).await.1);
    assert_eq!(
        world.row("r.md").await.version.cursor_at,
        at("2026-06-02T09:00:00Z")
    );
    assert_eq!(world.tick_at("2026-06-02T09:00:05Z").await.fired, []);
    assert!(before.0 < right.0);
}

#[tokio::test]
#[ignore = "second tier"]
async fn five_hundred_slots_that_come_due_together_share_commits() {
    if is_sqlite_only("writes that share a commit") {
        return;
    }
    for side_by_side in [true, false] {
        let world = World::at("2026-06-01T06:59:00Z").await;
        for n in 0..500 {
            let head = format!("name: R{n}\nschedule: 0 7 * * *\ntimezone: UTC");
            world.write(&format!("r{n}.md"), &format!("---\n{head}\n---\nGo."));
        }
        world.sync().await;
        world.clock.set(at("2026-06-01T07:00:00Z"));
        // Statements take so little time that only some five wait together.
        world.store.cut_power(PowerCut::BeforeCommit(250));
        if side_by_side {
            assert_eq!(
                world.scheduler.tick().await.expect("a tick").fired.len(),
                500
            );
            continue;
        }
        // The control: one after the other they need a commit each, and the power is cut.
        let mut stored = 0;
        for row in world
            .store
            .due_responsibilities(world.now(), None, 500)
            .await
            .expect("rows")
        {
            let set = world.store.set_next_slot(
                &row.id,
                row.version,
                NextSlot {
                    is_done: true,
                    ..row.next
                },
            );
            let answer = tokio::time::timeout(Duration::from_secs(5), set).await;
            if !matches!(answer, Ok(Ok(()))) {
                break;
            }
            stored += 1;
        }
        assert!((1..250).contains(&stored), "{stored} were stored");
    }
}

#[tokio::test]
async fn a_process_stopped_for_ten_minutes_finds_its_slot_late_once() {
    let world = every("5 7 * * *", "catch_up: latest", "2026-06-01T07:00:00Z").await;
    let other = world.second_scheduler().await;
    world.clock.advance(Duration::from_secs(600));
    // One wakes before the other, and both have slept.
    assert_eq!(world.scheduler.tick().await.expect("a tick").fired.len(), 1);
    assert_eq!(other.tick().await.expect("a tick").fired, []);
    assert_eq!(world.history().await, ["2026-06-01T07:05:00.000Z fired"]);
}

#[tokio::test]
async fn two_hours_back_with_a_slot_in_flight_fire_nothing_again() {
    let world = every("0 * * * *", "overlap: buffer_one", "2026-06-01T06:30:00Z").await;
    assert_eq!(world.tick_at("2026-06-01T07:00:00Z").await.fired.len(), 1);
    // The run is open, the next slot waits for it, and the clock goes back.
    assert_eq!(world.tick_at("2026-06-01T08:00:00Z").await.waiting, 1);
    for time in ["06:00:05", "07:00:05", "08:00:05"] {
        let report = world.tick_at(&format!("2026-06-01T{time}Z")).await;
        assert_eq!(
            (report.fired.len(), report.skipped, report.missed),
            (0, 0, 0),
            "{time}: {report:?}"
        );
    }
    world.clock.set(at("2026-06-01T06:10:00Z"));
    world.answer_runs().await;
    assert_eq!(
        world.scheduler.tick().await.expect("a tick").fired.len(),
        1,
        "what waited has its turn"
    );
    world.answer_runs().await;
    assert_eq!(world.tick_at("2026-06-01T08:00:05Z").await.fired, []);
    assert_eq!(
        world.history().await,
        [
            "2026-06-01T07:00:00.000Z fired",
            "2026-06-01T08:00:00.000Z fired"
        ]
    );
    world.audit().await;
}
