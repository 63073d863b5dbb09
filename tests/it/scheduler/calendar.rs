//! `attache schedule calendar` and `show`: what will happen, by day and by responsibility.

use super::command::{attache, json, workspace};
use serde_json::Value;
use std::path::Path;

fn write(workspace: &Path, file: &str, text: &str) {
    let personas = std::fs::read_dir(workspace.join("personas"))
        .expect("personas")
        .flatten();
    let duties = personas
        .map(|persona| persona.path().join("responsibilities"))
        .find(|folder| folder.is_dir());
    std::fs::write(duties.expect("a folder").join(file), text).expect("a file");
}

fn entries(days: &Value, name: &str) -> Vec<(String, u64)> {
    let entry = |day: &Value, slot: &Value| {
        (
            day["date"].as_str().expect("a date").to_owned(),
            slot["count"].as_u64().expect("a count"),
        )
    };
    let slots = |day: &Value| day["slots"].as_array().expect("slots").clone();
    let all = days.as_array().expect("days").iter();
    all.flat_map(|day| {
        slots(day)
            .into_iter()
            .filter(|slot| slot["name"] == name)
            .map(|slot| entry(day, &slot))
            .collect::<Vec<_>>()
    })
    .collect()
}

/// One that comes every minute, one at noon, and one that is off.
fn write_three(folder: &Path) {
    let schedule =
        |name: &str, more: &str| format!("---\nname: {name}\ntimezone: UTC\n{more}\n---\nLook.\n");
    write(
        folder,
        "digest.md",
        &schedule("Poll", "schedule: \"* * * * *\""),
    );
    write(folder, "noon.md", &schedule("Noon", "schedule: 0 12 * * *"));
    write(
        folder,
        "resting.md",
        &schedule("Resting", "schedule: 0 12 * * *\nenabled: false"),
    );
}

#[test]
fn the_calendar_has_every_day_and_folds_what_comes_often() {
    let folder = workspace();
    // The file that cannot be used has no zone, and no say.
    let days = json(folder.path(), &["schedule", "calendar"]);
    assert_eq!(
        (days.as_array().map(Vec::len), &days[0]["timezone"]),
        (Some(7), &"Europe/Berlin".into())
    );
    write_three(folder.path());
    let days = json(folder.path(), &["schedule", "calendar", "--days", "3"]);
    assert_eq!(days.as_array().map(Vec::len), Some(3), "{days}");
    assert!(
        days.as_array()
            .expect("days")
            .iter()
            .all(|day| day["timezone"] == "UTC"),
        "{days}"
    );
    let poll = entries(&days, "Poll");
    assert_eq!(
        poll[poll.len() - 2..]
            .iter()
            .map(|(_, count)| *count)
            .collect::<Vec<_>>(),
        [1440, 1440]
    );
    assert!(poll[0].1 <= 1440 && poll.len() >= 2, "{poll:?}");
    let noon = entries(&days, "Noon");
    assert!(
        (2..=3).contains(&noon.len()) && noon.iter().all(|(_, count)| *count == 1),
        "{noon:?}"
    );
    assert_eq!(entries(&days, "Resting"), []);
}

#[test]
fn the_calendar_agrees_with_next_and_says_its_zone() {
    let folder = workspace();
    write_three(folder.path());
    // The same slots as `next` tells, on the days of the zone that is asked for.
    let days = json(
        folder.path(),
        &[
            "schedule",
            "calendar",
            "noon",
            "--timezone",
            "Pacific/Kiritimati",
        ],
    );
    let next = json(folder.path(), &["schedule", "next", "noon", "--count", "1"]);
    let first = days
        .as_array()
        .expect("days")
        .iter()
        .find_map(|day| day["slots"].get(0).map(|slot| (day, slot)));
    let (day, first) = first.expect("a slot within a week");
    assert_eq!(first["slot_at"], next[0]["slot_at"]);
    let local = first["local"].as_str().expect("a local time");
    assert!(
        local.contains("T02:00:00+14:00")
            && local.starts_with(day["date"].as_str().expect("a date")),
        "{first}"
    );

    let page = attache(folder.path(), &["schedule", "calendar", "--days", "3"]);
    let text = String::from_utf8_lossy(&page.stdout);
    assert!(
        text.contains("00:00 - 23:59 Poll (") && text.contains(", 1440 times"),
        "{text}"
    );
    let said = String::from_utf8_lossy(&page.stderr);
    assert!(
        said.contains("times are of UTC") && said.contains("off, paused or unusable: 2"),
        "{said}"
    );
    let bad = attache(
        folder.path(),
        &["schedule", "calendar", "--timezone", "Mars/Olympus"],
    );
    assert_eq!(bad.status.code(), Some(2), "{bad:?}");
}

#[test]
fn show_has_what_is_in_force_what_comes_and_what_came() {
    let folder = workspace();
    json(folder.path(), &["schedule", "run", "digest"]);
    let shown = json(folder.path(), &["schedule", "show", "digest"]);
    assert_eq!(
        (&shown["state"], &shown["catch_up"], &shown["overlap"]),
        (&"on".into(), &"latest".into(), &"skip".into())
    );
    assert_eq!(
        (&shown["deliver_to"], &shown["profile"]),
        (&"mail".into(), &"responsibility".into())
    );
    assert_eq!(shown["next"].as_array().map(Vec::len), Some(5), "{shown}");
    assert_eq!(
        (&shown["last"][0]["kind"], &shown["last"][0]["state"]),
        (&"manual".into(), &"fired".into())
    );
    let page = attache(folder.path(), &["schedule", "show", "digest"]);
    let text = String::from_utf8_lossy(&page.stdout);
    assert!(
        text.contains("Morning digest")
            && text.contains("0 9 * * ")
            && text.contains("Europe/Berlin"),
        "{text}"
    );
    let spoilt = json(folder.path(), &["schedule", "show", "misspelt"]);
    assert_eq!(
        (&spoilt["state"], spoilt["next"].as_array().map(Vec::len)),
        (&"unusable".into(), Some(0))
    );
}
