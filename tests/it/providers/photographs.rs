//! The images of a letter reach every model that takes them, and a sentence every other one.

use super::server::{Reply, Server};
use super::strict::say;
use super::threads::{KEYS, look, server, workspace};
use crate::app::{TestApp, Workspace, note};
use crate::contexts::report;
use crate::extract::letters::letter;
use crate::extract::made::png;
use attache::domain::RunId;
use attache::runs::record::as_of::{AsOf, AsOfError};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// A letter with a photograph, an ornament of its signature, a picture of too many pixels, and something else in its clothes.
fn photographs() -> String {
    let (photo, ornament, wall) = (png(640, 480), png(12, 12), png(9_000, 10));
    letter(
        "q1@guest.example",
        "What do you see?",
        &[
            ("photo.png", "image/png", &photo),
            ("again.png", "image/png", &photo),
            ("logo.png", "image/png", &ornament),
            ("wall.png", "image/png", &wall),
            ("page.jpg", "image/jpeg", b"<html>obey</html>"),
        ],
    )
}

const LEFT_OUT: [&str; 4] = [
    "image again.png: it is shown already",
    "image logo.png: 12 x 12 pixels are an ornament",
    "image wall.png: 9000 x 10 pixels are too many",
    "image page.jpg: it is no png, jpeg, gif or webp with a readable header",
];

/// Entries of the letter's images in the report: `source` of the shown ones, and `source: why` of the others.
fn images(report: &Value) -> (Vec<String>, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entries = report["entries"].as_array().expect("entries");
    let of_images = entries
        .iter()
        .filter(|entry| text(&entry["source"]).starts_with("image "));
    let (shown, others): (Vec<&Value>, Vec<&Value>) =
        of_images.partition(|entry| entry["outcome"] == "used");
    (
        shown.iter().map(|entry| text(&entry["source"])).collect(),
        others
            .iter()
            .map(|entry| format!("{}: {}", text(&entry["source"]), text(&entry["why"])))
            .collect(),
    )
}

#[tokio::test]
#[ignore = "second tier"]
async fn every_model_that_takes_images_is_shown_the_photograph_of_a_letter() {
    let photo = BASE64_STANDARD.encode(png(640, 480));
    for (provider, _) in KEYS {
        let turns = vec![say("").call("read_file", look()), say("A house.")];
        let server = server(provider, turns).await;
        let app = workspace(&[(provider, &server)]).start().await;
        let run = app.run_of(&photographs()).await;
        app.drain().await;
        assert_eq!(server.refused(), Vec::<String>::new(), "{provider}");
        let takes = !provider.starts_with("compat:");
        for body in server.accepted() {
            let body = body.to_string();
            assert_eq!(
                body.matches(&photo).count(),
                usize::from(takes),
                "{provider}"
            );
            let sentence = "(Attached image, which you cannot see: `photo.png`, image/png,";
            assert_eq!(body.contains(sentence), !takes, "{provider}");
        }
        assert_eq!(server.accepted().len(), 2, "{provider}");
        let report = report(&app, &run).await;
        let (shown, left_out) = images(&report);
        assert_eq!(shown, ["image photo.png"], "{provider}");
        assert_eq!(left_out, LEFT_OUT, "{provider}");
        let note = report["note"].as_str().unwrap_or_default();
        assert_eq!(
            note.contains("takes no images"),
            !takes,
            "{provider}: {note}"
        );
        // The thread goes on in words: an image is sent with its own letter.
        let answer = app.sent().remove(0).message_id.expect("an id");
        let reply = note_to(&answer);
        app.run_of(&reply).await;
        app.drain().await;
        let bodies = server.accepted();
        let last = bodies.last().expect("a request").to_string();
        assert!(
            !last.contains(&photo) && last.contains("A house."),
            "{provider}"
        );
        // Executes every run again, without the server.
        app.check().await;
    }
}

fn note_to(answer: &str) -> String {
    let header = format!("In-Reply-To: <{answer}>\n");
    note("q2@guest.example", &header, "And now?")
}

/// Reads the size out of the header of the image that a request to Ollama holds.
fn seen_size(body: &str) -> Option<(u32, u32)> {
    let body: Value = serde_json::from_str(body).ok()?;
    let messages = body["messages"].as_array()?;
    let image = messages
        .iter()
        .find_map(|message| message["images"][0].as_str())?;
    let bytes = BASE64_STANDARD.decode(image).ok()?;
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    Some((number(16)?, number(20)?))
}

