//! What a letter is about is recalled, by the tool and beside the input; and nothing else.

use super::scene::MemoryScene;
use crate::approvals::scene::{CONTACT, OWNER};
use attache::domain::MemoryStatus;
use serde_json::Value;

const BOB: &str = "Bob <bob@evil.test>";

/// Things of one person, the first of which does not fit `contact-memory` any more when the last is said.
fn things() -> Vec<String> {
    let first = "The violin of Carol's daughter was repaired by Mr Kowalski in Bonn.".to_owned();
    let others = (0..10).map(|n: u64| {
        let word = |k: u64| {
            format!(
                "w{}",
                (n * 50 + k).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
            )
        };
        format!(
            "Carol says {}.",
            (0..35).map(word).collect::<Vec<_>>().join(" ")
        )
    });
    std::iter::once(first).chain(others).collect()
}

impl MemoryScene {
    /// Entries of the report of a run by the step `recall`: outcome, reason and tokens.
    async fn recalled(&self, run: &str) -> (String, String, u64) {
        let app = &self.scene.world.app;
        let sql = "SELECT context_report_json FROM runs WHERE id = $1";
        let report = app.row(sql, run).await[0].clone().expect("a report");
        let report: Value = serde_json::from_str(&report).expect("json");
        let steps = report["entries"].as_array().expect("steps").clone();
        let step = steps.into_iter().find(|step| step["resolver"] == "recall");
        let step = step.expect("the step");
        let text = |name: &str| step[name].as_str().unwrap_or_default().to_owned();
        (
            text("outcome"),
            text("why"),
            step["tokens"].as_u64().unwrap_or(0),
        )
    }

    async fn with_things() -> Self {
        let scene = Self::start().await;
        for (number, thing) in things().iter().enumerate() {
            scene.tells(CONTACT, &format!("t{number}"), thing).await;
        }
        let entries = scene.entries().await;
        let active = entries
            .iter()
            .filter(|entry| entry.status == MemoryStatus::Active);
        assert_eq!(active.count(), things().len());
        scene
    }
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_did_not_fit_is_recalled_when_the_letter_is_about_it() {
    let scene = MemoryScene::with_things().await;
    let about = scene
        .writes(CONTACT, "q1", "", "Who repaired my daughter's violin?")
        .await;
    let (outcome, why, tokens) = scene.recalled(&about).await;
    assert_eq!(outcome, "used", "{why}");
    assert!(tokens > 0 && tokens <= 400, "{tokens}");
    let prompt = scene.prompt(&about).await;
    let line = format!("(fact): {}", things()[0]);
    assert_eq!(prompt.matches(&line).count(), 1, "{prompt}");
    // A letter about nothing of it brings nothing.
    let other = scene
        .writes(CONTACT, "q2", "", "Is the office open on Monday morning?")
        .await;
    assert_eq!(
        scene.recalled(&other).await,
        ("empty".into(), "nothing relevant".into(), 0)
    );
    assert!(!scene.prompt(&other).await.contains("Kowalski"));
    // Another contact and the owner have nothing of Carol's.
    for (from, id) in [(BOB, "q3"), (OWNER, "q4")] {
        let run = scene.writes(from, id, "", "Who repaired the violin?").await;
        assert_eq!(scene.recalled(&run).await.0, "empty");
        assert!(!scene.prompt(&run).await.contains("Kowalski"), "{from}");
    }
    scene.scene.world.app.check().await;
}

#[tokio::test]
async fn a_small_memory_is_shown_once_and_the_tool_finds_by_the_same_scores() {
    let scene = MemoryScene::start().await;
    scene
        .tells(CONTACT, "m1", "Carol always takes the early train to Bonn.")
        .await;
    scene
        .tells(CONTACT, "m2", "Rechnungen: 发票号码 INV-2026/0042.")
        .await;
    let run = scene
        .writes(CONTACT, "m3", "", "Which train do you mean?")
        .await;
    assert_eq!(
        scene.recalled(&run).await,
        ("empty".into(), "there is nothing more in memory".into(), 0)
    );
    assert_eq!(scene.prompt(&run).await.matches("early train").count(), 1);
    let entries = scene.entries().await;
    let entries: Vec<_> = entries.iter().collect();
    let found = |query: &str| -> Vec<String> {
        let about = attache::store::entries_about(&entries, query, 5);
        about.iter().map(|entry| entry.shown_id()).collect()
    };
    for (query, wanted) in [
        ("trains", "c1"),
        ("which train does she take", "c1"),
        ("发票", "c2"),
        ("2026/0042", "c2"),
    ] {
        assert_eq!(found(query), [wanted], "{query}");
    }
    for query in ["allergies", "the dentist in Cologne on a Friday", ""] {
        assert_eq!(found(query), [""; 0], "{query}");
    }
    let called = scene
        .writes(CONTACT, "m4", "", "Dear Ada,\r\nrecall: trains to Bonn")
        .await;
    assert!(scene.trace(&called).await.contains(&"ok recall".to_owned()));
    scene.scene.world.app.check().await;
}
