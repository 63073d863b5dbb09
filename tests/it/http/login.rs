//! One-time codes, sessions and their ends.

use super::site::{LISTENER, Site, cookie};
use attache::http::{ROUTES, RouteAccess, RouteBody, RouteMethod};
use reqwest::Method;
use std::time::Duration;

async fn code(site: &Site, listener: &str) -> String {
    let store = &site.scene.world.app.engine.store;
    let code: String = store.clock().new_secret().chars().take(12).collect();
    let added = store.add_web_login(&code, listener, "uid 0").await;
    added.expect("a code");
    code
}

#[tokio::test]
async fn a_code_works_once_within_its_minute_and_at_its_own_listener() {
    let site = Site::start().await;
    let clock = &site.scene.world.app.workspace.clock;
    let first = code(&site, LISTENER).await;
    // As it is printed, or as a hand types it.
    let typed = format!(" {}-{} ", first[..4].to_uppercase(), &first[4..]);
    let answer = site.enter(&typed).await;
    assert_eq!(answer.status, 303, "{}", answer.body);
    let set = answer.header("set-cookie");
    assert!(
        set.contains("; HttpOnly")
            && set.contains("; SameSite=Strict")
            && set.contains("; Path=/;"),
        "{set}"
    );
    assert!(!set.contains("Secure"), "not over plain loopback: {set}");
    assert_eq!(answer.header("location"), "/");
    assert_eq!(site.enter(&first).await.status, 400, "used up");

    let late = code(&site, LISTENER).await;
    clock.advance(Duration::from_secs(60));
    assert_eq!(site.enter(&late).await.status, 400, "a minute is over");
    let other = code(&site, "127.0.0.1:9").await;
    assert_eq!(
        site.enter(&other).await.status,
        400,
        "made for another listener"
    );
    assert_eq!(site.enter("").await.status, 400);
}

#[tokio::test]
async fn whoever_guesses_waits_even_on_loopback() {
    let site = Site::start().await;
    let clock = &site.scene.world.app.workspace.clock;
    for _ in 0..10 {
        assert_eq!(site.enter("000000000000").await.status, 400);
    }
    let good = code(&site, LISTENER).await;
    let answer = site.enter(&good).await;
    assert_eq!(answer.status, 429, "a good code, too: {}", answer.body);
    assert_eq!(answer.header("retry-after"), "61");
    clock.advance(Duration::from_secs(61));
    let good = code(&site, LISTENER).await;
    assert_eq!(site.enter(&good).await.status, 303);
}

#[tokio::test]
async fn a_session_ends_when_it_idles_when_it_is_old_and_when_it_is_revoked() {
    let site = Site::start().await;
    let (store, clock) = (
        &site.scene.world.app.engine.store,
        &site.scene.world.app.workspace.clock,
    );
    let idle = site.login().await;
    clock.advance(Duration::from_secs(11 * 3600));
    assert_eq!(site.get(&idle, "/").await.status, 200);
    clock.advance(Duration::from_secs(11 * 3600));
    assert_eq!(site.get(&idle, "/").await.status, 200, "its use counts");
    clock.advance(Duration::from_secs(12 * 3600));
    assert_eq!(
        site.get(&idle, "/").await.status,
        401,
        "twelve hours without use"
    );

    let old = site.login().await;
    for _ in 0..15 {
        clock.advance(Duration::from_secs(11 * 3600));
        assert_eq!(site.get(&old, "/").await.status, 200);
    }
    clock.advance(Duration::from_secs(3 * 3600));
    assert_eq!(site.get(&old, "/").await.status, 401, "seven days");

    let revoked = site.login().await;
    let sessions = store.web_sessions(1).await.expect("sessions");
    assert!(
        store
            .end_web_session(&sessions[0].id, "cli")
            .await
            .expect("ended")
    );
    assert_eq!(site.get(&revoked, "/").await.status, 401);
    let row = site.scene.world.app.row("SELECT decision || ':' || rule FROM audit_log WHERE subject_id = $1 ORDER BY seq DESC LIMIT 1", &sessions[0].id);
    assert_eq!(row.await[0].as_deref(), Some("logout:cli"));
}

