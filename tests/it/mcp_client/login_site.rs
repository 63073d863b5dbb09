//! A server that wants a login, and its authorization server, at one port of loopback; and a browser that follows redirects.

use super::stand_in;
use crate::app::Workspace;
use attache::clock::Clock;
use attache::config::McpServer;
use attache::mcp_client::{LoginAttempt, LoginError, RedirectVerdict};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Where nothing listens but what a test put there, and where the answer of a login goes that nobody waits for.
pub const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// What the site does, and what it has seen.
#[derive(Default)]
pub struct SiteState {
    /// Folder of the MCP server.
    pub folder: PathBuf,
    /// Whole answers by path, in place of the right ones; one that ends in `∞` is sent without end.
    pub answers: BTreeMap<String, String>,
    /// Members of the authorization server's metadata that are others; `null`: absent.
    pub metadata: Value,
    /// Members of the redirect that are others; empty: absent.
    pub redirect: Vec<(&'static str, String)>,
    /// Lifetime of tokens in seconds.
    pub expires_in: u64,
    /// `true`: a refresh token is refused, whichever it is.
    pub refuses: bool,
    /// Requests by path, with head and body.
    pub seen: Vec<(String, String)>,
    /// Refresh tokens that were not on the disk when the access token of their answer arrived.
    pub early: Vec<String>,
    codes: BTreeMap<String, Url>,
    access: BTreeSet<String>,
    refresh: String,
    count: usize,
}

/// The site; it ends with the test.
#[derive(Clone)]
pub struct LoginSite {
    pub port: u16,
    state: Arc<Mutex<SiteState>>,
    /// Where a token request waits, if it is to wait.
    pub hold: Arc<Mutex<Option<Arc<Notify>>>>,
    pub asked: Arc<Notify>,
}

impl LoginSite {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let state = SiteState {
            expires_in: 3600,
            ..SiteState::default()
        };
        let site = Self {
            port,
            state: Arc::new(Mutex::new(state)),
            hold: Arc::default(),
            asked: Arc::default(),
        };
        let served = site.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let site = served.clone();
                tokio::spawn(async move { site.answered(stream).await });
            }
        });
        site
    }

    pub fn state(&self) -> MutexGuard<'_, SiteState> {
        self.state.lock().expect("no test panicked here")
    }

    pub fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Declares the site as the server `met` of a workspace, and approves its tools.
    pub fn declare(&self, workspace: &Workspace, more: &Value) -> McpServer {
        let way = json!({ "url": format!("{}/mcp", self.base()) });
        stand_in::approved(workspace, &way, more);
        self.state().folder = workspace.path().join(stand_in::FOLDER);
        stand_in::loaded(workspace)
    }

    /// Requests to a path so far.
    pub fn count(&self, path: &str) -> usize {
        self.requests(path).len()
    }

    /// Head and body of requests to a path.
    pub fn requests(&self, path: &str) -> Vec<String> {
        let state = self.state();
        let of_path = state.seen.iter().filter(|(seen, _)| seen == path);
        of_path.map(|(_, text)| text.clone()).collect()
    }

    /// Takes the tokens back that the MCP server has accepted.
    pub fn forget_access(&self) {
        self.state().access.clear();
    }

    /// Takes a refresh token that it had replaced.
    pub fn take_back(&self, refresh: &str) {
        self.state().refresh = refresh.to_owned();
    }

    /// Refresh token that counts now.
    pub fn refresh(&self) -> String {
        self.state().refresh.clone()
    }

    async fn answered(&self, mut stream: TcpStream) {
        let Some((head, body)) = stand_in::request(&mut stream).await else {
            return;
        };
        let address = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let url = Url::parse(&format!("{}{address}", self.base())).expect("a URL");
        let path = url.path().to_owned();
        let seen = (path.clone(), format!("{head}\r\n\r\n{body}"));
        self.state().seen.push(seen);
        let whole = self.state().answers.get(&path).cloned();
        if let Some(whole) = whole {
            let (text, is_endless) = match whole.strip_suffix('∞') {
                Some(text) => (text.to_owned(), true),
                None => (whole, false),
            };
            let mut sent = stream.write_all(text.as_bytes()).await;
            while is_endless && sent.is_ok() {
                sent = stream.write_all(&[b' '; 4096]).await;
            }
            return;
        }
        let text = match path.as_str() {
            "/mcp" => self.mcp(&head, &body),
            "/token" => {
                let answer = self.token(&body);
                self.asked.notify_one();
                let hold = self.hold.lock().expect("no test panicked here").clone();
                if let Some(hold) = hold {
                    hold.notified().await;
                }
                answer
            }
            "/authorize" => self.authorize(&url),
            "/register" => reply("201 Created", "", &json!({ "client_id": "c-1" })),
            "/revoke" => reply("200 OK", "", &Value::Null),
            "/.well-known/oauth-protected-resource/mcp" => {
                let resource = format!("{}/mcp", self.base());
                reply(
                    "200 OK",
                    "",
                    &json!({ "resource": resource, "authorization_servers": [self.base()], "scopes_supported": ["tools"] }),
                )
            }
            "/.well-known/oauth-authorization-server" => reply("200 OK", "", &self.metadata()),
            _ => reply("404 Not Found", "", &Value::Null),
        };
        let _gone = stream.write_all(text.as_bytes()).await;
    }

    fn metadata(&self) -> Value {
        let at = |path: &str| format!("{}{path}", self.base());
        let mut metadata = json!({
            "issuer": self.base(),
            "authorization_endpoint": at("/authorize?tenant=1"),
            "token_endpoint": at("/token"),
            "registration_endpoint": at("/register"),
            "revocation_endpoint": at("/revoke"),
            "code_challenge_methods_supported": ["plain", "S256"],
            "authorization_response_iss_parameter_supported": true,
        });
        let state = self.state();
        for (member, value) in state.metadata.as_object().into_iter().flatten() {
            metadata[member] = value.clone();
        }
        metadata
    }

    fn authorize(&self, url: &Url) -> String {
        let mut state = self.state();
        state.count += 1;
        let code = format!("code-{}", state.count);
        state.codes.insert(code.clone(), url.clone());
        let mut fields = BTreeMap::from([
            ("code", code),
            ("state", value(url, "state")),
            ("iss", self.base()),
        ]);
        fields.extend(state.redirect.clone());
        fields.retain(|_, value| !value.is_empty());
        let redirect = Url::parse_with_params(&value(url, "redirect_uri"), &fields).expect("a URL");
        reply(
            "302 Found",
            &format!("Location: {redirect}\r\n"),
            &Value::Null,
        )
    }

    fn token(&self, body: &str) -> String {
        let form = Url::parse(&format!("http://form.test/?{body}")).expect("a form");
        let mut state = self.state();
        let is_granted = match value(&form, "grant_type").as_str() {
            "authorization_code" => {
                let asked = state.codes.remove(&value(&form, "code"));
                asked.is_some_and(|asked| is_proven(&asked, &form))
            }
            _ => !state.refuses && value(&form, "refresh_token") == state.refresh,
        };
        if !is_granted {
            return reply("400 Bad Request", "", &json!({ "error": "invalid_grant" }));
        }
        state.count += 1;
        let (access, refresh) = (
            format!("access-{}-{}", self.port, state.count),
            format!("refresh-{}-{}", self.port, state.count),
        );
        state.access.insert(access.clone());
        state.refresh.clone_from(&refresh);
        let given = json!({ "access_token": access, "token_type": "Bearer", "expires_in": state.expires_in, "refresh_token": refresh });
        reply("200 OK", "", &given)
    }

    fn mcp(&self, head: &str, body: &str) -> String {
        let token = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_it = name.eq_ignore_ascii_case("authorization");
            value.trim().strip_prefix("Bearer ").filter(|_| is_it)
        });
        let mut state = self.state();
        if !token.is_some_and(|token| state.access.contains(token)) {
            let place = format!("{}/.well-known/oauth-protected-resource/mcp", self.base());
            let field = format!("WWW-Authenticate: Bearer resource_metadata=\"{place}\"\r\n");
            return reply("401 Unauthorized", &field, &Value::Null);
        }
        let kept = std::fs::read_to_string(state.folder.join("../data/tokens/mcp/met.json"));
        if !kept.unwrap_or_default().contains(&state.refresh) {
            let refresh = state.refresh.clone();
            state.early.push(refresh);
        }
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        match stand_in::result(&message, body, &state.folder) {
            Some(result) => reply(
                "200 OK",
                "",
                &json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }),
            ),
            None => reply("202 Accepted", "", &Value::Null),
        }
    }
}

