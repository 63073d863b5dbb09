//! One-time codes, sessions and their ends.

use super::site::{LISTENER, Site, cookie};
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
    let row = site.scene.world.app.row("SELECT decision || ':' || rule FROM audit_log WHERE subject_id = $1 ORDER BY rowid DESC LIMIT 1", &sessions[0].id);
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
    let plain = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client");
    let asked = plain
        .get(format!("http://{}/login", site.address))
        .send()
        .await;
    assert!(asked.is_err(), "a plain request was answered");
}
