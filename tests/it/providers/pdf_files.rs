//! The PDF files of a letter: scans reach every model that takes such files, and a reason stands where one does not.

use super::images::{judges, seen};
use super::photographs::its_file_is_missed;
use super::server::{Reply, Server};
use super::strict::{Strict, say};
use super::threads::{KEYS, look, server, workspace};
use super::{adapter, request};
use crate::app::{TestApp, Workspace, note};
use crate::contexts::report;
use crate::extract::letters::letter;
use crate::extract::made::pdf;
use attache::domain::RunId;
use attache::providers::{
    Block, FileBytes, FileReference, Message, PDF_PAGES_MAX, Parameter, PdfFile, Request, Role,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// Adapters that are sent PDF files.
const TAKE: [&str; 4] = ["anthropic", "openai", "openai-responses", "gemini"];

fn part(pages: u32, bytes: Option<Vec<u8>>) -> PdfFile {
    PdfFile {
        file: FileReference {
            name: "scan.pdf".into(),
            media_type: "application/pdf".into(),
            digest: "2".repeat(64),
            size_bytes: bytes.as_ref().map_or(0, Vec::len) as u64,
        },
        pages,
        tokens: 1_600,
        bytes: bytes.map(FileBytes::from),
    }
}

fn asked(pdf: PdfFile) -> Request {
    let blocks = vec![Block::text("What is this?"), Block::Pdf(pdf)];
    let message = Message {
        role: Role::User,
        blocks,
    };
    Request {
        messages: vec![message],
        ..request("")
    }
}

fn encoded(id: &str, asked: &Request) -> Value {
    let provider = adapter(id, "http://127.0.0.1:9");
    let body = provider.encode_request(asked).expect("sound");
    serde_json::from_str(&body).expect("JSON")
}

#[test]
fn a_pdf_file_is_worded_as_each_vendor_wants() {
    let data = BASE64_STANDARD.encode(b"%PDF-1.4");
    let url = format!("data:application/pdf;base64,{data}");
    let wanted = [
        json!({ "type": "document", "title": "scan.pdf", "cache_control": { "type": "ephemeral" },
            "source": { "type": "base64", "media_type": "application/pdf", "data": data } }),
        json!({ "type": "file", "file": { "filename": "scan.pdf", "file_data": url } }),
        json!({ "type": "input_file", "filename": "scan.pdf", "file_data": url }),
        json!({ "inlineData": { "mimeType": "application/pdf", "data": data } }),
    ];
    let places = [
        "/messages/0/content/1",
        "/messages/1/content/1",
        "/input/0/content/1",
        "/contents/0/parts/1",
    ];
    for ((id, wanted), place) in TAKE.iter().zip(wanted).zip(places) {
        let body = encoded(id, &asked(part(1, Some(b"%PDF-1.4".to_vec()))));
        let mut found = body.pointer(place).cloned().expect(place);
        if let Some(members) = found.as_object_mut().filter(|_| *id == "anthropic") {
            members
                .entry("cache_control")
                .or_insert(json!({ "type": "ephemeral" }));
        }
        assert_eq!(found, wanted, "{id}");
    }
}

#[test]
fn every_judge_takes_a_pdf_file_or_its_sentence_and_refuses_it_damaged() {
    let whole = asked(part(1, Some(b"%PDF-1.4".to_vec())));
    let sentence = "(Attached PDF file, which you cannot see: `scan.pdf`, application/pdf,";
    for (id, check, _) in judges() {
        let body = encoded(id, &whole);
        assert!(check(&seen(id, &body)).is_ok(), "{id}: {body}");
        let takes = TAKE.contains(&id);
        assert_eq!(body.to_string().contains(sentence), !takes, "{id}");
        if takes {
            let damaged = asked(part(1, Some(b"<html>".to_vec())));
            assert!(check(&seen(id, &encoded(id, &damaged))).is_err(), "{id}");
        }
        let without = |parameter| Request {
            without: vec![parameter],
            ..whole.clone()
        };
        // Too many pages, no bytes, refused before: a sentence. Refused images do not concern it.
        for described in [
            asked(part(PDF_PAGES_MAX + 1, Some(b"%PDF-1.4".to_vec()))),
            asked(part(1, None)),
            without(Parameter::Pdf),
        ] {
            let body = encoded(id, &described);
            assert!(body.to_string().contains(sentence), "{id}: {body}");
            assert!(check(&seen(id, &body)).is_ok(), "{id}: {body}");
        }
        let other = encoded(id, &without(Parameter::Images)).to_string();
        assert_eq!(other.contains(sentence), !takes, "{id}");
    }
}

#[test]
fn a_recorded_message_has_a_pdf_files_digest() {
    let recorded = json!({
        "type": "pdf", "name": "scan.pdf", "media_type": "application/pdf",
        "digest": "2".repeat(64), "size_bytes": 8, "pages": 3, "tokens": 1600,
    });
    let block = Block::Pdf(part(3, Some(b"%PDF-1.4".to_vec())));
    assert_eq!(json!(block), recorded);
    let read: Block = serde_json::from_value(recorded).expect("a part");
    let Block::Pdf(read) = read else {
        panic!("it is a PDF file")
    };
    assert_eq!((read.pages, read.bytes), (3, None));
}

/// A file of two pages without text.
fn scan() -> Vec<u8> {
    pdf(&[&[], &[]])
}

/// A letter with a scan, the same again, a printed file, a page of the web in its clothes, and a broken one.
fn scans() -> String {
    let line = "Invoice 4711 of the house by the sea, for three nights with breakfast and a view of the harbour";
    let (scan, printed) = (scan(), pdf(&[&[line, line]]));
    letter(
        "q1@guest.example",
        "What do you read?",
        &[
            ("scan.pdf", "application/pdf", &scan),
            ("again.PDF", "application/octet-stream", &scan),
            ("printed.pdf", "application/pdf", &printed),
            ("page.pdf", "application/pdf", b"<html>obey</html>"),
            ("broken.pdf", "application/pdf", b"%PDF-1.4 and no more"),
        ],
    )
}

/// Entries of the letter's PDF files: the shown ones, and the others with their reasons.
fn entries(report: &Value) -> (Vec<String>, Vec<(String, String)>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = report["entries"].as_array().expect("entries");
    let of_pdf = entries
        .iter()
        .filter(|entry| text(&entry["source"]).starts_with("pdf "));
    let (shown, others): (Vec<&Value>, Vec<&Value>) =
        of_pdf.partition(|entry| entry["outcome"] == "used");
    let why = |entry: &&Value| (text(&entry["source"]), text(&entry["why"]));
    (
        shown.iter().map(|entry| text(&entry["source"])).collect(),
        others.iter().map(why).collect(),
    )
}

#[tokio::test]
#[ignore = "second tier"]
async fn every_model_that_takes_pdf_files_is_sent_the_scan_of_a_letter() {
    let data = BASE64_STANDARD.encode(scan());
    for (provider, _) in KEYS {
        let turns = vec![say("").call("read_file", look()), say("An invoice.")];
        let server = server(provider, turns).await;
        let app = workspace(&[(provider, &server)]).start().await;
        let run = app.run_of(&scans()).await;
        app.drain().await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        let takes = TAKE.contains(provider);
        assert_eq!(server.accepted().len(), 2, "{provider}");
        for body in server.accepted() {
            let found = body.to_string().matches(&data).count();
            assert_eq!(found, usize::from(takes), "{provider}");
        }
        let report = report(&app, &run).await;
        let (shown, others) = entries(&report);
        let note = report["note"].as_str().unwrap_or_default();
        if takes {
            assert_eq!(shown, ["pdf scan.pdf"], "{provider}");
            let [again, printed, page, broken] = &others[..] else {
                panic!("{provider}: {others:?}")
            };
            assert_eq!(again.1, "it is shown already");
            assert_eq!(printed.1, "it has text, which `read_attachment` reads");
            assert_eq!(page.1, "it is no pdf but html");
            assert!(broken.1.contains("damaged"), "{broken:?}");
            let said =
                format!("{provider}/model-of-{provider} is sent `scan.pdf` (2 pages) as it is");
            assert_eq!(note, said);
        } else {
            assert_eq!(shown, Vec::<String>::new(), "{provider}");
            assert_eq!(others.len(), 5, "{provider}: {others:?}");
            let why = "takes no PDF files; `read_attachment` reads its text";
            assert!(
                others.iter().all(|(_, said)| said.contains(why)),
                "{others:?}"
            );
            assert_eq!(note, "", "{provider}");
        }
        the_thread_goes_on(&app, &server, &data).await;
        // Executes every run again, without the server and without a decoder.
        app.check().await;
    }
}

/// The thread goes on in words: a file is sent with its own letter.
async fn the_thread_goes_on(app: &TestApp, server: &Strict, data: &str) {
    let answer = app.sent().remove(0).message_id.expect("an id");
    let header = format!("In-Reply-To: <{answer}>\n");
    app.run_of(&note("q2@guest.example", &header, "And now?"))
        .await;
    app.drain().await;
    let bodies = server.accepted();
    let last = bodies.last().expect("a request").to_string();
    assert!(!last.contains(data) && last.contains("An invoice."));
}

/// Pages of the PDF file that a request to Anthropic holds.
fn seen_pages(body: &str) -> Option<usize> {
    let body: Value = serde_json::from_str(body).ok()?;
    let parts = body["messages"][0]["content"].as_array()?;
    let file = parts.iter().find(|part| part["type"] == "document")?;
    let bytes = BASE64_STANDARD
        .decode(file["source"]["data"].as_str()?)
        .ok()?;
    Some(
        String::from_utf8_lossy(&bytes)
            .matches("/Type /Page ")
            .count(),
    )
}

fn answer(text: &str) -> Reply {
    let events = [
        json!({ "type": "message_start", "message": { "id": "m1", "model": "m", "role": "assistant", "content": [],
            "usage": { "input_tokens": 9, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ];
    let event = |event: &Value| {
        let kind = event["type"].as_str().unwrap_or_default();
        format!("event: {kind}\ndata: {event}\n\n")
    };
    let stream: String = events.iter().map(event).collect();
    Reply::new(200, &[("content-type", "text/event-stream")], &stream)
}

fn by_what_it_sees(body: &str) -> Reply {
    match seen_pages(body) {
        Some(pages) => answer(&format!("I see {pages} pages.")),
        None => answer("I see no file."),
    }
}

async fn asking(server: &Server, pdf_files: Option<&str>) -> TestApp {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    workspace.write(".secrets", &format!("ANTHROPIC_API_KEY={}\n", super::KEY));
    super::threads::restrict(&workspace.path().join(".secrets"));
    let block = json!({ "anthropic": { "base_url": server.url } });
    workspace.set("configs/inference.json", "/providers", block);
    workspace.set("configs/inference.json", "/provider", json!("anthropic"));
    workspace.set("configs/inference.json", "/model", json!("m"));
    if let Some(word) = pdf_files {
        workspace.set("personas/ada/persona.json", "/pdf_files", json!(word));
    }
    workspace.start().await
}

#[tokio::test]
#[ignore = "second tier"]
async fn a_scan_is_answered_by_what_is_on_it_and_the_persona_decides_what_is_sent() {
    for (setting, shown) in [
        (None, vec!["pdf scan.pdf"]),
        (Some("always"), vec!["pdf scan.pdf", "pdf printed.pdf"]),
        (Some("never"), vec![]),
    ] {
        let server = Server::answering(|seen, _| by_what_it_sees(&seen.body)).await;
        let app = asking(&server, setting).await;
        let run = app.run_of(&scans()).await;
        app.drain().await;
        let report = report(&app, &run).await;
        let (found, others) = entries(&report);
        assert_eq!(found, shown, "{others:?}");
        let said = match shown.is_empty() {
            true => "I see no file.",
            false => "I see 2 pages.",
        };
        assert!(app.sent()[0].text.contains(said), "{setting:?}");
        if setting == Some("never") {
            let why = "the persona's `pdf_files` is `never`";
            assert!(others.iter().all(|(_, said)| said == why), "{others:?}");
            let read = "SELECT CAST(count(*) AS TEXT) FROM attachment_texts WHERE $1 = $1";
            assert_eq!(app.row(read, "").await[0].as_deref(), Some("0"));
        }
        app.check().await;
    }
}

#[tokio::test]
async fn a_model_that_refuses_a_pdf_file_is_asked_again_in_words() {
    let server = Server::answering(|seen, _| match seen_pages(&seen.body) {
        Some(_) => {
            let refusal = json!({ "type": "error", "error": { "type": "invalid_request_error",
                "message": "messages.0.content.1.document.source.base64.data: The PDF specified was not valid." } });
            Reply::new(
                400,
                &[("content-type", "application/json")],
                &refusal.to_string(),
            )
        }
        None => answer("I see no file."),
    })
    .await;
    let app = asking(&server, None).await;
    let run = app.run_of(&scans()).await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert_eq!(app.prompts(&run).await.len(), 2);
    let last = app.prompts(&run).await.remove(1).to_string();
    assert!(last.contains("(Attached PDF file, which you cannot see: `scan.pdf`"));
    app.check().await;
}

#[tokio::test]
async fn a_run_that_goes_on_another_day_sends_the_file_again() {
    let server = Server::answering(|seen, before| match before {
        0 => Reply::new(503, &[("retry-after", "7200")], "busy"),
        _ => by_what_it_sees(&seen.body),
    })
    .await;
    let app = asking(&server, None).await;
    let run = app.run_of(&scans()).await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "waiting_retry");
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(8000));
    app.drain().await;
    assert!(app.sent()[0].text.contains("I see 2 pages."));
    app.check().await;
}

#[tokio::test]
async fn a_run_whose_pdf_file_was_pruned_says_so_instead_of_differing() {
    let server = Server::answering(|_, _| answer("An invoice.")).await;
    let app = asking(&server, None).await;
    let run = RunId::new(app.run_of(&scans()).await);
    app.drain().await;
    its_file_is_missed(&app, &run).await;
}
