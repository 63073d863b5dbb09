//! Files on disk become rows; a bad one stops only itself.

mod prompts;

use super::world::{World, at, names};
use attache::config::{Persona, Personas};
use attache::domain::{CatchUp, DeliverTo};
use attache::schedule_file::prompt::{PromptVariables, check, render};
use attache::scheduler::{Scheduler, SyncReport};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn a_bad_file_stops_itself_and_its_error_names_file_and_line() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    world.install("digest.md");
    world.install("misspelt.md");
    world.write("README.md", "Not a responsibility.");
    world.write("notes.txt", "Nor this.");
    let report = world.sync().await;
    assert_eq!((report.added, report.problems.len()), (2, 1));
    let error = world.row("misspelt.md").await.error.expect("an error");
    assert!(
        error.starts_with("personas/ada/responsibilities/misspelt.md: line 3: "),
        "{error}"
    );
    assert!(error.contains("did you mean `schedule`?"), "{error}");
    let fired = world.tick_at("2026-06-01T07:00:00Z").await.fired;
    assert_eq!(fired.len(), 1, "the good file fires");
    assert_eq!(fired[0].0, world.row("digest.md").await.id);
}

#[tokio::test]
async fn an_unchanged_folder_changes_nothing() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    world.install("digest.md");
    world.sync().await;
    let before = world.row("digest.md").await;
    world.clock.set(at("2026-06-01T01:00:00Z"));
    assert_eq!(world.sync().await, SyncReport::default());
    let restarted = world.second_scheduler().await;
    assert_eq!(
        restarted.sync().await.expect("a synchronisation"),
        SyncReport::default()
    );
    assert_eq!(world.row("digest.md").await, before);
}

#[tokio::test]
async fn after_a_restart_a_file_that_looks_the_same_is_not_read_again() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let write = |minute: u32, modified: SystemTime| {
        world.write(
            "tea.md",
            &format!("---\nname: Tea\nschedule: {minute} 17 * * *\n---\nDrink."),
        );
        let file = std::fs::File::options()
            .write(true)
            .open(world.path("tea.md"))
            .expect("the file");
        file.set_modified(modified).expect("a time of change");
    };
    write(10, long_ago);
    world.sync().await;
    assert_eq!(world.row("tea.md").await.schedule, "10 17 * * *");
    // Other words of the same length with the same time: who sees a change has read the file.
    write(20, long_ago);
    let restarted = world.second_scheduler().await;
    assert_eq!(
        restarted.sync().await.expect("a synchronisation"),
        SyncReport::default()
    );
    write(20, long_ago + Duration::from_secs(1));
    assert_eq!(
        restarted.sync().await.expect("a synchronisation").changed,
        1
    );
    // A change in the second of the look may be followed by another that looks the same.
    let now = SystemTime::from(world.now().to_utc());
    for minute in [30, 40] {
        write(minute, now);
        assert_eq!(
            world
                .second_scheduler()
                .await
                .sync()
                .await
                .expect("a synchronisation")
                .changed,
            1
        );
    }
}

#[tokio::test]
async fn a_persona_that_moved_has_its_files_read_again() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    world.write(
        "noon.md",
        "---\nname: Noon\nschedule: 0 12 * * *\n---\nEat.",
    );
    world.sync().await;
    let moved = world.personas.iter().cloned().map(|old| Persona {
        timezone: chrono_tz::Asia::Tokyo,
        ..old
    });
    let moved = Arc::new(Personas::new(moved.collect()).expect("one persona"));
    let later = Scheduler::new(world.store.clone(), moved, names(), world.clock.clone());
    assert_eq!(later.sync().await.expect("a synchronisation").changed, 1);
    assert_eq!(world.row("noon.md").await.timezone, "Asia/Tokyo");
}

#[tokio::test]
async fn a_file_without_a_zone_takes_the_persona_s_zone_and_stores_it() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    world.write(
        "noon.md",
        "---\nname: Noon\nschedule: 0 12 * * *\n---\nEat.",
    );
    world.sync().await;
    let row = world.row("noon.md").await;
    assert_eq!(
        (row.timezone.as_str(), row.next.at),
        ("America/New_York", Some(at("2026-06-01T16:00:00Z")))
    );
}

