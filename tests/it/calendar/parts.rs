//! Calendar parts as programs write them, and letters with them.

use crate::approvals::scene::Scene;
use attache::calendar::{CalendarObject, read_calendar};
use std::path::Path;

/// Returns the text of a fixture.
pub fn part(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/calendar");
    std::fs::read_to_string(path.join(name)).expect("a fixture")
}

pub fn read(name: &str) -> CalendarObject {
    read_calendar(part(name).replace('\n', "\r\n").as_bytes()).expect("a calendar")
}

/// A signed letter with a calendar part as the programs send it: another form of the text.
pub fn letter(scene: &Scene, from: &str, id: &str, ics: &str) -> String {
    let method = ics
        .lines()
        .find_map(|line| line.strip_prefix("METHOD:"))
        .unwrap_or("PUBLISH");
    let more = "MIME-Version: 1.0\r\nContent-Type: multipart/alternative; boundary=b\r\n";
    let body = format!(
        "--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nPlease see.\r\n--b\r\nContent-Type: text/calendar; charset=utf-8; method={method}\r\n\r\n{}\r\n--b--",
        ics.replace('\n', "\r\n").trim_end()
    );
    scene.signed(from, "ada@engine.test", id, more, &body)
}

/// Delivers it, drains, and gives the run's prompt as text.
pub async fn arrives(scene: &Scene, from: &str, id: &str, ics: &str) -> String {
    let accepted = scene
        .deliver(&letter(scene, from, id, ics), "ada@engine.test")
        .await
        .expect("taken");
    let app = &scene.world.app;
    app.drain().await;
    let message = accepted.copies[0].message.to_string();
    let row = app
        .row(
            "SELECT id FROM runs WHERE trigger_message_id = $1",
            &message,
        )
        .await;
    let run = row[0].clone().expect("a run");
    let prompts = app.prompts(&run).await;
    prompts.first().expect("a request").to_string()
}

/// Rows of `events`, one line each.
pub async fn events(scene: &Scene) -> Vec<String> {
    let sql = "SELECT json_group_array(uid || ' ' || organizer || ' [' || recurrence_id || '] ' || sequence || ' ' || is_cancelled || ' '
        || coalesce(answer, '-')) FROM (SELECT * FROM events WHERE $1 = $1 ORDER BY uid, organizer, recurrence_id) listed";
    let row = scene.world.app.row(sql, "").await;
    serde_json::from_str(row[0].as_deref().expect("rows")).expect("texts")
}
