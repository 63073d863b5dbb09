//! Rows of the reference that other tests hold, or that wait for a tool that does not exist yet.

use super::case::{attacks, folder};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Held {
    #[serde(rename = "about")]
    _about: String,
    /// Row -> `file::test`.
    held: BTreeMap<String, Vec<String>>,
    /// Row -> why there is nothing to attack yet.
    later: BTreeMap<String, String>,
}

/// Rows of the reference, by their letters and number.
const ROWS: [(&str, u32); 11] = [
    ("ID", 14),
    ("EX", 14),
    ("WF", 15),
    ("FS", 12),
    ("SH", 10),
    ("MC", 9),
    ("PE", 10),
    ("LB", 11),
    ("AP", 8),
    ("SE", 7),
    ("SM", 8),
];

#[test]
fn every_row_is_a_case_or_held_by_a_test_that_exists() {
    let text = std::fs::read_to_string(folder().join("held.json")).expect("the table");
    let table: Held = serde_json::from_str(&text).expect("the table");
    let cases: Vec<String> = attacks().into_iter().map(|(id, _)| id).collect();
    for (row, tests) in &table.held {
        assert!(!tests.is_empty(), "{row} names no test");
        for test in tests {
            let (file, name) = test.split_once("::").expect("file::test");
            let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let code = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{test}: {e}"));
            assert!(code.contains(&format!("fn {name}(")), "{row}: no `{test}`");
        }
    }
    for (letters, count) in ROWS {
        for number in 1..=count {
            let row = format!("{letters}{number:02}");
            let is_case = cases.iter().any(|case| case.starts_with(&row));
            let is_later = table.later.keys().any(|key| row.starts_with(key.as_str()));
            assert!(
                is_case || table.held.contains_key(&row) || is_later,
                "{row} is nowhere"
            );
        }
    }
}
