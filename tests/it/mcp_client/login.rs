//! `attache mcp login` and `logout`: what a login asks for and keeps, and which one is not begun or not finished.

use super::login_site::{LoginSite, REDIRECT, logged_in, opened, redirected, reply, value};
use crate::app::Workspace;
use crate::web::servers::{Site, Then, page};
use attache::clock::SystemClock;
use attache::mcp_client::{LoginAttempt, LoginError};
use reqwest::Url;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};

/// Path of the login of the server `met`.
pub const FILE: &str = "data/tokens/mcp/met.json";

/// A login that waits for its answer.
struct WaitingLogin {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// Address of the page.
    question: String,
}

impl WaitingLogin {
    /// Starts the program with no bit of the umask set.
    async fn start(workspace: &Workspace, more: &[&str]) -> Self {
        let script = "umask 000; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_attache"), "--workspace"]);
        command.arg(workspace.path());
        command.args([
            "--log",
            "debug",
            "--json",
            "mcp",
            "login",
            "met",
            "--no-browser",
        ]);
        let command = command.args(more).kill_on_drop(true);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.stderr(Stdio::piped()).spawn().expect("the program");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut told = String::new();
        loop {
            let mut line = String::new();
            let read = stderr.read_line(&mut line).await.expect("a line");
            assert!(read > 0, "no page: {told}");
            if line.starts_with("http") {
                let question = line.trim().to_owned();
                return Self {
                    child,
                    stderr,
                    question,
                };
            }
            told.push_str(&line);
        }
    }

    /// Returns whether it succeeded, its output, and what it told.
    async fn end(mut self) -> (bool, String, String) {
        let (mut out, mut told) = (String::new(), String::new());
        let mut stdout = self.child.stdout.take().expect("a pipe");
        stdout.read_to_string(&mut out).await.expect("text");
        self.stderr.read_to_string(&mut told).await.expect("text");
        let status = self.child.wait().await.expect("an end");
        (status.success(), out, told)
    }
}

async fn attache(workspace: &Workspace, args: &[&str]) -> (bool, Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command
        .arg("--workspace")
        .arg(workspace.path())
        .arg("--json");
    let output = command.args(args).output().await.expect("the program");
    let out = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), out, told)
}

fn workspace() -> Workspace {
    Workspace::new(&json!({ "turns": [] }))
}

/// Asserts that nobody else may read the login, and that nothing of it was told.
fn is_kept_in_secret(workspace: &Workspace, told: &str) {
    let path = workspace.path().join(FILE);
    let kept: Value = serde_json::from_slice(&std::fs::read(&path).expect("kept")).expect("JSON");
    let mode =
        |path: &std::path::Path| path.metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!(
        (mode(&path), mode(path.parent().expect("a folder"))),
        (0o600, 0o700)
    );
    for secret in ["access_token", "refresh_token"] {
        let secret = kept[secret].as_str().expect("a token");
        assert!(!told.contains(secret), "{told}");
    }
}

