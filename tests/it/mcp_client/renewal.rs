//! Runs with the owner's login: renewed in time and once, over where it is refused, and never where it does not belong.

use super::login::FILE;
use super::login_site::{LoginSite, logged_in, reply};
use super::stand_in::{self, calls_of};
use super::{CONTACT, asks};
use crate::app::Workspace;
use crate::app::db;
use crate::approvals::scene::Scene;
use crate::web::servers::{Site, Then, page};
use attache::clock::{Clock, SystemClock};
use attache::config::McpServer;
use attache::mcp_client::ServerLogin;
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::Notify;

/// An engine, and a site that wants a login.
struct Guarded {
    scene: Scene,
    site: LoginSite,
    server: McpServer,
}

impl Guarded {
    async fn start() -> Self {
        let site = LoginSite::start().await;
        let mut server = None;
        let scene = Scene::with(&asks(), |workspace| {
            server = Some(site.declare(workspace, &json!({})));
        })
        .await;
        let server = server.expect("declared");
        Self {
            scene,
            site,
            server,
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.scene.world.app.engine.store.clock().clone()
    }

    async fn logged_in() -> Self {
        let guarded = Self::start().await;
        guarded.log_in().await;
        guarded
    }

    async fn log_in(&self) {
        logged_in(&self.server, self.clock())
            .await
            .expect("a login");
    }

    /// A letter whose run asks the server; gives what became of the call.
    async fn asked(&self, id: &str) -> String {
        let run = self.scene.writes(CONTACT, id, "").await;
        assert_eq!(
            self.scene.world.app.outcome(&run).await.0,
            "succeeded",
            "the run goes on"
        );
        self.scene.world.app.trace(&run).await[1].clone()
    }

    fn kept(&self) -> Value {
        let path = self.scene.world.app.workspace.path().join(FILE);
        serde_json::from_slice(&std::fs::read(path).expect("kept")).expect("JSON")
    }

    async fn login_notices(&self) -> Vec<String> {
        let mut rows = self.scene.world.app.workspace.rows().await;
        let sql = "SELECT summary || ' ' || hint FROM notices WHERE kind = 'mcp_server_failed' ORDER BY emitted_at, id";
        let all = db::query_scalar(sql).fetch_all(&mut rows).await;
        all.expect("notices")
    }
}

#[tokio::test]
async fn a_run_calls_with_the_owners_login_and_keeps_nothing_of_it() {
    let guarded = Guarded::logged_in().await;
    let app = &guarded.scene.world.app;
    let token = guarded.kept()["access_token"]
        .as_str()
        .expect("a token")
        .to_owned();
    // The server repeats what it was sent, in a way that JSON permits, too.
    let escaped = token.replace('-', "\\u002d");
    let text = format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":\"mild and dry {token} {escaped}\"}}]}}"
    );
    app.workspace.write("met/call.json", &text);
    assert_eq!(guarded.asked("w1").await, "ok met__forecast");
    let sent = app.sent()[0].text.clone();
    assert!(
        sent.contains("mild and dry [redacted] [redacted]"),
        "{sent}"
    );
    for file in ["data/attache.db", "data/attache.db-wal"] {
        let bytes = std::fs::read(app.workspace.path().join(file)).unwrap_or_default();
        let found = bytes
            .windows(token.len())
            .any(|window| window == token.as_bytes());
        assert!(!found, "{file}");
    }
    let requests = guarded.site.requests("/mcp");
    let with_token = requests.iter().filter(|text| text.contains(&token)).count();
    assert!(
        with_token >= 4,
        "initialize, initialized, tools/list, tools/call: {requests:#?}"
    );
    std::fs::remove_dir_all(app.workspace.path().join("data/tokens")).expect("removed");
    app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_token_is_renewed_before_its_end_and_what_replaces_it_is_kept_first() {
    let guarded = Guarded::start().await;
    guarded.site.state().expires_in = 300;
    guarded.log_in().await;
    let first = guarded.kept();
    assert_eq!(guarded.asked("w1").await, "ok met__forecast");
    assert_eq!(guarded.kept(), first, "it has time");
    let clock = &guarded.scene.world.app.workspace.clock;
    clock.advance(Duration::from_secs(245));
    assert_eq!(guarded.asked("w2").await, "ok met__forecast");
    let second = guarded.kept();
    assert_ne!(second["access_token"], first["access_token"]);
    assert_eq!(second["refresh_token"], guarded.site.refresh());
    let renewal = guarded.site.requests("/token")[1].clone();
    assert!(
        renewal.contains("grant_type=refresh_token") && renewal.contains("resource="),
        "{renewal}"
    );
    // A token that ends before its time: one more try of the request, with a new one.
    guarded.site.forget_access();
    assert_eq!(guarded.asked("w3").await, "ok met__forecast");
    assert_eq!(guarded.site.count("/token"), 3);
    assert_eq!(
        guarded.site.state().early,
        Vec::<String>::new(),
        "on the disk before it is used"
    );
    assert_eq!(calls_of(&guarded.site.state().folder, "forecast"), 3);
    guarded.scene.world.app.check().await;
}

#[tokio::test]
async fn of_many_that_find_a_token_over_one_renews_it() {
    let guarded = Guarded::logged_in().await;
    guarded.site.forget_access();
    let token = guarded.kept()["access_token"]
        .as_str()
        .expect("a token")
        .to_owned();
    let logins = (0..8).map(|_| {
        let login = ServerLogin::of(&guarded.server, guarded.clock());
        let refused = token.clone();
        async move {
            login
                .token(Some(refused.into()))
                .await
                .is_ok_and(|token| token.is_some())
        }
    });
    let all = futures_util::future::join_all(logins).await;
    assert_eq!((all, guarded.site.count("/token")), (vec![true; 8], 2));
    // The same in two processes at once.
    guarded.site.forget_access();
    let workspace = guarded.scene.world.app.workspace.path();
    let lists = (0..2).map(|_| listing(workspace).output());
    for output in futures_util::future::join_all(lists).await {
        let text = String::from_utf8_lossy(&output.expect("the program").stdout).into_owned();
        assert!(text.contains("\"approved\""), "{text}");
    }
    assert_eq!(guarded.site.count("/token"), 3);
}

fn listing(workspace: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .arg("--workspace")
        .arg(workspace)
        .args(["--json", "mcp", "list"]);
    command.kill_on_drop(true);
    command
}

#[tokio::test]
#[ignore = "second tier"]
async fn where_nobody_is_logged_in_the_owner_is_told_what_to_type() {
    let guarded = Guarded::start().await;
    assert_eq!(guarded.asked("w1").await, "server_failed met__forecast");
    let told = guarded.login_notices().await;
    assert!(
        told.len() == 1 && told[0].contains("`attache mcp login met`"),
        "{told:#?}"
    );
    // No restart, and no rest after failures.
    for id in ["w2", "w3", "w4"] {
        assert_eq!(guarded.asked(id).await, "server_failed met__forecast");
    }
    guarded.log_in().await;
    assert_eq!(guarded.asked("w5").await, "ok met__forecast");
    guarded.scene.world.app.check().await;
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_refused_renewal_ends_the_login_and_no_run() {
    let guarded = Guarded::logged_in().await;
    guarded.site.forget_access();
    guarded.site.state().refuses = true;
    assert_eq!(guarded.asked("w1").await, "server_failed met__forecast");
    assert_eq!(guarded.kept()["is_refused"], true);
    let (tokens, calls) = (guarded.site.count("/token"), guarded.site.count("/mcp"));
    assert_eq!(guarded.asked("w2").await, "server_failed met__forecast");
    let asked = (guarded.site.count("/token"), guarded.site.count("/mcp"));
    assert_eq!(asked, (tokens, calls), "it is not tried again");
    let told = guarded.login_notices().await;
    assert!(
        told.len() == 1 && told[0].contains("`attache mcp login met`"),
        "{told:#?}"
    );
    guarded.site.state().refuses = false;
    guarded.log_in().await;
    assert_eq!(guarded.asked("w3").await, "ok met__forecast");
    // A server that does not answer ends no login.
    guarded.site.forget_access();
    let away = reply(
        "503 Service Unavailable",
        "",
        &json!({ "error": "server_error" }),
    );
    guarded
        .site
        .state()
        .answers
        .insert("/token".to_owned(), away);
    assert_eq!(guarded.asked("w4").await, "server_failed met__forecast");
    assert_eq!(guarded.kept()["is_refused"], false);
    guarded.site.state().answers.clear();
    assert_eq!(guarded.asked("w5").await, "ok met__forecast");
    guarded.scene.world.app.check().await;
}

#[tokio::test]
async fn a_process_that_dies_while_it_renews_leaves_a_whole_file_and_no_lock() {
    for is_lenient in [true, false] {
        let workspace = Workspace::new(&json!({ "turns": [] }));
        let site = LoginSite::start().await;
        let server = site.declare(&workspace, &json!({}));
        logged_in(&server, Arc::new(SystemClock::new()))
            .await
            .expect("a login");
        let path = workspace.path().join(FILE);
        let before = std::fs::read(&path).expect("kept");
        let (refresh, hold) = (site.refresh(), Arc::new(Notify::new()));
        site.forget_access();
        *site.hold.lock().expect("whole") = Some(hold.clone());
        // Taken: what the login itself left.
        site.asked.notified().await;
        let quiet = listing(workspace.path()).stdout(Stdio::null()).spawn();
        let mut child = quiet.expect("the program");
        site.asked.notified().await;
        child.kill().await.expect("killed");
        *site.hold.lock().expect("whole") = None;
        hold.notify_waiters();
        assert_eq!(std::fs::read(&path).expect("kept"), before);
        // Half of a file that another process did not finish.
        std::fs::write(path.with_extension("json.tmp"), "{\"url\": \"h").expect("written");
        if is_lenient {
            // Some servers take the old token until the new one is used.
            site.state().refuses = false;
            site.take_back(&refresh);
        }
        let output = listing(workspace.path())
            .output()
            .await
            .expect("the program");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = if is_lenient { "logged_in" } else { "over" };
        let listed: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(listed[0]["login"]["state"], expected, "{text}");
    }
}

#[tokio::test]
async fn a_token_goes_to_the_address_for_which_it_was_given_and_nowhere_else() {
    let guarded = Guarded::logged_in().await;
    let other = Site::start(&page("application/json", "{}"), Then::Close).await;
    for status in [
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let answer = reply(
            status,
            &format!("Location: {}\r\n", other.url("/mcp")),
            &Value::Null,
        );
        guarded
            .site
            .state()
            .answers
            .insert("/mcp".to_owned(), answer);
        assert_eq!(
            guarded.asked(&status[..3]).await,
            "server_failed met__forecast"
        );
    }
    assert_eq!(other.requests(), Vec::<String>::new());
    // The owner names another address, issuer or client: the login is not used there.
    let workspace = &guarded.scene.world.app.workspace;
    let cases = [
        json!({ "url": other.url("/mcp") }),
        json!({ "oauth": { "client_id": "mine" } }),
        json!({ "oauth": { "issuer": "http://other.test" } }),
    ];
    for more in cases {
        guarded.site.declare(workspace, &more);
        let server = stand_in::loaded(workspace);
        let login = ServerLogin::of(&server, guarded.clock());
        assert!(login.token(None).await.is_err(), "{more}");
        assert_eq!(login.state().await.state, "over");
    }
    assert_eq!(other.requests(), Vec::<String>::new());
}
