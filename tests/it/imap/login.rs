//! Logging in: by password and by token, through TLS, and what is never said to a server that should not hear it.

use super::server::{PASSWORD, Server, USER};
use super::{app, mailbox, numbered, sweep, timeouts, watch};
use crate::app::TestApp;
use crate::providers::server::{Reply, Server as Endpoint};
use attache::clock::{Clock, SystemClock};
use attache::config::{ImapMailbox, MailTls, MailboxLogin, OAuth};
use attache::gateway::ingress::imap::{self, MailboxError};
use attache::web::NoTokens;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use secrecy::SecretString;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_password_is_quoted_for_login_and_sent_by_sasl_if_offered() {
    let (app, server) = (app().await, Server::start().await);
    sweep(&app, &server).await.expect("LOGIN works");
    assert_eq!(server.count("LOGIN"), 1);
    server.state().capabilities.push("AUTH=PLAIN");
    sweep(&app, &server).await.expect("AUTHENTICATE works");
    assert_eq!(
        (server.count("LOGIN"), server.count("AUTHENTICATE PLAIN")),
        (1, 1)
    );
    server.state().capabilities = vec!["IMAP4rev1", "LOGINDISABLED"];
    let refused = sweep(&app, &server).await;
    assert!(
        matches!(refused, Err(MailboxError::Unusable(_))),
        "{refused:?}"
    );
    assert_eq!(
        server.count("LOGIN "),
        1,
        "nothing is said that was not asked for"
    );
}

/// K12: NetEase's servers refuse SELECT without it, and Purelymail's announce it and answer BAD.
#[tokio::test]
async fn a_server_that_knows_the_command_is_told_which_program_asks() {
    let (app, server) = (app().await, Server::start().await);
    sweep(&app, &server).await.expect("it works without");
    assert_eq!(server.count("ID "), 0);
    server.state().capabilities.push("ID");
    sweep(&app, &server).await.expect("it works");
    assert_eq!(server.count("ID (\"name\" \"attache\" \"version\" "), 1);
    server.state().refuses.push("ID ");
    sweep(&app, &server)
        .await
        .expect("a refusal changes nothing");
    assert_eq!((server.count("ID "), server.count("SELECT")), (2, 3));
}

#[tokio::test]
async fn a_refused_login_is_not_repeated_soon_and_hides_the_password() {
    let (app, server) = (app().await, Server::start().await);
    let mut wrong = mailbox(&server);
    wrong.login = MailboxLogin::Password(SecretString::from("hunter2-secret"));
    let (stop, store) = (CancellationToken::new(), app.engine.store.clone());
    let watch = app.engine.mailbox_watch(wrong).with_timeouts(timeouts());
    let acting = async {
        server.until(|state| state.count("LOGIN") == 1).await;
        while store.mailbox_health("desk").await.expect("read").is_none() {
            crate::app::glance().await;
        }
        stop.cancel();
    };
    tokio::join!(imap::watch(watch, stop.clone()), acting);
    assert_eq!(server.count("LOGIN"), 1);
    let health = store
        .mailbox_health("desk")
        .await
        .expect("read")
        .expect("noted");
    assert_eq!(
        health.last_error.as_deref(),
        Some("the server refuses the login: [AUTHENTICATIONFAILED] go away")
    );
    assert_eq!((health.uid_validity, health.last_fetch_at), (0, None));
}

fn in_json(status: u16, body: &str) -> Reply {
    Reply::new(status, &[("content-type", "application/json")], body)
}

