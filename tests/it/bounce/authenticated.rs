//! Letters to the address that only our own mail had as its sender.

use super::{comes, delivery, notices, returns, rule, send, shape, shapes, state, workspace};
use crate::app::note;
use attache::store::{DeliveryState, RecipientState, StoreError};
use serde_json::json;

#[tokio::test]
#[ignore = "second tier"]
async fn every_shape_changes_its_own_delivery_and_starts_no_run() {
    let app = workspace().start().await;
    let mut failures = 0;
    for (name, expected) in shapes() {
        let sent = send(&app, &format!("{name}@guest.example")).await;
        assert_eq!(
            state(&app, &sent).await,
            RecipientState::Delivered,
            "{name}"
        );
        let eml = shape(&name, &sent.envelope_from, &sent.rfc_message_id);
        assert_eq!(
            rule(returns(&app, &sent.envelope_from, &eml).await),
            "bounce",
            "{name}"
        );
        assert_eq!(app.drain().await.runs, 0, "{name}");

        let is_failure = expected["action"] == "failed";
        failures += usize::from(is_failure);
        let after = delivery(&app, &sent).await;
        let wanted = if is_failure {
            RecipientState::Failed
        } else {
            RecipientState::Delivered
        };
        assert_eq!(after.recipients[0].state, wanted, "{name}");
        assert_eq!(after.state == DeliveryState::Failed, is_failure, "{name}");
        assert_eq!(
            after.recipients[0].bounced_at.is_some(),
            is_failure,
            "{name}"
        );
        if is_failure {
            assert_eq!(
                json!(after.recipients[0].last_code),
                expected["code"],
                "{name}"
            );
            let reply = after.recipients[0]
                .last_reply
                .as_deref()
                .unwrap_or_default();
            assert!(
                reply.starts_with(&format!(
                    "bounced ({}",
                    expected["reason"].as_str().unwrap()
                )),
                "{reply}"
            );
        }
        assert_eq!(notices(&app, "bounced").await, failures, "{name}");

        let reports = app
            .engine
            .store
            .delivery_reports(&sent.id)
            .await
            .expect("reports");
        assert_eq!(reports.len(), 1, "{name}");
        assert_eq!(
            (reports[0].believed, reports[0].changed),
            (true, is_failure),
            "{name}"
        );
        assert_eq!(reports[0].recipient, "bob@guest.example", "{name}");
    }
    app.check().await;
}

#[tokio::test]
async fn the_same_failure_is_told_once_however_often_it_is_reported() {
    let app = workspace().start().await;
    let sent = send(&app, "q1@guest.example").await;
    let first = shape(
        "postfix_user_unknown",
        &sent.envelope_from,
        &sent.rfc_message_id,
    );
    let again = first.replace("postfix-user-unknown", "another-report");
    let late = shape("postfix_delayed", &sent.envelope_from, &sent.rfc_message_id);
    let late_success = shape(
        "postfix_delivered",
        &sent.envelope_from,
        &sent.rfc_message_id,
    );
    for eml in [&first, &first, &again, &late, &late_success] {
        returns(&app, &sent.envelope_from, eml)
            .await
            .expect("taken");
    }
    assert_eq!(state(&app, &sent).await, RecipientState::Failed);
    assert_eq!(notices(&app, "bounced").await, 1);
    assert_eq!(notices(&app, "delivery_failed").await, 0);
    let reports = app
        .engine
        .store
        .delivery_reports(&sent.id)
        .await
        .expect("reports");
    let changed: Vec<bool> = reports.iter().map(|report| report.changed).collect();
    assert_eq!(changed, [true, false, false, false]);
    app.check().await;
}