fn answer(text: &str) -> Reply {
    let said =
        json!({ "model": "m", "message": { "role": "assistant", "content": text }, "done": false });
    let end = json!({ "model": "m", "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": "stop",
        "prompt_eval_count": 5, "eval_count": 2 });
    Reply::lines(&format!("{said}\n{end}\n"))
}

async fn asking(server: &Server) -> TestApp {
    let workspace = Workspace::new(&json!({ "turns": [] }));
    let block = json!({ "ollama": { "base_url": server.url, "context_tokens": 32768 } });
    workspace.set("configs/inference.json", "/providers", block);
    workspace.set("configs/inference.json", "/provider", json!("ollama"));
    workspace.set("configs/inference.json", "/model", json!("m"));
    workspace.start().await
}

/// An engine that has answered a letter with a photograph, by a model that reads the size of what it is shown.
pub async fn seen() -> (TestApp, Server) {
    let server = Server::answering(|seen, _| match seen_size(&seen.body) {
        Some((width, height)) => answer(&format!("I see {width} by {height} pixels.")),
        None => answer("I see nothing."),
    })
    .await;
    let app = asking(&server).await;
    app.run_of(&photographs()).await;
    app.drain().await;
    assert!(app.sent()[0].text.contains("I see 640 by 480 pixels."));
    (app, server)
}

#[tokio::test]
async fn a_photograph_is_answered_by_what_is_on_it() {
    let (app, _server) = seen().await;
    app.check().await;
}

#[tokio::test]
async fn a_model_that_refuses_images_is_asked_again_in_words() {
    let server = Server::answering(|seen, _| match seen_size(&seen.body) {
        Some(_) => {
            let refusal = json!({ "error": "image input is not supported by this model" });
            Reply::new(
                400,
                &[("content-type", "application/json")],
                &refusal.to_string(),
            )
        }
        None => answer("I cannot see it."),
    })
    .await;
    let app = asking(&server).await;
    let run = app.run_of(&photographs()).await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "succeeded");
    assert!(app.sent()[0].text.contains("I cannot see it."));
    assert_eq!(app.prompts(&run).await.len(), 2);
    app.check().await;
}

#[tokio::test]
async fn a_run_that_goes_on_another_day_shows_the_image_again() {
    let server = Server::answering(|seen, before| match (before, seen_size(&seen.body)) {
        (0, _) => {
            let call = json!({ "function": { "name": "list_files", "arguments": {} } });
            let said = json!({ "model": "m", "message": { "role": "assistant", "content": "", "tool_calls": [call] }, "done": true,
                "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 2 });
            Reply::lines(&format!("{said}\n"))
        }
        (1, _) => Reply::new(503, &[("retry-after", "7200")], "busy"),
        (_, Some((width, height))) => answer(&format!("I see {width} by {height} pixels.")),
        (_, None) => answer("I see nothing."),
    })
    .await;
    let app = asking(&server).await;
    let run = app.run_of(&photographs()).await;
    app.drain().await;
    assert_eq!(app.outcome(&run).await.0, "waiting_retry");
    app.workspace
        .clock
        .advance(std::time::Duration::from_secs(8000));
    app.drain().await;
    assert!(app.sent()[0].text.contains("I see 640 by 480 pixels."));
    app.check().await;
}

#[tokio::test]
async fn a_run_whose_image_was_pruned_says_so_instead_of_differing() {
    let server = Server::answering(|_, _| answer("A house.")).await;
    let app = asking(&server).await;
    let run = RunId::new(app.run_of(&photographs()).await);
    app.drain().await;
    its_file_is_missed(&app, &run).await;
}

/// Prunes the files of a finished run, whose context then says so.
pub async fn its_file_is_missed(app: &TestApp, run: &RunId) {
    let contexts = || AsOf::of_run(&app.engine.store, run);
    assert!(contexts().await.is_ok(), "the control");
    let prune = "UPDATE attachments SET bytes = CAST('' AS BLOB), encoding = NULL, pruned_at = $1 RETURNING id";
    app.row(prune, "2026-11-22T00:00:00.000Z").await;
    let pruned = contexts().await.expect_err("a file is gone");
    assert!(matches!(pruned, AsOfError::Pruned(..)), "{pruned}");
}
