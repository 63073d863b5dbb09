//! Sessions and keys on their page: seen and ended there.

use super::site::Site;
use reqwest::Method;

#[tokio::test]
async fn sessions_and_keys_are_seen_and_ended_on_a_page() {
    let site = Site::start().await;
    let (login, other) = (site.login().await, site.login().await);
    let key = site.key(&["read"]).await;
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str())];
    let reads = async || {
        let answer = site.send(Method::GET, "/api/v1/runs", &headers, &[]).await;
        answer.status
    };
    assert_eq!(reads().await, 200, "the control");
    let page = site.get(&login, "/access").await.body;
    assert!(
        page.contains("this one") && page.contains("a test"),
        "{page}"
    );
    assert!(!page.contains(&key), "no secret");
    let forms = |page: &str, end: &str| -> Vec<String> {
        let actions = page.split("action=\"").skip(1);
        let paths = actions.filter_map(|rest| rest.split('"').next());
        let ours = paths.filter(|path| path.ends_with(end));
        ours.map(str::to_owned).collect()
    };
    let revoke = forms(&page, "/revoke").remove(0);
    assert_eq!(site.post(&login, &revoke, &[]).await.status, 303);
    assert_eq!(reads().await, 401);
    assert_eq!(site.post(&login, &revoke, &[]).await.status, 409, "once");
    for end in forms(&page, "/end") {
        site.post(&login, &end, &[]).await;
    }
    assert_eq!(site.get(&other, "/").await.status, 401);
    assert_eq!(site.get(&login, "/").await.status, 401, "its own, too");
}
