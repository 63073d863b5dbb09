//! Webhooks are exchanged while the engine serves: another address, another secret, none.

use super::parts::write_secret;
use super::{Caller, PATIENCE, Serving, answering};
use crate::app::{Workspace, glance};
use crate::webhooks::receiver::{Answer, Receiver};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

const KEYS: [&[u8]; 2] = [
    b"thirty-two bytes of a secret key",
    b"another thirty-two bytes of keys",
];

fn tells(workspace: &Workspace, receiver: &Receiver, key: &[u8]) {
    let webhook = json!([{
        "name": "ops", "url": receiver.url(), "private_target": true, "secret_variable": "WEBHOOK_SECRET",
    }]);
    workspace.set("configs/gateway.json", "/webhooks", webhook);
    let line = format!("WEBHOOK_SECRET=whsec_{}\n", STANDARD.encode(key));
    write_secret(workspace, &line);
}

/// How many of the events say that a run has ended.
fn ends(events: &[String]) -> usize {
    let ends = events.iter().filter(|event| *event == "run.finished");
    ends.count()
}

/// Waits until a receiver was told that a run has ended, so many times.
async fn told(receiver: &Receiver, wanted: usize) {
    let waited = async {
        while ends(&receiver.events()) < wanted {
            glance().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waited).await;
    assert!(waited.is_ok(), "{:?}", receiver.events());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn another_address_another_secret_and_none_count_for_the_next_event() {
    let taken = [Answer::Status(200, "")];
    let (first, second) = (Receiver::start(&taken).await, Receiver::start(&taken).await);
    let workspace = Workspace::new(&answering());
    tells(&workspace, &first, KEYS[0]);
    let house = Serving::start(workspace).await;
    let mut caller = Caller::of(house.mail).await;
    caller.bring("ada@engine.test", "h1").await;
    told(&first, 1).await;
    assert!(first.received().iter().all(|one| one.is_signed_by(KEYS[0])));
    tells(&house.workspace, &second, KEYS[1]);
    assert!(house.reload().await.refused.is_empty());
    caller.bring("ada@engine.test", "h2").await;
    told(&second, 1).await;
    assert!(
        second
            .received()
            .iter()
            .any(|one| one.is_signed_by(KEYS[1]))
    );
    assert!(
        !second
            .received()
            .iter()
            .any(|one| one.is_signed_by(KEYS[0]))
    );
    let before = (first.events(), second.events());
    house
        .workspace
        .set("configs/gateway.json", "/webhooks", json!([]));
    let none: [String; 0] = [];
    let reloaded = house.reload().await;
    assert_eq!(reloaded.refused, none);
    // Its key is read by nothing any more.
    let is_doubted = |warning: &String| warning.contains("nothing reads `WEBHOOK_SECRET`");
    assert!(
        reloaded.warnings.iter().any(is_doubted),
        "{:?}",
        reloaded.warnings
    );
    caller.bring("ada@engine.test", "h3").await;
    house
        .until("SELECT count(*) FROM runs WHERE state = 'succeeded'", 3)
        .await;
    house.ended().await;
    assert_eq!(ends(&first.events()), ends(&before.0));
    assert_eq!(
        ends(&second.events()),
        ends(&before.1),
        "nobody is told any more"
    );
}
