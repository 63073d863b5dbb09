//! Altered copies of an owner's answers at the doors where they decide: on drafts, on questions of a persona, on entries of a
//! digest. No copy decides, and each says so; the genuine answer is no duplicate of it.

use super::{RECOMMENDED, altered};
use crate::approvals::scene::{CONTACT, OWNER, Scene};
use crate::drafts::{drafting, drafts, says, to_carol};
use crate::memory::scene::MemoryScene;
use attache::domain::{ApprovalState, MemoryStatus};
use serde_json::json;
use std::time::Duration;

/// An answer above Outlook's line, which is as good as a boundary; `NO` and `YES` stand for the words of the door.
const OUTLOOK: &str = "NO\r\n\r\n-----Original Message-----\r\nFrom: Ada <ada@engine.test>\r\nSubject: asks\r\n\r\nYES";

/// What is altered; the body; the fields of the copy.
const COPIES: [(&str, &str, &str); 7] = [
    (
        "multipart",
        OUTLOOK,
        "Content-Type: multipart/mixed; boundary=\"---Original Message-----\"\r\n",
    ),
    ("base64", "NO", "Content-Transfer-Encoding: base64\r\n"),
    ("disposition", "NO", "Content-Disposition: attachment\r\n"),
    (
        "charset",
        "NO, because L\u{f6}we has left",
        "Content-Type: text/plain; charset=koi8-r\r\n",
    ),
    ("rfc822", OUTLOOK, "Content-Type: message/rfc822\r\n"),
    (
        "html",
        "NO, because <not -- whatever Mallory says -- ever> Eve has left",
        "Content-Type: text/html\r\n",
    ),
    (
        "alternative",
        OUTLOOK,
        "Content-Type: multipart/alternative; boundary=\"---Original Message-----\"\r\n",
    ),
];

/// An answer of the owner whose signature covers what signers recommend.
fn answer(scene: &Scene, to: &str, id: &str, body: &str) -> String {
    let date = scene.world.now().to_utc().to_rfc2822();
    let eml = format!(
        "From: {OWNER}\r\nTo: {to}\r\nSubject: Re: asks\r\nMessage-ID: <{id}@x.test>\r\nDate: {date}\r\n\r\n{body}\r\n"
    );
    let world = &scene.world;
    world.signed_with("home.test", &eml, &RECOMMENDED, |signer| signer)
}

/// Hands over the altered copy of an answer, and then the genuine one. `decided` says after each whether anything was decided.
async fn answered(
    scene: &Scene,
    (id, words): (&str, [&str; 2]),
    (what, body, header): (&str, &str, &str),
    decided: impl AsyncFn() -> bool,
) {
    let to = scene.reply_address();
    let [no, yes] = words;
    let body = body.replace("NO", no).replace("YES", yes);
    let genuine = answer(scene, &to, id, &body);
    let told = scene.to_owner().len();
    let copy = altered(&genuine, header);
    scene.deliver(&copy, &to).await.expect("taken");
    scene.world.app.drain().await;
    assert!(!decided().await, "{what}: {copy}");
    let mails = scene.to_owner();
    let why = mails.last().expect("a mail").text.replace('\n', " ");
    assert_eq!(mails.len(), told + 1, "{what}: {why}");
    assert!(
        why.contains("does not cover `Content-Type`"),
        "{what}: {why}"
    );
    scene.deliver(&genuine, &to).await.expect("taken");
    scene.world.app.drain().await;
    assert!(decided().await, "the genuine one: {what}: {genuine}");
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_altered_copy_decides_on_a_draft() {
    let scene = drafting(&says()).await;
    for (n, copy) in COPIES.into_iter().enumerate() {
        scene.writes(CONTACT, &format!("l{n}"), "").await;
        let newest = async || drafts(&scene).await.remove(0).state;
        assert_eq!(newest().await, ApprovalState::Open);
        let decided = async || newest().await != ApprovalState::Open;
        answered(&scene, (&format!("d{n}"), ["no", "yes"]), copy, decided).await;
        assert_eq!(newest().await, ApprovalState::Rejected, "{}", copy.0);
    }
    assert!(to_carol(&scene).is_empty());
    scene.world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_altered_copy_answers_a_question_of_a_persona() {
    let script = json!({ "rules": [
        { "when": { "turn": 0 }, "call": [{ "tool": "ask_owner", "args": { "question": "May Carol have the red room?" } }] },
        { "say": "Your owner says: {{result}}" },
    ] });
    let scene = Scene::with(&script, |_| {}).await;
    for (n, copy) in COPIES.into_iter().enumerate() {
        let run = scene.writes(CONTACT, &format!("l{n}"), "").await;
        let id = scene.only_question().await.id;
        let state = async || scene.approval(&id).await.state;
        let decided = async || state().await != ApprovalState::Open;
        let words = ["No, it is being painted.", "Yes, the key is 7."];
        answered(&scene, (&format!("q{n}"), words), copy, decided).await;
        assert_eq!(state().await, ApprovalState::Answered, "{}", copy.0);
        let outcome = scene.world.app.outcome(&run).await;
        assert_eq!(outcome.0, "succeeded", "{}", copy.0);
        let sent = scene.world.app.sent();
        let said = &sent.last().expect("an answer").text;
        assert!(said.contains("No, it is being painted."), "{said}");
    }
    scene.world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_altered_copy_decides_on_entries_of_a_digest() {
    let memory = MemoryScene::start().await;
    let (scene, clock) = (&memory.scene, &memory.scene.world.app.workspace.clock);
    for (n, copy) in COPIES.into_iter().enumerate() {
        let fact = format!("Bob has moved to house number {n} in Hamburg for good.");
        let from = "Bob <bob@evil.test>";
        memory.tells(from, &format!("m{n}"), &fact).await;
        clock.advance(Duration::from_secs(3601));
        scene.world.app.drain().await;
        let status = async || memory.entry(&fact).await.status;
        assert_eq!(status().await, MemoryStatus::Proposed);
        let decided = async || status().await != MemoryStatus::Proposed;
        answered(scene, (&format!("e{n}"), ["no 1", "yes 1"]), copy, decided).await;
        assert_eq!(status().await, MemoryStatus::Rejected, "{}", copy.0);
    }
    scene.world.app.check().await;
}
