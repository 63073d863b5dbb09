//! Mail that does not arrive is told once when it is late and once when it is given up; a notice that does not arrive
//! is told to nobody.

use super::{HOUR, facts, mails};
use crate::app::{TestApp, Workspace, note};
use crate::outbound::server::{Fault, Script, Server, Verb};
use serde_json::json;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// An engine whose persona answers every letter, behind this smarthost.
async fn answering(server: &Server) -> TestApp {
    let workspace = Workspace::new(&json!({ "rules": [{ "say": "From seven to ten." }] }));
    let port = server.address.port();
    let smarthost =
        json!({ "kind": "smarthost", "host": "127.0.0.1", "port": port, "tls": "none" });
    workspace.set("configs/gateway.json", "/outbound", smarthost);
    workspace.start().await
}

/// Lets time pass, with a look at everything every two hours.
async fn live(app: &TestApp, span: Duration) {
    let steps = span.as_secs() / (2 * 3600);
    for _ in 0..steps {
        app.workspace.clock.advance(HOUR * 2);
        app.drain().await;
    }
}

async fn refusing(fault: (Verb, Fault)) -> Server {
    Server::start(Script {
        fault: Some(fault),
        ..Script::default()
    })
    .await
}

#[tokio::test]
#[ignore = "second tier"]
async fn expired_mail_is_told_once_beside_delay_a_failed_notice_never() {
    let server = refusing((Verb::Rcpt, Fault::Temporary)).await;
    let app = answering(&server).await;
    app.receive(&note("a@guest.example", "", "When is breakfast?"))
        .await
        .expect("taken");
    app.drain().await;
    live(&app, HOUR * 2).await;
    assert_eq!(facts(&app).await, []);
    live(&app, HOUR * 4).await;
    assert_eq!(
        facts(&app).await,
        [("delivery_delayed:ada".to_owned(), 1, 1)]
    );
    live(&app, DAY * 5).await;
    let both = [
        ("delivery_delayed:ada".to_owned(), 1, 1),
        ("delivery_failed:ada".to_owned(), 1, 1),
    ];
    assert_eq!(facts(&app).await, both);
    // Long enough for the notices themselves to expire.
    live(&app, DAY * 12).await;
    assert_eq!(facts(&app).await, both);
    let stored = mails(&app).await;
    let outcomes: Vec<(&str, &str, &str)> = stored
        .iter()
        .map(|(from, to, _, state)| (from.as_str(), to.as_str(), state.as_str()))
        .collect();
    assert_eq!(outcomes, [("", "olga@home.test", "failed"); 2]);
    // Nothing was ever said to the sender of the letter but the attempts of the answer.
    server.heard(|heard| {
        let strangers = heard.commands.iter().filter(|line| {
            let line = line.to_ascii_lowercase();
            line.starts_with("rcpt to:")
                && !line.contains("bob@guest.example")
                && !line.contains("olga@home.test")
        });
        assert_eq!(strangers.count(), 0);
        assert!(heard.accepted().is_empty());
    });
    app.check().await;
}

#[tokio::test]
async fn mail_that_is_refused_for_good_is_told_with_the_servers_words() {
    let server = Server::start(Script::default()).await;
    server.set(|script| {
        drop(script.replies.insert(
            "RCPT TO:<bob@guest.example>",
            "550 5.1.1 nobody of that name".to_owned(),
        ));
    });
    let app = answering(&server).await;
    app.receive(&note("a@guest.example", "", "When is breakfast?"))
        .await
        .expect("taken");
    app.drain().await;
    live(&app, DAY).await;
    assert_eq!(
        facts(&app).await,
        [("delivery_failed:ada".to_owned(), 1, 1)]
    );
    server.heard(|heard| {
        let accepted = heard.accepted();
        assert_eq!(accepted.len(), 1);
        assert!(
            accepted[0].from.starts_with("MAIL FROM:<>"),
            "{}",
            accepted[0].from
        );
        assert_eq!(accepted[0].to, ["olga@home.test"]);
        let notice = crate::app::parse(&accepted[0].bytes());
        assert_eq!(
            notice.subject,
            "[attache] a mail of ada could not be delivered"
        );
        for said in [
            "`bob@guest.example` (`550",
            "nobody of that name",
            "attache outbox retry ",
        ] {
            assert!(notice.text.contains(said), "{}", notice.text);
        }
    });
}

#[tokio::test]
#[ignore = "second tier"]
async fn while_a_notice_waits_in_the_outbox_its_cause_makes_no_other() {
    let server = refusing((Verb::Connect, Fault::Drop)).await;
    let app = answering(&server).await;
    for day in 0..3 {
        app.receive(&note(&format!("{day}@guest.example"), "", "When?"))
            .await
            .expect("taken");
        app.drain().await;
        live(&app, DAY).await;
    }
    let down = ("transport_down:127.0.0.1".to_owned(), 1, 1);
    assert_eq!(
        facts(&app).await,
        [("delivery_delayed:ada".to_owned(), 3, 1), down.clone()]
    );
    assert_eq!(mails(&app).await.len(), 2);
    // When mail flows again, what was folded meanwhile is told in one more.
    server.set(|script| script.fault = None);
    live(&app, DAY).await;
    assert_eq!(
        facts(&app).await,
        [("delivery_delayed:ada".to_owned(), 3, 3), down]
    );
    let states: Vec<String> = mails(&app).await.into_iter().map(|mail| mail.3).collect();
    assert_eq!(states, ["done", "done", "done"]);
    app.check().await;
}
