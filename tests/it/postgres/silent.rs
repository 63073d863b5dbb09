//! A server that says nothing: stopped, or behind a network that swallows what is sent. Whoever asks hears so in time, and what
//! was accepted stays accepted. And an address of several servers, of which one takes writes.

use super::cut::{behind_a_proxy, runs};
use super::is_skipped;
use crate::app::{Workspace, database, db, note};
use crate::maintenance::workspace::attache;
use attache::clock::SystemClock;
use attache::domain::Timestamp;
use attache::store::{FeedFilter, RunFilter, Store, server_remedy};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bounds that no test waits for long: a second for a read, two for a write, one for a connection.
const SHORT: &str = "&answer_timeout=1&connect_timeout=1";

/// Commands that ask the database.
const COMMANDS: [&[&str]; 12] = [
    &["status"],
    &["status", "--json"],
    &["threads", "list"],
    &["runs", "list"],
    &["notices", "list"],
    &["approvals", "list"],
    &["outbox", "list"],
    &["schedule", "list"],
    &["usage"],
    &["nodes", "list"],
    &["memory", "list"],
    &["doctor", "--quick"],
];

#[tokio::test]
#[ignore = "second tier"]
async fn commands_say_that_a_server_does_not_answer_and_end() {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    // It takes connections, as the kernel does for a process that is stopped, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let address = format!("postgres://mail@127.0.0.1:{port}/mail?connect_timeout=1");
    workspace.write(".secrets", &format!("ATTACHE_DATABASE_URL={address}\n"));
    let path = workspace.path().join(".secrets");
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("a mode");
    std::fs::create_dir_all(workspace.path().join("data")).expect("a folder");
    std::fs::write(
        workspace.path().join("data/server.away"),
        "2026-11-20T09:00:00.000Z\n",
    )
    .expect("a file");
    for command in COMMANDS {
        let began = Instant::now();
        let (code, out, err) = attache(workspace.path(), command).await;
        assert!(
            began.elapsed() < Duration::from_secs(15),
            "{command:?}: {:?}",
            began.elapsed()
        );
        let said = format!("{out}{err}");
        assert!(
            said.contains("did not answer within 1 s"),
            "{command:?}: {said}"
        );
        let wanted = match command[0] {
            "status" => 3,
            "doctor" => 1,
            _ => 75,
        };
        assert_eq!(code, wanted, "{command:?}: {said}");
        if command[0] == "status" {
            assert!(said.contains("2026-11-20T09:00:00"), "since when: {said}");
        }
    }
}

#[tokio::test]
async fn the_state_of_a_workspace_whose_server_is_away_has_its_own_exit_code() {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = closed.local_addr().expect("an address").port();
    drop(closed);
    let address = format!("postgres://mail@127.0.0.1:{port},127.0.0.1:{port}/mail");
    workspace.write(".secrets", &format!("ATTACHE_DATABASE_URL={address}\n"));
    let path = workspace.path().join(".secrets");
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("a mode");
    let (code, out, err) = attache(workspace.path(), &["status", "--json"]).await;
    assert_eq!(code, 3, "{out}{err}");
    let said: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&said["is_server_away"], &said["server_away_since"]),
        (&json!(true), &Value::Null)
    );
    let error = said["database_error"].as_str().expect("words");
    assert_eq!(
        error.matches("refused").count(),
        2,
        "each server is named: {error}"
    );
}