/// Checks what a code is exchanged with (RFC 7636 section 4.6, RFC 8707).
fn is_proven(asked: &Url, form: &Url) -> bool {
    let digest = Sha256::digest(value(form, "code_verifier").as_bytes());
    let same = |name: &str| value(asked, name) == value(form, name);
    value(asked, "code_challenge") == BASE64_URL_SAFE_NO_PAD.encode(digest)
        && value(asked, "code_challenge_method") == "S256"
        && value(form, "code_verifier").len() >= 43
        && ["redirect_uri", "client_id", "resource"]
            .into_iter()
            .all(same)
        && value(form, "resource").ends_with("/mcp")
}

/// Value of a query; empty: there is none.
pub fn value(url: &Url, name: &str) -> String {
    let found = url.query_pairs().find(|(other, _)| other == name);
    found
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

pub fn reply(status: &str, fields: &str, body: &Value) -> String {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Opens a page; returns the whole answer.
pub async fn opened(address: &str) -> String {
    let url = Url::parse(address).expect("a URL");
    let at = (url.host_str().expect("a host"), url.port().expect("a port"));
    let mut stream = TcpStream::connect(at).await.expect("a listener");
    let query = url
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let request = format!("GET {}{query} HTTP/1.1\r\nHost: x\r\n\r\n", url.path());
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Opens a page that redirects; returns where to.
pub async fn redirected(address: &str) -> String {
    let answer = opened(address).await;
    let found = answer
        .lines()
        .find_map(|line| line.strip_prefix("Location: "));
    found
        .unwrap_or_else(|| panic!("no redirect: {answer}"))
        .to_owned()
}

/// Logs in as `attache mcp login` does, with nobody listening for the answer.
pub async fn logged_in(server: &McpServer, clock: Arc<dyn Clock>) -> Result<(), LoginError> {
    let attempt = LoginAttempt::begin(server, REDIRECT.to_owned(), clock).await?;
    let answer = redirected(attempt.question()).await;
    match attempt.judge(&answer) {
        RedirectVerdict::Code(code) => attempt.finish(&code).await,
        RedirectVerdict::Failed(error) => Err(error),
        RedirectVerdict::Stray => panic!("stray: {answer}"),
    }
}
