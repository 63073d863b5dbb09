//! docs/guide/mail-providers.md: every block is a configuration that checks.

use super::page::{Piece, pieces};
use crate::guest_house::run;
use std::collections::BTreeMap;
use tempfile::TempDir;

/// Files by provider: the word before the path in a fence.
fn blocks() -> BTreeMap<String, Vec<(String, String)>> {
    let page = super::read("docs/guide/mail-providers.md");
    let mut blocks: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for piece in pieces(&page) {
        let Piece::File { path, text } = piece else {
            continue;
        };
        let (provider, path) = path.split_once(' ').expect("a provider and a path");
        blocks
            .entry(provider.to_owned())
            .or_default()
            .push((path.to_owned(), text));
    }
    blocks
}

#[test]
#[ignore = "second tier"]
fn every_block_of_a_provider_is_a_configuration_that_checks() {
    let blocks = blocks();
    assert_eq!(
        blocks.keys().collect::<Vec<_>>(),
        ["fastmail", "gmail", "mailbox.org", "migadu", "outlook"]
    );
    for (provider, files) in blocks {
        let folder = TempDir::new().expect("a temporary folder");
        let config: serde_json::Value = serde_json::from_str(&files[0].1).expect("JSON");
        let domain = config["mail_domain"].as_str().expect("a domain");
        let wanted = [
            "init",
            "house",
            "--domain",
            domain,
            "--owner",
            "you@home.example",
            "--persona",
            "yourname",
        ];
        assert_eq!(run(folder.path(), &wanted).code, 0, "{provider}");
        let house = folder.path().join("house");
        let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["configs/gateway.json", ".secrets"], "{provider}");
        let before = std::fs::read_to_string(house.join("configs/gateway.json")).expect("a file");
        assert_ne!(before, files[0].1, "{provider}");
        for (path, text) in &files {
            std::fs::write(house.join(path), text).expect("a written file");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(house.join(".secrets"), mode).expect("a mode");
        }
        let checked = run(&house, &["config", "check"]);
        assert_eq!(checked.code, 0, "{provider}: {}", checked.stdout);
        // Without its secrets it does not: the names in the block and in `.secrets` are the same.
        std::fs::write(house.join(".secrets"), "").expect("an emptied file");
        let checked = run(&house, &["config", "check"]);
        assert_eq!(checked.code, 65, "{provider}: {}", checked.stdout);
    }
}
