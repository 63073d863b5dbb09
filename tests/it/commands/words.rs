//! Words that a list prints are words that one may ask it for, and lists show what waits for their reader.

use crate::app::{TestApp, db};
use crate::guest_house::GuestHouse;
use attache::domain::{MemoryStatus, RunState};
use attache::store::DeliveryState;
use serde_json::{Value, json};

#[test]
fn every_state_that_a_list_prints_can_be_asked_for() {
    let house = GuestHouse::new();
    house.ok(&["ingest", "configs/demo/letter.eml"]);
    let mut asked = 0;
    let runs = RunState::ALL
        .iter()
        .map(|state| ("runs", "--state", state.as_str()));
    let mails = DeliveryState::ALL
        .iter()
        .map(|state| ("outbox", "--state", state.as_str()));
    let memory = MemoryStatus::ALL
        .iter()
        .map(|status| ("memory", "--status", status.as_str()));
    for (list, flag, word) in runs.chain(mails).chain(memory) {
        let said = house.run(&[list, "list", flag, word]);
        assert_eq!(said.code, 0, "{list} list {flag} {word}: {}", said.stderr);
        asked += 1;
    }
    assert!(asked > 18, "only {asked} words were asked for");
    let queued = house.json(&["runs", "list", "--state", "waiting_approval,queued"]);
    assert_eq!(queued.as_array().map(Vec::len), Some(1), "{queued}");
}

#[tokio::test]
async fn memory_that_waits_for_its_owner_is_listed_as_on_the_page() {
    let app = TestApp::start(json!([])).await;
    let remember = "INSERT INTO memory (id, persona_id, scope, scope_key, number, kind, text, text_sha256, status, trust,
          readers_json, audience_json, said_by, said_at, created_at, created_by, confirmed_at)
        VALUES ($1, 'ada', 'contact', 'carol@partner.test', $2, 'fact', $1, $1, $3, 'contact', '\"everyone\"', 'null',
          'carol@partner.test', '2026-11-20T09:00:00.000Z', '2026-11-20T09:00:00.000Z', 'owner', '2026-11-20T09:00:00.000Z')";
    let mut rows = app.workspace.rows().await;
    for (number, status) in (1_i64..).zip(MemoryStatus::ALL) {
        let entry = db::query(remember)
            .bind(status.as_str())
            .bind(number)
            .bind(status.as_str());
        entry.execute(&mut rows).await.expect("an entry");
    }
    drop(rows);
    let listed = |more: &[&str]| -> Vec<String> {
        let args = [&["--json", "memory", "list"], more].concat();
        let said = crate::guest_house::run(app.workspace.path(), &args);
        assert_eq!(said.code, 0, "{more:?}: {}", said.stderr);
        let entries: Value = serde_json::from_str(&said.stdout).expect("JSON");
        let entries = entries.as_array().expect("entries").iter();
        entries
            .map(|entry| entry["status"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(
        listed(&[]),
        ["proposed", "active"],
        "what waits comes first, as on the page"
    );
    for status in MemoryStatus::ALL {
        assert_eq!(listed(&["--status", status.as_str()]), [status.as_str()]);
    }
    assert_eq!(listed(&["--all"]).len(), MemoryStatus::ALL.len());
}

/// Keys of a provider's block that its adapter reads, and nothing else.
#[test]
fn config_show_prints_of_a_provider_what_its_adapter_reads() {
    let house = GuestHouse::new();
    let shown = house.json(&["config", "show"]);
    let providers = shown["configs/inference.json"]["providers"]
        .as_object()
        .expect("providers");
    let catalog = attache::cli::name_catalog();
    let mut looked_at = 0;
    for (name, block) in providers {
        let adapter = name.split(':').next().expect("an adapter");
        let keys = catalog.settings.iter().find(|(id, _)| *id == adapter);
        let (_, keys) = keys.expect("settings of an adapter");
        let block = block.as_object().expect("a block");
        for key in block.keys().filter(|key| *key != "api_key") {
            assert!(keys.contains(&key.as_str()), "{name}: {key}");
        }
        looked_at += 1;
    }
    assert!(looked_at >= 10, "{providers:#?}");
    let has = |name: &str, key: &str| providers[name].get(key).is_some();
    assert!(has("claude", "tier") && has("claude", "binary"));
    for api in [
        "anthropic",
        "openai",
        "gemini",
        "grok",
        "openrouter",
        "ollama",
    ] {
        assert!(
            !has(api, "tier") && !has(api, "binary") && !has(api, "accept_unsandboxed"),
            "{api}"
        );
    }
    assert!(has("ollama", "keep_alive") && !has("openai", "keep_alive"));
    assert_eq!(providers["scripted"].get("base_url"), None::<&Value>);
}