#[tokio::test]
async fn a_login_in_a_browser_is_kept_for_its_user_alone_until_the_logout() {
    let (site, workspace) = (LoginSite::start().await, workspace());
    site.declare(&workspace, &json!({}));
    let (_, listed, _) = attache(&workspace, &["mcp", "list"]).await;
    assert_eq!(listed[0]["state"], "unreachable", "{listed}");
    assert!(
        listed[0]["detail"].to_string().contains("it wants a login"),
        "{listed}"
    );
    assert_eq!(listed[0]["login"]["state"], "none");

    let login = WaitingLogin::start(&workspace, &[]).await;
    let question = Url::parse(&login.question).expect("a URL");
    for (name, expected) in [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", "c-1"),
        ("code_challenge_method", "S256"),
        ("resource", &format!("{}/mcp", site.base())),
        ("scope", "tools"),
    ] {
        assert_eq!(value(&question, name), expected, "{name}");
    }
    let redirect = value(&question, "redirect_uri");
    assert!(redirect.starts_with("http://127.0.0.1:"), "{redirect}");
    // Somebody else's page knows the port and not the state; a browser opens connections in advance and asks for an icon.
    let answer = redirected(&login.question).await;
    let forged = answer.replace("state=", "state=x");
    assert!(opened(&forged).await.starts_with("HTTP/1.1 400"));
    let icon = redirect.replace("/callback", "/favicon.ico");
    assert!(opened(&icon).await.starts_with("HTTP/1.1 404"));
    let port = Url::parse(&redirect)
        .expect("a URL")
        .port()
        .expect("a port");
    let _idle = tokio::net::TcpStream::connect(("127.0.0.1", port))
        .await
        .expect("connected");
    assert_eq!(site.count("/token"), 0);
    assert!(opened(&answer).await.starts_with("HTTP/1.1 200"));
    let (is_done, out, told) = login.end().await;
    assert!(is_done, "{told}");
    let out: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&out["server"], &out["issuer"]),
        (&json!("met"), &json!(site.base()))
    );
    assert_eq!(out["renews"], true);

    is_kept_in_secret(&workspace, &format!("{told}{out}"));
    let (_, listed, _) = attache(&workspace, &["mcp", "list"]).await;
    assert_eq!(listed[0]["state"], "approved", "{listed}");
    assert_eq!(listed[0]["login"]["state"], "logged_in");
    assert_eq!(listed[0]["login"]["expires_at"], out["expires_at"]);

    let (_, out, _) = attache(&workspace, &["mcp", "logout", "met"]).await;
    assert_eq!(
        out,
        json!({ "server": "met", "was_logged_in": true, "is_revoked": true })
    );
    let revoked = &site.requests("/revoke")[0];
    assert!(revoked.contains(&site.refresh()), "{revoked}");
    assert!(!workspace.path().join(FILE).exists());
    let (_, out, _) = attache(&workspace, &["mcp", "logout", "met"]).await;
    assert_eq!(out["was_logged_in"], false);
}

#[tokio::test]
async fn the_address_of_the_last_page_can_be_pasted() {
    let (site, workspace) = (LoginSite::start().await, workspace());
    site.declare(&workspace, &json!({}));
    let mut login = WaitingLogin::start(&workspace, &[]).await;
    let answer = redirected(&login.question).await;
    let mut input = login.child.stdin.take().expect("a pipe");
    let lines = format!(
        "what now?\n\n{}\n{answer}\n",
        answer.replace("state=", "state=x")
    );
    input.write_all(lines.as_bytes()).await.expect("pasted");
    let (is_done, _, told) = login.end().await;
    assert!(is_done, "{told}");
    assert_eq!(
        told.matches("not the answer to this login").count(),
        2,
        "{told}"
    );
    assert!(workspace.path().join(FILE).exists());
}

#[tokio::test]
async fn nobody_is_waited_for_without_end() {
    let (site, workspace) = (LoginSite::start().await, workspace());
    site.declare(&workspace, &json!({}));
    let login = WaitingLogin::start(&workspace, &["--wait", "1"]).await;
    let (is_done, _, told) = login.end().await;
    assert!(
        !is_done && told.contains("nobody logged in within 1s"),
        "{told}"
    );
}

async fn begun(site: &LoginSite, oauth: Value) -> Result<LoginAttempt, LoginError> {
    let workspace = workspace();
    let more = match oauth {
        Value::Null => json!({}),
        oauth => json!({ "oauth": oauth }),
    };
    let server = site.declare(&workspace, &more);
    LoginAttempt::begin(&server, REDIRECT.to_owned(), Arc::new(SystemClock::new())).await
}