#[tokio::test]
async fn what_an_engine_asks_of_a_silent_server_is_answered_in_time_and_nothing_is_lost() {
    if is_skipped() {
        return;
    }
    let (app, proxy) = behind_a_proxy(SHORT).await;
    app.receive(&note("before", "", "Hello."))
        .await
        .expect("taken");
    let store = app.engine.store.clone();
    proxy.silent.send_replace(true);

    let began = Instant::now();
    // More letters than there are lanes: those that wait are told together.
    let letters: Vec<String> = (0..40)
        .map(|n| note(&format!("away{n}"), "", "Hello."))
        .collect();
    let refused = futures_util::future::join_all(letters.iter().map(|eml| app.receive(eml))).await;
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    let began = Instant::now();
    let filter = RunFilter {
        limit: 10,
        ..RunFilter::default()
    };
    assert!(store.list_runs(&filter).await.is_err());
    assert!(store.halts().await.is_err() && store.responsibilities().await.is_err());
    assert!(
        store
            .feed_after(0, &FeedFilter::default(), 10)
            .await
            .is_err()
    );
    assert!(store.writer_answers().await.is_err());
    assert!(
        began.elapsed() < Duration::from_secs(12),
        "{:?}",
        began.elapsed()
    );

    proxy.silent.send_replace(false);
    for eml in &letters {
        app.receive(eml).await.expect("it comes again");
    }
    assert_eq!(runs(&app).await, 41, "each has one run");
    assert_eq!(store.list_runs(&filter).await.expect("answered").len(), 10);
}

