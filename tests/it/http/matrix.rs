//! Every route of the router's own table refuses what it must, and every `GET` leaves the database as it was.

use super::site::{ENTRY, HTML_LETTER, Login, Page, Site};
use attache::http::{ROUTES, RouteAccess, RouteBody, RouteMethod, WebRoute};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A path of a route with the ids of what the site holds. A route that is not known here fails.
async fn filled(site: &Site, route: &WebRoute) -> String {
    if !route.path.contains('{') {
        return route.path.to_owned();
    }
    let app = &site.scene.world.app;
    let (sql, key) = match route.path.split('/').nth(1).unwrap_or_default() {
        "assets" => {
            let page = site.send(Method::GET, "/login", &[], &[]).await.body;
            let (_, rest) = page.split_once("/assets/").expect("a style");
            let name = rest.split('"').next().expect("a name");
            return route.path.replace("{name}", name);
        }
        "t" => (
            "SELECT thread_id FROM messages WHERE message_id = $1",
            "l1@x.test",
        ),
        "r" => (
            "SELECT r.id FROM runs r JOIN messages m ON m.id = r.trigger_message_id WHERE m.message_id = $1",
            "l1@x.test",
        ),
        "m" => ("SELECT id FROM messages WHERE message_id = $1", HTML_LETTER),
        "approvals" => ("SELECT id FROM approvals WHERE state = $1", "open"),
        "memory" => return route.path.replace("{id}", ENTRY),
        // No mail has left: any id does where nothing may be changed.
        "access" | "notices" | "outbox" | "schedule" => {
            return route
                .path
                .replace("{id}", "0192f0c1-0000-7000-8000-000000000001");
        }
        "personas" if route.path.contains("/file") => {
            return route.path.replace("{id}", "ada") + "?name=PERSONA.md";
        }
        "personas" => return route.path.replace("{id}", "ada"),
        "ingest" => return route.path.replace("{persona}", "ada"),
        // Of responses there is none.
        "v1" => return route.path.replace("{id}", "ada"),
        "api" => match route.path.split('/').nth(3).unwrap_or_default() {
            "threads" => (
                "SELECT thread_id FROM messages WHERE message_id = $1",
                "l1@x.test",
            ),
            "runs" => (
                "SELECT r.id FROM runs r JOIN messages m ON m.id = r.trigger_message_id WHERE m.message_id = $1",
                "l1@x.test",
            ),
            "messages" => ("SELECT id FROM messages WHERE message_id = $1", HTML_LETTER),
            "approvals" => ("SELECT id FROM approvals WHERE state = $1", "open"),
            "memory" => return route.path.replace("{id}", ENTRY),
            "personas" => return route.path.replace("{id}", "ada") + "?name=PERSONA.md",
            "deliveries" | "responsibilities" => {
                return route
                    .path
                    .replace("{id}", "0192f0c1-0000-7000-8000-000000000001");
            }
            other => panic!("`{}`: say which id stands for {other}", route.path),
        },
        other => panic!("`{}`: say which id stands for {other}", route.path),
    };
    let id = app.row(sql, key).await[0].clone().expect("an id");
    let path = route.path.replace("{id}", &id);
    path.replace("{turn}", "1").replace("{number}", "1")
}

fn method(route: &WebRoute) -> Method {
    match route.method {
        RouteMethod::Get => Method::GET,
        RouteMethod::Post => Method::POST,
    }
}

