//! Files below `data`: those that programs wrote go and are named, those of the owner are named and stay.

use super::erasure::{CAROL, VIOLIN, erase, lived, stopped};
use super::workspace::attache;
use serde_json::{Value, json};

const OWNERS: [&str; 5] = [
    // Only the beginning of their names is that of what is looked into elsewhere.
    "data/backups-old/of-carol.txt",
    "data/attache.db.notes.txt",
    "data/mynotes.txt",
    "data/agents.txt",
    "data/letters/of-carol.txt",
];
const PROGRAMS: [&str; 3] = [
    "data/agents/ada/draft.txt",
    "data/quarantine/ada-1/notes.txt",
    "data/outbox/left.txt",
];

fn strings(value: &Value) -> Vec<String> {
    let all = value.as_array().expect("a list").iter();
    all.map(|one| one.as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn a_file_of_the_owner_below_data_stays_and_what_programs_wrote_is_named() {
    // A letter of hers: the engine's copy goes, what the owner has put elsewhere stays.
    let letter = format!("Message-ID: <c1@partner.test>\n\n{VIOLIN}");
    for is_text in [false, true] {
        let workspace = stopped(lived().await).await;
        workspace.write("kept/annotated.eml", &letter);
        workspace.write("data/outbox/hers.eml", &letter);
        for file in OWNERS.iter().chain(&PROGRAMS) {
            workspace.write(file, VIOLIN);
        }
        let said = match is_text {
            true => {
                let args = ["erase", "--contact", CAROL, "--yes"];
                attache(workspace.path(), &args).await.1
            }
            false => {
                let report = erase(&workspace, &[]).await;
                let (left, removed) = (&report["files_left"], &report["files_removed"]);
                let (left, removed) = (strings(left), strings(removed));
                assert!(OWNERS.iter().all(|file| left.contains(&(*file).into())));
                assert!(
                    PROGRAMS
                        .iter()
                        .all(|file| removed.contains(&(*file).into()))
                );
                let notes = json!("personas/ada/workspace/notes.txt");
                let changed = report["files_changed"].as_array().expect("a list");
                assert!(changed.contains(&notes), "{report}");
                String::new()
            }
        };
        assert!(!workspace.path().join("data/outbox/hers.eml").exists());
        for file in OWNERS.into_iter().chain(["kept/annotated.eml"]) {
            assert!(workspace.path().join(file).exists(), "{file} was removed");
            assert!(!is_text || said.contains(&format!("quotes and stays: {file}\n")));
        }
        for file in PROGRAMS {
            assert!(!workspace.path().join(file).exists(), "{file} is there");
            assert!(
                !is_text || said.contains(&format!("was removed: {file}\n")),
                "{said}"
            );
        }
    }
}
