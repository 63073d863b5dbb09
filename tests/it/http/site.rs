//! The pages of an engine, served over loopback, and a browser without a face.

use crate::app::Workspace;
use crate::app::db;
use crate::approvals::scene::{CONTACT, Scene, asks};
use attache::cli::WorkspaceExaminer;
use attache::http::{BoundPages, serve};
use attache::store::{NewWebSession, NewWebToken, Store, WebScope};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Method, Response, redirect};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A listener as configured: the system chooses the port.
pub const LISTENER: &str = "127.0.0.1:0";

/// An entry of memory.
pub const ENTRY: &str = "0192f0c1-0000-7000-8000-0000000000aa";
/// Message-ID of the letter with HTML and a file.
pub const HTML_LETTER: &str = "html1@x.test";

/// Pages of a workspace in which one letter was answered by a question to its owner.
pub struct Site {
    scheme: &'static str,
    pub scene: Scene,
    pub address: SocketAddr,
    client: Client,
    _stop: DropGuard,
}

/// What a browser keeps of a login.
#[derive(Debug, Clone)]
pub struct Login {
    /// `name=secret`.
    pub cookie: String,
    pub form_token: String,
}

/// An answer, read whole.
#[derive(Debug, Clone)]
pub struct Page {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Page {
    async fn of(answer: Response) -> Self {
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let kind = headers.get("content-type");
        if kind.is_some_and(|kind| kind == "text/event-stream") {
            // It has no end.
            return Self {
                status,
                headers,
                body: String::new(),
            };
        }
        Self {
            status,
            headers,
            body: String::from_utf8_lossy(&answer.bytes().await.expect("a body")).into_owned(),
        }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("a text"))
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }
}

impl Site {
    pub async fn start() -> Self {
        Self::with(&asks()).await
    }

    pub async fn with(script: &Value) -> Self {
        Self::configured(script, |_| {}).await
    }

    pub async fn configured(script: &Value, prepare: impl FnOnce(&Workspace)) -> Self {
        let client = attache::web::http_client();
        Self::over("http", client, script, |workspace| {
            listens(workspace);
            prepare(workspace);
        })
        .await
    }

    /// Starts the pages with another time after which a reader that takes no byte is cut off.
    pub async fn cutting_after(stall_max: Duration) -> Self {
        let scene = Scene::with(&asks(), listens).await;
        let bound = bound(&scene).await.cutting_after(stall_max);
        Self::serving("http", attache::web::http_client(), scene, bound)
    }

    /// Starts the pages as `attache serve` does: they show what `attache doctor` finds.
    pub async fn examined() -> Self {
        let scene = Scene::with(&asks(), listens).await;
        let engine = &scene.world.app.engine;
        let examiner = WorkspaceExaminer::of(scene.world.app.workspace.path());
        engine.examined_by(Arc::new(examiner));
        let bound = bound(&scene).await;
        Self::serving("http", attache::web::http_client(), scene, bound)
    }

