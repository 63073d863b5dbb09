//! Documents that must stay short, and the modules that the tests' own page must name.

use crate::source::File;

/// Pages that are read whole, and the lines that they may have.
pub const SHORT: &[(&str, usize)] = &[("README.md", 200), ("src/ARCHITECTURE.md", 200)];

pub fn page_length(path: &str, text: &str, lines_max: usize) -> Vec<String> {
    let lines = text.lines().count();
    let complaint = format!(
        "{path}: {lines} lines, and {lines_max} are allowed: move a part of it into a page of `docs/`"
    );
    if lines > lines_max {
        vec![complaint]
    } else {
        Vec::new()
    }
}

/// Modules of the integration tests that have no row in `tests/README.md`, and rows in the tables of modules that have no module.
pub fn unnamed_modules(main: &File, page: &str) -> Vec<String> {
    let modules: Vec<&str> = main
        .live
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    let mut rows = Vec::new();
    let mut lines = page.lines();
    while lines.by_ref().any(|line| line.starts_with("| module |")) {
        let table = lines
            .by_ref()
            .skip(1)
            .take_while(|line| line.starts_with('|'));
        rows.extend(table.filter_map(|line| line.split('`').nth(1)));
    }
    let helper = |module: &str| page.contains(&format!("| `{module}` |"));
    let missing = modules.iter().filter(|module| !helper(module));
    let missing = missing.map(|module| {
        format!("tests/README.md: no row for `{module}`: say in a line what it holds")
    });
    let gone = rows.iter().filter(|row| !modules.contains(row));
    missing
        .chain(gone.map(|row| {
            format!("tests/README.md: `{row}` is no module of tests/it: delete its row")
        }))
        .collect()
}

#[test]
fn a_page_that_is_too_long_is_found() {
    assert_eq!(page_length("README.md", &"x\n".repeat(201), 200).len(), 1);
    assert_eq!(page_length("README.md", &"x\n".repeat(200), 200).len(), 0);
}

#[test]
fn a_module_without_a_row_and_a_row_without_a_module_are_found() {
    let main = File::new(
        "tests/it/main.rs",
        "//! Head.\nmod app;\nmod road;\nmod lost;\n",
    );
    let page = "| helper | is |\n| --- | --- |\n| `app` | x |\n\n| module | holds |\n| --- | --- |\n| `road` | y |\n| `gone` | z |\n";
    let found = unnamed_modules(&main, page);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("`lost`") && found[1].contains("`gone`"),
        "{found:?}"
    );
}