/// Whoever reads next has no connection that may write and waits without end.
#[tokio::test]
async fn a_rewrite_that_fails_leaves_no_connection_that_may_write() {
    if is_skipped() {
        return;
    }
    let (app, _proxy) = behind_a_proxy(SHORT).await;
    let url = database::url_of(app.workspace.path()).expect("a database");
    let mut other = db::Connection::at(&url).await;
    for sql in ["BEGIN", "LOCK TABLE messages IN ACCESS SHARE MODE"] {
        other.execute(sql).await.expect("a lock");
    }
    let failed = app.engine.store.rewrite_file().await;
    assert!(failed.is_err(), "the table is in use: {failed:?}");
    let left = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'VACUUM FULL'";
    // The server takes a connection off its list when it has read the goodbye, not when that was sent.
    let gone = async {
        while db::query_scalar::<i64>(left)
            .fetch_one(&mut other)
            .await
            .expect("a count")
            > 0
        {
            crate::app::glance().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .expect("closed");
    other.execute("ROLLBACK").await.expect("no lock");
    assert!(app.engine.store.rewrite_file().await.expect("all tables"));
    app.receive(&note("after", "", "Hello."))
        .await
        .expect("taken");
}

#[tokio::test]
async fn the_file_that_says_since_when_is_there_while_the_server_is_silent() {
    if is_skipped() {
        return;
    }
    let (app, proxy) = behind_a_proxy(SHORT).await;
    let file = app.workspace.path().join("data/server.away");
    let is_there = async |wanted: bool| {
        let looking = async {
            while file.exists() != wanted {
                crate::app::glance().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), looking)
            .await
            .expect("noticed");
    };
    assert!(!file.exists());
    let status = async || attache(app.workspace.path(), &["status"]).await;
    let (code, out, err) = status().await;
    assert_eq!(code, 0, "{out}{err}");
    proxy.silent.send_replace(true);
    is_there(true).await;
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(Timestamp::parse(text.trim()).is_some(), "{text}");
    // The engine holds its workspace all the while.
    let (code, out, err) = status().await;
    assert_eq!(code, 3, "{out}{err}");
    assert!(
        out.contains("at work since") && out.contains(text.trim()),
        "{out}{err}"
    );
    proxy.silent.send_replace(false);
    is_there(false).await;
}

#[tokio::test]
async fn of_several_servers_the_first_that_takes_writes_is_used() {
    if is_skipped() {
        return;
    }
    let workspace = Workspace::new(&json!({ "turns": [] }));
    database::provide(workspace.path()).await;
    let url = database::url_of(workspace.path()).expect("a database");
    let (head, tail) = url.split_once('@').expect("a role");
    let (server, name) = tail.split_once('/').expect("a name");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent
        .local_addr()
        .map(|address| (silent, address))
        .expect("an address");
    let silent_at = silent.1.to_string();
    let opened = async |hosts: &str, more: &str| {
        let line = format!("ATTACHE_DATABASE_URL={head}@{hosts}/{name}?connect_timeout=1{more}\n");
        std::fs::write(workspace.path().join(".secrets"), line).expect("a file");
        let store = Store::open_to_read(workspace.path(), Arc::new(SystemClock::new())).await;
        match store {
            Ok(store) => {
                let read = store
                    .halts()
                    .await
                    .map(|_| ())
                    .map_err(|error| error.to_string());
                store.close().await;
                read
            }
            Err(error) => Err(attache::text::with_causes(&error)),
        }
    };
    assert_eq!(
        opened(&format!("127.0.0.1:1,{server}"), "").await,
        Ok(()),
        "the first is down"
    );
    assert_eq!(
        opened(&format!("{silent_at},{server}"), "").await,
        Ok(()),
        "the first is silent"
    );
    assert_eq!(
        opened(&format!("{server},{silent_at}"), "").await,
        Ok(()),
        "the second is silent"
    );
    let all = opened(&format!("127.0.0.1:1,{silent_at}"), "")
        .await
        .expect_err("none is there");
    assert!(
        all.contains("127.0.0.1:1: ") && all.contains("did not answer within 1 s"),
        "{all}"
    );

    // A server that calls itself a standby when it is asked first, and afterwards one that takes writes. It remembers that in
    // a file, since it is asked in a transaction that only reads.
    let asked = std::env::temp_dir().join(format!("{name}.asked"));
    let mut rows = db::Connection::at(&url).await;
    for sql in [
        format!("ALTER DATABASE {name} SET search_path = public, pg_catalog"),
        format!(
            "CREATE FUNCTION public.pg_is_in_recovery() RETURNS boolean LANGUAGE plpgsql AS $$
             DECLARE is_first boolean := (pg_stat_file('{0}', true)).size IS NULL;
             BEGIN IF is_first THEN COPY (SELECT 1) TO '{0}'; END IF; RETURN is_first; END $$",
            asked.display()
        ),
    ] {
        rows.execute(sqlx::AssertSqlSafe(sql)).await.expect("done");
    }
    let forget = || std::fs::remove_file(&asked).expect("it was asked");
    assert_eq!(
        opened(&format!("{server},{server}"), "").await,
        Ok(()),
        "the first is a standby"
    );
    forget();
    let standby = opened(server, "&target_session_attrs=read-write")
        .await
        .expect_err("a standby");
    assert!(standby.contains("it is a standby"), "{standby}");
    forget();
    assert_eq!(
        opened(server, "").await,
        Ok(()),
        "one server alone is not asked"
    );
    assert_eq!(opened(server, "&target_session_attrs=any").await, Ok(()));
    assert!(!asked.exists(), "nobody asked");
}

#[test]
fn what_a_server_says_has_a_remedy_of_its_own() {
    let error = |code: &'static str| -> sqlx::Error { sqlx::Error::Database(Box::new(Said(code))) };
    let io = |kind| sqlx::Error::Io(std::io::Error::new(kind, "words"));
    let cases = [
        (error("53100"), "disk of the server is full"),
        (error("53300"), "max_connections"),
        (error("57P03"), "ask again in a moment"),
        (error("3D000"), "CREATE DATABASE"),
        (error("28P01"), "user and password"),
        (error("28000"), "pg_hba.conf"),
        (
            sqlx::Error::Protocol("unexpected response from SSLRequest: 0x00".to_owned()),
            "speaks otherwise",
        ),
        (sqlx::Error::Tls("no TLS".into()), "sslmode"),
        (io(std::io::ErrorKind::TimedOut), "stopped or the network"),
        (
            io(std::io::ErrorKind::ConnectionRefused),
            "see that the server runs",
        ),
        (error("XX000"), "`psql`"),
    ];
    for (error, words) in cases {
        let remedy = server_remedy(&error);
        assert!(remedy.contains(words), "{error:?}: {remedy}");
    }
}

/// An error of a server with this code.
#[derive(Debug)]
struct Said(&'static str);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Said {}

impl sqlx::error::DatabaseError for Said {
    fn message(&self) -> &str {
        self.0
    }

    fn code(&self) -> Option<std::borrow::Cow<'_, str>> {
        Some(self.0.into())
    }

    fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> sqlx::error::ErrorKind {
        sqlx::error::ErrorKind::Other
    }
}
