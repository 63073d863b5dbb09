//! The page of HTML: hostile text of mails, models and tools is text in it and nothing else.
//!
//! It is read by html5ever, as browsers read, and by Python's `html.parser`, where there is one.

use super::play;
use crate::app::TestApp;
use attache::replay::{RunRecord, ThreadRecord, html, load_thread};
use serde_json::json;
use std::collections::BTreeSet;
use std::process::Command;

/// What somebody would write who wants to be more than text.
const HOSTILE: &str = "</pre></section></style></title></textarea><script>alert(1)</script><img src=//x.example/p.png onerror=alert(2)>\n\
    <style>*{background:url(https://x.example/t)}</style><base href=//x.example><meta http-equiv=refresh content=0>\n\
    --><!-- <svg/onload=alert(3)> ]]> <a href=\"javascript:alert(4)\">x</a> &lt;b&gt; &#60;i> \u{202e}txt.exe\u{202c}\u{2066} \u{7}\u{1b}[2J\u{0}\n\
    ' onmouseover='alert(5) \" autofocus onfocus=\"alert(6)<iframe src=data:text/html,x><form action=//x.example>";
/// Every element that the page is made of; none that can fetch, send or run.
const ELEMENTS: &[&str] = &[
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "section", "span", "p", "dl",
    "dt", "dd", "pre", "details", "summary", "div", "table", "thead", "tbody", "tr", "th", "td",
];
const PYTHON: &str = r#"
import sys, json
from html.parser import HTMLParser
class P(HTMLParser):
    found = []
    def handle_starttag(self, tag, attributes): self.found.append([tag, attributes])
p = P(); p.feed(open(sys.argv[1], encoding="utf-8").read()); p.close()
print(json.dumps(p.found))
"#;

async fn hostile() -> (TestApp, RunRecord) {
    let case = json!({
        "letter": HOSTILE,
        "script": { "turns": [
            { "call": [{ "tool": "search_email", "args": { "query": HOSTILE } }, { "tool": "search_email", "args": {} }] },
            { "say": HOSTILE },
        ]},
    });
    let (app, mut record) = play(&case).await;
    // What no case can bring here, because the door or a provider refuses it first.
    record.trigger.subject = HOSTILE.into();
    record.trigger.sender = HOSTILE.into();
    record.run.persona = HOSTILE.into();
    record.calls[0].tool = HOSTILE.into();
    record.calls[0].id = HOSTILE.into();
    record.turns[0].model = HOSTILE.into();
    record.context.as_mut().expect("a report").entries[0].why = Some(HOSTILE.into());
    (app, record)
}

/// What Python found: an attribute may have no value there.
type Found = Vec<(String, Vec<(String, Option<String>)>)>;
type Elements = Vec<(String, Vec<(String, String)>)>;

/// Elements and attributes as html5ever reads them, and the text between them.
fn read(page: &str) -> (Elements, String) {
    let dom = html2text::config::plain()
        .parse_html(page.as_bytes())
        .expect("html5ever reads anything");
    let (mut elements, mut text, mut left) =
        (Vec::new(), String::new(), vec![dom.document.clone()]);
    while let Some(node) = left.pop() {
        if let html2text::Element { name, attrs, .. } = &node.data {
            let attrs = attrs.borrow();
            let attrs = attrs
                .iter()
                .map(|of| (of.name.local.to_string(), of.value.to_string()));
            elements.push((name.local.to_string(), attrs.collect()));
        } else if node.children.borrow().is_empty() {
            text.push_str(
                html2text::RcDom::node_as_dom_string(&node)
                    .trim_start()
                    .trim_start_matches("Text:"),
            );
        }
        left.extend(node.children.borrow().iter().rev().cloned());
    }
    (elements, text)
}

/// Complains about an element or attribute that is not ours, or that refers to anything.
fn check(elements: &Elements) {
    let known: BTreeSet<&str> = ELEMENTS.iter().copied().collect();
    for (element, attributes) in elements {
        assert!(known.contains(element.as_str()), "a stray <{element}>");
        for (name, value) in attributes {
            let is_ours = match (element.as_str(), name.as_str()) {
                ("html", "lang") | ("meta", "charset" | "content") | ("details", "open") => true,
                ("meta", "name") => ["referrer", "viewport"].contains(&value.as_str()),
                ("meta", "http-equiv") => value == "Content-Security-Policy",
                (_, "class") => value.chars().all(|c| c.is_ascii_lowercase()),
                _ => false,
            };
            assert!(
                is_ours && !value.contains(':'),
                "<{element} {name}={value:?}>"
            );
        }
    }
    let of = |wanted: &str| {
        elements
            .iter()
            .filter(|(element, _)| element == wanted)
            .count()
    };
    assert_eq!((of("style"), of("title"), of("body")), (1, 1, 1));
}

