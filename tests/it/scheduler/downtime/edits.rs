//! One-shots, and edits in the second of a slot.

use super::*;

#[tokio::test]
async fn a_one_shot_fires_once_and_is_done() {
    let world = World::at("2026-06-01T06:30:00Z").await;
    world.write(
        "once.md",
        "---\nname: Once\nat: 2026-06-01 09:00\ntimezone: UTC\n---\nGo.",
    );
    world.sync().await;
    assert_eq!(world.tick_at("2026-06-01T09:00:00Z").await.fired.len(), 1);
    assert!(world.row("once.md").await.next.is_done);
    world.answer_runs().await;
    assert_eq!(
        world.tick_at("2027-06-01T09:00:00Z").await,
        Default::default()
    );
    assert_eq!(world.history().await, ["2026-06-01T09:00:00.000Z fired"]);
}

#[tokio::test]
async fn an_edit_in_the_second_of_a_slot_never_doubles_it() {
    let edit = |minute: u32| {
        format!("---\nname: R\nschedule: '{minute} 7 * * *'\ntimezone: UTC\n---\nChanged.")
    };
    for edit_first in [false, true] {
        let world = every("0 7 * * *", "catch_up: latest", "2026-06-01T06:59:00Z").await;
        world.clock.set(at("2026-06-01T07:00:00Z"));
        world.write("r.md", &edit(0));
        if edit_first {
            world.sync().await;
            assert_eq!(world.scheduler.tick().await.expect("a tick").fired, []);
            assert_eq!(world.history().await, ["2026-06-01T07:00:00.000Z missed 1"]);
        } else {
            assert_eq!(world.scheduler.tick().await.expect("a tick").fired.len(), 1);
            world.sync().await;
            assert_eq!(world.history().await, ["2026-06-01T07:00:00.000Z fired"]);
        }
        assert_eq!(world.scheduler.tick().await.expect("a tick").fired, []);
        let told = world.notices().await;
        assert_eq!(
            told.len(),
            usize::from(edit_first),
            "nothing ran for it: {told:?}"
        );
        world.audit().await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_slot_lost_to_an_edit_is_told_one_taken_away_is_not() {
    let text = "---\nname: R\nschedule: 0 9 * * *\ntimezone: UTC\n---\nGo.";
    let waits = text.replace("timezone", "overlap: buffer_one\ntimezone");
    for is_waiting in [false, true] {
        for (change, told) in [
            ("edited", true),
            ("unusable", true),
            ("disabled", false),
            ("removed", false),
            ("paused and edited", false),
        ] {
            let world = World::at("2026-06-01T06:30:00Z").await;
            let before = if is_waiting { waits.as_str() } else { text };
            world.write("r.md", before);
            world.sync().await;
            if is_waiting {
                // The run of the first is open: the second waits for it.
                assert_eq!(world.tick_at("2026-06-01T09:00:00Z").await.fired.len(), 1);
                assert_eq!(world.tick_at("2026-06-02T09:00:00Z").await.waiting, 1);
            }
            let row = world.row("r.md").await;
            if change == "paused and edited" {
                world
                    .store
                    .pause_responsibility(&row.id, PausedBy::Owner, world.now())
                    .await
                    .expect("a pause");
            }
            world.clock.set(world.now().plus(HOUR * 5));
            match change {
                "unusable" => world.write("r.md", "---\nname: R\nschedule: never\n---\nGo."),
                "disabled" => world.write(
                    "r.md",
                    &before.replace("timezone", "enabled: false\ntimezone"),
                ),
                "removed" => std::fs::remove_file(world.path("r.md")).expect("a file that goes"),
                _ => world.write("r.md", &before.replace("Go.", "Changed.")),
            }
            world.sync().await;
            let notices = world.notices().await;
            let missed: Vec<_> = notices
                .iter()
                .filter(|(kind, _)| kind == "slots_missed")
                .collect();
            assert_eq!(
                missed.len(),
                usize::from(told),
                "{change}, waiting {is_waiting}: {notices:?}"
            );
            assert!(
                missed
                    .iter()
                    .all(|(_, summary)| summary.contains("the file changed")),
                "{notices:?}"
            );
            let lost = world
                .slots()
                .await
                .iter()
                .filter(|slot| slot.state == "missed")
                .count();
            assert_eq!(
                lost,
                usize::from(change != "paused and edited" || !is_waiting),
                "{change}"
            );
            world.audit().await;
        }
    }
}

#[tokio::test]
async fn an_edit_ends_what_waits() {
    let world = every("0 * * * *", "catch_up: all", "2026-06-01T06:30:00Z").await;
    assert_eq!(world.tick_at("2026-06-01T10:30:00Z").await.fired.len(), 1);
    world.write(
        "r.md",
        "---\nname: R\nschedule: 0 * * * *\ntimezone: UTC\n---\nChanged.",
    );
    world.sync().await;
    world.answer_runs().await;
    assert_eq!(world.scheduler.tick().await.expect("a tick").fired, []);
    let states: Vec<_> = world
        .slots()
        .await
        .into_iter()
        .map(|slot| slot.state)
        .collect();
    assert_eq!(states, ["missed", "missed", "missed", "fired"]);
    let told = world.notices().await;
    let [(kind, summary)] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!(kind, "slots_missed");
    assert!(
        summary.contains("3 slots of `R` from 2026-06-01T08:00:00"),
        "{summary}"
    );
    world.audit().await;
}

#[tokio::test]
async fn jitter_is_stable_bounded_spread_and_leaves_the_slot_as_it_is() {
    let timing = Timing::parse("0 9 * * *", chrono_tz::UTC).expect("a schedule");
    let options = SlotOptions {
        jitter: HOUR,
        catch_up: CatchUp::Latest,
        ..SlotOptions::default()
    };
    let slot = at("2026-06-01T09:00:00Z");
    let delay = |name: String| {
        let id = ResponsibilityId::new(name);
        let schedule = ScheduleInForce {
            id: &id,
            timing: &timing,
            options: &options,
        };
        assert_eq!(schedule.fire_at(slot), schedule.fire_at(slot));
        schedule.fire_at(slot).since(slot)
    };
    let delays: Vec<Duration> = (0..1000).map(|n| delay(format!("r{n}"))).collect();
    assert!(delays.iter().all(|delay| *delay < HOUR));
    for quarter in 0..4 {
        let within = HOUR / 4 * quarter..HOUR / 4 * (quarter + 1);
        let count = delays
            .iter()
            .filter(|delay| within.contains(*delay))
            .count();
        assert!((180..320).contains(&count), "quarter {quarter}: {count}");
    }
    let world = every("0 9 * * *", "jitter: 1h", "2026-06-01T00:00:00Z").await;
    let fire_at = world.row("r.md").await.next.fire_at.expect("a time");
    assert!(fire_at > slot && fire_at < slot.plus(HOUR), "{fire_at}");
    let before = fire_at.minus(Duration::from_secs(1)).to_string();
    assert_eq!(world.tick_at(&before).await, Default::default());
    assert_eq!(world.tick_at(&fire_at.to_string()).await.fired.len(), 1);
    assert_eq!(world.history().await, ["2026-06-01T09:00:00.000Z fired"]);
    // One that is due and has not fired is accounted for by an edit.
    world.answer_runs().await;
    world.clock.set(at("2026-06-02T09:00:00Z"));
    world.write(
        "r.md",
        "---\nname: R\nschedule: 0 9 * * *\ntimezone: UTC\n---\nChanged.",
    );
    world.sync().await;
    assert_eq!(
        world.history().await[1],
        "2026-06-02T09:00:00.000Z missed 1"
    );
}
