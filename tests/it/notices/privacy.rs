//! Who learns of what: the owners, of no letter more than its subject, and nobody through a persona.

use super::{HOUR, ada, fail, failing, failing_app, mails};
use crate::app::db;
use crate::app::rows::{self, unpacked};
use crate::app::{Workspace, letter, note, parse};
use attache::store::MessageSearch;

#[tokio::test]
async fn a_notice_has_nothing_of_a_letter_but_a_harmless_subject() {
    let app = failing_app().await;
    let subject = format!(
        "[Click `here`](https://evil.example/) {}",
        "all work and no play ".repeat(40)
    );
    let eml = note(
        "a@guest.example",
        "X-Secret: the secret of the header\n",
        "The secret of the letter.",
    )
    .replace("Subject: Breakfast", &format!("Subject: {subject}"));
    app.receive(&eml).await.expect("taken");
    app.drain().await;
    let mut rows = app.workspace.rows().await;
    let sql =
        "SELECT d.bytes, m.text_body, (SELECT group_concat(summary || hint) FROM notices) AS facts
        FROM deliveries d JOIN messages m ON m.id = d.message_id WHERE d.kind = 'notice'";
    let row = db::query(sql)
        .fetch_one(&mut rows)
        .await
        .expect("one notice");
    let notice = parse(&unpacked(row.get("bytes")));
    let html = notice.html.clone().expect("an HTML part");
    let (stored, facts): (String, String) = (row.get("text_body"), row.get("facts"));
    for text in [&notice.text, &html, &notice.subject, &stored, &facts] {
        assert!(!text.to_lowercase().contains("the secret of"), "{text}");
        assert!(text.matches("all work and no play").count() <= 6, "{text}");
    }
    assert!(notice.text.contains("Click 'here'"), "{}", notice.text);
    assert!(!html.contains("href"), "{html}");
}

#[tokio::test]
async fn a_persona_finds_no_notices_but_the_owner_may_talk_about_one() {
    let app = failing_app().await;
    fail(&app, 1, "x").await;
    let notice = app.notices().remove(0);
    let persona = app.engine.store.persona(&ada());
    for query in [None, Some("failed".to_owned())] {
        let search = MessageSearch {
            query,
            limit: 50,
            ..MessageSearch::default()
        };
        let found = persona.search_messages(&search).await.expect("a search");
        assert!(
            found.iter().all(|found| found.disposition != "notice"),
            "{found:?}"
        );
    }
    let id = notice.message_id.clone().expect("an id");
    let reply = format!(
        "From: Olga <olga@home.test>\nTo: ada@engine.test\nSubject: Re: {}\nMessage-ID: <r@home.test>\n\
         In-Reply-To: <{id}>\nReferences: <{id}>\nDate: Fri, 20 Nov 2026 10:00:00 +0000\n\nAda, what went wrong there?\n",
        notice.subject
    );
    let run = app.run_of(&reply).await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    let prompt = app.prompts(&run).await.remove(0).to_string();
    assert!(
        prompt.contains("a run of ada failed: the provider does not allow the request"),
        "{prompt}"
    );
    let answer = app.sent().pop().expect("an answer");
    assert_eq!(
        (answer.to[0].spec.as_str(), answer.text.trim()),
        ("olga@home.test", "The key has expired.")
    );
    app.check().await;
}

#[tokio::test]
async fn notices_of_a_cause_share_a_thread_until_another_reads_it() {
    let app = failing_app().await;
    for round in ["first", "second"] {
        fail(&app, 1, round).await;
        app.workspace.clock.advance(HOUR);
    }
    let notices = app.notices();
    assert_eq!(
        notices[1].in_reply_to,
        notices[0]
            .message_id
            .clone()
            .into_iter()
            .collect::<Vec<_>>()
    );
    let stored = mails(&app).await;
    assert_eq!(stored[0].2, stored[1].2);
    // As when the owner copies somebody into an answer.
    let mut database = app.workspace.rows().await;
    rows::participant(&mut database, Some(&stored[1].2), "bob@guest.example").await;
    fail(&app, 1, "third").await;
    let stored = mails(&app).await;
    assert_eq!(stored.len(), 3);
    assert_ne!(stored[2].2, stored[1].2);
    assert_eq!(stored[2].1, "olga@home.test");
}

#[tokio::test]
async fn an_owner_address_that_is_a_persona_is_told_nothing() {
    let workspace = Workspace::new(&failing());
    let owners = serde_json::json!(["ada+me@engine.test", "olga@home.test"]);
    workspace.set("configs/gateway.json", "/owners", owners);
    let app = workspace.start().await;
    fail(&app, 1, "x").await;
    assert_eq!(mails(&app).await[0].1, "olga@home.test");
}

#[tokio::test]
async fn a_notice_that_comes_back_in_starts_no_run() {
    let app = failing_app().await;
    fail(&app, 1, "x").await;
    let notice = std::fs::read_dir(app.workspace.path().join("data/outbox")).expect("a folder");
    let notice = notice
        .map(|file| file.expect("an entry").path())
        .next()
        .expect("a mail");
    let text = String::from_utf8(std::fs::read(notice).expect("a mail")).expect("ASCII");
    let mut back = letter(&text);
    back.envelope.mail_from = None;
    back.envelope.rcpt_to =
        vec![attache::domain::Address::parse("ada@engine.test").expect("an address")];
    let accepted = app.engine.intake().accept(back).await.expect("filed");
    let outcome = &accepted.copies[0].outcome;
    assert!(
        !matches!(
            outcome,
            attache::gateway::intake_contract::CopyOutcome::Run(_)
        ),
        "{outcome:?}"
    );
}
