//! Reports that anybody could have written, addresses without room for a token, and the switch that turns tokens off.

use super::{notices, returns, rule, send, shape, shapes, state, workspace};
use attache::domain::bounce_token;
use attache::store::RecipientState;
use serde_json::json;

#[tokio::test]
async fn a_report_with_a_wrong_token_is_filed_and_changes_nothing() {
    let app = workspace().start().await;
    let sent = send(&app, "q1@guest.example").await;
    let spoofed = [
        "ada+b.00000000000000000000@engine.test".to_owned(),
        "ada+b.x@engine.test".to_owned(),
        sent.envelope_from.replace("@engine.test", "0@engine.test"),
        format!("ada+b.{}@engine.test", "0".repeat(58)),
    ];
    for (index, to) in spoofed.iter().enumerate() {
        let eml = shape("postfix_user_unknown", to, &sent.rfc_message_id);
        let eml = eml.replace("postfix-user-unknown", &format!("spoofed-{index}"));
        assert_eq!(
            rule(returns(&app, to, &eml).await),
            "bounce_unknown",
            "{to}"
        );
    }
    assert_eq!(app.drain().await.runs, 0);
    assert_eq!(state(&app, &sent).await, RecipientState::Delivered);
    assert_eq!(notices(&app, "bounced").await, 0);
    let reports = app
        .engine
        .store
        .delivery_reports(&sent.id)
        .await
        .expect("reports");
    assert_eq!(
        reports.len(),
        spoofed.len(),
        "they name our mail, and are shown with it"
    );
    assert!(
        reports
            .iter()
            .all(|report| !report.believed && !report.changed)
    );
    app.check().await;
}

#[tokio::test]
async fn a_token_of_another_persona_is_no_token() {
    let workspace = workspace();
    workspace.persona("grace", "Grace");
    let app = workspace.start().await;
    let sent = send(&app, "q1@guest.example").await;
    let to = sent.envelope_from.replace("ada+", "grace+");
    let eml = shape("postfix_user_unknown", &to, &sent.rfc_message_id);
    assert_eq!(rule(returns(&app, &to, &eml).await), "bounce_unknown");
    assert_eq!(state(&app, &sent).await, RecipientState::Delivered);
    let reports = app
        .engine
        .store
        .delivery_reports(&sent.id)
        .await
        .expect("reports");
    assert_eq!(reports, [], "another persona's mail is nothing to Grace");
}

#[tokio::test]
async fn a_report_about_somebody_else_is_noted_and_changes_nothing() {
    let app = workspace().start().await;
    let sent = send(&app, "q1@guest.example").await;
    // In words only, so the one recipient of the mail is not taken for the one that is named.
    let eml = shape(
        "qmail_no_mailbox",
        &sent.envelope_from,
        &sent.rfc_message_id,
    );
    let eml = eml.replace("bob@guest.example", "mallory@guest.example");
    assert_eq!(
        rule(returns(&app, &sent.envelope_from, &eml).await),
        "bounce"
    );
    assert_eq!(state(&app, &sent).await, RecipientState::Delivered);
    let reports = app
        .engine
        .store
        .delivery_reports(&sent.id)
        .await
        .expect("reports");
    assert_eq!(reports.len(), 1);
    assert_eq!(
        (reports[0].recipient.as_str(), reports[0].changed),
        ("mallory@guest.example", false)
    );
}

#[tokio::test]
async fn reports_to_the_plain_address_are_filed_shown_change_nothing() {
    let app = workspace().start().await;
    let sent = send(&app, "q1@guest.example").await;
    let shapes = shapes();
    for (name, _) in &shapes {
        let eml = shape(name, "ada@engine.test", &sent.rfc_message_id);
        let rule = rule(returns(&app, "ada@engine.test", &eml).await);
        assert!(
            !rule.is_empty() && !rule.starts_with("bounce"),
            "{name}: {rule}"
        );
    }
    assert_eq!(app.drain().await.runs, 0);
    assert_eq!(state(&app, &sent).await, RecipientState::Delivered);
    assert_eq!(notices(&app, "bounced").await, 0);
    let reports = app
        .engine
        .store
        .delivery_reports(&sent.id)
        .await
        .expect("reports");
    assert_eq!(reports.len(), shapes.len());
    assert!(
        reports
            .iter()
            .all(|report| !report.believed && !report.changed)
    );
    app.check().await;
}

#[tokio::test]
async fn every_mail_has_its_own_token_that_its_other_ids_do_not_tell() {
    let app = workspace().start().await;
    let first = send(&app, "q1@guest.example").await;
    let second = send(&app, "q2@guest.example").await;
    let token = |envelope_from: &str| {
        let address = attache::domain::Address::parse(envelope_from).expect("an address");
        bounce_token(&address).expect("a token")
    };
    let (one, two) = (token(&first.envelope_from), token(&second.envelope_from));
    assert_ne!(one, two);
    assert_eq!(one.len(), 20);
    for id in [&first.id.to_string(), &first.rfc_message_id] {
        assert!(
            !id.contains(&one) && !id.replace('-', "").contains(&one),
            "{id} tells {one}"
        );
    }
    let seen = app
        .sent()
        .iter()
        .any(|mail| format!("{mail:?}").contains(&one));
    assert!(!seen, "the token stands in the mail itself");
}

#[tokio::test]
async fn a_name_that_leaves_no_room_gives_way_to_the_plain_address() {
    let workspace = workspace();
    let name = "a".repeat(60);
    workspace.write_json(
        "personas/ada/persona.json",
        &json!({ "name": "Ada", "address": name, "aliases": ["ada"] }),
    );
    let app = workspace.start().await;
    let sent = send(&app, "q1@guest.example").await;
    assert_eq!(sent.envelope_from, format!("{name}@engine.test"));
    let eml = shape(
        "postfix_user_unknown",
        &sent.envelope_from,
        &sent.rfc_message_id,
    );
    assert_eq!(
        rule(returns(&app, &sent.envelope_from, &eml).await),
        "null_sender"
    );
    assert_eq!(state(&app, &sent).await, RecipientState::Delivered);
}

#[tokio::test]
async fn a_smarthost_that_accepts_no_other_sender_gets_the_plain_one() {
    let workspace = workspace();
    workspace.set(
        "configs/gateway.json",
        "/outbound/bounce_address",
        json!("plain"),
    );
    let config = attache::config::load(workspace.path(), &attache::cli::name_catalog())
        .expect("a configuration");
    let shown = attache::config::effective(&config);
    assert_eq!(
        shown["configs/gateway.json"]["outbound"]["bounce_address"],
        "plain"
    );
    let app = workspace.start().await;
    let sent = send(&app, "q1@guest.example").await;
    assert_eq!(sent.envelope_from, "ada@engine.test");
    let eml = shape(
        "postfix_user_unknown",
        "ada@engine.test",
        &sent.rfc_message_id,
    );
    assert_eq!(
        rule(returns(&app, "ada@engine.test", &eml).await),
        "null_sender"
    );
    let reports = app
        .engine
        .store
        .delivery_reports(&sent.id)
        .await
        .expect("reports");
    assert_eq!((reports.len(), reports[0].believed), (1, false));
    assert_eq!(state(&app, &sent).await, RecipientState::Delivered);
}