/// Sends a request to a route as the browser of a login would, with header fields put in place of its own.
async fn tried(
    site: &Site,
    route: &WebRoute,
    path: &str,
    login: &Login,
    other: &[(&str, &str)],
    token: Option<&str>,
) -> Page {
    let origin = site.origin();
    let mut headers = vec![
        ("cookie", login.cookie.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    if route.method == RouteMethod::Post {
        headers.push(("origin", origin.as_str()));
    }
    if route.body == RouteBody::Json {
        headers.extend(token.map(|token| ("x-form-token", token)));
        headers.retain(|(name, _)| !other.iter().any(|(instead, _)| instead == name));
        headers.extend(other.iter().copied().filter(|(_, value)| !value.is_empty()));
        return site.json(method(route), path, &headers, &json!({})).await;
    }
    headers.retain(|(name, _)| !other.iter().any(|(instead, _)| instead == name));
    headers.extend(other.iter().copied().filter(|(_, value)| !value.is_empty()));
    let form: Vec<(&str, &str)> = token
        .into_iter()
        .map(|token| ("form_token", token))
        .collect();
    site.send(method(route), path, &headers, &form).await
}

/// Asserts that an answer shows nothing of the workspace.
fn assert_empty(answer: &Page, what: &str) {
    for secret in ["Tuesday", "carol@partner.test", "eve@new.test"] {
        assert!(!answer.body.contains(secret), "{what}: {}", answer.body);
    }
    assert!(
        answer.header("access-control-allow-origin").is_empty(),
        "{what}"
    );
    assert!(
        !answer.header("content-security-policy").is_empty(),
        "{what}"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn every_route_refuses_other_names_other_sites_and_other_origins() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let token = login.form_token.clone();
    let before = site.database().await;
    let port = site.address.port();
    let names = [
        "evil.test".to_owned(),
        format!("evil.test:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port ^ 1),
        format!("127.0.0.1.evil.test:{port}"),
        format!("localhost.:{port}"),
    ];
    let mut refused = 0;
    for route in ROUTES {
        let path = filled(&site, route).await;
        let what = format!("{:?} {}", route.method, route.path);
        let mut cases: Vec<(&str, &str, u16)> = names
            .iter()
            .map(|name| ("host", name.as_str(), 403))
            .collect();
        for origin in [
            "https://evil.test",
            "null",
            "http://127.0.0.1",
            "http://127.0.0.1:1",
            "",
        ] {
            // A program that is no browser sends no origin.
            if !origin.is_empty() {
                cases.push(("origin", origin, 403));
            }
        }
        for site in ["cross-site", "same-site", "no-such-word"] {
            cases.push(("sec-fetch-site", site, 403));
        }
        for (name, value, status) in cases {
            let answer = tried(&site, route, &path, &login, &[(name, value)], Some(&token)).await;
            assert_eq!(answer.status, status, "{what} with {name}: {value}");
            assert_empty(&answer, &what);
            refused += 1;
        }
    }
    assert!(refused >= ROUTES.len() * 13, "{refused}");
    assert!(
        site.database().await == before,
        "a refused request changed the database"
    );
}

#[tokio::test]
async fn a_link_from_elsewhere_shows_the_login_page_and_nothing_else() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let navigation = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    for route in ROUTES {
        let path = filled(&site, route).await;
        let answer = tried(&site, route, &path, &login, &navigation, None).await;
        let expected = match (route.method, route.access) {
            (RouteMethod::Get, RouteAccess::Anyone) => 200,
            (RouteMethod::Get, _) => 401,
            (RouteMethod::Post, _) => 403,
        };
        assert_eq!(answer.status, expected, "{}", route.path);
        assert_empty(&answer, route.path);
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn no_old_no_foreign_and_no_made_up_session_opens_anything() {
    let site = Site::with_a_question().await;
    let old = site.login().await;
    let gone = site.post(&old, "/logout", &[]).await;
    assert_eq!(gone.status, 303);
    let foreign = site.foreign_session().await;
    let good = site.login().await;
    let name = good.cookie.split('=').next().expect("a name");
    let secret = good.cookie.split('=').nth(1).expect("a secret");
    let twice = format!("{}; {}", good.cookie, old.cookie);
    let cookies = [
        String::new(),
        old.cookie.clone(),
        foreign,
        format!("{name}={}", "0".repeat(64)),
        format!("{name}={}", &secret[..63]),
        format!("{name}={}", secret.to_ascii_uppercase()),
        format!("other={secret}"),
        twice,
    ];
    let before = site.database().await;
    for route in ROUTES
        .iter()
        .filter(|route| route.access != RouteAccess::Anyone)
    {
        let path = filled(&site, route).await;
        for cookie in &cookies {
            let fields = [("cookie", cookie.as_str())];
            let answer = tried(&site, route, &path, &good, &fields, Some(&good.form_token)).await;
            assert_eq!(answer.status, 401, "{} with {cookie:?}", route.path);
            assert_empty(&answer, route.path);
        }
        // A minute between two guesses, or they would be refused unseen.
        let clock = &site.scene.world.app.workspace.clock;
        clock.advance(std::time::Duration::from_secs(61));
        let bearer = format!("Bearer att_{secret}");
        let fields = [("cookie", ""), ("authorization", bearer.as_str())];
        let answer = tried(&site, route, &path, &good, &fields, Some(&good.form_token)).await;
        assert_eq!(answer.status, 401, "{} with a made-up key", route.path);
        // A secret in the address is none.
        let answer = tried(
            &site,
            route,
            &format!("{path}?token={secret}"),
            &good,
            &[("cookie", "")],
            None,
        )
        .await;
        assert_eq!(
            answer.status, 401,
            "{} with a secret in its address",
            route.path
        );
    }
    assert!(
        site.database().await == before,
        "a refused request changed the database"
    );
}

#[tokio::test]
async fn a_form_without_the_token_of_its_session_changes_nothing() {
    let site = Site::with_a_question().await;
    let (login, other) = (site.login().await, site.login().await);
    let before = site.database().await;
    let mut forms = 0;
    for route in ROUTES.iter().filter(|route| {
        matches!(route.body, RouteBody::Form | RouteBody::Json)
            && route.access != RouteAccess::Anyone
    }) {
        let path = filled(&site, route).await;
        // A route for programs looks at no session.
        let is_for_programs = matches!(route.access, RouteAccess::Key(_));
        let status = if is_for_programs { 401 } else { 403 };
        for token in [None, Some(""), Some("0"), Some(other.form_token.as_str())] {
            let answer = tried(&site, route, &path, &login, &[], token).await;
            assert_eq!(answer.status, status, "{} with {token:?}", route.path);
            forms += 1;
        }
        let twice = [
            ("form_token", login.form_token.as_str()),
            ("form_token", "x"),
        ];
        let origin = site.origin();
        let headers = [
            ("cookie", login.cookie.as_str()),
            ("origin", origin.as_str()),
        ];
        let both = site.send(Method::POST, &path, &headers, &twice).await;
        let status = match route.body {
            _ if is_for_programs => 401,
            RouteBody::Form => 403,
            // It is no form.
            _ => 400,
        };
        assert_eq!(both.status, status, "{}", route.path);
        let put = site.send(Method::PUT, &path, &headers, &[]).await;
        assert_eq!(put.status, 405, "{}", route.path);
    }
    assert!(forms > 0);
    assert!(site.database().await == before);
}

#[tokio::test]
async fn reading_changes_not_one_byte_and_every_page_has_its_header_fields() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let bearer = format!("Bearer {}", site.key(&["chat:ada", "metrics"]).await);
    let models = [("authorization", bearer.as_str())];
    let used = site.send(Method::GET, "/v1/models", &models, &[]).await;
    assert_eq!(used.status, 200, "the use of a key is noted once");
    let before = site.database().await;
    for route in ROUTES
        .iter()
        .filter(|route| route.method == RouteMethod::Get)
    {
        assert!(route.changes.is_none(), "{}", route.path);
        let path = filled(&site, route).await;
        let is_key = matches!(route.access, RouteAccess::Key(_));
        let key: &[(&str, &str)] = if is_key { &models } else { &[] };
        let page = tried(&site, route, &path, &login, key, None).await;
        // Of these there is none.
        let is_none = path == "/v1/responses/ada" || path.contains("/file/version?");
        let expected = if is_none { 404 } else { 200 };
        assert_eq!(page.status, expected, "{path}: {}", page.body);
        let policy = page.header("content-security-policy");
        assert!(policy.contains("default-src 'none'"), "{path}: {policy}");
        assert!(
            policy.contains("base-uri 'none'") && policy.contains("form-action"),
            "{path}"
        );
        assert!(
            !policy.contains("unsafe-eval") && !policy.contains("script-src 'unsafe"),
            "{path}"
        );
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(
            page.header("cross-origin-opener-policy"),
            "same-origin",
            "{path}"
        );
        assert_eq!(
            page.header("cross-origin-resource-policy"),
            "same-origin",
            "{path}"
        );
        let cookie = [("cookie", login.cookie.as_str())];
        let known = if is_key { &models } else { &cookie };
        let head = site.send(Method::HEAD, &path, known, &[]).await;
        assert_eq!((head.status, head.body.as_str()), (expected, ""), "{path}");
    }
    assert!(
        site.database().await == before,
        "a page changed the database"
    );
}

/// Sends bytes as they are and returns the answer.
async fn raw(site: &Site, text: &str) -> String {
    let mut stream = TcpStream::connect(site.address)
        .await
        .expect("a connection");
    stream.write_all(text.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let _cut = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn heads_that_no_client_library_sends_are_refused() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let (own, cookie) = (site.address.to_string(), &login.cookie);
    let end = format!("cookie: {cookie}\r\nconnection: close\r\n\r\n");
    let good = raw(&site, &format!("GET / HTTP/1.1\r\nhost: {own}\r\n{end}")).await;
    assert!(good.starts_with("HTTP/1.1 200"), "the control: {good}");
    for head in [
        format!("GET / HTTP/1.1\r\n{end}"),
        format!("GET / HTTP/1.1\r\nhost: {own}\r\nhost: evil.test\r\n{end}"),
        format!("GET http://evil.test/ HTTP/1.1\r\nhost: {own}\r\n{end}"),
        format!("GET / HTTP/1.0\r\n{end}"),
        format!("GET / HTTP/1.0\r\nhost: evil.test\r\n{end}"),
        format!("GET / HTTP/1.0\r\nhost: {own}\r\nhost: {own}\r\n{end}"),
        format!("GET http://evil.test/ HTTP/1.0\r\nhost: {own}\r\n{end}"),
        format!(
            "GET / HTTP/1.1\r\nhost: {own}\r\n{}{end}",
            "x: y\r\n".repeat(65)
        ),
        format!(
            "GET / HTTP/1.1\r\nhost: {own}\r\nx: {}\r\n{end}",
            "y".repeat(17_000)
        ),
        format!(
            "POST /logout HTTP/1.1\r\nhost: {own}\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n{end}0\r\n\r\n"
        ),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ] {
        let answer = raw(&site, &head).await;
        let status: String = answer.chars().skip(9).take(3).collect();
        assert!(
            ["", "400", "403", "431", "505"].contains(&status.as_str()),
            "{head:.80}: {answer}"
        );
        assert!(!answer.contains("Tuesday"), "{head:.80}");
    }
}

/// What nginx sends unless `proxy_http_version` says otherwise.
#[tokio::test]
#[ignore = "second tier"]
async fn a_proxy_that_speaks_http_1_0_is_served() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let (own, cookie) = (site.address.to_string(), &login.cookie);
    let fields = format!("host: {own}\r\nconnection: close\r\ncookie: {cookie}\r\n");
    let form = "content-type: application/x-www-form-urlencoded\r\ncontent-length: 24\r\n";
    let code = "code=000000000000&next=/";
    #[rustfmt::skip]
    let cases = [
        (format!("GET / HTTP/1.0\r\n{fields}\r\n"), "200"),
        (format!("HEAD / HTTP/1.0\r\n{fields}\r\n"), "200"),
        (format!("GET /approvals HTTP/1.0\r\n{fields}\r\n"), "200"),
        (format!("GET /livez HTTP/1.0\r\nhost: {own}\r\n\r\n"), "200"),
        (format!("GET /login HTTP/1.0\r\nhost: {own}\r\n\r\n"), "200"),
        (format!("GET / HTTP/1.0\r\nhost: {own}\r\nconnection: keep-alive\r\n\r\n"), "401"),
        (format!("GET /api/v1/runs HTTP/1.0\r\nhost: {own}\r\n\r\n"), "401"),
        (format!("GET /nothing HTTP/1.0\r\n{fields}\r\n"), "404"),
        (format!("POST /login HTTP/1.0\r\nhost: {own}\r\norigin: http://{own}\r\n{form}\r\n{code}"), "400"),
        (format!("POST /login HTTP/1.0\r\nhost: {own}\r\norigin: http://evil.test\r\n{form}\r\n{code}"), "403"),
        (format!("POST /logout HTTP/1.0\r\n{fields}origin: http://evil.test\r\ncontent-length: 0\r\n\r\n"), "403"),
    ];
    for (head, status) in cases {
        let answer = raw(&site, &head).await;
        let found: String = answer.chars().skip(9).take(3).collect();
        assert_eq!(found, status, "{head}\n{answer:.600}");
        assert!(!answer.contains("transfer-encoding: chunked"), "{head}");
    }
    for (head, words) in [
        ("GET / HTTP/1.0\r\n\r\n".to_owned(), "exactly one `Host`"),
        (
            format!("GET / HTTP/1.1\r\nhost: {own}\r\nhost: {own}\r\nconnection: close\r\n\r\n"),
            "exactly one `Host`",
        ),
        (
            "GET / HTTP/1.0\r\nhost: attache.example.org\r\n\r\n".to_owned(),
            "`origins` of the listener",
        ),
    ] {
        let answer = raw(&site, &head).await;
        assert!(answer.contains(words), "{head}: {answer}");
    }
}
