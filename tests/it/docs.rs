//! The book in `docs/` is true: commands run as shown, generated pages are what the program says, and what is named exists.
//!
//! A page that shows `attache init` or `attache setup house` begins in an empty folder; any other page begins in the workspace that the first part
//! of the README leaves, with one letter answered. `ATTACHE_BLESS=1 cargo test --test it docs::` writes the generated pages
//! anew.

mod reference;
mod schema;
mod typed;

use crate::guest_house::run;
use crate::readme::page::{self, Piece};
use crate::readme::place::{Place, installed};
use crate::readme::{read, root};
use std::collections::BTreeSet;
use std::path::Path;

/// Files of every workspace that are not part of this one.
const OF_A_WORKSPACE: &[&str] = &[
    "configs/script.json",
    "configs/mcp.json",
    "configs/mcp.lock.json",
    "configs/web.json",
    "configs/keeping.json",
    "configs/skills.json",
    "skills/",
    "configs/tools/",
    "configs/tools/stock/tool.json",
];
/// Pages whose fences another test reads.
const READ_ELSEWHERE: &[&str] = &["docs/guide/mail-providers.md"];
/// Ends the part of the README that makes the workspace of the other pages.
const END_OF_FIRST_PART: &str = "\n## A real model";

/// Every page of prose: the README, the book, the map, the tests' own page. Sorted.
fn pages() -> Vec<String> {
    let mut found = vec![
        "README.md".to_owned(),
        "src/ARCHITECTURE.md".to_owned(),
        "tests/README.md".to_owned(),
    ];
    gather(&root().join("docs"), &mut found);
    found.sort();
    assert!(found.len() > 80, "the book was not found");
    found
}

fn gather(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let below = path
                .strip_prefix(root())
                .expect("a path below the repository");
            found.push(below.to_string_lossy().replace('\\', "/"));
        }
    }
}

/// Pages that people write and that show commands or files.
fn is_story(path: &str) -> bool {
    path.starts_with("docs/")
        && !path.starts_with("docs/reference/")
        && !path.starts_with("docs/decisions/")
        && !READ_ELSEWHERE.contains(&path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "second tier"]
async fn every_command_of_every_page_works_as_shown() {
    let readme = read("README.md");
    let (first_part, _) = readme
        .split_once(END_OF_FIRST_PART)
        .expect("the README's first part");
    let first_part = page::pieces(first_part);
    let mut commands = 0;
    for path in pages().into_iter().filter(|path| is_story(path)) {
        let pieces = page::pieces(&read(&path));
        let runs = |piece: &Piece, text: &str| matches!(piece, Piece::Command { line, .. } if line.contains(text));
        if !pieces.iter().any(|piece| runs(piece, "")) {
            continue;
        }
        if pieces.iter().any(|piece| runs(piece, "openssl ")) && !installed("openssl") {
            eprintln!("SKIPPED: openssl is not installed; nothing of {path} is executed");
            continue;
        }
        eprintln!("{path}");
        let mut place = Place::new().await;
        let begins =
            |piece: &Piece| runs(piece, "attache init") || runs(piece, "attache setup house");
        if !pieces.iter().any(begins) {
            for piece in first_part.iter().filter(|piece| !runs(piece, "cargo ")) {
                place.follow(piece);
            }
        }
        for piece in &pieces {
            match piece {
                // The configuration of another program; `tests/peers/` runs it.
                Piece::File { path, text } if path.starts_with('/') => {
                    stands_in_the_peer_test(path, text);
                }
                _ => commands += usize::from(place.follow(piece)),
            }
        }
    }
    assert!(commands >= 40, "only {commands} commands were found");
}

fn stands_in_the_peer_test(path: &str, text: &str) {
    if !path.starts_with("/etc/postfix/") {
        // `proxies.py` runs the blocks of the page itself.
        let (program, page) = (read("tests/peers/proxies.py"), read("docs/guide/pages.md"));
        let is_run = program.contains(path);
        assert!(is_run || page.contains("not tried"), "nothing runs {path}");
        return;
    }
    let tested = read("tests/peers/postfix/main.cf").replace("@HOUSE@", "2525");
    for line in text.lines() {
        assert!(
            tested.lines().any(|other| other == line),
            "tests/peers/postfix/main.cf lacks `{line}`"
        );
    }
}

#[test]
fn every_link_and_every_path_leads_somewhere() {
    let tops = [
        "src/",
        "tests/",
        "configs/",
        "migrations/",
        "benches/",
        "docs/",
        "fuzz/",
        ".ci/",
    ];
    for page in pages() {
        let text = read(&page);
        let folder = root().join(&page).parent().expect("a folder").to_owned();
        let prose = page::prose(&text);
        for link in prose
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let (path, place) = link.split_once('#').unwrap_or((link, ""));
            if path.starts_with("https://") {
                continue;
            }
            let target = if path.is_empty() {
                root().join(&page)
            } else {
                folder.join(path)
            };
            assert!(target.exists(), "{page}: the link `{link}` leads nowhere");
            if !place.is_empty() {
                let there = std::fs::read_to_string(&target).expect("a page");
                assert!(
                    headings(&there).contains(place),
                    "{page}: `{link}`: no such heading"
                );
            }
        }
        let is_path = |code: &String| {
            tops.iter().any(|top| code.starts_with(top))
                && !code.contains([' ', '<', '*', ':', '{'])
        };
        for path in page::codes(&text).into_iter().filter(is_path) {
            // A decision tells of the code of its day.
            let past = page.starts_with("docs/decisions/");
            let known = past || OF_A_WORKSPACE.contains(&path.as_str());
            assert!(
                known || root().join(&path).exists(),
                "{page} mentions `{path}`, which is not there"
            );
        }
    }
}

