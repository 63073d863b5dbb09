//! Entries that wait, reviewed by mail: one list at a time, decided by lines of the owner's own reply, and by nothing else.

use super::scene::MemoryScene;
use crate::approvals::scene::{CONTACT, OWNER};
use attache::domain::{Email, MemoryStatus};
use attache::store::MemoryAct;
use std::time::Duration;

const BOB: &str = "Bob <bob@evil.test>";
const FACTS: [&str; 4] = [
    "Bob has moved to Hamburg for good.",
    "Bob is allergic to hazelnuts and almonds.",
    "Bob plays the cello on Sunday evenings.",
    "Bob owns a house boat on the river Elbe.",
];

impl MemoryScene {
    /// Lets an hour pass, in which entries are gathered.
    async fn hour_passes(&self) {
        let app = &self.scene.world.app;
        app.workspace.clock.advance(Duration::from_secs(3601));
        app.drain().await;
    }

    /// The lists that the owner was mailed.
    fn digests(&self) -> Vec<Email> {
        let mails = self.scene.to_owner().into_iter();
        mails
            .filter(|mail| mail.from[0].spec.contains("+a."))
            .collect()
    }

    /// What the owner was told of answers.
    fn explained(&self) -> Vec<String> {
        let mails = self.scene.to_owner().into_iter();
        let told = mails.filter(|mail| !mail.from[0].spec.contains("+a."));
        told.map(|mail| mail.text).collect()
    }

    /// Hands a letter in by the owner's login.
    async fn by_login(&self, eml: &str, to: &str) {
        let login = Some("olga@home.test");
        self.scene.submit(eml, to, login).await.expect("taken");
        self.scene.world.app.drain().await;
    }

    async fn status(&self, text: &str) -> MemoryStatus {
        self.entry(text).await.status
    }

