//! Approvals in a browser: the exact bytes are shown, one answer counts, and it has the effect of the command line's.

use super::site::{Login, Page, Site, cookie};
use attache::domain::ApprovalState;
use reqwest::Method;

/// Sends a decision on a question with the digest that its page shows.
async fn decided(site: &Site, login: &Login, id: &str, verb: &str, words: &str) -> Page {
    let sha256 = site.scene.approval(id).await.sha256;
    let form = [("sha256", sha256.as_str()), ("words", words)];
    site.post(login, &format!("/approvals/{id}/{verb}"), &form)
        .await
}

#[tokio::test]
async fn a_question_shows_what_would_be_sent_and_a_yes_sends_it() {
    let site = Site::start().await;
    site.scene
        .writes(crate::approvals::scene::CONTACT, "l1", "")
        .await;
    let question = site.scene.only_question().await;
    let login = site.login().await;
    let page = site.get(&login, "/approvals").await.body;
    for text in [
        "eve@new.test",
        "We meet on Tuesday.",
        &question.sha256,
        "Approve exactly this",
        "class=\"number\">1<",
    ] {
        assert!(page.contains(text), "no {text}: {page}");
    }
    let answer = decided(&site, &login, &question.id, "approve", "").await;
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, "/approvals"),
        "{}",
        answer.body
    );
    let now = site.scene.approval(&question.id).await;
    assert_eq!(
        (now.state, now.via.as_deref(), now.decided_by.as_deref()),
        (ApprovalState::Approved, Some("web"), Some("uid 0"))
    );
    site.scene.world.app.drain().await;
    assert_eq!(site.scene.to_eve().len(), 1);

    // The secret of the session is another one now: the old cookie opens nothing, the new one does.
    let renewed = Login {
        cookie: cookie(&answer),
        form_token: login.form_token.clone(),
    };
    assert_ne!(renewed.cookie, login.cookie);
    assert_eq!(site.get(&login, "/approvals").await.status, 401);
    let page = site.get(&renewed, "/approvals").await;
    assert_eq!(page.status, 200);
    assert!(
        page.body.contains("No question is open.") && page.body.contains("approved"),
        "{}",
        page.body
    );

    let again = decided(&site, &renewed, &question.id, "reject", "too late").await;
    assert_eq!(again.status, 409);
    assert!(
        again.body.contains("approved already by uid 0"),
        "{}",
        again.body
    );
    assert_eq!(site.scene.to_eve().len(), 1);
    site.scene.world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_no_and_a_change_reach_the_persona_in_the_owners_words() {
    for (verb, words, state) in [
        ("reject", "because Eve has left", ApprovalState::Rejected),
        ("edit", "write to Carol in her place", ApprovalState::Edited),
    ] {
        let site = Site::start().await;
        let run = site
            .scene
            .writes(crate::approvals::scene::CONTACT, "l1", "")
            .await;
        let question = site.scene.only_question().await;
        let login = site.login().await;
        let answer = decided(&site, &login, &question.id, verb, words).await;
        assert_eq!(answer.status, 303, "{}", answer.body);
        assert_eq!(site.scene.approval(&question.id).await.state, state);
        site.scene.world.app.drain().await;
        let prompts = site.scene.world.app.prompts(&run).await;
        assert!(
            prompts
                .last()
                .expect("a request")
                .to_string()
                .contains(words),
            "{verb}"
        );
        assert!(site.scene.to_eve().is_empty());
    }
}

