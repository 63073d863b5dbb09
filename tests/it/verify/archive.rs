//! An archive of runs that outlives the schema (D-162): files of runs that earlier versions wrote, and that every later version reads
//! and finds identical.
//!
//! `tests/fixtures/archive.zst` has one file behind the other. `ATTACHE_RECORD_RUNS=DIR cargo test --test it` writes a file for every
//! workspace that a test checks, and `ATTACHE_RECORDED=DIR cargo test --test it verify::archive` chooses among them anew.

use attache::clock::SystemClock;
use attache::replay::bundle;
use attache::replay::verify::{Outcome, Verifier};
use attache::store::{BundleThing, Store};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RECORDED_VARIABLE: &str = "ATTACHE_RECORDED";
/// Runs that are wanted, beyond those that show something new.
const RUNS_MIN: usize = 300;
/// Largest file that is chosen.
const FILE_BYTES_MAX: u64 = 400_000;

fn archive() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/archive.zst")
}

/// The files of the archive.
fn files() -> Vec<String> {
    let packed = std::fs::File::open(archive()).expect("the archive");
    let text = zstd::decode_all(packed).expect("its text");
    let text = String::from_utf8(text).expect("UTF-8");
    let mut files: Vec<String> = Vec::new();
    for line in text.split_inclusive('\n') {
        match line.starts_with("{\"format\":") {
            true => files.push(line.to_owned()),
            false => files.last_mut().expect("a header").push_str(line),
        }
    }
    files
}

/// What a file shows: its triggers, ends, faults, tools and the like.
fn features(things: &[BundleThing]) -> BTreeSet<String> {
    let shown: &[(&str, &[&str])] = &[
        (
            "run",
            &["trigger", "stop_reason", "error_class", "profile", "state"],
        ),
        ("turn", &["provider", "state", "error_class"]),
        ("step", &["event", "tool", "executor"]),
        ("slot", &["kind", "state"]),
        ("memory", &["scope", "status", "created_by"]),
        ("mail", &["kind", "state"]),
        ("fork", &["state"]),
        ("output", &["repairs"]),
        ("bill", &["state", "cost_source"]),
    ];
    let mut features = BTreeSet::new();
    for thing in things {
        let fields = shown.iter().find(|(kind, _)| *kind == thing.kind);
        for field in fields.map_or(&[][..], |(_, fields)| fields) {
            let value = thing.fields.get(*field).map(ToString::to_string);
            features.extend(value.map(|value| format!("{} {field} {value}", thing.kind)));
        }
    }
    features
}

/// Opens a file in a workspace of its own and executes its runs; gives how many are identical, and all that are not.
async fn executed(file: &str) -> (usize, Vec<String>) {
    let (header, things) = bundle::read(file.as_bytes()).expect("a file of runs");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("configs")).expect("a folder");
    let store = Store::open_shared(folder.path(), Arc::new(SystemClock::new())).await;
    let store = store.expect("a database");
    let header_json = serde_json::to_string(&header).expect("JSON");
    if let Err(error) = store.fill_archive(things, header_json).await {
        return (0, vec![format!("{error:?}")]);
    }
    let names = attache::cli::name_catalog();
    let verifier = Verifier::new(store.clone(), folder.path().to_path_buf(), names);
    let (mut identical, mut other) = (0, Vec::new());
    for run in &header.runs {
        let run = attache::domain::RunId::new(run);
        match verifier.verify(&run).await.expect("a database").outcome {
            Outcome::Identical { .. } => identical += 1,
            Outcome::NothingAsked => {}
            outcome => other.push(format!("{run}: {outcome:?}")),
        }
    }
    store.close().await;
    (identical, other)
}

#[tokio::test]
#[ignore = "second tier"]
async fn runs_of_earlier_versions_go_the_same_way_again() {
    if let Some(folder) = std::env::var_os(RECORDED_VARIABLE) {
        choose(Path::new(&folder)).await;
    }
    let (mut runs, mut shown) = (0, BTreeSet::new());
    for file in files() {
        let (identical, other) = executed(&file).await;
        assert!(other.is_empty(), "{other:#?}");
        runs += identical;
        let (_, things) = bundle::read(file.as_bytes()).expect("a file of runs");
        shown.extend(features(&things));
    }
    println!("{runs} runs, which show: {shown:#?}");
    assert!(runs >= RUNS_MIN, "only {runs} runs");
    for wanted in [
        "run trigger \"email\"",
        "run trigger \"schedule\"",
        "run trigger \"manual\"",
        "run trigger \"chat\"",
        "run trigger \"summary\"",
        "run state \"failed\"",
        "run stop_reason \"no_answer\"",
        "run state \"waiting_approval\"",
        "fork state \"succeeded\"",
        "turn provider \"claude\"",
        "turn provider \"codex\"",
        "slot kind \"scheduled\"",
    ] {
        assert!(shown.contains(wanted), "no run shows `{wanted}`");
    }
}

/// Chooses files until nothing new is shown by another and the runs are enough, and writes the archive.
async fn choose(folder: &Path) {
    let recorded = std::fs::read_dir(folder).expect("a folder");
    let mut candidates: Vec<(BTreeSet<String>, String)> = Vec::new();
    for entry in recorded {
        let path = entry.expect("an entry").path();
        if path.metadata().expect("a file").len() > FILE_BYTES_MAX {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a file");
        let (header, things) = bundle::read(text.as_bytes()).expect("a file of runs");
        if header.masks().is_none() && !header.runs.is_empty() {
            candidates.push((features(&things), text));
        }
    }
    candidates.sort_by_key(|(_, text)| text.len());
    let (mut shown, mut chosen, mut runs) = (BTreeSet::new(), String::new(), 0);
    while !candidates.is_empty() {
        let news = |(features, text): &(BTreeSet<String>, String)| {
            let new = features.difference(&shown).count();
            // What shows most for its size comes first.
            (new * 1_000_000 / text.len(), text.len())
        };
        let best = (0..candidates.len()).max_by_key(|&at| news(&candidates[at]));
        let (features, text) = candidates.remove(best.expect("a candidate"));
        if features.is_subset(&shown) && runs >= RUNS_MIN {
            break;
        }
        let (identical, other) = executed(&text).await;
        match (identical, other.is_empty()) {
            (1.., true) => {
                runs += identical;
                chosen.push_str(&text);
                shown.extend(features);
            }
            _ => println!("not chosen: {identical} are identical, {other:#?}"),
        }
    }
    let packed = zstd::encode_all(chosen.as_bytes(), 19).expect("packed");
    std::fs::write(archive(), packed).expect("the archive");
}