#[tokio::test]
async fn an_edit_bumps_the_revision_and_fires_nothing_in_retrospect() {
    let world = World::at("2026-06-01T12:00:00Z").await;
    world.install("digest.md");
    world.sync().await;
    let before = world.row("digest.md").await;
    world.clock.set(at("2026-06-01T12:30:00Z"));
    world.write(
        "digest.md",
        "---\nname: Digest\nschedule: 15 12 * * *\ntimezone: UTC\n---\nNow.",
    );
    assert_eq!(world.sync().await.changed, 1);
    let after = world.row("digest.md").await;
    assert_eq!(after.id, before.id);
    assert_eq!(after.version.revision, before.version.revision + 1);
    assert_eq!(after.next.at, Some(at("2026-06-02T12:15:00Z")));
    assert_eq!(world.tick_at("2026-06-01T12:31:00Z").await.fired, []);
}

#[tokio::test]
async fn a_slot_that_an_edit_overtakes_is_accounted_for_as_missed() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    world.install("digest.md");
    world.sync().await;
    // The engine was down at nine, and the file was edited before it came back.
    world.clock.set(at("2026-06-01T08:00:00Z"));
    world.write(
        "digest.md",
        "---\nname: Digest\nschedule: 0 9 * * *\ntimezone: Europe/Berlin\n---\nOther words.",
    );
    world.sync().await;
    assert_eq!(world.tick_at("2026-06-01T08:00:01Z").await.fired, []);
    assert_eq!(world.history().await, ["2026-06-01T07:00:00.000Z missed 1"]);
    let note = world.slots().await[0].note.clone().unwrap_or_default();
    assert_eq!(note, "the file changed before they could fire");
}

#[tokio::test]
async fn a_disabled_removed_or_spoilt_file_fires_only_when_it_is_back() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    let (on, off) = (
        "---\nname: A\nschedule: 0 * * * *\ntimezone: UTC\n---\nGo.",
        "enabled: false\n---\nGo.",
    );
    world.write("a.md", on);
    world.sync().await;
    world.write("a.md", &on.replace("---\nGo.", off));
    world.sync().await;
    assert_eq!(world.tick_at("2026-06-01T01:00:00Z").await.fired, []);
    std::fs::remove_file(world.path("a.md")).expect("a file to remove");
    assert_eq!(world.sync().await.removed, 1);
    assert_eq!(world.row("a.md").await.removed_at, Some(world.now()));
    world.write("a.md", on);
    assert_eq!(world.sync().await.added, 1);
    world.write("a.md", "half a fi");
    assert_eq!(world.sync().await.problems.len(), 1);
    assert_eq!(world.tick_at("2026-06-01T02:00:00Z").await.fired, []);
    world.write("a.md", on);
    world.sync().await;
    assert_eq!(
        world.tick_at("2026-06-01T02:30:00Z").await.fired,
        [],
        "nothing fires in retrospect"
    );
    assert_eq!(world.tick_at("2026-06-01T03:00:00Z").await.fired.len(), 1);
}