/// A token endpoint that takes each refresh token once, as servers do that rotate them: `refresh-0` for the first of
/// `tokens`, and so on; at any time the operator's for `anew`.
async fn endpoint(tokens: &[&str], expires_in: u64) -> Endpoint {
    let granted = |(index, token): (usize, &&str)| {
        let granted = json!({
            "access_token": token, "expires_in": expires_in, "token_type": "Bearer",
            "refresh_token": format!("refresh-{}", index + 1),
        });
        (format!("refresh_token=refresh-{index}&"), granted)
    };
    let anew = json!({ "access_token": "anew", "token_type": "Bearer" });
    let of_the_operator = ("refresh_token=of-the-operator&".to_owned(), anew);
    let unused = Mutex::new(
        tokens
            .iter()
            .enumerate()
            .map(granted)
            .chain([of_the_operator])
            .collect::<Vec<_>>(),
    );
    Endpoint::answering(move |request, _| {
        let says = |words: &str| request.body.contains(words);
        let client = [
            "grant_type=refresh_token",
            "client_id=attache+%26+co",
            "client_secret=s%3Dcret",
        ];
        let is_known = request.head.starts_with("POST ") && client.iter().all(|words| says(words));
        let mut unused = unused.lock().expect("no test panicked here");
        match unused.iter().position(|(token, _)| is_known && says(token)) {
            Some(at) => in_json(200, &unused.remove(at).1.to_string()),
            None => in_json(400, r#"{"error": "invalid_grant"}"#),
        }
    })
    .await
}

fn by_token(server: &Server, endpoint: &Endpoint) -> ImapMailbox {
    ImapMailbox {
        login: MailboxLogin::OAuth(OAuth {
            token_url: endpoint.url.clone(),
            client_id: "attache & co".to_owned(),
            client_secret: Some(SecretString::from("s=cret")),
            refresh_token: SecretString::from("refresh-0"),
            scope: None,
        }),
        ..mailbox(server)
    }
}

#[tokio::test]
async fn an_access_token_is_fetched_once_and_renewed_when_refused() {
    let (app, server) = (app().await, Server::start().await);
    server.state().tokens = vec!["first".to_owned(), "second".to_owned()];
    let endpoint = endpoint(&["first", "second"], 3600).await;
    let stop = CancellationToken::new();
    let watch = watch(&app, by_token(&server, &endpoint));
    let asked = || endpoint.seen().len();
    let acting = async {
        server.until(|state| state.count("IDLE") == 1).await;
        // The connection ends; the token is still good.
        let next = server.state().answers + 1;
        server.state().fault = Some((next, super::server::Fault::HangUp));
        server.deliver(&numbered(1));
        server
            .until(|state| state.count("IDLE") == 2 && state.marked == [1])
            .await;
        assert_eq!(asked(), 1);
        // It ends again, and the token was revoked.
        let next = server.state().answers + 1;
        server.state().fault = Some((next, super::server::Fault::HangUp));
        server.state().tokens.remove(0);
        server.deliver(&numbered(2));
        server.until(|state| state.marked == [1, 2]).await;
        assert_eq!(asked(), 2, "the second one by the new refresh token");
        stop.cancel();
    };
    tokio::join!(imap::watch(watch, stop.clone()), acting);
    assert_eq!(server.count("AUTHENTICATE XOAUTH2"), 4);
}

/// The access token comes near its end, the connection ends, and a letter is there: it is fetched with another token.
async fn fetch_with_a_new_access_token(app: &TestApp, server: &Server) {
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(1));
    let next = server.state().answers + 1;
    server.state().fault = Some((next, super::server::Fault::HangUp));
    server.deliver(&numbered(1));
    server.until(|state| state.marked == [1]).await;
}

#[tokio::test]
async fn a_token_near_its_end_is_not_used_again() {
    let (app, server) = (app().await, Server::start().await);
    server.state().tokens = vec!["first".to_owned(), "second".to_owned()];
    let endpoint = endpoint(&["first", "second"], 61).await;
    let stop = CancellationToken::new();
    let watch = watch(&app, by_token(&server, &endpoint));
    let acting = async {
        server.until(|state| state.count("IDLE") == 1).await;
        fetch_with_a_new_access_token(&app, &server).await;
        stop.cancel();
    };
    tokio::join!(imap::watch(watch, stop.clone()), acting);
    assert_eq!(endpoint.seen().len(), 2);
    assert_eq!(
        server.count("AUTHENTICATE"),
        2,
        "no login was wasted on the old one"
    );
}

#[tokio::test]
async fn a_rotated_token_outlives_the_engine_until_one_is_configured() {
    let (app, server) = (app().await, Server::start().await);
    server.state().tokens = ["first", "second", "third", "anew"]
        .map(str::to_owned)
        .to_vec();
    let endpoint = endpoint(&["first", "second", "third"], 3600).await;
    let once_each = |used: usize| {
        assert_eq!(
            endpoint.seen().len(),
            used,
            "each refresh token is used once"
        );
    };
    // Two lives of an engine, and a person who looks at the mailbox between them.
    let session = || watch(&app, by_token(&server, &endpoint));
    session().sweep_once().await.expect("refresh-0 is good");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    imap::probe(&by_token(&server, &endpoint), app.workspace.path(), clock)
        .await
        .expect("refresh-1 is good");
    session().sweep_once().await.expect("refresh-2 is good");
    once_each(3);
    let kept = std::fs::read_dir(app.workspace.path().join("data/tokens"))
        .expect("kept")
        .flatten();
    let modes: Vec<u32> = kept
        .map(|file| file.metadata().expect("a file").permissions().mode() & 0o777)
        .collect();
    assert_eq!(modes, [0o600]);
    // The operator puts another one into `.secrets`.
    let mut anew = by_token(&server, &endpoint);
    let MailboxLogin::OAuth(settings) = &mut anew.login else {
        panic!("by token")
    };
    settings.refresh_token = SecretString::from("of-the-operator");
    watch(&app, anew)
        .sweep_once()
        .await
        .expect("the configured one is good");
    once_each(4);
}

#[tokio::test]
async fn a_refused_refresh_token_yields_to_the_one_of_another_process() {
    let (app, server) = (app().await, Server::start().await);
    server.state().tokens = ["first", "second", "third"].map(str::to_owned).to_vec();
    let endpoint = endpoint(&["first", "second", "third"], 61).await;
    let stop = CancellationToken::new();
    let engine = watch(&app, by_token(&server, &endpoint));
    let acting = async {
        server.until(|state| state.count("IDLE") == 1).await;
        // The access token is spent, and a person looked at the mailbox: `refresh-1` is no longer good.
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        imap::probe(&by_token(&server, &endpoint), app.workspace.path(), clock)
            .await
            .expect("probed");
        fetch_with_a_new_access_token(&app, &server).await;
        stop.cancel();
    };
    tokio::join!(imap::watch(engine, stop.clone()), acting);
}