#[tokio::test]
async fn logging_out_ends_the_session_and_forgets_the_cookie() {
    let site = Site::start().await;
    let login = site.login().await;
    let answer = site.post(&login, "/logout", &[]).await;
    assert_eq!((answer.status, answer.header("location")), (303, "/login"));
    assert!(
        cookie(&answer).ends_with('='),
        "{}",
        answer.header("set-cookie")
    );
    assert!(answer.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(site.get(&login, "/").await.status, 401);
}

#[tokio::test]
async fn the_login_page_leads_back_to_where_one_wanted_to_go() {
    let site = Site::start().await;
    let page = site.send(Method::GET, "/?state=failed", &[], &[]).await;
    assert_eq!(page.status, 401);
    assert!(
        page.body
            .contains("name=\"next\" value=\"&#x2f;?state=failed\""),
        "{}",
        page.body
    );
    assert_eq!(
        page.header("www-authenticate"),
        "",
        "no browser asks for a password"
    );
    assert_eq!(page.header("referrer-policy"), "same-origin");
}

#[tokio::test]
async fn under_tls_the_cookie_is_bound_to_its_host_and_plain_requests_get_nothing() {
    let site = Site::under_tls().await;
    let login = site.login().await;
    assert!(
        login.cookie.starts_with("__Host-attache="),
        "{}",
        login.cookie
    );
    let code = code(&site, LISTENER).await;
    let set = site.enter(&code).await.header("set-cookie").to_owned();
    assert!(
        set.contains("; Secure") && set.contains("; HttpOnly"),
        "{set}"
    );
    assert_eq!(site.get(&login, "/").await.status, 200);
    let plain = attache::web::http_client()
        .no_proxy()
        .build()
        .expect("a client");
    let asked = plain
        .get(format!("http://{}/login", site.address))
        .send()
        .await;
    assert!(asked.is_err(), "a plain request was answered");
}

#[tokio::test]
async fn an_action_after_the_end_of_a_session_says_so_and_leads_back_to_its_page() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    site.post(&login, "/logout", &[]).await;
    let mut forms = 0;
    for route in ROUTES
        .iter()
        .filter(|route| route.access == RouteAccess::Session && route.body == RouteBody::Form)
    {
        let path = route.path.replace("{id}", "ada");
        let answer = site.post(&login, &path, &[("name", "PERSONA.md")]).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(
            answer
                .body
                .contains("Your session had ended; nothing was changed"),
            "{path}: {}",
            answer.body
        );
        let next = next(&answer.body);
        let page = next.split('?').next().unwrap_or_default();
        let leads = ROUTES.iter().any(|route| {
            route.method == RouteMethod::Get && route.path.replace("{id}", "ada") == page
        });
        assert!(leads, "{path} leads to {next}");
        forms += 1;
    }
    assert!(forms > 20, "{forms}");
}

/// The path that a login page leads to.
fn next(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"next\" value=\"").expect("a form");
    let next = rest.split('"').next().expect("a value");
    next.replace("&#x2f;", "/").replace("&amp;", "&")
}

#[tokio::test]
async fn the_page_that_a_browser_names_is_where_a_login_leads() {
    let site = Site::start().await;
    let origin = site.origin();
    for (sender, leads_to) in [
        ("/memory?status=all", "/memory?status=all"),
        ("/nowhere", "/memory"),
        ("//evil.test", "/memory"),
    ] {
        let referer = format!("{origin}{sender}");
        let headers = [("origin", origin.as_str()), ("referer", referer.as_str())];
        let path = "/memory/x/reject";
        let answer = site.send(Method::POST, path, &headers, &[]).await;
        assert_eq!(next(&answer.body), leads_to, "{sender}");
    }
    let headers = [
        ("origin", origin.as_str()),
        ("referer", "https://evil.test/memory?status=all"),
    ];
    let answer = site
        .send(Method::POST, "/memory/x/reject", &headers, &[])
        .await;
    assert_eq!(next(&answer.body), "/memory", "of another site");
}

#[tokio::test]
async fn what_was_typed_is_not_lost_with_the_session() {
    let site = Site::start().await;
    let login = site.login().await;
    site.post(&login, "/logout", &[]).await;
    let form = [
        ("name", "knowledge/prices.md"),
        ("text", "A bed is <40> EUR."),
    ];
    let answer = site.post(&login, "/personas/ada/file", &form).await;
    assert!(
        answer.body.contains("A bed is &lt;40&gt; EUR.</textarea>"),
        "{}",
        answer.body
    );
    let next = next(&answer.body);
    assert_eq!(next, "/personas/ada/file?name=knowledge%2Fprices.md");
    // Another site gets nothing reflected.
    let headers = [("origin", "https://evil.test")];
    let other = site
        .send(Method::POST, "/personas/ada/file", &headers, &form)
        .await;
    assert_eq!(other.status, 403);
    assert!(!other.body.contains("A bed"), "{}", other.body);
}

#[tokio::test]
async fn a_page_that_shows_mail_is_not_kept_by_a_browser() {
    let site = Site::start().await;
    let login = site.login().await;
    for path in ["/", "/approvals", "/memory", "/nowhere"] {
        let page = site.get(&login, path).await;
        assert_eq!(page.header("cache-control"), "private, no-store", "{path}");
    }
}

#[tokio::test]
async fn a_code_that_is_not_good_leaves_a_field_for_another() {
    let site = Site::start().await;
    let origin = site.origin();
    let headers = [("origin", origin.as_str())];
    let form = [("code", "000000000000"), ("next", "/usage")];
    let answer = site.send(Method::POST, "/login", &headers, &form).await;
    assert_eq!(answer.status, 400);
    for words in [
        "This code is not good here",
        "id=\"login\"",
        "name=\"code\"",
    ] {
        assert!(answer.body.contains(words), "no {words}: {}", answer.body);
    }
    assert_eq!(next(&answer.body), "/usage");
    for _ in 0..9 {
        site.enter("000000000000").await;
    }
    let waits = site.send(Method::POST, "/login", &headers, &form).await;
    assert_eq!(waits.status, 429);
    assert!(
        waits
            .body
            .contains("Too many failed attempts: wait 61 seconds."),
        "{}",
        waits.body
    );
    assert_eq!(next(&waits.body), "/usage");
    let script = site.send(Method::GET, &script(&waits.body), &[], &[]).await;
    assert!(
        script.body.contains("hashchange"),
        "a second link in one tab"
    );
}