#[tokio::test]
async fn a_mail_that_came_back_can_be_sent_once_more_by_hand() {
    let app = workspace().start().await;
    let sent = send(&app, "q1@guest.example").await;
    let eml = shape("exchange_quota", &sent.envelope_from, &sent.rfc_message_id);
    returns(&app, &sent.envelope_from, &eml)
        .await
        .expect("taken");
    app.engine
        .store
        .retry_delivery(&sent.id)
        .await
        .expect("retried");
    app.drain().await;
    let after = delivery(&app, &sent).await;
    assert_eq!(
        (after.state, after.recipients[0].bounced_at),
        (DeliveryState::Done, None)
    );
    let refused = app.engine.store.retry_delivery(&sent.id).await;
    assert!(
        matches!(refused, Err(StoreError::WrongState { .. })),
        "{refused:?}"
    );

    let second = eml.replace("exchange-quota", "second-report");
    returns(&app, &sent.envelope_from, &second)
        .await
        .expect("taken");
    assert_eq!(state(&app, &sent).await, RecipientState::Failed);
    assert_eq!(
        notices(&app, "bounced").await,
        2,
        "another attempt that failed is another failure"
    );
}

#[tokio::test]
async fn anything_else_at_a_return_address_is_filed_never_answered() {
    let app = workspace().start().await;
    let sent = send(&app, "q1@guest.example").await;
    let away = note(
        "away@guest.example",
        "",
        "I am away; the mail could not be read by me.",
    );
    let from = Some("bob@guest.example");
    assert_eq!(
        rule(comes(&app, from, &sent.envelope_from, &away).await),
        "bounce_address"
    );
    assert_eq!(
        rule(returns(&app, &sent.envelope_from, "no header at all").await),
        "bounce_address"
    );
    let loud = sent.envelope_from.to_uppercase();
    let shouted = note("loud@guest.example", "", "Hello!");
    assert_eq!(
        rule(comes(&app, from, &loud, &shouted).await),
        "bounce_address"
    );
    assert_eq!(app.drain().await.runs, 0);
    assert_eq!(state(&app, &sent).await, RecipientState::Delivered);
    assert_eq!(app.sent().len(), 1);
    app.check().await;
}

#[tokio::test]
async fn a_report_is_let_in_though_its_sender_may_not_write() {
    let workspace = workspace();
    let access =
        json!({ "default_decision": "deny", "allow": ["*@guest.example"], "deny": ["eve@*"] });
    workspace.write_json("configs/security.json", &json!({ "access": access }));
    let app = workspace.start().await;
    let sent = send(&app, "q1@guest.example").await;
    let eml = shape(
        "postfix_user_unknown",
        &sent.envelope_from,
        &sent.rfc_message_id,
    );
    assert_eq!(
        rule(returns(&app, &sent.envelope_from, &eml).await),
        "bounce"
    );
    let denied = eml.replace(
        "MAILER-DAEMON@relay.example (Mail Delivery System)",
        "eve@relay.example",
    );
    assert!(
        returns(&app, &sent.envelope_from, &denied).await.is_err(),
        "who is denied stays out"
    );
    let guess = "ada+b.00000000000000000000@engine.test";
    let eml = shape("qmail_no_mailbox", guess, &sent.rfc_message_id);
    assert!(
        returns(&app, guess, &eml).await.is_err(),
        "a guessed token opens no door"
    );
}

#[tokio::test]
async fn the_next_run_of_the_thread_sees_that_the_mail_did_not_arrive() {
    let app = workspace().start().await;
    let sent = send(&app, "q1@guest.example").await;
    let eml = shape("exchange_quota", &sent.envelope_from, &sent.rfc_message_id);
    returns(&app, &sent.envelope_from, &eml)
        .await
        .expect("taken");
    let more = format!("In-Reply-To: <{}>\n", sent.rfc_message_id);
    let run = app
        .run_of(&note("q2@guest.example", &more, "Did you answer?"))
        .await;
    app.drain().await;
    let prompt = app.prompts(&run).await[0].to_string();
    assert!(
        prompt.contains("[Not delivered: the mail above did not reach bob@guest.example.]"),
        "{prompt}"
    );
    assert!(
        !prompt.contains("QuotaExceededException"),
        "a stranger's words reached the prompt: {prompt}"
    );
    app.check().await;
}
