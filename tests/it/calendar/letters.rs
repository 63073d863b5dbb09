//! Invitations that arrive are shown, answered, and written; every run is executed again with what was recorded.

use super::parts::{arrives, events, letter, part};
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use attache::calendar::{CalendarMethod, read_calendar};
use attache::domain::{Attachment, Email};
use serde_json::{Value, json};

const STRANGER: &str = "Eve <eve@evil.test>";
const BUDGET: &str = "5k2q7n0c1v8m3b6h@google.example";

/// Accepts if it was shown what the calendar part alone says, and refuses otherwise.
fn accepts() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0, "contains": "Room Kestrel, 2nd floor" }, "call": [{ "tool": "answer_invitation", "args":
            { "answer": "accept", "uid": "{{header:uid}}", "comment": "I bring; the numbers,\nand cake." } }] },
        { "when": { "turn": 0 }, "say": "I see no invitation." },
        { "say": "Done: {{result}}" },
    ] })
}

/// Returns the calendar part of a mail, with its method.
fn calendar_of(mail: &Email) -> (String, String) {
    let is_calendar = |part: &&Attachment| part.content_type == "text/calendar";
    let part = mail
        .attachments
        .iter()
        .find(is_calendar)
        .expect("a calendar part");
    let text = String::from_utf8(part.bytes.clone()).expect("text");
    let method = text.lines().find_map(|line| line.strip_prefix("METHOD:"));
    (method.expect("a method").to_owned(), text)
}

fn is_to(mail: &Email, address: &str) -> bool {
    mail.to.iter().any(|to| to.to_string().contains(address))
}

#[tokio::test]
async fn an_invitation_is_shown_and_its_answer_is_one_attendee() {
    let scene = Scene::with(&accepts(), |_| {}).await;
    let prompt = arrives(&scene, CONTACT, "g1", &part("google_request.ics")).await;
    assert!(
        prompt.contains(
            "calendar: invitation, new; start in your time zone: Tue, 01 Dec 2026 13:00 +0000"
        ),
        "{prompt}"
    );
    assert!(
        prompt.contains("event: Budget 2027")
            && prompt.contains("organizer: Carol Kern <carol@partner.test>"),
        "{prompt}"
    );
    let app = &scene.world.app;
    let sent = app.sent();
    assert_eq!(sent.len(), 1, "the answer is the reply");
    let (method, text) = calendar_of(&sent[0]);
    assert_eq!(method, "REPLY");
    let answer = read_calendar(text.as_bytes()).expect("a calendar");
    assert_eq!(answer.method, CalendarMethod::Reply);
    let event = &answer.events[0];
    assert_eq!((event.uid.as_str(), event.sequence), (BUDGET, 0));
    let attendees: Vec<_> = event
        .attendees
        .iter()
        .map(|p| (p.address.as_str(), p.answer.as_str()))
        .collect();
    assert_eq!(attendees, [("ada@engine.test", "ACCEPTED")]);
    assert_eq!(
        event.organizer.as_ref().expect("one").address,
        "carol@partner.test"
    );
    assert!(
        text.contains("COMMENT:I bring\\; the numbers\\,\\nand cake."),
        "{text}"
    );
    assert!(
        sent[0].text.contains("Accepted: Budget 2027"),
        "{}",
        sent[0].text
    );
    assert_eq!(
        events(&scene).await,
        [format!("{BUDGET} carol@partner.test [] 0 0 ACCEPTED")]
    );
    app.check().await;
}

#[tokio::test]
async fn an_answer_to_one_instance_names_it_as_its_organizer_did() {
    let script = json!({ "rules": [
        { "when": { "turn": 0, "contains": "2026-12-16 10:00" }, "call": [{ "tool": "answer_invitation", "args": { "answer": "decline" } }] },
        { "say": "Noted." },
    ] });
    let scene = Scene::with(&script, |_| {}).await;
    let prompt = arrives(&scene, CONTACT, "o1", &part("outlook_request.ics")).await;
    assert!(
        prompt.contains("repeats: every 2 weeks on Tuesday, until 2027-01-26"),
        "{prompt}"
    );
    assert!(
        prompt.contains("Tue, 01 Dec 2026 13:00 +0000, Tue, 15 Dec 2026 13:00 +0000"),
        "{prompt}"
    );
    arrives(&scene, CONTACT, "o2", &part("outlook_instance.ics")).await;
    let sent = scene.world.app.sent();
    let (_, text) = calendar_of(sent.last().expect("a mail"));
    assert!(
        text.contains("RECURRENCE-ID;TZID=W. Europe Standard Time:20261215T140000\r\n"),
        "{text}"
    );
    assert!(
        text.contains("BEGIN:VTIMEZONE\r\nTZID:W. Europe Standard Time\r\n"),
        "{text}"
    );
    assert!(text.contains("PARTSTAT=DECLINED"), "{text}");
    scene.world.app.check().await;
}

#[tokio::test]
async fn the_organizer_who_is_nobody_of_the_thread_is_a_new_recipient() {
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "answer_invitation", "args": { "answer": "accept" } }] },
        { "say": "It is so: {{result}}" },
    ] });
    let scene = Scene::with(&script, |_| {}).await;
    // Whoever invites in the name of a third one would have the persona write to that one.
    let reflected =
        part("google_request.ics").replace("carol@partner.test", "victim@elsewhere.test");
    arrives(&scene, STRANGER, "r1", &reflected).await;
    let app = &scene.world.app;
    assert!(
        app.sent().iter().all(|mail| !is_to(mail, "victim")),
        "no reflection"
    );
    assert_eq!(events(&scene).await, Vec::<String>::new());
    // The twin: the organizer writes, and is answered.
    arrives(&scene, CONTACT, "r2", &part("google_request.ics")).await;
    assert!(
        app.sent()
            .iter()
            .any(|mail| is_to(mail, "carol@partner.test"))
    );
    app.check().await;
}

