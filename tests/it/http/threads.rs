//! A thread with its runs beside its letters, a run step by step, and what the model saw.

use super::site::{Login, Page, Site};
use crate::approvals::scene::CONTACT;
use attache::store::ApprovalVerdict;
use serde_json::Value;

/// Follows the first link of a page whose address begins like this.
async fn follow(site: &Site, login: &Login, page: &Page, start: &str) -> (String, Page) {
    let needle = format!("href=\"{start}");
    let (_, rest) = page
        .body
        .split_once(&needle)
        .unwrap_or_else(|| panic!("no link to {start}: {}", page.body));
    let path = format!("{start}{}", rest.split('"').next().expect("an address"));
    let page = site.get(login, &path).await;
    assert_eq!(page.status, 200, "{path}: {}", page.body);
    (path, page)
}

#[tokio::test]
async fn three_clicks_lead_from_the_inbox_to_the_bytes_that_the_model_saw() {
    let site = Site::start().await;
    let run = site.scene.writes(CONTACT, "l1", "").await;
    site.scene.approves().await;
    let login = site.login().await;
    let inbox = site.get(&login, "/").await;
    let (_, thread) = follow(&site, &login, &inbox, "/t/").await;
    for text in [
        "Tell Eve about Tuesday.",
        "send_email",
        "turn 1",
        "turn 2",
        "context",
        "1 of 1 have it",
        "carol@partner.test",
    ] {
        assert!(thread.body.contains(text), "no {text}: {}", thread.body);
    }
    let (_, context) = follow(&site, &login, &thread, &format!("/r/{run}/context")).await;
    for text in [
        "current-input",
        "persona",
        "Ada answers letters.",
        "Tell Eve about Tuesday.",
    ] {
        assert!(context.body.contains(text), "no {text}: {}", context.body);
    }
    let (path, bytes) = follow(&site, &login, &context, "/r/").await;
    assert!(!path.is_empty());
    let bytes = match path.ends_with("/request") {
        true => bytes,
        false => site.get(&login, &format!("/r/{run}/turns/1/request")).await,
    };
    assert!(bytes.header("content-type").starts_with("text/plain"));
    assert!(bytes.header("content-security-policy").contains("sandbox"));
    let sent: Value = site.scene.world.app.prompts(&run).await.remove(0);
    assert_eq!(
        serde_json::from_str::<Value>(&bytes.body).expect("json"),
        sent
    );
}

#[tokio::test]
async fn a_run_shows_each_step_with_what_went_in_and_what_came_out() {
    let site = Site::start().await;
    let run = site.scene.writes(CONTACT, "l1", "").await;
    let login = site.login().await;
    let waiting = site.get(&login, &format!("/r/{run}")).await;
    for text in [
        "waits for you",
        "send_email",
        "eve@new.test",
        "It waits for you",
        "1 call</dd>",
    ] {
        assert!(waiting.body.contains(text), "no {text}: {}", waiting.body);
    }
    let question = site.scene.only_question().await;
    site.scene
        .decide(&question.id, ApprovalVerdict::Reject, "Eve has left")
        .await;
    site.scene.world.app.drain().await;
    let page = site.get(&login, &format!("/r/{run}")).await;
    for text in [
        "“<bdi>Eve has left</bdi>”",
        "<strong>rejected</strong> by",
        &format!("/approvals#q{}", question.id),
        "failed",
        "exact request",
        "exact answer",
        "<bdi>scripted</bdi> / <bdi>test</bdi>",
    ] {
        assert!(page.body.contains(text), "no {text}: {}", page.body);
    }
    // As lists show ids: by their end.
    let short = &run[run.len() - 8..];
    assert_eq!(site.get(&login, &format!("/r/{short}")).await.status, 200);
    for path in [
        "/r/00000000",
        "/r/x",
        "/t/00000000",
        "/m/00000000",
        &format!("/r/{run}/turns/9/request"),
        &format!("/r/{run}/turns/0/request"),
    ] {
        let page = site.get(&login, path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(page.body.contains("Back to the inbox"), "{path}");
    }
}

#[tokio::test]
async fn the_context_of_a_second_letter_is_compared_with_that_of_the_first() {
    let site = Site::start().await;
    let first = site.scene.writes(CONTACT, "l1", "").await;
    site.scene.approves().await;
    site.scene
        .world
        .app
        .workspace
        .write("personas/ada/active.md", "Something new.");
    let more = "In-Reply-To: <l1@x.test>\r\nReferences: <l1@x.test>\r\n";
    let second = site.scene.writes(CONTACT, "l2", more).await;
    let login = site.login().await;
    let page = site.get(&login, &format!("/r/{second}/context")).await.body;
    assert!(page.contains(&format!("/r/{first}/context")), "{page}");
    assert!(page.contains("<strong>changed</strong>"), "{page}");
    assert!(page.contains("<span class=\"faint\">same</span>"), "{page}");
    assert!(
        !site
            .get(&login, &format!("/r/{first}/context"))
            .await
            .body
            .contains("Since then")
    );
}

#[tokio::test]
async fn a_mail_of_the_persona_says_how_its_delivery_went() {
    let site = Site::start().await;
    let run = site.scene.writes(CONTACT, "l1", "").await;
    site.scene.approves().await;
    let login = site.login().await;
    let sql = "SELECT d.message_id, d.id FROM deliveries d JOIN messages m ON m.id = d.message_id WHERE d.run_id = $1
        ORDER BY d.seq LIMIT 1";
    let row = site.scene.world.app.row(sql, &run).await;
    let (message, delivery) = (row[0].clone().expect("a mail"), row[1].clone());
    let delivery = delivery.expect("a delivery");
    let page = site.get(&login, &format!("/m/{message}")).await;
    for text in [
        "delivered",
        "eve@new.test",
        &format!("/outbox#d{delivery}"),
        &format!("href=\"/r/{run}\""),
        "As it leaves",
    ] {
        assert!(page.body.contains(text), "no {text}: {}", page.body);
    }
    let bytes = site.get(&login, &format!("/m/{message}/raw")).await;
    assert!(bytes.body.contains("To: eve@new.test"), "{}", bytes.body);
    let outbox = site.get(&login, "/outbox").await.body;
    assert!(outbox.contains(&format!("id=\"d{delivery}\"")), "{outbox}");
}