    /// Starts the pages under TLS, with a certificate of their own that this browser trusts.
    pub async fn under_tls() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]);
        let made = made.expect("a certificate");
        let pem = made.cert.pem();
        let root = reqwest::Certificate::from_pem(pem.as_bytes()).expect("a certificate");
        let client = attache::web::http_client().tls_certs_only([root]);
        Self::over("https", client, &asks(), |workspace| {
            let (cert, key) = (
                workspace.path().join("cert.pem"),
                workspace.path().join("key.pem"),
            );
            std::fs::write(&cert, &pem).expect("written");
            std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
            let files = json!({ "certificate": cert, "key": key });
            workspace.set("configs/gateway.json", "/tls", files);
            let listener = json!([{ "kind": "http", "address": LISTENER, "tls": "implicit" }]);
            workspace.set("configs/gateway.json", "/listeners", listener);
        })
        .await
    }

    async fn over(
        scheme: &'static str,
        client: ClientBuilder,
        script: &Value,
        prepare: impl FnOnce(&Workspace),
    ) -> Self {
        let scene = Scene::with(script, prepare).await;
        let bound = bound(&scene).await;
        Self::serving(scheme, client, scene, bound)
    }

    fn serving(
        scheme: &'static str,
        client: ClientBuilder,
        scene: Scene,
        bound: BoundPages,
    ) -> Self {
        let address = bound.tcp_address().expect("a port");
        let stop = CancellationToken::new();
        tokio::spawn(serve(bound, stop.clone()));
        let client = client.redirect(redirect::Policy::none());
        Self {
            scheme,
            scene,
            address,
            client: client.no_proxy().build().expect("a client"),
            _stop: stop.drop_guard(),
        }
    }

    /// Starts the pages with a letter of a contact, whose run asks the owner, and a letter with HTML and a file.
    pub async fn with_a_question() -> Self {
        let site = Self::start().await;
        site.scene.writes(CONTACT, "l1", "").await;
        site.html_letter("html1", "<p>See you on <b>Tuesday</b>.</p>")
            .await;
        let remember = "INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust,
              readers_json, audience_json, said_by, said_at, created_at, created_by, confirmed_at)
            VALUES ($1, 'ada', 'contact', 'carol@partner.test', 1, 'fact', 'She likes tea.', '0', 'active', 'contact',
              '\"everyone\"', 'null', 'carol@partner.test', $2, $2, 'owner', $2)";
        let mut rows = site.scene.world.app.workspace.rows().await;
        let remember = db::query(remember)
            .bind(ENTRY)
            .bind(site.scene.world.now().to_string());
        remember.execute(&mut rows).await.expect("an entry");
        site
    }

    /// Delivers a letter of a contact with an HTML body and a file; gives the id of its message.
    pub async fn html_letter(&self, id: &str, html: &str) -> String {
        let more = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n";
        let body = format!(
            "--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html}\r\n--b\r\nContent-Type: text/html; \
             name=\"page.html\"\r\nContent-Disposition: attachment; filename=\"page.html\"\r\n\r\n\
             <script>alert(1)</script>\r\n--b--\r\n"
        );
        let eml = self
            .scene
            .signed(CONTACT, "ada@engine.test", id, more, &body);
        let accepted = self.scene.deliver(&eml, "ada@engine.test").await;
        let accepted = accepted.expect("the letter is taken");
        self.scene.world.app.drain().await;
        accepted.copies[0].message.to_string()
    }

    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Sends a request with these header fields and nothing else of a browser's.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        form: &[(&str, &str)],
    ) -> Page {
        let url = format!("{}{path}", self.origin());
        let mut request = self.client.request(method.clone(), url);
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            request = request.header(name, HeaderValue::from_str(value).expect("a value"));
        }
        if method == Method::POST {
            let body = form_urlencoded::Serializer::new(String::new())
                .extend_pairs(form)
                .finish();
            request = request
                .header("content-type", "application/x-www-form-urlencoded")
                .body(body);
        }
        Page::of(request.send().await.expect("an answer")).await
    }

    /// Sends JSON with these header fields.
    pub async fn json(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Page {
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.origin()))
            .header("content-type", "application/json")
            .body(body.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Page::of(request.send().await.expect("an answer")).await
    }

    /// Sends bytes as a program does.
    pub async fn send_bytes(&self, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Page {
        let url = format!("{}{path}", self.origin());
        let mut request = self.client.post(url).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.expect("an answer");
        Page {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            body: answer.text().await.expect("a body"),
        }
    }

    /// Gets a page as the browser of a login does.
    pub async fn get(&self, login: &Login, path: &str) -> Page {
        let headers = [
            ("cookie", login.cookie.as_str()),
            ("sec-fetch-site", "same-origin"),
        ];
        self.send(Method::GET, path, &headers, &[]).await
    }

    /// Sends a form as the browser of a login does.
    pub async fn post(&self, login: &Login, path: &str, form: &[(&str, &str)]) -> Page {
        let origin = self.origin();
        let headers = [
            ("cookie", login.cookie.as_str()),
            ("origin", origin.as_str()),
            ("sec-fetch-site", "same-origin"),
        ];
        let token = ("form_token", login.form_token.as_str());
        let form: Vec<(&str, &str)> = form.iter().copied().chain([token]).collect();
        self.send(Method::POST, path, &headers, &form).await
    }

    /// Logs in as an owner does: a code from the machine, typed into the page.
    pub async fn login(&self) -> Login {
        let store = &self.scene.world.app.engine.store;
        let code: String = store.clock().new_secret().chars().take(12).collect();
        store
            .add_web_login(&code, LISTENER, "uid 0")
            .await
            .expect("a code");
        let answer = self.enter(&code).await;
        assert_eq!(answer.status, 303, "{}", answer.body);
        let cookie = cookie(&answer);
        let headers = [("cookie", cookie.as_str())];
        let page = self.send(Method::GET, "/", &headers, &[]).await;
        assert_eq!(page.status, 200, "{}", page.body);
        Login {
            form_token: form_token(&page.body),
            cookie,
        }
    }

    /// Makes a key with these scopes; gives its secret.
    pub async fn key(&self, scopes: &[&str]) -> String {
        key(&self.scene.world.app.engine.store, scopes).await
    }

    /// Sends a code.
    pub async fn enter(&self, code: &str) -> Page {
        let origin = self.origin();
        let headers = [("origin", origin.as_str())];
        let form = [("code", code), ("next", "/")];
        self.send(Method::POST, "/login", &headers, &form).await
    }

    /// A session that is good at another listener of the same engine.
    pub async fn foreign_session(&self) -> String {
        let store = &self.scene.world.app.engine.store;
        let added = store.add_web_login("abcdef", "127.0.0.1:9", "uid 0");
        added.await.expect("a code");
        let secret = store.clock().new_secret();
        let new = NewWebSession {
            code: "abcdef".to_owned(),
            listener: "127.0.0.1:9".to_owned(),
            browser: "another".to_owned(),
            secret: secret.clone(),
            form_token: store.clock().new_secret(),
        };
        let opened = store.open_web_session(new).await.expect("stored");
        assert!(opened.is_some());
        format!("attache_{}={secret}", self.address.port())
    }

    /// Every row: what a page must not change.
    pub async fn database(&self) -> Vec<u8> {
        let workspace = &self.scene.world.app.workspace;
        db::contents::every_row(&mut workspace.rows().await).await
    }
}

