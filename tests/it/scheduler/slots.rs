//! Due slots become runs: each once, each accounted for, whatever clocks and processes do.

use super::world::{World, at};
use attache::config::Current;
use attache::domain::{
    ConversationId, MessageId, ResponsibilityId, RunId, RunOptions, SlotOptions, ThreadId, Trigger,
};
use attache::schedule_file::timing::Timing;
use attache::scheduler::Scheduler;
use attache::scheduler::slots::ScheduleInForce;
use attache::store::{
    Content, DueSlot, Fired, Firing, NewRun, NewSynthetic, NextSlot, Place, ScheduledPrompt,
    SlotWork, StoredResponsibility,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

async fn digest_at(now: &str) -> World {
    let world = World::at(now).await;
    world.install("digest.md");
    world.sync().await;
    world
}

#[tokio::test]
async fn nine_in_berlin_fires_once_on_both_nights_of_the_clock_change() {
    for (evening, before, nine, slot) in [
        (
            "2026-03-28T20:00:00Z",
            "2026-03-29T06:59:59Z",
            "2026-03-29T07:00:00Z",
            "2026-03-29T07:00:00.000Z fired",
        ),
        (
            "2026-10-24T20:00:00Z",
            "2026-10-25T07:59:59Z",
            "2026-10-25T08:00:00Z",
            "2026-10-25T08:00:00.000Z fired",
        ),
    ] {
        let world = digest_at(evening).await;
        assert_eq!(world.tick_at(before).await.fired, []);
        assert_eq!(world.tick_at(nine).await.fired.len(), 1);
        assert_eq!(world.tick_at(nine).await.fired, []);
        world.clock.advance(Duration::from_secs(3600));
        assert_eq!(world.scheduler.tick().await.expect("a tick").fired, []);
        assert_eq!(world.history().await, [slot]);
    }
}

#[tokio::test]
async fn a_fired_slot_is_a_synthetic_message_and_a_responsibility_run() {
    let world = digest_at("2026-03-28T20:00:00Z").await;
    let (_, run_id) = world.tick_at("2026-03-29T07:00:00Z").await.fired.remove(0);
    let runs = world.end_runs().await;
    let [run] = runs.as_slice() else {
        panic!("one run, not {runs:?}")
    };
    assert_eq!(
        (&run.id, run.trigger, run.profile.as_str()),
        (&run_id, Trigger::Schedule, "responsibility")
    );
    assert_eq!(world.slots().await[0].run.as_ref(), Some(&run_id));
    // The next firing joins the same thread.
    world.tick_at("2026-03-30T07:00:00Z").await;
    assert_eq!(world.end_runs().await[0].thread, run.thread);
    let row = world.row("digest.md").await;
    assert_eq!(row.last_fired_at, Some(at("2026-03-30T07:00:00Z")));
    assert_eq!(row.next.at, Some(at("2026-03-31T07:00:00Z")));
}

#[tokio::test]
async fn after_downtime_the_newest_slot_fires_the_rest_is_one_row() {
    let minute = digest_at("2026-06-01T06:59:30Z").await;
    assert_eq!(minute.tick_at("2026-06-01T07:00:30Z").await.fired.len(), 1);
    assert_eq!(minute.history().await, ["2026-06-01T07:00:00.000Z fired"]);

    let hour = World::at("2026-06-01T06:30:30Z").await;
    hour.install("minutely.md");
    hour.sync().await;
    let report = hour.tick_at("2026-06-01T07:30:30Z").await;
    assert_eq!((report.fired.len(), report.missed), (1, 59));
    assert_eq!(
        hour.history().await,
        [
            "2026-06-01T06:31:00.000Z missed 59",
            "2026-06-01T07:30:00.000Z fired"
        ]
    );
    assert_eq!(
        hour.slots().await[1].missed_until,
        Some(at("2026-06-01T07:29:00Z"))
    );

    let month = digest_at("2026-06-01T00:00:00Z").await;
    assert_eq!(month.tick_at("2026-07-01T00:00:00Z").await.fired.len(), 1);
    assert_eq!(
        month.history().await,
        [
            "2026-06-01T07:00:00.000Z missed 29",
            "2026-06-30T07:00:00.000Z fired"
        ]
    );
}

#[tokio::test]
async fn a_slot_older_than_the_window_is_accounted_for_but_not_fired() {
    let world = World::at("2026-01-01T00:00:00Z").await;
    world.write(
        "yearly.md",
        "---\nname: Y\nschedule: 0 0 1 6 *\ntimezone: UTC\n---\nReview.",
    );
    world.sync().await;
    let report = world.tick_at("2026-06-08T00:00:00Z").await;
    assert_eq!((report.fired.len(), report.missed), (0, 1));
    assert_eq!(world.history().await, ["2026-06-01T00:00:00.000Z missed 1"]);
    assert_eq!(
        world.row("yearly.md").await.next.at,
        Some(at("2027-06-01T00:00:00Z"))
    );
}

#[test]
fn two_years_of_missed_minutes_cost_a_bounded_count() {
    let timing = Timing::parse("* * * * *", chrono_tz::UTC).expect("a schedule");
    let (id, options) = (ResponsibilityId::new("r"), SlotOptions::default());
    let schedule = ScheduleInForce {
        id: &id,
        timing: &timing,
        options: &options,
    };
    let due = schedule.due(at("2024-06-01T00:00:00Z"), at("2026-06-01T00:00:30Z"));
    assert_eq!(
        (due.on_time, due.late.len()),
        (Some(at("2026-06-01T00:00:00Z")), 0)
    );
    assert_eq!(due.next.at, Some(at("2026-06-01T00:01:00Z")));
    let missed = due.missed.expect("missed slots");
    assert_eq!(
        (missed.first, missed.last),
        (at("2024-06-01T00:01:00Z"), at("2026-05-31T23:59:00Z"))
    );
    assert!(missed.count > 50_000, "{}", missed.count);
}

#[tokio::test]
async fn a_slot_is_skipped_while_the_previous_run_is_not_over() {
    let world = World::at("2026-06-01T06:59:30Z").await;
    world.install("minutely.md");
    world.sync().await;
    assert_eq!(world.tick_at("2026-06-01T07:00:00Z").await.fired.len(), 1);
    let report = world.tick_at("2026-06-01T07:01:00Z").await;
    assert_eq!((report.fired.len(), report.skipped), (0, 1));
    world.end_runs().await;
    assert_eq!(world.tick_at("2026-06-01T07:02:00Z").await.fired.len(), 1);
    assert_eq!(
        world.history().await,
        [
            "2026-06-01T07:00:00.000Z fired",
            "2026-06-01T07:01:00.000Z skipped_overlap",
            "2026-06-01T07:02:00.000Z fired"
        ]
    );
}

#[tokio::test]
async fn a_clock_that_is_set_back_two_hours_fires_nothing_again() {
    let world = World::at("2026-06-01T06:30:00Z").await;
    world.write(
        "hourly.md",
        "---\nname: H\nschedule: 0 * * * *\ntimezone: UTC\n---\nGo.",
    );
    world.sync().await;
    assert_eq!(world.tick_at("2026-06-01T07:00:00Z").await.fired.len(), 1);
    assert_eq!(world.tick_at("2026-06-01T08:00:00Z").await.missed, 0);
    world.end_runs().await;
    assert_eq!(world.tick_at("2026-06-01T06:00:05Z").await.fired, []);
    assert_eq!(world.tick_at("2026-06-01T07:00:05Z").await.fired, []);
    assert_eq!(world.tick_at("2026-06-01T08:00:05Z").await.fired, []);
    // An edit while the clock is behind moves the cursor back, and the slot's row still says that it had its turn.
    world.clock.set(at("2026-06-01T06:10:00Z"));
    world.write(
        "hourly.md",
        "---\nname: H\nschedule: 0 * * * *\ntimezone: UTC\n---\nGo again.",
    );
    world.sync().await;
    assert_eq!(world.tick_at("2026-06-01T07:00:10Z").await.fired, []);
    assert_eq!(world.tick_at("2026-06-01T08:00:10Z").await.fired, []);
    assert_eq!(world.tick_at("2026-06-01T09:00:10Z").await.fired.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn two_processes_that_race_for_the_same_slots_fire_each_once() {
    let world = World::at("2026-06-01T00:00:30Z").await;
    for n in 0..12 {
        world.write(
            &format!("r{n}.md"),
            &format!("---\nname: R{n}\nschedule: '* * * * *'\ntimezone: UTC\n---\nGo."),
        );
    }
    world.sync().await;
    let other = world.second_scheduler().await;
    let mut fired = Vec::new();
    for _ in 0..8 {
        world.clock.advance(Duration::from_secs(60));
        let (ours, theirs) = tokio::join!(world.scheduler.tick(), other.tick());
        fired.extend(ours.expect("a tick").fired);
        fired.extend(theirs.expect("a tick").fired);
        assert_eq!(world.end_runs().await.len(), 12);
    }
    assert_eq!(fired.len(), 12 * 8);
    let runs: BTreeSet<_> = fired.iter().map(|(_, run)| run.clone()).collect();
    assert_eq!(runs.len(), fired.len());
    let slots = world.slots().await;
    assert_eq!(slots.len(), 12 * 8);
    assert!(slots.iter().all(|slot| slot.state == "fired"), "{slots:?}");
}

/// What a tick would hand to the store for the digest of 1 June, with ids of our choice.
pub fn firing(row: &StoredResponsibility, message: &str, run: &str) -> Firing {
    let id = |text: &str| format!("{text}-{message}-{run}");
    let message = NewSynthetic {
        persona: row.persona.clone(),
        id: MessageId::new(message),
        thread: None,
        place: Place {
            mentioned: Vec::new(),
            joins_as: None,
            joins_only: None,
            authenticated: true,
            replaces: None,
            participants: Vec::new(),
            new_conversation: ConversationId::new(id("conversation")),
            new_thread: ThreadId::new(id("thread")),
        },
        content: Content {
            rfc_message_id: id("rfc"),
            trust: attache::domain::Trust::System,
            metadata_json: "{}".into(),
            recipients_json: "{}".into(),
            ..Content::default()
        },
        attachments: Vec::new(),
        run: NewRun {
            id: RunId::new(run),
            trigger: Trigger::Schedule,
            profile: "responsibility".into(),
            budget_micros: None,
            attempts_max: None,
            options: None,
        },
    };
    let slot = at("2026-06-01T07:00:00Z");
    let prompt = ScheduledPrompt {
        message,
        prompt_sha256: String::new(),
        output_schema: None,
        run_options: RunOptions::default(),
    };
    Firing {
        responsibility: row.id.clone(),
        seen: row.version,
        slot_options: row.slot_options.clone(),
        slot: Some(DueSlot {
            at: slot,
            fire_at: slot,
            to: SlotWork::Run(Box::new(prompt)),
        }),
        late: Vec::new(),
        missed: None,
        cursor_at: slot,
        next: NextSlot {
            at: Some(at("2026-06-02T07:00:00Z")),
            fire_at: Some(at("2026-06-02T07:00:00Z")),
            is_done: false,
        },
        now: slot,
    }
}

#[tokio::test]
async fn a_firing_that_was_computed_before_an_edit_writes_nothing() {
    let world = digest_at("2026-06-01T00:00:00Z").await;
    let in_flight = firing(&world.row("digest.md").await, "message-1", "run-1");
    world.clock.set(at("2026-06-01T06:59:59Z"));
    world.write(
        "digest.md",
        "---\nname: Digest\nschedule: 30 9 * * *\ntimezone: Europe/Berlin\n---\nLater.",
    );
    world.sync().await;
    assert_eq!(
        world.store.fire_slot(in_flight).await.expect("an answer"),
        Fired::Stale
    );
    assert_eq!(world.tick_at("2026-06-01T07:00:00Z").await.fired, []);
    assert_eq!(world.history().await, Vec::<String>::new());
    assert_eq!(world.tick_at("2026-06-01T07:30:00Z").await.fired.len(), 1);
}

#[tokio::test]
async fn a_firing_that_fails_leaves_nothing_and_is_tried_again() {
    let world = digest_at("2026-06-01T00:00:00Z").await;
    world.write(
        "other.md",
        "---\nname: Other\nschedule: 0 9 * * *\ntimezone: Europe/Berlin\n---\nGo.",
    );
    world.sync().await;
    world.clock.set(at("2026-06-01T07:00:00Z"));
    let (digest, other) = (world.row("digest.md").await, world.row("other.md").await);
    let taken = world
        .store
        .fire_slot(firing(&digest, "message-1", "run-1"))
        .await
        .expect("a firing");
    assert_eq!(taken, Fired::Run(RunId::new("run-1")));
    // The run's id exists already: the last statement fails, after slot, cursor, thread and message.
    world
        .store
        .fire_slot(firing(&other, "message-2", "run-1"))
        .await
        .expect_err("a refused run");
    assert_eq!(world.row("other.md").await, other);
    assert_eq!(world.history().await, ["2026-06-01T07:00:00.000Z fired"]);
    let retried = world
        .store
        .fire_slot(firing(&other, "message-2", "run-2"))
        .await
        .expect("a firing");
    assert_eq!(retried, Fired::Run(RunId::new("run-2")));
    assert_eq!(world.end_runs().await.len(), 2);
}

#[tokio::test]
async fn an_unrenderable_prompt_is_a_missed_slot_with_its_reason() {
    let world = digest_at("2026-06-01T00:00:00Z").await;
    world.install("exhausting.md");
    world.sync().await;
    let report = world.tick_at("2026-06-01T07:00:00Z").await;
    assert_eq!(
        (report.fired.len(), report.problems.len()),
        (1, 1),
        "{report:?}"
    );
    assert_eq!(
        report.problems[0].file,
        "personas/ada/responsibilities/exhausting.md"
    );
    let slots = world.slots().await;
    let missed = slots
        .iter()
        .find(|slot| slot.responsibility == "Exhausting")
        .expect("a slot");
    assert_eq!((missed.state.as_str(), missed.missed_count), ("missed", 1));
    assert!(
        missed
            .note
            .as_deref()
            .is_some_and(|note| note.contains("cannot be rendered")),
        "{missed:?}"
    );
    assert_eq!(
        world.row("exhausting.md").await.next.at,
        Some(at("2026-06-02T07:00:00Z"))
    );
}

#[tokio::test]
async fn a_start_by_hand_has_its_own_slot_and_keeps_the_schedule() {
    let world = digest_at("2026-06-01T00:00:00Z").await;
    let before = world.row("digest.md").await;
    world.clock.set(at("2026-06-01T05:00:00Z"));
    let run = world.scheduler.start(&before).await.expect("a run");
    world
        .scheduler
        .start(&before)
        .await
        .expect_err("a second start in the same instant");
    let runs = world.end_runs().await;
    assert_eq!((&runs[0].id, runs[0].trigger), (&run, Trigger::Manual));
    let after = world.row("digest.md").await;
    assert_eq!((after.version, after.next), (before.version, before.next));
    assert_eq!(world.slots().await[0].kind, "manual");
    assert_eq!(world.tick_at("2026-06-01T07:00:00Z").await.fired.len(), 1);
    assert_eq!(
        world.end_runs().await[0].thread,
        runs[0].thread,
        "one thread for every firing"
    );
}

#[tokio::test]
async fn a_spoilt_responsibility_is_not_started_by_hand() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    world.install("misspelt.md");
    world.sync().await;
    let error = world
        .scheduler
        .start(&world.row("misspelt.md").await)
        .await
        .expect_err("a refusal");
    assert!(error.to_string().contains("misspelt.md: line 3"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_heartbeat_synchronises_fires_wakes_workers_until_stopped() {
    let world = World::at("2026-06-01T06:59:00Z").await;
    world.install("digest.md");
    let world = Arc::new(world);
    let (wake, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let running = {
        let (wake, stop) = (wake.clone(), stop.clone());
        let working = Current::new(Arc::new(world.second_scheduler().await));
        tokio::spawn(async move { Scheduler::run(&working, &wake, stop).await })
    };
    let stored = async {
        while world
            .store
            .responsibilities()
            .await
            .expect("rows")
            .is_empty()
        {
            crate::app::glance().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), stored)
        .await
        .expect("a synchronisation at the start");
    world.clock.set(at("2026-06-01T07:00:00Z"));
    tokio::time::timeout(Duration::from_secs(30), wake.notified())
        .await
        .expect("a beat that fires");
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(30), running)
        .await
        .expect("an end")
        .expect("a clean end");
    assert_eq!(world.history().await, ["2026-06-01T07:00:00.000Z fired"]);
}
