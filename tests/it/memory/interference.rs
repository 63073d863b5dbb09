//! C-1: what one person is told does not depend on another. With the letters of others and without them, the model is asked
//! the same for A, byte for byte; and no code reaches an entry but by the handle that is bound to the people around a run.

use super::scene::MemoryScene;
use crate::hijack::world::ALL;
use crate::policy::interference::without_ids;
use std::path::Path;

/// Mailboxes that the test makes up; 1000 is the long form.
const MAILBOXES: &str = "ATTACHE_MEMORY_MAILBOXES";
const STEPS: u64 = 6;

/// A small generator, so that a mailbox is known by its number.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What A and B say: the same things, so that one could be taken for the other.
fn body(kind: u64, what: u64) -> String {
    let thing = ["likes the sea", "has moved to Bonn", "plays the cello"][what as usize % 3];
    match kind {
        0..=2 => format!(
            "Note: my friend {thing} as ever.\r\nremember: The friend {thing} as ever.\r\nquote: my friend {thing}"
        ),
        3 => format!("What do you know?\r\nrecall: friend {thing}"),
        4 => format!(
            "No, my friend {thing} no more.\r\nid: c1\r\ncorrect: The friend {thing} no more since May.\r\nquote: my friend {thing} no more."
        ),
        _ => "Forget the first.\r\nforget: c1".to_owned(),
    }
}

/// The requests for the first correspondent of each mailbox.
async fn asked(mailboxes: u64, with_others: bool) -> Vec<Vec<String>> {
    let scene = MemoryScene::start().await;
    let app = &scene.scene.world.app;
    let mut numbers: Vec<Numbers> = (0..mailboxes).map(|number| Numbers(number + 1)).collect();
    let mut requests = vec![Vec::new(); mailboxes as usize];
    for step in 0..STEPS {
        let mut taken = Vec::new();
        for (mailbox, numbers) in numbers.iter_mut().enumerate() {
            // The same choices in both worlds.
            let (who, kind, what) = (numbers.below(2), numbers.below(6), numbers.below(3));
            let (name, domain) = match (who, numbers.below(3)) {
                (0, _) => ("a", "partner.test"),
                (_, 0) => ("b", "partner.test"),
                (_, 1) => ("b", "evil.test"),
                _ => ("owner", "home.test"),
            };
            if name != "a" && !with_others {
                continue;
            }
            let address = match name {
                "owner" => "olga@home.test".to_owned(),
                name => format!("{name}{mailbox}@{domain}"),
            };
            let date = scene.scene.world.now().to_utc().to_rfc2822();
            let eml = format!(
                "From: {address}\r\nTo: ada@engine.test\r\nSubject: Tuesday\r\nMessage-ID: <m{mailbox}-{step}@x.test>\r\nDate: {date}\r\n\r\n{}\r\n",
                body(kind, what)
            );
            let eml = scene
                .scene
                .world
                .signed_with(domain, &eml, &ALL, |signer| signer);
            let accepted = scene
                .scene
                .deliver(&eml, "ada@engine.test")
                .await
                .expect("taken");
            if name == "a" {
                taken.push((mailbox, accepted.copies[0].message.to_string()));
            }
        }
        app.drain().await;
        for (mailbox, message) in taken {
            let sql = "SELECT id FROM runs WHERE trigger_message_id = $1";
            let run = app.row(sql, &message).await[0].clone().expect("a run");
            let prompts = app.prompts(&run).await;
            requests[mailbox].extend(
                prompts
                    .iter()
                    .map(|request| without_ids(&request.to_string())),
            );
        }
    }
    requests
}

#[tokio::test]
#[ignore = "second tier"]
async fn c1_nobodys_requests_depend_on_what_another_said() {
    let mailboxes = std::env::var(MAILBOXES).map_or(60, |count| count.parse().expect("a number"));
    let (without, with) = (asked(mailboxes, false).await, asked(mailboxes, true).await);
    let (mut compared, mut remembered) = (0, 0);
    for (mailbox, (without, with)) in without.iter().zip(&with).enumerate() {
        assert_eq!(without, with, "mailbox {mailbox}");
        compared += without.len();
        remembered += without
            .iter()
            .filter(|request| request.contains("wrote on"))
            .count();
    }
    println!(
        "C-1: {mailboxes} mailboxes, {compared} requests identical, {remembered} of them with entries of memory"
    );
    assert!(remembered > 0, "no request showed an entry");
}

/// Without the filter by audience a thread that others read would be told what was said in private: the control.
#[tokio::test]
async fn c1_what_was_said_in_private_is_not_told_before_others() {
    let scene = MemoryScene::start().await;
    let from = "Carol <carol@partner.test>";
    scene
        .tells(from, "m1", "Carol looks for another post in secret.")
        .await;
    let body = "Shall we meet?\r\nrecall: which post does Carol look for in secret";
    let run = scene
        .writes(from, "m2", "Cc: dan@partner.test\r\n", body)
        .await;
    for request in scene.scene.world.app.prompts(&run).await {
        assert!(!request.to_string().contains("another post"), "{request}");
    }
    let alone = scene.writes(from, "m3", "", "Shall we meet?").await;
    assert!(scene.prompt(&alone).await.contains("another post"));
}

/// Tables of memory are named by the store's own folder for it, and by what exports, moves and checks whole databases.
#[test]
fn c1_no_other_code_reads_the_tables() {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let names = |words: &[&str]| words.iter().any(|word| text.contains(word));
            let shown = path.to_string_lossy().replace('\\', "/");
            let is_store = [
                "store/memory/",
                "store/audit/memory.rs",
                // Say what an export of a persona and a file of runs have.
                "store/catalogue.rs",
                "store/views/bundle_kinds.rs",
                // Counts them.
                "store/views/status.rs",
            ];
            if names(&["FROM memory", "JOIN memory", "INTO memory", "UPDATE memory"])
                && !is_store.iter().any(|known| shown.contains(known))
            {
                found.push(shown.clone());
            }
            // What reads across people is the owner's: no run, no tool, no resolver.
            let is_owners = ["/cli/", "/http/", "store/"];
            if names(&[
                "memory_entries(",
                "memory_dossier(",
                "change_memory(",
                "erase_memory(",
            ]) && !is_owners.iter().any(|known| shown.contains(known))
            {
                found.push(shown.clone());
            }
            // The handle of all entries: of tools that declare it, which are for duties of the owner's.
            let is_tidying = [
                "tools/contract/env.rs",
                "store/memory/proposals.rs",
                "tools/memory/list_memory.rs",
                "tools/memory/propose_memory_change.rs",
            ];
            if names(&["whole_memory("]) && !is_tidying.iter().any(|known| shown.contains(known)) {
                found.push(shown);
            }
        }
    }
    assert!(
        found.is_empty(),
        "they reach entries without their audience: {found:?}"
    );
}