    /// A stranger says four things, and the owner is shown them.
    async fn four_wait() -> Self {
        let scene = Self::start().await;
        for (number, fact) in FACTS.iter().enumerate() {
            scene.tells(BOB, &format!("m{number}"), fact).await;
        }
        scene.hour_passes().await;
        scene
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn the_owner_is_shown_one_list_and_decides_by_lines_of_a_reply() {
    let scene = MemoryScene::four_wait().await;
    let digests = scene.digests();
    assert_eq!(digests.len(), 1);
    let (subject, text) = (&digests[0].subject, &digests[0].text);
    assert_eq!(subject, "Ada: 4 entries of memory wait");
    for (place, fact) in FACTS.iter().enumerate() {
        let line = format!(
            "{}. about bob@evil.test, remember (fact): \"{fact}\"",
            place + 1
        );
        assert!(text.contains(&line), "{line}\n{text}");
    }
    scene.hour_passes().await;
    scene
        .tells(BOB, "m9", "Bob has a new telephone at home.")
        .await;
    scene.hour_passes().await;
    assert_eq!(scene.digests().len(), 1, "one list at a time");

    let body = "Yes 1, 3\r\nno 2, because it is not so\r\nedit 4: Bob has a boat.\r\n\r\nBest,\r\nOlga\r\n\r\nOn Friday Ada wrote:\r\n> no 1\r\n";
    scene.scene.owner_replies("a1", body).await;
    let expected = [
        (FACTS[0], MemoryStatus::Active, "approved"),
        (FACTS[1], MemoryStatus::Rejected, "rejected"),
        (FACTS[2], MemoryStatus::Active, "approved"),
        (FACTS[3], MemoryStatus::Superseded, "edited"),
    ];
    let store = &scene.scene.world.app.engine.store;
    for (fact, status, act) in expected {
        let entry = scene.entry(fact).await;
        assert_eq!(entry.status, status, "{fact}");
        let events = store.memory_dossier(&entry.id).await.expect("one").events;
        assert_eq!(events.len(), 2, "{events:#?}");
        assert_eq!(
            (events[1].act.as_str(), events[1].who.as_str()),
            (act, "olga@home.test")
        );
        // What mail did, the machine undoes.
        scene
            .act(&entry.id, MemoryAct::Restore)
            .await
            .expect("undone");
        assert_eq!(scene.status(fact).await, MemoryStatus::Proposed);
    }
    assert!(scene.explained().is_empty(), "what is done needs no answer");
    // The list is decided whole, and what waits now comes in the next one.
    scene.hour_passes().await;
    assert_eq!(scene.digests().len(), 2);
    assert!(
        scene.digests()[1]
            .text
            .contains("1. about bob@evil.test, remember (fact): \"Bob has a new telephone")
    );
    scene.scene.world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_list_that_was_decided_at_the_machine_makes_room_for_the_next() {
    let scene = MemoryScene::four_wait().await;
    for fact in FACTS {
        let id = scene.entry(fact).await.id;
        let why = "no".to_owned();
        scene
            .act(&id, MemoryAct::Reject { why })
            .await
            .expect("rejected");
    }
    scene
        .tells(BOB, "m9", "Bob has a new telephone at home.")
        .await;
    scene.hour_passes().await;
    scene.hour_passes().await;
    let digests = scene.digests();
    assert_eq!(digests.len(), 2, "nobody waits a week for it");
    assert!(digests[1].text.contains("new telephone"));
    scene.scene.world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_is_foreign_stale_or_unclear_changes_nothing() {
    let scene = MemoryScene::four_wait().await;
    let to = scene.scene.reply_address();
    let forged = scene
        .scene
        .world
        .plain(OWNER, "h1", "")
        .replace("ada@engine.test", &to);
    let contact = scene.scene.signed(CONTACT, &to, "h2", "", "yes all");
    let automatic = "Auto-Submitted: auto-replied\r\n";
    let automatic = scene.scene.signed(OWNER, &to, "h3", automatic, "yes all");
    for eml in [forged, contact, automatic] {
        // Some are refused at the door.
        let _taken = scene.scene.deliver(&eml, &to).await;
        scene.scene.world.app.drain().await;
    }
    assert!(scene.explained().is_empty(), "{:?}", scene.explained());
    let undated = format!(
        "From: {OWNER}\r\nTo: {to}\r\nSubject: Tuesday\r\nMessage-ID: <s@x.test>\r\n\r\nyes all\r\n"
    );
    scene.by_login(&undated, &to).await;
    scene.scene.owner_replies("u1", "yes").await;
    scene.scene.owner_replies("u2", "yes 1 7").await;
    for fact in FACTS {
        assert_eq!(scene.status(fact).await, MemoryStatus::Proposed, "{fact}");
    }
    let told = scene.explained();
    assert_eq!(told.len(), 3, "{told:#?}");
    for (told, wanted) in told.iter().zip([
        "no `Date`",
        "I did not understand",
        "7: the list has no such number",
    ]) {
        assert!(told.contains(wanted), "{told}");
    }
    scene.scene.world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_was_decided_meanwhile_stays_and_a_closed_list_decides_nothing() {
    let scene = MemoryScene::four_wait().await;
    let first = scene.entry(FACTS[0]).await.id;
    let why = "by hand".to_owned();
    scene
        .act(&first, MemoryAct::Reject { why })
        .await
        .expect("rejected");
    scene.scene.owner_replies("a1", "yes 1-3").await;
    assert_eq!(scene.status(FACTS[0]).await, MemoryStatus::Rejected);
    assert_eq!(scene.status(FACTS[1]).await, MemoryStatus::Active);
    let told = scene.explained();
    assert!(told[0].contains("1: it is rejected already"), "{told:?}");
    scene.scene.owner_replies("a2", "no all").await;
    assert_eq!(
        scene.status(FACTS[1]).await,
        MemoryStatus::Active,
        "all that wait"
    );
    assert_eq!(scene.status(FACTS[3]).await, MemoryStatus::Rejected);
    scene.scene.owner_replies("a3", "yes 4").await;
    let told = scene.explained();
    assert!(told[1].contains("This list is closed"), "{told:?}");
    assert_eq!(scene.status(FACTS[3]).await, MemoryStatus::Rejected);
    scene.hour_passes().await;
    scene.days_pass(8).await;
    assert_eq!(scene.digests().len(), 1, "none when nothing waits");
    scene.scene.world.app.check().await;
}

#[tokio::test]
async fn a_list_that_nobody_answers_makes_room_after_a_week() {
    let scene = MemoryScene::four_wait().await;
    let old = scene.scene.reply_address();
    scene.days_pass(6).await;
    assert_eq!(scene.digests().len(), 1);
    scene.days_pass(2).await;
    assert_eq!(scene.digests().len(), 2);
    // Signed letters of a week ahead are not believed here; a login is.
    let yes = |id: &str, to: &str| scene.scene.signed(OWNER, to, id, "", "yes 1");
    scene.by_login(&yes("a1", &old), &old).await;
    assert_eq!(scene.status(FACTS[0]).await, MemoryStatus::Proposed);
    assert!(scene.explained()[0].contains("This list is closed"));
    let new = scene.scene.reply_address();
    scene.by_login(&yes("a2", &new), &new).await;
    assert_eq!(scene.status(FACTS[0]).await, MemoryStatus::Active);
}

#[tokio::test]
#[ignore = "second tier"]
async fn nobody_is_mailed_for_ever_about_what_they_leave() {
    let scene = MemoryScene::four_wait().await;
    let mut lists = Vec::new();
    for _ in 0..6 {
        lists.push(scene.digests().len());
        scene.days_pass(8).await;
    }
    assert_eq!(lists, [1, 2, 3, 3, 3, 3]);
    assert_eq!(scene.status(FACTS[0]).await, MemoryStatus::Proposed);
}

/// Signed without the fields that say how the body is read: it could be an altered copy of another answer.
#[tokio::test]
async fn a_reply_that_could_be_another_reading_decides_on_nothing_and_says_so() {
    let scene = MemoryScene::four_wait().await;
    let to = scene.scene.reply_address();
    let base64 = "Content-Transfer-Encoding: base64\r\n";
    let copy = scene.scene.signed(OWNER, &to, "d1", base64, "eWVzIGFsbA==");
    let genuine = scene.scene.signed(OWNER, &to, "d1", "", "yes all");
    for (eml, status, told) in [
        (&copy, MemoryStatus::Proposed, 1),
        (&genuine, MemoryStatus::Active, 1),
    ] {
        scene.scene.deliver(eml, &to).await.expect("taken");
        scene.scene.world.app.drain().await;
        for fact in FACTS {
            assert_eq!(scene.status(fact).await, status, "{fact}");
        }
        assert_eq!(scene.explained().len(), told, "{:?}", scene.explained());
    }
    let why = scene.explained().remove(0).replace('\n', " ");
    assert!(why.contains("does not cover `Content-Type`"), "{why}");
    scene.scene.world.app.check().await;
}
