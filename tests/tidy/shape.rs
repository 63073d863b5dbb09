//! The shape of files: lengths, headers, names, and that each is part of the crate.

use crate::source::{File, after_closing, line_of, occurrences};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 100;
/// Names that say nothing about what a module holds.
const EMPTY_NAMES: &[&str] = &[
    "utils", "util", "common", "helpers", "helper", "misc", "shared", "manager", "core",
];
/// What a visitor may see at the top; the rest is a dot file or made at run time.
const TOP_LEVEL: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "src",
    "migrations",
    "fuzz",
    "configs",
    "personas",
    "tests",
    "benches",
    "docs",
    "packaging",
    "README.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];
const MADE_AT_RUN_TIME: &[&str] = &["target", "data"];

pub fn file_length(file: &File) -> Vec<String> {
    let lines = file.text.lines().count();
    let complaint = format!(
        "{}: {lines} lines, and {FILE_LINES_MAX} are allowed: split it where a second subject begins",
        file.path
    );
    if lines > FILE_LINES_MAX {
        vec![complaint]
    } else {
        Vec::new()
    }
}

/// Lines from `fn` to the closing brace, both included.
pub fn function_length(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    for at in occurrences(&file.code, "fn ") {
        let name: String = file.code[at + 3..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let Some(body) = body(&file.code, at).filter(|_| !name.is_empty()) else {
            continue;
        };
        let (first, last) = (
            line_of(&file.code, at),
            line_of(&file.code, after_closing(&file.code, body)),
        );
        let lines = last - first + 1;
        if lines > FUNCTION_LINES_MAX {
            complaints.push(format!(
                "{}:{first}: function `{name}` has {lines} lines, and {FUNCTION_LINES_MAX} are allowed: \
                 a value is missing that would name its steps",
                file.path
            ));
        }
    }
    complaints
}

/// Where the body of the function at `at` opens; `None` for a declaration.
fn body(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(offset),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

pub fn header(file: &File) -> Vec<String> {
    let first = file.text.lines().next().unwrap_or_default();
    if first.starts_with("//! ") || first.starts_with("#![doc = include_str!") {
        return Vec::new();
    }
    vec![format!(
        "{}:1: no header: begin with a line `//! What this file is for.`",
        file.path
    )]
}

pub fn module_name(file: &File) -> Vec<String> {
    let named = |part: &str| EMPTY_NAMES.contains(&part.trim_end_matches(".rs"));
    let complaint = |part| {
        format!(
            "{}: `{part}` says nothing: name the module after what it holds",
            file.path
        )
    };
    file.path
        .split('/')
        .filter(|part| named(part))
        .map(complaint)
        .collect()
}

/// Files that no `mod` names, so that the compiler never sees them.
pub fn orphans(files: &[File]) -> Vec<String> {
    let is_orphan = |file: &&File| match parents(&file.path) {
        None => false,
        Some((name, parents)) => !files
            .iter()
            .filter(|f| parents.contains(&f.path))
            .any(|f| names(f, &name)),
    };
    let by_path = |file: &&File| !files.iter().any(|other| names_path(other, &file.path));
    let orphans = files.iter().filter(is_orphan).filter(by_path);
    orphans
        .map(|file| {
            format!(
                "{}: no `mod` names it: add one, or delete the file",
                file.path
            )
        })
        .collect()
}

/// The module's name and the files that may declare it; `None` for the root of a crate.
fn parents(path: &str) -> Option<(String, Vec<String>)> {
    let (folder, file) = path.rsplit_once('/')?;
    let stem = file.strip_suffix(".rs")?;
    let is_root = path == "src/main.rs"
        || file == "lib.rs"
        || (!path.starts_with("src/") && (folder.matches('/').count() == 0 || stem == "main"));
    if is_root {
        return None;
    }
    let (name, above) = match (stem, folder.rsplit_once('/')) {
        ("mod", Some((above, name))) => (name, above),
        _ => (stem, folder),
    };
    let roots = ["mod.rs", "lib.rs", "main.rs"]
        .iter()
        .map(|root| format!("{above}/{root}"));
    Some((
        name.to_owned(),
        roots.chain([format!("{above}.rs")]).collect(),
    ))
}

fn names(file: &File, module: &str) -> bool {
    let declared = format!("mod {module};");
    occurrences(&file.code, &declared).next().is_some()
}

/// `#[path = "…"] mod x;`, with the path relative to the naming file.
fn names_path(file: &File, path: &str) -> bool {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    file.text.contains("#[path = ")
        && path.strip_prefix(folder).is_some_and(|rest| {
            file.text
                .contains(&format!("#[path = \"{}\"]", rest.trim_start_matches('/')))
        })
}

pub fn top_level(names: impl Iterator<Item = String>) -> Vec<String> {
    let known = |name: &str| {
        name.starts_with('.') || TOP_LEVEL.contains(&name) || MADE_AT_RUN_TIME.contains(&name)
    };
    let strange = names.filter(|name| !known(name));
    strange
        .map(|name| format!("{name}: not at the top level: put it below a folder that is there"))
        .collect()
}

/// Files that one folder may hold.
pub const FOLDER_FILES_MAX: usize = 16;
/// Folders of `src` with too many files to find one in.
pub fn flat_folders(files: &[File]) -> Vec<String> {
    let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for file in files {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *counts.entry(folder).or_default() += 1;
    }
    let mut complaints = Vec::new();
    for (folder, count) in counts {
        if count > FOLDER_FILES_MAX {
            complaints.push(format!(
                "{folder}: {count} files, and {FOLDER_FILES_MAX} may lie flat: make rooms"
            ));
        }
    }
    complaints
}

#[test]
fn a_long_file_and_a_long_function_are_found() {
    let long = File::new("src/x.rs", &"\n".repeat(801));
    assert_eq!(file_length(&long).len(), 1);
    assert_eq!(
        file_length(&File::new("src/x.rs", &"\n".repeat(800))).len(),
        0
    );

    let function = |lines: usize| {
        let noise = "let s = \"}\"; // }\n".repeat(lines - 2);
        File::new(
            "src/x.rs",
            &format!("//! Head.\npub fn long(a: [u8; 2], f: fn(u8)) -> u8 {{\n{noise}}}\n"),
        )
    };
    assert_eq!(function_length(&function(100)), Vec::<String>::new());
    let found = function_length(&function(101));
    assert!(
        found[0].contains("src/x.rs:2: function `long` has 101 lines"),
        "{found:?}"
    );
    let declared = format!("trait T {{ fn a(&self);{} }}", "\n".repeat(120));
    assert_eq!(
        function_length(&File::new("src/x.rs", &declared)),
        Vec::<String>::new()
    );
}

#[test]
fn a_missing_header_is_found() {
    assert_eq!(
        header(&File::new("src/x.rs", "// Head.\nfn f() {}")).len(),
        1
    );
    assert_eq!(header(&File::new("src/x.rs", "\n//! Late.")).len(), 1);
    assert_eq!(header(&File::new("src/x.rs", "//! Head.")).len(), 0);
}

#[test]
fn an_empty_module_name_is_found() {
    for path in [
        "src/utils.rs",
        "src/store/common.rs",
        "src/helpers/mod.rs",
        "tests/it/shared.rs",
    ] {
        assert_eq!(module_name(&File::new(path, "")).len(), 1, "{path}");
    }
    assert_eq!(module_name(&File::new("src/score.rs", "")).len(), 0);
}

#[test]
fn a_file_that_no_module_names_is_found() {
    let files = [
        File::new("src/lib.rs", "pub mod a;"),
        File::new(
            "src/a/mod.rs",
            "mod b;\n// mod c;\nconst S: &str = \"mod c;\";",
        ),
        File::new("src/a/b.rs", "mod d;"),
        File::new("src/a/b/d.rs", ""),
        File::new("src/a/c.rs", ""),
        File::new("tests/it/main.rs", "mod e;"),
        File::new("tests/it/e.rs", ""),
        File::new("tests/it/f.rs", ""),
        File::new("tests/tidy.rs", "#[path = \"tidy/g.rs\"]\nmod g;"),
        File::new("tests/tidy/g.rs", ""),
    ];
    let found = orphans(&files);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("src/a/c.rs: ") && found[1].starts_with("tests/it/f.rs: "),
        "{found:?}"
    );
}

#[test]
fn a_strange_entry_at_the_top_is_found() {
    let names = ["src", ".git", "target", "notes.md", "LICENSE-MIT"].map(str::to_owned);
    assert_eq!(top_level(names.into_iter()).len(), 1);
}

#[test]
fn a_flat_folder_is_found() {
    let files = |folder: &str, count: usize| -> Vec<File> {
        (0..count)
            .map(|number| File::new(&format!("{folder}/f{number}.rs"), "//! Head."))
            .collect()
    };
    assert_eq!(flat_folders(&files("src/store", 16)), Vec::<String>::new());
    assert_eq!(flat_folders(&files("src/store", 17)).len(), 1);
}
