//! Letters that mean harm to whoever looks at them: nothing of theirs becomes markup of a page, and their HTML stands in a frame
//! that can do nothing. That it does nothing in a browser is shown by `tests/peers/browser.sh` with the same letters.

use super::site::{Page, Site};
use crate::approvals::scene::CONTACT;
use std::path::Path;

/// Behind this line stand those that a program made from a table, for the browser alone.
const MADE: &str = "# Made by ";

/// The payloads that were written by hand, one a line: HTML, with `SINK` for an address that nobody must ask.
fn payloads() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/http/payloads.txt");
    let text = std::fs::read_to_string(path).expect("the payloads");
    let lines = text
        .lines()
        .take_while(|line| !line.starts_with(MADE))
        .filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines
        .map(|line| line.replace("SINK", "http://sink.test:1"))
        .collect()
}

/// Elements and attributes that only a letter could have brought into a page of ours.
fn markup_of_letters(page: &str) -> Vec<&'static str> {
    let lower = page.to_ascii_lowercase();
    let foreign = [
        "<img",
        "<svg onload",
        "<object",
        "<embed",
        "<video",
        "<audio",
        "<base",
        "<style",
        "<math",
        "<marquee",
        "<frame",
        "<applet",
        "http-equiv",
        "srcset",
        "onerror=",
        "onload=\"",
        "onclick=",
        "onfocus=",
        "ontoggle=",
        "<script>",
        "<iframe src=\"http",
        "@import",
        "<a href=\"http",
        "<a href=\"javascript",
        "<form action=\"http",
        "style=",
    ];
    foreign
        .into_iter()
        .filter(|word| contains_markup(&lower, word))
        .collect()
}

/// Reports whether a word stands in a page as markup: what is escaped has no `<`, and no attribute outside a tag.
fn contains_markup(page: &str, word: &str) -> bool {
    page.match_indices(word)
        .any(|(at, _)| match word.starts_with('<') {
            true => true,
            false => {
                let open = page[..at].rfind('<');
                let close = page[..at].rfind('>');
                // Inside a tag of ours, outside the quotes of its attributes.
                open > close
                    && page[open.unwrap_or(0)..at]
                        .matches('"')
                        .count()
                        .is_multiple_of(2)
            }
        })
}

#[test]
fn markup_is_found_where_it_is_and_not_in_text() {
    for (page, found) in [
        ("<p><img src=x></p>", true),
        ("<p>&lt;img src=x onerror=alert(1)&gt;</p>", false),
        ("<p title=\"a onerror=b\">", false),
        ("<p title=\"a\" onerror=b>", true),
        ("<a href=\"javascript:x\">", true),
    ] {
        assert_eq!(!markup_of_letters(page).is_empty(), found, "{page}");
    }
}