#[tokio::test]
async fn an_operator_mends_a_refused_token_but_no_broken_endpoint() {
    let (app, server) = (app().await, Server::start().await);
    for (status, body, refused) in [
        (
            400,
            r#"{"error": "invalid_grant", "error_description": "refresh-0 s=cret"}"#,
            true,
        ),
        (503, "<html>later</html>", false),
        (200, r#"{"access_token": "a\r\nb LOGOUT"}"#, false),
        (200, "{}", false),
    ] {
        let endpoint = Endpoint::start(vec![in_json(status, body)]).await;
        let error = watch(&app, by_token(&server, &endpoint))
            .sweep_once()
            .await
            .expect_err("no token");
        assert_eq!(error.is_login_refused(), refused, "{error:?}");
        assert!(matches!(error, MailboxError::Token(_)), "{error:?}");
        let words = error.in_words();
        assert!(
            !words.contains("refresh-0") && !words.contains("cret") && !words.contains("127.0.0.1"),
            "{words}"
        );
        if refused {
            assert!(
                matches!(&error, MailboxError::Token(NoTokens::Refused(error)) if error == "invalid_grant")
            );
        }
    }
    assert_eq!(server.count("AUTHENTICATE"), 0);
}

/// An authority, its file, and a server that it authenticates for.
async fn tls_server(folder: &tempfile::TempDir) -> (Server, PathBuf) {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(params, key).expect("an authority");
    let file = folder.path().join("authority.pem");
    std::fs::write(&file, authority.pem()).expect("written");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let leaf = leaf.signed_by(&key, &authority).expect("a certificate");
    let private = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = attache::web::tls_provider();
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    let config = config
        .with_single_cert(vec![leaf.der().clone()], private)
        .expect("a pair");
    (
        Server::start_tls(TlsAcceptor::from(Arc::new(config))).await,
        file,
    )
}

#[tokio::test]
async fn nothing_is_said_to_a_server_that_nobody_vouches_for() {
    let (app, folder) = (app().await, tempfile::tempdir().expect("a folder"));
    let (server, authority) = tls_server(&folder).await;
    let secure = |host: &str, ca_file: Option<PathBuf>| {
        let (tls, host) = (MailTls::Implicit, host.to_owned());
        watch(
            &app,
            ImapMailbox {
                tls,
                host,
                ca_file,
                ..mailbox(&server)
            },
        )
    };
    for (host, ca_file) in [("localhost", None), ("127.0.0.1", Some(authority.clone()))] {
        let failed = secure(host, ca_file).sweep_once().await;
        assert!(
            matches!(failed, Err(MailboxError::Tls(_))),
            "{host}: {failed:?}"
        );
    }
    assert_eq!(server.state().commands, [""; 0]);
    server.deliver(&numbered(1));
    let report = secure("localhost", Some(authority))
        .sweep_once()
        .await
        .expect("vouched for");
    assert_eq!(report.stored, 1);
}

#[tokio::test]
async fn without_starttls_or_with_preauth_no_password_is_sent() {
    let (app, server) = (app().await, Server::start().await);
    let starttls = || {
        watch(
            &app,
            ImapMailbox {
                tls: MailTls::StartTls,
                ..mailbox(&server)
            },
        )
    };
    server.state().refuses = vec!["STARTTLS"];
    let failed = starttls().sweep_once().await;
    assert!(
        matches!(failed, Err(MailboxError::Unusable(_))),
        "{failed:?}"
    );
    server.state().greeting = "* PREAUTH welcome back\r\n";
    for watch in [starttls(), watch(&app, mailbox(&server))] {
        let failed = watch.sweep_once().await;
        assert!(
            matches!(failed, Err(MailboxError::Unusable(_))),
            "{failed:?}"
        );
    }
    server.state().greeting = "* BYE we are closed\r\n";
    let failed = sweep(&app, &server).await;
    assert!(
        matches!(&failed, Err(MailboxError::Bye(why)) if why == "we are closed"),
        "{failed:?}"
    );
    assert_eq!(server.state().commands, ["STARTTLS"]);
}

#[tokio::test]
async fn a_probe_changes_nothing() {
    let (app, server) = (app().await, Server::start().await);
    server.deliver(&numbered(1));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let probe = imap::probe(&mailbox(&server), app.workspace.path(), clock)
        .await
        .expect("probed");
    assert_eq!((probe.letters, probe.uid_validity), (1, 7));
    assert!(probe.capabilities.contains(&"IDLE".to_owned()));
    let state = server.state();
    assert_eq!(state.commands.last().map(String::as_str), Some("LOGOUT"));
    assert_eq!(
        (
            state.count("SELECT"),
            state.count("UID"),
            state.marked.len()
        ),
        (0, 0, 0)
    );
    assert!(USER.contains('@') && PASSWORD.contains('"'));
}
