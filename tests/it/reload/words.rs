//! No sentence of the program or the book asks for a restart that no edit needs.

use std::path::{Path, PathBuf};

/// Files that may ask for a new start of the engine, and why.
const ALLOWED: [(&str, &str); 3] = [
    ("src/cli/web/mod.rs", "an address of `listeners`"),
    ("docs/guide/pages.md", "an address of `listeners`"),
    ("docs/reference/commands.md", "made from the program"),
];
/// Ways to ask for it.
const ASKED: [&str; 6] = [
    "start the engine again",
    "start the engine anew to",
    "restart the engine to",
    "and restart the engine",
    "come into force at a start",
    "in force at the next start",
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let is_text = |end: &str| path.extension().is_some_and(|found| found == end);
        match path.is_dir() {
            true => files(&path, found),
            false if ["rs", "html", "md"].into_iter().any(is_text) => found.push(path),
            false => {}
        }
    }
}

/// Sentences of a text, whatever lines and literals they are broken into.
fn joined(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c == '\\');
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase()
}

#[test]
fn no_edit_is_said_to_need_a_restart_but_of_listeners() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["src", "docs/guide", "docs/reference"] {
        files(&root.join(folder), &mut found);
    }
    found.push(root.join("docs/limits.md"));
    let mut complaints = Vec::new();
    for file in &found {
        let text = joined(&std::fs::read_to_string(file).expect("text"));
        let name = file
            .strip_prefix(root)
            .expect("below")
            .display()
            .to_string();
        let is_allowed = ALLOWED.iter().any(|(allowed, _)| *allowed == name);
        let asks = ASKED.iter().find(|words| text.contains(**words));
        if let Some(words) = asks.filter(|_| !is_allowed) {
            complaints.push(format!("{name}: `{words}`: edits count within seconds"));
        }
    }
    assert!(found.len() > 1000, "only {} files were read", found.len());
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
    assert!(joined("`x` and start the \\\n   engine again").contains(ASKED[0]));
}