#[tokio::test]
async fn other_bytes_no_digest_and_the_wrong_kind_of_answer_decide_nothing() {
    let site = Site::start().await;
    site.scene
        .writes(crate::approvals::scene::CONTACT, "l1", "")
        .await;
    let question = site.scene.only_question().await;
    let login = site.login().await;
    let path = |verb: &str| format!("/approvals/{}/{verb}", question.id);
    let other = "0".repeat(64);
    for (verb, form, status) in [
        ("approve", vec![("sha256", other.as_str())], 409),
        ("approve", vec![], 400),
        ("edit", vec![("sha256", question.sha256.as_str())], 400),
        (
            "answer",
            vec![("sha256", question.sha256.as_str()), ("words", "yes")],
            400,
        ),
    ] {
        let answer = site.post(&login, &path(verb), &form).await;
        assert_eq!(answer.status, status, "{verb} {form:?}: {}", answer.body);
        assert_eq!(site.scene.only_question().await.id, question.id);
    }
    let missing = site
        .post(&login, "/approvals/none/approve", &[("sha256", &other)])
        .await;
    assert_eq!(missing.status, 404);
    // A key of a program decides nothing, whatever it may do.
    assert!(site.scene.to_eve().is_empty());
}

#[tokio::test]
async fn the_outbox_shows_what_became_of_a_mail_and_holds_none_that_is_gone() {
    let site = Site::start().await;
    site.scene
        .writes(crate::approvals::scene::CONTACT, "l1", "")
        .await;
    let question = site.scene.only_question().await;
    let login = site.login().await;
    let answer = decided(&site, &login, &question.id, "approve", "").await;
    let login = Login {
        cookie: cookie(&answer),
        form_token: login.form_token,
    };
    let waiting = site.get(&login, "/outbox?state=waiting").await.body;
    assert!(
        waiting.contains("eve@new.test") && waiting.contains("Hold"),
        "{waiting}"
    );
    let row = site
        .scene
        .world
        .app
        .row("SELECT id FROM deliveries WHERE state = $1", "queued")
        .await;
    let id = row[0].clone().expect("a delivery");
    assert_eq!(
        site.post(&login, &format!("/outbox/{id}/hold"), &[])
            .await
            .status,
        303
    );
    site.scene.world.app.drain().await;
    assert!(site.scene.to_eve().is_empty(), "held");
    assert_eq!(
        site.post(&login, &format!("/outbox/{id}/retry"), &[])
            .await
            .status,
        303
    );
    site.scene.world.app.drain().await;
    assert_eq!(site.scene.to_eve().len(), 1);
    let page = site.get(&login, "/outbox").await.body;
    assert!(
        page.contains("delivered") && page.contains("The plan"),
        "{page}"
    );
    assert_eq!(
        site.post(&login, &format!("/outbox/{id}/cancel"), &[])
            .await
            .status,
        409
    );
    for path in ["/usage", "/usage?days=7", "/notices"] {
        let page = site.get(&login, path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.body);
    }
    let usage = site.get(&login, "/usage").await.body;
    // Signatures are made now, so that this clock is no fixed one.
    let month = site.scene.world.now().to_utc().format("%Y-%m-").to_string();
    assert!(
        usage.contains("scripted&#x2f;test") && usage.contains(&month),
        "{usage}"
    );
}

/// Pages of a persona whose answers wait as drafts, with one that waits.
async fn with_a_draft() -> (Site, Login) {
    let site = Site::configured(&crate::drafts::scene::says(), |workspace| {
        let mode = serde_json::json!("draft");
        workspace.set("personas/ada/persona.json", "/reply", mode);
    })
    .await;
    site.scene
        .writes(crate::approvals::scene::CONTACT, "l1", "")
        .await;
    let login = site.login().await;
    (site, login)
}