/// Asserts that no login is begun, with these words, and that nobody was asked for anything that counts.
async fn not_begun(site: &LoginSite, expected: &str) {
    let error = begun(site, Value::Null)
        .await
        .err()
        .expect(expected)
        .to_string();
    assert!(error.contains(expected), "{error}");
    for path in ["/register", "/authorize", "/token"] {
        assert_eq!(site.count(path), 0, "{path}: {error}");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn metadata_with_which_a_login_is_not_safe_begin_none() {
    let cases = [
        (
            json!({ "code_challenge_methods_supported": ["plain"] }),
            "does not say that it supports PKCE with S256",
        ),
        (
            json!({ "code_challenge_methods_supported": [] }),
            "does not say that it supports PKCE with S256",
        ),
        (
            json!({ "issuer": "https://other.test" }),
            "those of another issuer",
        ),
        (json!({ "issuer": null }), "holds no such metadata"),
        (
            json!({ "token_endpoint": "file:///etc/passwd" }),
            "is no `https` address",
        ),
        (
            json!({ "authorization_endpoint": "javascript:alert(1)" }),
            "is no `https` address",
        ),
        (
            json!({ "registration_endpoint": null }),
            "registers no clients",
        ),
    ];
    for (metadata, expected) in cases {
        let site = LoginSite::start().await;
        site.state().metadata = metadata;
        not_begun(&site, expected).await;
    }
    let json_page = |body: &str| page("application/json", body);
    let place = "/.well-known/oauth-authorization-server";
    let own = "/.well-known/oauth-protected-resource/mcp";
    for (path, answer, expected) in [
        (place, json_page(&" ".repeat(70_000)), "larger than"),
        (
            place,
            "HTTP/1.1 200 OK\r\n\r\n{\"issuer\": \"∞".to_owned(),
            "larger than",
        ),
        (
            place,
            reply("500 Internal Server Error", "", &json!({})),
            "it answered 500",
        ),
        (own, json_page("[]"), "holds no such metadata"),
        (
            own,
            json_page(
                "{\"resource\": \"https://other.test/mcp\", \"authorization_servers\": [\"x\"]}",
            ),
            "is another server",
        ),
        (
            own,
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "says nothing about a login",
        ),
    ] {
        let site = LoginSite::start().await;
        site.state().answers.insert(path.to_owned(), answer);
        not_begun(&site, expected).await;
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_address_of_metadata_leads_into_the_network() {
    let inside = Site::start(&page("application/json", "{}"), Then::Close).await;
    let at = inside.url("/metadata");
    let json_page = |body: Value| page("application/json", &body.to_string());
    let own = "/.well-known/oauth-protected-resource/mcp";
    let challenge = |place: &str| {
        let field = format!("WWW-Authenticate: Bearer resource_metadata=\"{place}\"\r\n");
        ("/mcp", reply("401 Unauthorized", &field, &Value::Null))
    };
    for place in [
        at.as_str(),
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://127.0.0.1/",
        "http://2852039166/",
        "gopher://169.254.169.254/",
    ] {
        let site = LoginSite::start().await;
        let (path, answer) = challenge(place);
        site.state().answers.insert(path.to_owned(), answer);
        let expected = if place.starts_with("gopher") {
            "is no `https` address"
        } else {
            "may be in a private network"
        };
        not_begun(&site, expected).await;
    }
    // The same by a redirect, as an issuer, and as each endpoint.
    let redirect = reply("302 Found", &format!("Location: {at}\r\n"), &Value::Null);
    for path in [own, "/.well-known/oauth-authorization-server"] {
        let site = LoginSite::start().await;
        site.state()
            .answers
            .insert(path.to_owned(), redirect.clone());
        not_begun(&site, "no redirect is followed").await;
    }
    let site = LoginSite::start().await;
    let resource = format!("{}/mcp", site.base());
    let answer = json_page(json!({ "resource": resource, "authorization_servers": [at] }));
    site.state().answers.insert(own.to_owned(), answer);
    not_begun(&site, "may be in a private network").await;
    for endpoint in ["registration_endpoint", "token_endpoint"] {
        let site = LoginSite::start().await;
        site.state().metadata = json!({ endpoint: at });
        let workspace = workspace();
        let server = site.declare(&workspace, &json!({}));
        let error = logged_in(&server, Arc::new(SystemClock::new())).await;
        assert!(error.is_err(), "{endpoint}");
    }
    assert_eq!(inside.requests(), Vec::<String>::new());
    // The benign twin: the owner has written that very host and port.
    let site = LoginSite::start().await;
    let (issuer, resource) = (LoginSite::start().await, format!("{}/mcp", site.base()));
    let answer = json_page(
        json!({ "resource": resource, "authorization_servers": ["https://x.test", issuer.base()] }),
    );
    site.state().answers.insert(own.to_owned(), answer);
    let attempt = begun(&site, json!({ "issuer": issuer.base() })).await;
    assert!(attempt.is_ok_and(|attempt| attempt.issuer() == issuer.base()));
}

#[tokio::test]
async fn a_client_is_the_one_that_the_owner_named_or_is_registered() {
    let site = LoginSite::start().await;
    let attempt = begun(&site, json!({ "client_id": "mine" }))
        .await
        .expect("begun");
    assert!(attempt.question().contains("client_id=mine&"));
    let document = json!({ "client_metadata_url": "https://engine.test/client.json" });
    let error = begun(&site, document.clone()).await.err().expect("refused");
    assert!(
        error
            .to_string()
            .contains("does not say that it takes a Client ID"),
        "{error}"
    );
    site.state().metadata = json!({ "client_id_metadata_document_supported": true });
    let attempt = begun(&site, document).await.expect("begun");
    assert!(
        attempt
            .question()
            .contains("client_id=https%3A%2F%2Fengine.test%2Fclient.json&")
    );
    assert_eq!(site.count("/register"), 0);
    let error = begun(&site, json!({ "issuer": "https://other.test" }))
        .await
        .err();
    assert!(error.is_some_and(|error| {
        error
            .to_string()
            .contains("does not name `https://other.test`")
    }));
}

#[tokio::test]
async fn an_answer_counts_only_if_it_is_of_the_issuer_that_was_asked() {
    let other = || "http://other.test".to_owned();
    for (redirect, metadata, expected) in [
        (vec![("iss", other())], json!({}), "not of the issuer"),
        (
            vec![("iss", other())],
            json!({ "authorization_response_iss_parameter_supported": false }),
            "not of the issuer",
        ),
        (vec![("iss", String::new())], json!({}), "not of the issuer"),
        (vec![("code", String::new())], json!({}), "holds no code"),
        (
            vec![("error", "access_denied".to_owned())],
            json!({}),
            "refuses: access_denied",
        ),
        (
            vec![("error", "<b>x</b>".to_owned())],
            json!({}),
            "refuses: without a reason",
        ),
    ] {
        let (site, workspace) = (LoginSite::start().await, workspace());
        site.state().redirect = redirect;
        site.state().metadata = metadata;
        let server = site.declare(&workspace, &json!({}));
        let error = logged_in(&server, Arc::new(SystemClock::new()))
            .await
            .expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(site.count("/token"), 0, "{expected}");
    }
}

#[tokio::test]
async fn a_code_or_an_answer_that_is_no_good_keeps_no_login() {
    let (site, workspace) = (LoginSite::start().await, workspace());
    let server = site.declare(&workspace, &json!({}));
    let attempt = LoginAttempt::begin(&server, REDIRECT.to_owned(), Arc::new(SystemClock::new()));
    let error = attempt
        .await
        .expect("begun")
        .finish("code-of-yesterday")
        .await;
    assert!(error.is_err_and(|error| error.to_string().contains("refuses: invalid_grant")));
    let json_page = |body: Value| page("application/json", &body.to_string());
    for (answer, expected) in [
        (
            json_page(json!({ "token_type": "Bearer" })),
            "gave no token",
        ),
        (
            json_page(json!({ "access_token": "a\r\nX: y" })),
            "gave no token that can be sent",
        ),
        (
            json_page(json!({ "access_token": "" })),
            "gave no token that can be sent",
        ),
        (
            json_page(json!({ "access_token": "t", "token_type": "mac" })),
            "not of type `Bearer`",
        ),
        (
            json_page(json!({ "access_token": "t".repeat(100_000) })),
            "larger than",
        ),
        ("HTTP/1.1 200 OK\r\n\r\n∞".to_owned(), "larger than"),
        (
            reply(
                "400 Bad Request",
                "",
                &json!({ "error": "it is <b>bad</b>" }),
            ),
            "answered 400",
        ),
        (
            reply(
                "307 Temporary Redirect",
                "Location: /revoke\r\n",
                &Value::Null,
            ),
            "answered 307",
        ),
    ] {
        site.state().answers.insert("/token".to_owned(), answer);
        let error = logged_in(&server, Arc::new(SystemClock::new()))
            .await
            .expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!workspace.path().join(FILE).exists());
    }
    assert_eq!(site.count("/revoke"), 0, "no redirect is followed");
}