#[tokio::test]
async fn no_element_of_the_page_comes_from_a_mail() {
    let (app, record) = hostile().await;
    let thread = attache::domain::ThreadId::new(&record.run.thread);
    let mut of_thread: ThreadRecord = load_thread(&app.engine.store, &thread, 9, 9)
        .await
        .expect("the thread");
    of_thread.runs = vec![record.clone()];
    (of_thread.subject, of_thread.participants) = (HOSTILE.into(), vec![HOSTILE.into()]);
    for page in [
        html::run(&record, false),
        html::run(&record, true),
        html::thread(&of_thread, true),
    ] {
        let (elements, text) = read(&page);
        check(&elements);
        assert!(
            text.contains("<script>alert(1)</script><img src=//x.example/p.png"),
            "the text is there, as text"
        );
        assert!(
            text.contains("&lt;b&gt; &#60;i>"),
            "what was escaped by its writer stays so"
        );
        let style = page
            .split("<style>")
            .nth(1)
            .and_then(|rest| rest.split("</style>").next())
            .expect("a style");
        assert!(
            !style.contains("url(") && !style.contains("@import"),
            "{style}"
        );
        let is_seen = |c: char| {
            c == '\n' || c == '\t' || !(c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c))
        };
        assert!(page.chars().all(is_seen) && !page.contains('\u{2066}'));
        assert!(text.contains("⟨U+202E⟩txt.exe⟨U+202C⟩") && text.contains("⟨U+0007⟩⟨U+001B⟩[2J"));
    }
    let naive = format!("<body><pre>{HOSTILE}</pre>");
    let strays = read(&naive)
        .0
        .iter()
        .filter(|(element, _)| !ELEMENTS.contains(&element.as_str()))
        .count();
    assert!(
        strays >= 3,
        "unescaped, the same text makes elements: the check can fail"
    );
}

#[tokio::test]
#[ignore = "second tier"]
async fn python_reads_the_page_as_html5ever_does() {
    let (_app, record) = hostile().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.html");
    std::fs::write(&file, html::run(&record, true)).expect("a page");
    let output = match Command::new("python3")
        .arg("-c")
        .arg(PYTHON)
        .arg(&file)
        .output()
    {
        Ok(output) => output,
        Err(error) => return eprintln!("SKIPPED: python3 cannot be run here: {error}"),
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let found: Found = serde_json::from_slice(&output.stdout).expect("JSON");
    let plain = |(name, value): (String, Option<String>)| (name, value.unwrap_or_default());
    let found: Elements = found
        .into_iter()
        .map(|(e, a)| (e, a.into_iter().map(plain).collect()))
        .collect();
    check(&found);
    assert_eq!(found.len(), read(&html::run(&record, true)).0.len());
}

#[tokio::test]
async fn the_policy_names_the_one_style_by_its_hash() {
    let (_app, record) = hostile().await;
    let page = html::run(&record, false);
    let style = page
        .split("<style>")
        .nth(1)
        .and_then(|rest| rest.split("</style>").next())
        .expect("a style");
    let hash = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        <sha2::Sha256 as sha2::Digest>::digest(style.as_bytes()),
    );
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
    );
    assert!(page.contains(&policy), "{policy}");
    let (head, body) = page.split_once("<title>").expect("a title");
    assert!(
        head.contains("Content-Security-Policy"),
        "it comes before anything from outside: {body:.80}"
    );
    for needed in [
        "prefers-color-scheme:dark",
        "@media print",
        "width=device-width",
    ] {
        assert!(page.contains(needed), "{needed}");
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_huge_body_is_cut_and_said_and_full_has_all_of_it() {
    let (_app, mut record) = hostile().await;
    record.trigger.text = "<é>".repeat(3_000_000);
    let (short, full) = (html::run(&record, false), html::run(&record, true));
    assert!(short.len() < 8_000_000 && short.contains("more bytes (--full shows all)"));
    assert_eq!(full.matches("&lt;é&gt;").count(), 3_000_000);
    assert!(!full.contains("--full shows all"));
}