/// Invites Carol, and tells what became of it.
fn invites() -> Value {
    json!({ "rules": [
        { "when": { "turn": 0, "contains": "Tell Eve" }, "call": [{ "tool": "invite", "args": {
            "summary": "Tasting", "start": "2026-12-03T18:00", "end": "2026-12-03T19:00", "zone": "Europe/Berlin",
            "attendees": ["carol@partner.test"], "location": "Cellar; left, door", "description": "Six wines." } }] },
        { "when": { "turn": 0, "contains": "METHOD" }, "say": "?" },
        { "when": { "turn": 0, "contains": "Calendar part" }, "call": [{ "tool": "list_events", "args": { "from": "2026-12-01T00:00:00Z" } }] },
        { "say": "Result: {{result}}" },
    ] })
}

#[tokio::test]
async fn an_invitation_of_ours_is_answered_by_exchange_without_an_organizer() {
    let scene = Scene::with(&invites(), |workspace| {
        workspace.set(
            "configs/security.json",
            "/send_allow",
            json!(["*@partner.test"]),
        );
    })
    .await;
    scene.writes(OWNER, "i1", "").await;
    let app = &scene.world.app;
    let sent = app.sent();
    let mail = sent
        .iter()
        .find(|mail| is_to(mail, "carol@partner.test"))
        .expect("an invitation");
    let (method, text) = calendar_of(mail);
    assert_eq!(method, "REQUEST");
    let ours = read_calendar(text.as_bytes()).expect("a calendar");
    let event = &ours.events[0];
    assert!(event.uid.ends_with("@engine.test"), "{}", event.uid);
    assert!(
        text.contains("DTSTART:20261203T170000Z\r\n")
            && text.contains("LOCATION:Cellar\\; left\\, door\r\n"),
        "{text}"
    );
    let before = events(&scene).await;
    assert_eq!(
        before,
        [format!("{} ada@engine.test [] 0 0 ACCEPTED", event.uid)]
    );
    let reply = part("exchange_2010_reply.ics").replace("UID-OF-THE-INVITATION", &event.uid);
    // Somebody else answers for her: nothing changes.
    let prompt = arrives(&scene, STRANGER, "x1", &reply).await;
    assert!(prompt.contains("NOT PROVEN"), "{prompt}");
    assert_eq!(answer_of_carol(&scene).await, "");
    let prompt = arrives(&scene, CONTACT, "x2", &reply).await;
    assert!(
        prompt.contains("calendar: answer to an invitation, an answer to an invitation of yours"),
        "{prompt}"
    );
    assert_eq!(answer_of_carol(&scene).await, "ACCEPTED");
    let counter = part("outlook_counter.ics").replace("UID-OF-THE-INVITATION", &event.uid);
    let prompt = arrives(&scene, CONTACT, "x3", &counter).await;
    assert!(
        prompt.contains("proposal of another time") && prompt.contains("Friday would be better"),
        "{prompt}"
    );
    assert_eq!(events(&scene).await, before, "a proposal changes nothing");
    app.check().await;
}

async fn answer_of_carol(scene: &Scene) -> String {
    let sql =
        "SELECT json_extract(event_json, '$.attendees[0].answer') FROM events WHERE organizer = $1";
    let row = scene.world.app.row(sql, "ada@engine.test").await;
    row[0].clone().unwrap_or_default()
}

#[tokio::test]
async fn a_stranger_is_not_shown_when_the_persona_is_busy() {
    let scene = Scene::with(&json!({ "rules": [{ "say": "Noted." }] }), |_| {}).await;
    arrives(
        &scene,
        OWNER,
        "b1",
        &part("google_request.ics").replace("carol@partner.test", "olga@home.test"),
    )
    .await;
    let other = part("nextcloud_request.ics");
    let prompt = arrives(
        &scene,
        STRANGER,
        "b2",
        &other.replace("carol@partner.test", "eve@evil.test"),
    )
    .await;
    assert!(
        prompt.contains("calendar: invitation, new") && !prompt.contains("other events then"),
        "{prompt}"
    );
    let prompt = arrives(&scene, CONTACT, "b3", &other).await;
    assert!(
        prompt.contains("you have other events then: Tue, 01 Dec 2026 13:00 +0000 to 14:00"),
        "{prompt}"
    );
    scene.world.app.check().await;
}

#[tokio::test]
async fn an_event_shows_to_whom_it_is_and_busy_to_others() {
    let script = json!({ "rules": [
        { "when": { "turn": 0, "contains": "Tell Eve" }, "call": [{ "tool": "list_events", "args": { "from": "2026-12-01T00:00:00Z" } }] },
        { "when": { "turn": 0 }, "say": "Noted." },
        { "say": "Listed: {{result}}" },
    ] });
    let scene = Scene::with(&script, |_| {}).await;
    let of_owner = part("google_request.ics").replace("carol@partner.test", "olga@home.test");
    let signed = letter(&scene, OWNER, "l1", &of_owner);
    scene
        .deliver(&signed, "ada@engine.test")
        .await
        .expect("taken");
    scene.world.app.drain().await;
    let app = &scene.world.app;
    let listed = |run: String| async move {
        let prompts = app.prompts(&run).await;
        prompts.last().expect("a request").to_string()
    };
    let for_contact = listed(scene.writes(CONTACT, "l2", "").await).await;
    assert!(
        for_contact.contains("busy") && !for_contact.contains("Budget 2027"),
        "{for_contact}"
    );
    let for_owner = listed(scene.writes(OWNER, "l3", "").await).await;
    assert!(for_owner.contains("Budget 2027"), "{for_owner}");
    app.check().await;
}