#[tokio::test]
async fn a_draft_is_read_edited_and_sent_in_its_thread() {
    let (site, login) = with_a_draft().await;
    let draft = crate::drafts::scene::only_draft(&site.scene).await;
    let app = &site.scene.world.app;
    let sql = "SELECT thread_id FROM messages WHERE message_id = $1";
    let thread = app.row(sql, "l1@x.test").await[0]
        .clone()
        .expect("a thread");
    let (thread, path) = (
        format!("/t/{thread}"),
        format!("/approvals/{}/draft", draft.id),
    );
    for page in ["/approvals", &thread] {
        let page = site.get(&login, page).await.body;
        for text in [
            "We meet on Tuesday.</textarea>",
            "Tell Eve about Tuesday.",
            &path,
            &draft.sha256,
        ] {
            assert!(page.contains(text), "no {text}: {page}");
        }
    }
    let form = |sha256: &str, text: &str, then: &str| {
        let subject = "Re: Tuesday";
        let pairs = [
            ("sha256", sha256),
            ("subject", subject),
            ("text", text),
            ("then", then),
            ("next", &thread),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let post = async |form: [(String, String); 5], login: &Login| {
        let form: Vec<(&str, &str)> = form.iter().map(|(a, b)| (&**a, &**b)).collect();
        site.post(login, &path, &form).await
    };
    let saved = post(
        form(&draft.sha256, "On Wednesday.\r\n\r\nAda", "keep"),
        &login,
    )
    .await;
    assert_eq!(
        (saved.status, saved.header("location")),
        (303, &*thread),
        "{}",
        saved.body
    );
    let login = Login {
        cookie: cookie(&saved),
        ..login
    };
    let now = site.scene.approval(&draft.id).await;
    assert_eq!((now.state, now.edits), (ApprovalState::Open, 1));
    let page = site.get(&login, &thread).await.body;
    assert!(page.contains("On Wednesday.\n\nAda</textarea>"), "{page}");
    let sql =
        "SELECT decision || rule FROM audit_log WHERE subject_id = $1 ORDER BY seq DESC LIMIT 1";
    let noted = app.row(sql, &draft.id).await[0].clone().unwrap_or_default();
    assert_eq!(noted, "editedweb");

    // What the page showed before the edit sends nothing, and is shown to be copied.
    let late = post(form(&draft.sha256, "On Friday.", "send"), &login).await;
    assert_eq!(late.status, 409);
    assert!(late.body.contains("On Friday."), "{}", late.body);
    let empty = post(form(&now.sha256, "  ", "send"), &login).await;
    assert_eq!(empty.status, 400, "{}", empty.body);
    app.drain().await;
    assert_eq!(crate::drafts::scene::to_carol(&site.scene), [""; 0]);

    let sent = post(form(&now.sha256, "On Thursday.", "send"), &login).await;
    assert_eq!(sent.status, 303, "{}", sent.body);
    app.drain().await;
    assert_eq!(
        crate::drafts::scene::to_carol(&site.scene),
        ["On Thursday."]
    );
    let now = site.scene.approval(&draft.id).await;
    assert_eq!((now.via.as_deref(), now.edits), (Some("web"), 2));
    app.check().await;
}

#[tokio::test]
async fn a_draft_is_discarded_in_its_thread_and_edited_by_the_api_of_a_browser() {
    let (site, login) = with_a_draft().await;
    let draft = crate::drafts::scene::only_draft(&site.scene).await;
    let path = format!("/api/v1/approvals/{}/draft", draft.id);
    let body = serde_json::json!({
        "sha256": draft.sha256, "subject": "Re: Tuesday", "text": "On Friday.", "then": "keep",
    });
    let origin = site.origin();
    let headers = [
        ("cookie", login.cookie.as_str()),
        ("origin", origin.as_str()),
        ("sec-fetch-site", "same-origin"),
        ("x-form-token", login.form_token.as_str()),
    ];
    let edited = site.json(Method::POST, &path, &headers, &body).await;
    assert_eq!(edited.status, 200, "{}", edited.body);
    assert_eq!(edited.json()["state"], "open");
    let login = Login {
        cookie: cookie(&edited),
        ..login
    };
    let now = site.scene.approval(&draft.id).await;
    let form = [("sha256", now.sha256.as_str()), ("next", "//evil.test")];
    let gone = site
        .post(&login, &format!("/approvals/{}/reject", draft.id), &form)
        .await;
    assert_eq!((gone.status, gone.header("location")), (303, "/"));
    site.scene.world.app.drain().await;
    assert_eq!(crate::drafts::scene::to_carol(&site.scene), [""; 0]);
    let state = site.scene.approval(&draft.id).await.state;
    assert_eq!(state, ApprovalState::Rejected);
}