/// The headings of a page as links name them.
fn headings(text: &str) -> BTreeSet<String> {
    let heads = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    heads.map(anchor).collect()
}

#[test]
fn every_page_is_in_the_summary_once() {
    let summary = read("docs/SUMMARY.md");
    for page in pages() {
        let Some(page) = page
            .strip_prefix("docs/")
            .filter(|page| *page != "SUMMARY.md")
        else {
            continue;
        };
        assert_eq!(
            summary.matches(&format!("({page})")).count(),
            1,
            "docs/SUMMARY.md and `{page}`"
        );
    }
    let index = read("docs/decisions/README.md");
    for entry in std::fs::read_dir(root().join("docs/decisions"))
        .expect("a folder")
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(
            name == "README.md" || index.contains(&format!("({name})")),
            "the index lacks `{name}`"
        );
    }
}

/// What a decision of ours is called where code mentions it: `D-25`.
#[test]
fn every_decision_has_its_number_in_its_name_and_its_heading() {
    let mut numbers = BTreeSet::new();
    for page in pages() {
        let Some(name) = page
            .strip_prefix("docs/decisions/")
            .filter(|name| *name != "README.md")
        else {
            continue;
        };
        let number: u32 = name[..4].parse().expect("four digits");
        assert!(numbers.insert(number), "{page}: the number is taken");
        let text = read(&page);
        assert!(
            text.starts_with(&format!("# D-{number:02}: ")),
            "{page}: begin with `# D-{number:02}: TITLE`"
        );
        assert!(
            text.contains("\n## Decision\n") && text.contains("\n## Reason\n"),
            "{page}: Decision, Reason"
        );
    }
    // Decisions that are no longer in force have no page: their numbers are not given again.
    assert!(numbers.len() > 50, "only {} were found", numbers.len());
}

#[test]
fn every_key_of_a_responsibility_is_described() {
    let rows = page::table(&read("docs/guide/schedules.md"), "key");
    let described: BTreeSet<String> = rows.iter().flat_map(|row| page::codes(&row[0])).collect();
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let wanted = [
        "init",
        "house",
        "--domain",
        "house.test",
        "--owner",
        "olga@home.test",
        "--persona",
        "porter",
    ];
    assert_eq!(run(folder.path(), &wanted).code, 0);
    let house = folder.path().join("house");
    let file = house.join("personas/porter/responsibilities/unknown.md");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    std::fs::write(&file, "---\nname: x\nqqqqqqqqqqqq: 1\n---\nSay hello.\n")
        .expect("a written file");
    let refused = run(&house, &["schedule", "validate", &file.to_string_lossy()]);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    let list = said
        .split("there are: ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let known: BTreeSet<String> = list
        .unwrap_or_else(|| panic!("{said}"))
        .split(", ")
        .map(str::to_owned)
        .collect();
    assert_eq!(described, known);
}
