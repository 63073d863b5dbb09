//! What arrives changes what is known as RFC 5546 says, for whoever provably sent it.

use super::parts::{arrives, events, letter, part, read};
use crate::approvals::scene::{CONTACT, Scene};
use serde_json::json;

const STRANGER: &str = "Eve <eve@evil.test>";
const BUDGET: &str = "5k2q7n0c1v8m3b6h@google.example carol@partner.test []";

async fn scene() -> Scene {
    Scene::with(&json!({ "rules": [{ "say": "Noted." }] }), |_| {}).await
}

/// A letter that says it is Carol's and has no signature of her domain; gives what became of its event.
async fn forged(scene: &Scene, id: &str, ics: &str) -> String {
    let eml = letter(scene, &format!("{CONTACT} "), id, ics);
    let accepted = scene.deliver(&eml, "ada@engine.test").await.expect("taken");
    let app = &scene.world.app;
    app.drain().await;
    let sql = "SELECT json_extract(metadata_json, '$.calendar.events[0].outcome') FROM messages WHERE id = $1";
    let row = app.row(sql, accepted.copies[0].message.as_str()).await;
    row[0].clone().expect("an outcome")
}

#[tokio::test]
async fn a_forged_organizer_changes_nothing_and_the_real_one_does() {
    let scene = scene().await;
    let request = part("google_request.ics");
    assert_eq!(forged(&scene, "f0", &request).await, "unproven");
    assert_eq!(events(&scene).await, Vec::<String>::new());
    // The same letter, signed by her domain.
    arrives(&scene, CONTACT, "f1", &request).await;
    let known = events(&scene).await;
    assert_eq!(known, [format!("{BUDGET} 0 0 NEEDS-ACTION")]);
    let cancel = part("google_cancel.ics");
    let moved = request
        .replace("SEQUENCE:0", "SEQUENCE:5")
        .replace("T130000Z", "T230000Z");
    for (id, ics) in [("f2", &cancel), ("f3", &moved)] {
        assert_eq!(forged(&scene, id, ics).await, "unproven");
        assert_eq!(events(&scene).await, known, "{id}");
        // Proven, and not the organizer.
        let prompt = arrives(&scene, STRANGER, &format!("{id}-s"), ics).await;
        assert!(prompt.contains("NOT PROVEN"), "{id}: {prompt}");
        assert_eq!(events(&scene).await, known, "{id}");
    }
    // An event of the same UID by another organizer is another event.
    let own = cancel.replace("carol@partner.test", "eve@evil.test");
    let prompt = arrives(&scene, STRANGER, "f6", &own).await;
    assert!(prompt.contains("you know no such event"), "{prompt}");
    assert_eq!(events(&scene).await, known);
    arrives(&scene, CONTACT, "f7", &cancel).await;
    assert_eq!(events(&scene).await, [format!("{BUDGET} 1 1 NEEDS-ACTION")]);
    scene.world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn versions_go_forward_only() {
    let scene = scene().await;
    let request = part("google_request.ics");
    let version = |sequence: u32, stamp: &str| {
        request
            .replace("SEQUENCE:0", &format!("SEQUENCE:{sequence}"))
            .replace("DTSTAMP:20261120T080000Z", &format!("DTSTAMP:{stamp}"))
    };
    let steps = [
        (2, "20261120T080000Z", "invitation, new", 2),
        (2, "20261120T080000Z", "you know it already", 2),
        (1, "20261120T090000Z", "outdated", 2),
        (2, "20261120T070000Z", "outdated", 2),
        (2, "20261120T090000Z", "an update", 2),
        (3, "20261120T080000Z", "an update", 3),
    ];
    for (number, (sequence, stamp, expected, known)) in steps.into_iter().enumerate() {
        let prompt = arrives(
            &scene,
            CONTACT,
            &format!("v{number}"),
            &version(sequence, stamp),
        )
        .await;
        assert!(prompt.contains(expected), "step {number}: {prompt}");
        assert_eq!(
            events(&scene).await,
            [format!("{BUDGET} {known} 0 NEEDS-ACTION")],
            "step {number}"
        );
    }
    // A cancellation of an older version is outdated, and so is an invitation to what was cancelled.
    let cancel = part("google_cancel.ics");
    assert!(
        arrives(&scene, CONTACT, "v6", &cancel)
            .await
            .contains("outdated")
    );
    let cancel = cancel.replace("SEQUENCE:1", "SEQUENCE:4");
    assert!(
        arrives(&scene, CONTACT, "v7", &cancel)
            .await
            .contains("its organizer has cancelled it")
            || !events(&scene).await[0].contains(" 0 0 ")
    );
    assert!(
        arrives(&scene, CONTACT, "v8", &version(3, "20261120T100000Z"))
            .await
            .contains("outdated")
    );
    assert_eq!(events(&scene).await, [format!("{BUDGET} 4 1 NEEDS-ACTION")]);
    scene.world.app.check().await;
}

#[test]
fn times_are_those_of_their_zones_whoever_defines_them() {
    let start = |name: &str| {
        let object = read(name);
        let event = object.events[0].clone();
        let at = event
            .start
            .as_ref()
            .and_then(|start| start.at)
            .map(|at| at.to_string());
        (
            event.start.expect("a start").written,
            at,
            object.warnings.len(),
        )
    };
    let at = |text: &str| Some(text.to_owned());
    for (name, written, instant) in [
        (
            "google_request.ics",
            "2026-12-01 13:00",
            at("2026-12-01T13:00:00.000Z"),
        ),
        (
            "outlook_request.ics",
            "2026-12-01 14:00",
            at("2026-12-01T13:00:00.000Z"),
        ),
        (
            "outlook_instance.ics",
            "2026-12-16 10:00",
            at("2026-12-16T09:00:00.000Z"),
        ),
        (
            "apple_request.ics",
            "2026-12-01 09:00",
            at("2026-12-01T14:00:00.000Z"),
        ),
        (
            "nextcloud_request.ics",
            "2026-12-01 14:00",
            at("2026-12-01T13:00:00.000Z"),
        ),
        ("zimbra_request.ics", "2026-12-24", None),
    ] {
        assert_eq!(start(name), (written.to_owned(), instant, 0), "{name}");
    }
}

#[test]
fn a_zone_without_its_definition_a_strange_one_and_one_that_is_redefined() {
    let read = |text: &str| {
        let bytes = text.replace('\n', "\r\n");
        attache::calendar::read_calendar(bytes.as_bytes()).expect("a calendar")
    };
    let at = |object: &attache::calendar::CalendarObject| {
        let start = object.events[0].start.as_ref().expect("a start");
        start.at.map(|at| at.to_string())
    };
    let outlook = part("outlook_request.ics");
    let (head, rest) = outlook.split_once("BEGIN:VTIMEZONE").expect("a zone");
    let (_, rest) = rest.split_once("END:VTIMEZONE\n").expect("its end");
    let by_name = read(&format!("{head}{rest}"));
    assert_eq!(
        at(&by_name).as_deref(),
        Some("2026-12-01T13:00:00.000Z"),
        "by the name that Windows gives it"
    );
    let unknown = read(&format!("{head}{rest}").replace("W. Europe Standard Time", "Our Time"));
    assert_eq!(at(&unknown), None);
    assert!(
        unknown.warnings[0].contains("`Our Time` is unknown"),
        "{:?}",
        unknown.warnings
    );
    let custom = read(&outlook.replace("W. Europe Standard Time", "Our Time"));
    assert_eq!(
        at(&custom).as_deref(),
        Some("2026-12-01T13:00:00.000Z"),
        "by its own definition"
    );
    assert_eq!(custom.warnings, Vec::<String>::new());
    let summer = read(
        &outlook
            .replace("W. Europe Standard Time", "Our Time")
            .replace("20261201T", "20260701T"),
    );
    assert_eq!(at(&summer).as_deref(), Some("2026-07-01T12:00:00.000Z"));
    let redefined = read(&outlook.replace("TZOFFSETTO:+0100", "TZOFFSETTO:+0900"));
    assert_eq!(at(&redefined).as_deref(), Some("2026-12-01T05:00:00.000Z"));
    assert!(
        redefined.warnings[0].contains("otherwise"),
        "{:?}",
        redefined.warnings
    );
}
