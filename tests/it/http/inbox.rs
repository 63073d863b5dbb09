//! The inbox: what came, from whom, and what became of it.

use super::site::Site;
use crate::app::db;
use crate::approvals::scene::CONTACT;
use reqwest::Method;

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

#[tokio::test]
async fn mail_of_the_engine_and_bounces_are_no_conversations_of_people() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let asked = "may I send this mail?";
    for (query, tuesday, question) in [
        ("/", true, false),
        ("/?persona=ada", true, false),
        ("/?state=engine", false, true),
        ("/?state=engine&persona=ada", false, true),
        ("/?outcome=waiting", true, false),
        ("/?outcome=failed", false, false),
    ] {
        let page = site.get(&login, query).await.body;
        let found = (page.contains("<bdi>Tuesday</bdi>"), page.contains(asked));
        assert_eq!(found, (tuesday, question), "{query}: {page}");
    }
    // Programs see both.
    let key = format!("Bearer {}", site.key(&["read"]).await);
    let headers = [("authorization", key.as_str())];
    let all = site.send(Method::GET, "/api/v1/conversations", &headers, &[]);
    let all = all.await.body;
    assert!(all.contains(asked) && all.contains("\"Tuesday\""), "{all}");
}

#[tokio::test]
async fn times_are_in_the_owners_zone_which_is_named() {
    let site = Site::configured(&crate::approvals::scene::asks(), |workspace| {
        let zone = serde_json::json!("Asia/Tokyo");
        workspace.set("personas/ada/persona.json", "/timezone", zone);
    })
    .await;
    site.scene.writes(CONTACT, "l1", "").await;
    let login = site.login().await;
    let now = site.scene.world.now().to_utc();
    let now = now.with_timezone(&chrono_tz::Asia::Tokyo);
    let page = site.get(&login, "/").await.body;
    let shown = now.format(">%-d %b %Y, %H:%M JST<").to_string();
    assert!(page.contains(&shown), "no {shown}: {page}");
    assert!(page.contains("(Asia&#x2f;Tokyo)"), "{page}");
}

/// The states of the filter under which a conversation is listed.
async fn listed_under(site: &Site, subject: &str) -> Vec<&'static str> {
    let login = site.login().await;
    let mut states = Vec::new();
    for state in [
        "waiting", "at_work", "failed", "filed", "not_sent", "answered", "quiet",
    ] {
        let page = site.get(&login, &format!("/?state={state}")).await.body;
        if page.contains(&format!("<bdi>{subject}</bdi>")) {
            states.push(state);
        }
    }
    states
}

#[tokio::test]
async fn the_mark_of_a_conversation_and_the_filter_agree() {
    let site = Site::start().await;
    site.scene.writes(CONTACT, "l1", "").await;
    assert_eq!(listed_under(&site, "Tuesday").await, ["waiting"]);
    site.scene.approves().await;
    assert_eq!(listed_under(&site, "Tuesday").await, ["answered"]);
    let mut rows = site.scene.world.app.workspace.rows().await;
    let login = site.login().await;
    for (mail, state, words) in [
        ("queued", "not_sent", "mail not sent yet"),
        ("failed", "failed", "not delivered"),
        ("cancelled", "not_sent", "not sent"),
    ] {
        let change = db::query("UPDATE deliveries SET state = $1").bind(mail);
        change.execute(&mut rows).await.expect("a change");
        assert_eq!(listed_under(&site, "Tuesday").await, [state], "{mail}");
        let page = site.get(&login, "/").await.body;
        assert!(page.contains(words), "no {words}: {page}");
    }
}

#[tokio::test]
async fn a_filed_letter_is_found_and_answered_from_its_thread() {
    let site = Site::start().await;
    let more = "Auto-Submitted: auto-replied\r\n";
    let eml = site
        .scene
        .signed(CONTACT, "ada@engine.test", "auto", more, "I am away.");
    let taken = site.scene.deliver(&eml, "ada@engine.test").await;
    let message = taken.expect("the letter is taken").copies[0]
        .message
        .clone();
    assert_eq!(listed_under(&site, "Tuesday").await, ["filed"]);
    let login = site.login().await;
    let sql = "SELECT thread_id FROM messages WHERE id = $1";
    let thread = site.scene.world.app.row(sql, message.as_str()).await;
    let thread = thread[0].clone().expect("a thread");
    let page = site.get(&login, &format!("/t/{thread}")).await.body;
    let form = format!("action=\"/m/{message}/answer\"");
    assert!(page.contains(&form), "{page}");
    let answer = site
        .post(&login, &format!("/m/{message}/answer"), &[])
        .await;
    assert_eq!(answer.status, 303, "{}", answer.body);
    assert_ne!(listed_under(&site, "Tuesday").await, ["filed"]);
    let page = site.get(&login, &format!("/t/{thread}")).await.body;
    assert!(!page.contains(&form), "{page}");
    site.scene.world.app.drain().await;
}
