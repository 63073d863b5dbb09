//! Memory on its pages: an erasure has two steps, and an entry says who worded it.

use super::site::{ENTRY, Login, Site, cookie};
use reqwest::Method;
use serde_json::json;

async fn status(site: &Site) -> Vec<Option<String>> {
    let sql = "SELECT status, text FROM memory WHERE id = $1";
    site.scene.world.app.row(sql, ENTRY).await
}

#[tokio::test]
async fn an_erasure_is_shown_before_it_happens_and_survives_a_reload() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let forget = format!("/memory/{ENTRY}/forget");
    let list = site.get(&login, "/memory?status=all").await.body;
    assert!(
        list.contains(&format!("href=\"{forget}?status=all\"")),
        "{list}"
    );
    assert!(
        !list.contains(&format!("action=\"{forget}\"")),
        "one click erases"
    );
    let asked = site.get(&login, &forget).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    for words in ["Erase this for good?", "She likes tea.", "Keep it"] {
        assert!(asked.body.contains(words), "no {words}: {}", asked.body);
    }
    // A page of the time when the button erased at once.
    let unasked = site.post(&login, &forget, &[]).await;
    assert_eq!(
        (unasked.status, unasked.header("location")),
        (303, forget.as_str())
    );
    assert_eq!(status(&site).await[0].as_deref(), Some("active"));

    let form = [("confirmed", "yes"), ("status", "all")];
    let erased = site.post(&login, &forget, &form).await;
    assert_eq!(erased.status, 303, "{}", erased.body);
    assert_eq!(status(&site).await[1].as_deref(), Some(""));
    let at = erased.header("location").to_owned();
    for _ in 0..2 {
        let page = site.get(&login, &at).await;
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(page.body.contains("1 entry is erased"), "{}", page.body);
        assert!(
            page.body
                .contains("href=\"&#x2f;memory?status=all\">Back to the memory"),
            "{}",
            page.body
        );
        for table in ["raw_letters", "approvals.", "_json", "contents"] {
            assert!(!page.body.contains(table), "{table}: {}", page.body);
        }
    }
    let later = site.get(&login, &forget).await.body;
    assert!(later.contains("This entry is erased"), "{later}");
}

#[tokio::test]
async fn a_program_erases_with_one_request() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let origin = site.origin();
    let headers = [
        ("cookie", login.cookie.as_str()),
        ("origin", origin.as_str()),
        ("x-form-token", login.form_token.as_str()),
    ];
    let path = format!("/api/v1/memory/{ENTRY}/forget");
    let done = site.json(Method::POST, &path, &headers, &json!({})).await;
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(done.json()["entries"], 1, "{}", done.body);
    assert_eq!(status(&site).await[1].as_deref(), Some(""));
}

#[tokio::test]
async fn an_entry_says_who_worded_it_and_what_it_rests_on() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let page = site.get(&login, "/memory").await.body;
    assert!(page.contains("written by the owner"), "{page}");
    assert!(!page.contains("said by"), "{page}");
    let form = [("words", "She drinks green tea.")];
    let edited = site
        .post(&login, &format!("/memory/{ENTRY}/edit"), &form)
        .await;
    assert_eq!(edited.status, 303, "{}", edited.body);
    let login = Login {
        cookie: cookie(&edited),
        ..login
    };
    let page = site.get(&login, "/memory").await.body;
    for words in [
        "edited by the owner, from what <bdi dir=\"ltr\">carol@partner.test</bdi>",
        "Before: <bdi>She likes tea.</bdi>",
        "edited by the owner (uid 0)",
    ] {
        assert!(page.contains(words), "no {words}: {page}");
    }
    let found = site.get(&login, "/search?q=green").await.body;
    assert!(found.contains("edited by the owner"), "{found}");
}

#[tokio::test]
async fn the_filter_of_memory_uses_the_words_of_its_entries() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let page = site.get(&login, "/memory?status=active").await.body;
    assert!(
        page.contains("<option value=\"active\" selected>in use</option>"),
        "{page}"
    );
    assert!(
        page.contains("<span class=\"state good\">in use</span>"),
        "{page}"
    );
    assert!(!page.contains(">superseded<"), "{page}");
}
