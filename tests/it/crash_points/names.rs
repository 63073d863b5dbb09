//! Every crash point has a line in the list and a place in the source.

use attache::crash::POINTS;
use std::collections::BTreeSet;
use std::path::Path;

/// How a call site begins, whatever rustfmt makes of it.
const CALL: &str = "crash_point!(";

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs")
            && !path.ends_with("src/base/crash.rs")
        {
            found.push(std::fs::read_to_string(path).expect("a source file"));
        }
    }
}

/// The names of the call sites in a text; comments have none.
fn called(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let name = |rest: &str| {
        let quoted = rest
            .trim_start()
            .strip_prefix('"')
            .and_then(|rest| rest.split_once('"'));
        quoted
            .unwrap_or_else(|| panic!("a crash point without a literal name: {rest:.40}"))
            .0
            .to_owned()
    };
    code.split(CALL).skip(1).map(name).collect()
}

#[test]
fn every_listed_point_has_a_call_site_and_no_other_name_has_one() {
    let mut texts = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut texts,
    );
    let called: BTreeSet<String> = texts.iter().flat_map(|text| called(text)).collect();
    let listed: BTreeSet<String> = POINTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed.len(), POINTS.len(), "a name is listed twice");
    assert_eq!(called, listed);
}

#[test]
fn the_points_of_the_design_are_listed() {
    let numbered = |letters: &str, numbers: std::ops::RangeInclusive<u32>| -> Vec<String> {
        numbers.map(|number| format!("{letters}{number}")).collect()
    };
    let designed = [
        numbered("I", 0..=5),
        numbered("IM", 1..=3),
        numbered("R", 1..=11),
        numbered("O", 1..=7),
    ]
    .concat();
    let missing: Vec<_> = designed
        .iter()
        .filter(|name| !POINTS.iter().any(|(listed, _)| listed == name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn call_sites_are_found_however_they_are_laid_out() {
    let text = "// crash_point!(\"X\")\ncrate::crash::crash_point!(\"A\");\n  x => crate::crash::crash_point!(\n    \
                \"B1\",\n    a.b()\n  ),\n";
    assert_eq!(called(text), ["A", "B1"]);
}
