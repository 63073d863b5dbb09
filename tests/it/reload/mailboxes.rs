//! Mailboxes are exchanged while the engine serves: a new one, its right password, another server.

use super::parts::write_secret;
use super::{PATIENCE, Serving, answering};
use crate::app::db;
use crate::app::{Workspace, glance, note};
use crate::imap::server::{PASSWORD, Server, USER};
use serde_json::json;

const ANSWERED: &str = "SELECT count(*) FROM runs WHERE state = 'succeeded'";

fn fetches_from(workspace: &Workspace, host: &str, server: &Server) {
    let mailbox = json!([{ "name": "desk", "host": host, "port": server.port, "tls": "none",
        "user": USER, "since": "all" }]);
    workspace.set("configs/gateway.json", "/mailboxes", mailbox);
}

fn knows_password(workspace: &Workspace, password: &str) {
    write_secret(workspace, &format!("ATTACHE_IMAP_PASSWORD={password}\n"));
}

fn logins(server: &Server) -> usize {
    let state = server.state();
    let logins = state
        .commands
        .iter()
        .filter(|line| line.starts_with("LOGIN") || line.starts_with("AUTHENTICATE"));
    logins.count()
}

async fn reload(house: &Serving) {
    let none: [String; 0] = [];
    assert_eq!(house.reload().await.refused, none);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_mailbox_its_right_password_and_another_server_count_without_a_restart() {
    let (first, second) = (Server::start().await, Server::start().await);
    let workspace = Workspace::new(&answering());
    let house = Serving::start(workspace).await;
    first.deliver(&note("m1@guest.example", "", "When?"));
    fetches_from(&house.workspace, "127.0.0.1", &first);
    knows_password(&house.workspace, "not this one");
    reload(&house).await;
    let tried = async {
        while logins(&first) == 0 {
            glance().await;
        }
    };
    tokio::time::timeout(PATIENCE, tried)
        .await
        .expect("a login");
    assert_eq!(house.count(ANSWERED).await, 0);
    knows_password(&house.workspace, PASSWORD);
    reload(&house).await;
    house.until(ANSWERED, 1).await;
    // Another host is another mailbox, though its letters have the same numbers; another port would be the same one.
    fetches_from(&house.workspace, "localhost", &second);
    reload(&house).await;
    let before = logins(&first);
    first.deliver(&note("m2@guest.example", "", "When?"));
    second.deliver(&note("m3@guest.example", "", "When?"));
    house.until(ANSWERED, 2).await;
    let workspace = house.ended().await;
    let ids = "SELECT group_concat(message_id, ' ') FROM (SELECT message_id FROM messages
         WHERE direction = 'inbound' ORDER BY seq) listed";
    let mut rows = workspace.rows().await;
    let stored: String = db::query_scalar(ids)
        .fetch_one(&mut rows)
        .await
        .expect("ids");
    assert_eq!(stored, "m1@guest.example m3@guest.example");
    assert_eq!(logins(&first), before, "the first server is asked no more");
}