/// Asserts what keeps the frame of a letter from doing anything.
fn assert_harmless(frame: &Page) {
    let policy = frame.header("content-security-policy");
    assert_eq!(
        policy,
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; \
             frame-ancestors 'self'"
    );
    for (name, value) in [
        ("cache-control", "private, no-store"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
        ("referrer-policy", "no-referrer"),
        ("x-dns-prefetch-control", "off"),
        ("x-frame-options", "SAMEORIGIN"),
    ] {
        assert_eq!(frame.header(name), value, "{name}");
    }
    let lower = frame.body.to_ascii_lowercase();
    for element in [
        "<link", "<base ", "<base>", "<iframe", "<frame", "<object", "<embed",
    ] {
        assert!(!lower.contains(element), "{element}: {}", frame.body);
    }
    assert_eq!(
        lower.matches("<meta").count(),
        1,
        "our own alone: {}",
        frame.body
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn nothing_of_a_letter_becomes_markup_of_a_page() {
    let site = Site::start().await;
    let login = site.login().await;
    let payloads = payloads();
    assert!(payloads.len() >= 40, "{}", payloads.len());
    for (number, payload) in payloads.iter().enumerate() {
        let id = site.html_letter(&format!("h{number}"), payload).await;
        let app = &site.scene.world.app;
        let thread = app
            .row("SELECT thread_id FROM messages WHERE id = $1", &id)
            .await[0]
            .clone();
        let mut paths = vec![
            format!("/m/{id}"),
            format!("/t/{}", thread.expect("a thread")),
        ];
        let run = app
            .row(
                "SELECT max(id) FROM runs WHERE trigger_message_id = $1",
                &id,
            )
            .await[0]
            .clone();
        if let Some(run) = run {
            paths.extend([format!("/r/{run}"), format!("/r/{run}/context")]);
        }
        for path in paths {
            let page = site.get(&login, &path).await;
            assert_eq!(page.status, 200, "{path}: {payload}");
            assert!(
                page.header("content-security-policy")
                    .starts_with("default-src 'none'; script-src 'self'")
            );
            assert_eq!(
                markup_of_letters(&page.body),
                Vec::<&str>::new(),
                "{path}: {payload}\n{}",
                page.body
            );
        }
        let frame = site.get(&login, &format!("/m/{id}/body.html")).await;
        assert_eq!(frame.status, 200, "{payload}");
        assert_harmless(&frame);
    }
    let inbox = site.get(&login, "/").await;
    assert_eq!(markup_of_letters(&inbox.body), Vec::<&str>::new());
}

#[tokio::test]
async fn header_fields_of_a_letter_are_text_too() {
    let site = Site::start().await;
    let login = site.login().await;
    let eml = site.scene.signed(
        CONTACT,
        "ada@engine.test",
        "head",
        "",
        "<script>alert(1)</script>\u{202e}",
    );
    let eml = eml.replace(
        "Subject: Tuesday",
        "Subject: <img src=x onerror=alert(1)>\"'\u{202e}</title><script>alert(2)</script>",
    );
    let eml = eml.replace("From: Carol ", "From: \"<svg onload=alert(3)> Carol\" ");
    let accepted = site
        .scene
        .deliver(&eml, "ada@engine.test")
        .await
        .expect("taken");
    site.scene.world.app.drain().await;
    let id = accepted.copies[0].message.to_string();
    let thread = site
        .scene
        .world
        .app
        .row("SELECT thread_id FROM messages WHERE id = $1", &id)
        .await[0]
        .clone();
    for path in [
        "/".to_owned(),
        format!("/m/{id}"),
        format!("/t/{}", thread.expect("a thread")),
    ] {
        let page = site.get(&login, &path).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(
            markup_of_letters(&page.body),
            Vec::<&str>::new(),
            "{path}: {}",
            page.body
        );
        assert!(
            !page.body.contains('\u{202e}'),
            "{path}: a character that turns the text around"
        );
        assert!(page.body.contains("⟨U+202E⟩"), "{path}");
        assert_eq!(page.body.matches("</title>").count(), 1, "{path}");
    }
}

#[tokio::test]
async fn files_of_letters_are_saved_and_never_shown() {
    let site = Site::with_a_question().await;
    let login = site.login().await;
    let id = site.html_letter("html2", "<p>Look.</p>").await;
    let file = site.get(&login, &format!("/m/{id}/files/1")).await;
    assert_eq!(file.header("content-type"), "application/octet-stream");
    assert!(
        file.header("content-disposition")
            .starts_with("attachment; filename=\"page.html\""),
        "{}",
        file.header("content-disposition")
    );
    assert!(file.header("content-security-policy").contains("sandbox"));
    assert_eq!(file.body.trim(), "<script>alert(1)</script>");
    for number in ["0", "2", "x", "-1", "..%2f..%2fetc%2fpasswd"] {
        assert_eq!(
            site.get(&login, &format!("/m/{id}/files/{number}"))
                .await
                .status,
            404,
            "{number}"
        );
    }
    let raw = site.get(&login, &format!("/m/{id}/raw")).await;
    assert!(
        raw.header("content-type").starts_with("text/plain"),
        "{}",
        raw.header("content-type")
    );
    assert!(raw.body.contains("<script>alert(1)</script>"));
}