fn listens(workspace: &Workspace) {
    let listener = json!([{ "kind": "http", "address": LISTENER }]);
    workspace.set("configs/gateway.json", "/listeners", listener);
}

async fn bound(scene: &Scene) -> BoundPages {
    let engine = &scene.world.app.engine;
    let listener = &engine.config.gateway.http_listeners[0];
    let parts = engine.web_parts();
    let bound = BoundPages::open(listener, &parts).await;
    bound.expect("a port")
}

/// Makes a key with these scopes; gives its secret.
pub async fn key(store: &Store, scopes: &[&str]) -> String {
    let secret = format!("att_{}", store.clock().new_secret());
    let scopes = scopes.iter().map(|typed| WebScope::parse(typed));
    let new = NewWebToken {
        name: "a test".to_owned(),
        scopes: scopes.collect::<Result<_, _>>().expect("scopes"),
        created_by: "uid 0".to_owned(),
        expires_at: store.clock().now().plus(Duration::from_secs(24 * 3600)),
        secret: secret.clone(),
    };
    store.add_web_token(new).await.expect("a key");
    secret
}

/// The cookie that an answer sets.
pub fn cookie(answer: &Page) -> String {
    let set = answer.header("set-cookie");
    set.split(';').next().unwrap_or_default().to_owned()
}

/// The token of the forms of a page.
pub fn form_token(page: &str) -> String {
    let (_, rest) = page
        .split_once("name=\"form_token\" value=\"")
        .expect("a form");
    rest.split('"').next().expect("a value").to_owned()
}