#[tokio::test]
async fn responsibilities_of_a_persona_no_longer_configured_stop() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    world.install("digest.md");
    world.sync().await;
    let nobody = Arc::new(Personas::default());
    let later = Scheduler::new(world.store.clone(), nobody, names(), world.clock.clone());
    assert_eq!(later.sync().await.expect("a synchronisation").removed, 1);
    assert_eq!(world.tick_at("2026-06-01T07:00:00Z").await.fired, []);
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_is_reported_and_its_rows_stay() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    world.install("digest.md");
    world.sync().await;
    let folder = world.path("");
    let aside = world.path("../aside");
    std::fs::rename(&folder, &aside).expect("the folder moves");
    std::fs::write(
        folder
            .as_os_str()
            .to_str()
            .expect("a path")
            .trim_end_matches('/'),
        "a file now",
    )
    .expect("a file");
    let report = world.sync().await;
    assert_eq!(
        (report.removed, report.problems.len()),
        (0, 1),
        "{report:?}"
    );
    assert_eq!(world.tick_at("2026-06-01T07:00:00Z").await.fired.len(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_out_of_the_persona_s_folder_is_not_followed() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    let outside = tempfile::NamedTempFile::new().expect("a file outside");
    std::fs::write(
        outside.path(),
        "---\nname: A\nschedule: 0 9 * * *\n---\nSecret.",
    )
    .expect("its content");
    std::os::unix::fs::symlink(outside.path(), world.path("link.md")).expect("a link");
    world.install("digest.md");
    let report = world.sync().await;
    assert_eq!(report.problems.len(), 1, "{report:?}");
    let rows = world.store.responsibilities().await.expect("rows");
    assert!(
        rows.iter().all(|row| row.prompt.find("Secret").is_none()),
        "{rows:?}"
    );
    assert_eq!(
        world.tick_at("2026-06-01T07:00:00Z").await.fired.len(),
        1,
        "the good file fires"
    );
}

#[tokio::test]
async fn a_thread_that_is_not_the_persona_s_makes_a_file_unusable() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    world.install("digest.md");
    world.sync().await;
    let fired = world.tick_at("2026-06-01T07:00:00Z").await.fired;
    assert_eq!(fired.len(), 1);
    let thread = world.end_runs().await.remove(0).thread;
    let text = |thread: &str| {
        format!("---\nname: A\nevery: 1h\ndeliver_to:\n  thread: {thread}\n---\nGo.")
    };
    world.write("own.md", &text(thread.as_str()));
    world.write("other.md", &text("no-such-thread"));
    let report = world.sync().await;
    assert_eq!(report.problems.len(), 1, "{report:?}");
    let error = world.row("other.md").await.error.expect("an error");
    assert!(
        error.contains("other.md: line 4: `deliver_to`: `ada` has no thread `no-such-thread`"),
        "{error}"
    );
    let own = world.row("own.md").await;
    assert_eq!(
        (own.error, own.run_options.deliver_to),
        (None, DeliverTo::Thread(thread))
    );
}

#[tokio::test]
async fn a_one_shot_written_in_time_fires_late_one_written_late_never() {
    let world = World::at("2026-06-01T12:00:00Z").await;
    let text = "---\nname: Once\nat: 2026-06-01T10:00:00Z\n---\nGo.";
    written(&world, "in-time.md", text, "2026-06-01T09:59:00Z");
    written(&world, "late.md", text, "2026-06-01T10:01:00Z");
    world.write("ahead.md", &text.replace("10:00:00", "13:00:00"));
    world.write(
        "off.md",
        &text.replace("10:00:00Z", "13:00:00Z\nenabled: false"),
    );
    world.sync().await;
    let row = world.row("in-time.md").await;
    assert_eq!(
        (row.next.at, row.next.is_done),
        (Some(at("2026-06-01T10:00:00Z")), false)
    );
    assert!(world.row("late.md").await.next.is_done);
    let fired = world.tick_at("2026-06-01T12:00:01Z").await.fired;
    assert_eq!(
        fired.iter().map(|(id, _)| id).collect::<Vec<_>>(),
        [&row.id]
    );
    assert_eq!(world.tick_at("2026-06-01T12:00:02Z").await.fired, []);
    let fired = world.tick_at("2026-06-01T13:00:00Z").await.fired;
    assert_eq!(
        fired.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(),
        [world.row("ahead.md").await.id]
    );
    assert_eq!(world.tick_at("2026-06-02T13:00:00Z").await.fired, []);
}

const ONCE: &str = "---\nname: Once\nat: 2026-06-01 09:00\n---\nGo.";

/// Writes a file as if at an instant.
fn written(world: &World, name: &str, text: &str, when: &str) {
    world.write(name, text);
    let file = std::fs::File::options()
        .write(true)
        .open(world.path(name))
        .expect("a file");
    file.set_modified(std::time::SystemTime::from(at(when).to_utc()))
        .expect("a time");
}

