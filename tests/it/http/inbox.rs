//! The inbox: what came, from whom, and what became of it.

use super::site::Site;
use crate::approvals::scene::CONTACT;

#[tokio::test]
async fn a_conversation_is_listed_with_its_sender_and_its_state() {
    let site = Site::start().await;
    let login = site.login().await;
    let page = site.get(&login, "/").await;
    assert!(
        page.body.contains("attache ingest"),
        "an empty inbox says what to do"
    );
    site.scene.writes(CONTACT, "l1", "").await;
    let page = site.get(&login, "/").await;
    assert_eq!(page.status, 200);
    for text in [
        "<bdi>Tuesday</bdi>",
        "carol@partner.test",
        "waits for you",
        "class=\"badge contact\"",
        "1 letter",
    ] {
        assert!(page.body.contains(text), "no {text}: {}", page.body);
    }
    assert!(page.body.len() < 100_000);
}

#[tokio::test]
async fn it_is_filtered_by_state_persona_and_words() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    for (query, is_there) in [
        ("?state=waiting", true),
        ("?state=failed", false),
        ("?persona=ada", true),
        ("?persona=nobody", false),
        ("?q=tuesday", true),
        ("?q=zebra", false),
        ("?state=waiting&persona=ada", true),
    ] {
        let page = site.get(&login, &format!("/{query}")).await;
        assert_eq!(page.status, 200, "{query}");
        assert_eq!(
            page.body.contains("<bdi>Tuesday</bdi>"),
            is_there,
            "{query}: {}",
            page.body
        );
    }
}

#[tokio::test]
async fn pages_follow_each_other_without_a_gap() {
    let site = Site::start().await;
    let login = site.login().await;
    for number in 0..35 {
        let eml = site.scene.signed(
            CONTACT,
            "ada@engine.test",
            &format!("n{number}"),
            "",
            "A word.",
        );
        let eml = eml.replace("Subject: Tuesday", &format!("Subject: Note {number:02}"));
        // Not signed any more, which is of no matter here.
        let _taken = site.scene.deliver(&eml, "ada@engine.test").await;
        site.scene.world.app.drain().await;
    }
    let first = site.get(&login, "/").await.body;
    let (_, rest) = first.split_once("href=\"/?after=").expect("an older page");
    let after = rest
        .split('"')
        .next()
        .expect("a cursor")
        .replace("&#x2f;", "/");
    let second = site.get(&login, &format!("/?after={after}")).await.body;
    for number in 0..35 {
        let subject = format!("<bdi>Note {number:02}</bdi>");
        let found = (first.contains(&subject), second.contains(&subject));
        assert_eq!(found, (number >= 5, number < 5), "{subject}");
    }
}
