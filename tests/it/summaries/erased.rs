//! Erasure of an entry takes the summaries of its letter along, whatever words they say it in.

use super::{ASKED, correspond, count, letter, small_house};
use crate::app::{PROVEN, TestApp, note};
use attache::replay::verify::Outcome;
use attache::store::{ErasedMemory, MemoryFilter};
use serde_json::json;

/// An engine that concludes something from the first letter, in words that stand in no letter.
async fn concluding() -> TestApp {
    let workspace = small_house(&json!({ "say": "{{text}}" }));
    workspace.write_json(
        "configs/script.json",
        &json!({ "rules": [
            { "when": { "system_contains": ASKED }, "say": "{{text}}" },
            { "when": { "turn": 0, "contains": "boats at dawn please" }, "call": [{ "tool": "remember", "args":
                { "text": "Bob zymotically prefers mornings", "kind": "preference", "source_quote": "boats at dawn please" } }] },
            { "say": "Yes." },
        ] }),
    );
    workspace.start().await
}

#[tokio::test]
#[ignore = "second tier"]
async fn what_was_summarised_of_an_erased_source_goes_and_is_made_anew() {
    let app = concluding().await;
    let first = app.run_of(&letter(0, "No, boats at dawn please.")).await;
    app.drain().await;
    let runs = correspond(&app, 1, 6).await;
    let other = note("other@guest.example", PROVEN, "The kiln is hot.");
    let other = app.run_of(&other).await;
    app.drain().await;
    let cited = "SELECT count(*) FROM thread_memory WHERE text LIKE '%at dawn please%'";
    assert!(count(&app, cited).await > 0, "nothing was summarised");
    let kept =
        "SELECT count(*) FROM contents WHERE instr(bytes, CAST('at dawn please' AS BLOB)) > 0";
    assert!(count(&app, kept).await > 0, "no run was shown it");

    let store = &app.engine.store;
    let filter = MemoryFilter {
        limit: 10,
        ..MemoryFilter::default()
    };
    let entries = store.memory_entries(&filter).await.expect("entries");
    assert_eq!(entries.len(), 1);
    let erased: ErasedMemory = store
        .erase_memory(&[entries[0].id.clone()], "uid 7")
        .await
        .expect("erased");
    assert!(erased.summaries > 0, "{erased:?}");
    assert_eq!(count(&app, "SELECT count(*) FROM thread_memory").await, 0);
    assert_eq!(count(&app, kept).await, 0, "a run's source has it");

    let (mut redacted, mut summarised) = (Vec::new(), 0);
    for verified in app.workspace.verified().await {
        let is_redacted = matches!(verified.outcome, Outcome::Redacted { .. });
        let is_identical = matches!(verified.outcome, Outcome::Identical { .. });
        assert!(is_redacted || is_identical, "{verified:?}");
        if is_redacted {
            summarised += i32::from(!runs.contains(&verified.run) && verified.run != first);
            redacted.push(verified.run);
        }
    }
    assert!(
        summarised > 0,
        "the run that made it keeps it: {redacted:?}"
    );
    assert!(redacted.contains(&first), "its call says it: {redacted:?}");
    let last = runs.last().expect("a run");
    assert!(redacted.contains(last), "it was shown it: {redacted:?}");
    assert!(!redacted.contains(&other), "another thread: {redacted:?}");

    correspond(&app, 7, 2).await;
    assert!(count(&app, cited).await > 0, "the letters are there still");
    app.check().await;
}