/// How often it fires in the next days, as `zone` has it.
async fn fires_again(world: &World, zone: chrono_tz::Tz) -> usize {
    let owner = world.personas.iter().next().expect("a persona").clone();
    let personas = Personas::new(vec![Persona {
        timezone: zone,
        ..owner
    }])
    .expect("one persona");
    let scheduler = Scheduler::new(
        world.store.clone(),
        Arc::new(personas),
        names(),
        world.clock.clone(),
    );
    scheduler.sync().await.expect("a synchronisation");
    let mut fired = 0;
    for _ in 0..4 {
        fired += scheduler.tick().await.expect("a tick").fired.len();
        world.answer_runs().await;
        world.clock.advance(Duration::from_secs(6 * 3600));
    }
    fired
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_one_shot_fires_once_though_moved_copied_or_in_another_zone() {
    const NEW_YORK: chrono_tz::Tz = chrono_tz::America::New_York;
    const BERLIN: chrono_tz::Tz = chrono_tz::Europe::Berlin;
    for fires in [true, false] {
        for case in [
            "rename",
            "copy",
            "restore",
            "zone",
            "rename in another zone",
        ] {
            let world = World::at("2026-06-01T05:00:00Z").await;
            let before = "2026-06-01T04:00:00Z";
            written(&world, "once.md", ONCE, before);
            world.sync().await;
            // 09:00 in New York; the control is down until after it.
            if fires {
                assert_eq!(
                    world.tick_at("2026-06-01T13:00:00Z").await.fired.len(),
                    1,
                    "{case}"
                );
                world.answer_runs().await;
            }
            world.clock.set(at("2026-06-01T14:00:00Z"));
            let (from, to) = (world.path("once.md"), world.path("anew.md"));
            let zone = match case {
                "rename" => std::fs::rename(from, to).map(|()| NEW_YORK),
                "copy" => {
                    written(&world, "anew.md", ONCE, before);
                    Ok(NEW_YORK)
                }
                "restore" => {
                    std::fs::remove_file(from).expect("a file that goes");
                    world.sync().await;
                    written(&world, "once.md", ONCE, before);
                    Ok(NEW_YORK)
                }
                "zone" => Ok(BERLIN),
                _ => std::fs::rename(from, to).map(|()| BERLIN),
            };
            let again = fires_again(&world, zone.expect("a file that moves")).await;
            let due = match case {
                "copy" => 2,    // both files say so
                "restore" => 0, // accounted for when it was removed
                _ => 1,
            };
            assert_eq!(
                again,
                if fires { 0 } else { due },
                "{case}, fired {fires}: {:?}",
                world.history().await
            );
            world.audit().await;
        }
    }
}

#[tokio::test]
async fn a_fired_one_shot_written_for_another_instant_is_owed_again() {
    let world = World::at("2026-06-01T05:00:00Z").await;
    written(&world, "once.md", ONCE, "2026-06-01T04:00:00Z");
    world.sync().await;
    assert_eq!(world.tick_at("2026-06-01T13:00:00Z").await.fired.len(), 1);
    world.answer_runs().await;
    world.clock.set(at("2026-06-03T14:00:00Z"));
    written(
        &world,
        "once.md",
        &ONCE.replace("06-01", "06-03"),
        "2026-06-02T04:00:00Z",
    );
    assert_eq!(fires_again(&world, chrono_tz::America::New_York).await, 1);
}

#[tokio::test]
async fn terms_stand_in_the_row_and_a_change_of_them_is_an_edit() {
    let world = World::at("2026-06-01T00:00:00Z").await;
    let text = "---\nname: A\nschedule: 0 * * * *\ncatch_up: all\ntools: [read_file]\nretries: 1\n---\nGo.";
    world.write("a.md", text);
    world.sync().await;
    let row = world.row("a.md").await;
    assert_eq!(row.slot_options.catch_up, CatchUp::All);
    assert_eq!(
        (row.run_options.tools.clone(), row.run_options.retries),
        (Some(vec!["read_file".into()]), Some(1))
    );
    world.write("a.md", &text.replace("retries: 1", "retries: 12"));
    assert_eq!(world.sync().await.changed, 1);
    assert_eq!(
        world.row("a.md").await.version.revision,
        row.version.revision + 1
    );
}