fn script(page: &str) -> String {
    let (_, rest) = page.split_once("<script src=\"").expect("a script");
    rest.split('"')
        .next()
        .expect("a path")
        .replace("&#x2f;", "/")
}

#[tokio::test]
async fn failures_of_one_kind_refuse_nobody_who_is_good() {
    let site = Site::start().await;
    let login = site.login().await;
    let good = format!("Bearer {}", site.key(&["read"]).await);
    let path = "/api/v1/runs";
    for _ in 0..10 {
        site.enter("000000000000").await;
    }
    assert_eq!(site.enter("000000000000").await.status, 429, "the control");
    let key = [("authorization", good.as_str())];
    assert_eq!(site.send(Method::GET, path, &key, &[]).await.status, 200);
    assert_eq!(site.get(&login, "/").await.status, 200);

    let clock = &site.scene.world.app.workspace.clock;
    clock.advance(Duration::from_secs(61));
    let wrong = [("authorization", "Bearer att_0000")];
    for _ in 0..10 {
        let refused = site.send(Method::GET, path, &wrong, &[]).await;
        assert_eq!(refused.status, 401);
    }
    let refused = site.send(Method::GET, path, &wrong, &[]).await;
    assert_eq!(refused.status, 429, "the control");
    assert_eq!(site.send(Method::GET, path, &key, &[]).await.status, 200);
    let code = code(&site, LISTENER).await;
    assert_eq!(site.enter(&code).await.status, 303);
}

#[tokio::test]
async fn errors_with_a_session_keep_the_navigation_and_lead_back() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let missing = site.get(&login, "/t/nowhere").await;
    assert_eq!(missing.status, 404);
    for words in [
        "<title>There is no such thread. · Attaché</title>",
        "aria-label=\"Pages\"",
        "Back to the inbox",
    ] {
        assert!(missing.body.contains(words), "no {words}: {}", missing.body);
    }
    let nowhere = site.get(&login, "/nowhere").await;
    assert_eq!(nowhere.status, 404);
    assert!(nowhere.body.contains("aria-label=\"Pages\""));
    let stranger = site.send(Method::GET, "/nowhere", &[], &[]).await;
    assert!(!stranger.body.contains("aria-label=\"Pages\""));

    let words = "Friday, please.";
    let form = [("words", words), ("sha256", "0")];
    let late = site.post(&login, "/approvals/nowhere/answer", &form).await;
    assert_eq!(late.status, 404, "{}", late.body);
    for words in [
        "href=\"&#x2f;approvals\">Back to where you were",
        "Friday, please.</textarea>",
    ] {
        assert!(late.body.contains(words), "no {words}: {}", late.body);
    }
    let long = "x".repeat(1_100_000);
    let large = site
        .post(&login, "/approvals/nowhere/answer", &[("words", &long)])
        .await;
    assert_eq!(large.status, 413);
    assert!(large.body.contains("1.0 MB is the most"), "{}", large.body);
    assert!(large.body.contains("aria-label=\"Pages\""));
}

#[tokio::test]
async fn a_method_that_a_path_does_not_take_is_told_in_the_shape_of_the_path() {
    let site = Site::start().await;
    let login = site.login().await;
    let page = site.get(&login, "/logout").await;
    assert_eq!((page.status, page.header("allow")), (405, "POST"));
    assert!(page.header("content-type").starts_with("text/html"));
    assert!(page.body.contains("it takes POST"), "{}", page.body);
    let api = site.send(Method::PUT, "/api/v1/runs", &[], &[]).await;
    assert_eq!(api.status, 405);
    assert_eq!(api.json()["error"]["code"], "wrong_method", "{}", api.body);
}

#[tokio::test]
async fn a_good_key_is_told_why_a_page_does_not_take_it() {
    let site = Site::start().await;
    let key = format!("Bearer {}", site.key(&["read", "admin"]).await);
    let headers = [("authorization", key.as_str())];
    for path in ["/approvals/x/approve", "/halt"] {
        let answer = site.send(Method::POST, path, &headers, &[]).await;
        assert_eq!(answer.status, 403, "{path}");
        assert!(
            answer.body.contains("the session of a browser"),
            "{}",
            answer.body
        );
    }
    // What a proxy in front wants to know is no key.
    let login = site.login().await;
    let headers = [
        ("authorization", "Basic eDp5"),
        ("cookie", login.cookie.as_str()),
    ];
    let page = site.send(Method::GET, "/", &headers, &[]).await;
    assert_eq!(page.status, 200);
}
