//! House rules as tests. Each complaint says what to do instead; each check is itself tested on a bad sample.
//!
//! No dependencies and no regular expressions: a small lexer tells code from comments, strings and test modules.

#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/floors.rs"]
mod floors;
#[path = "tidy/shape.rs"]
mod shape;
#[path = "tidy/words.rs"]
mod words;
#[path = "tidy/cycles.rs"]
mod cycles;
#[path = "tidy/figures.rs"]
mod figures;
#[path = "tidy/maps.rs"]
mod maps;
#[path = "tidy/names.rs"]
mod names;

use source::File;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder of the repository, sorted by path.
fn files_below(folder: &str) -> Vec<File> {
    let mut found = Vec::new();
    gather(&root().join(folder), &mut found);
    let relative = |path: &Path| {
        path.strip_prefix(root())
            .expect("a path below the root")
            .to_owned()
    };
    let slashed = |path: &Path| {
        relative(path)
            .to_str()
            .expect("a UTF-8 path")
            .replace('\\', "/")
    };
    found.sort();
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a readable file");
    found
        .iter()
        .map(|path| File::new(&slashed(path), &read(path)))
        .collect()
}

fn gather(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn src() -> Vec<File> {
    let files = files_below("src");
    assert!(files.len() > 20, "the tree was not found");
    files
}

fn everywhere() -> Vec<File> {
    ["src", "tests", "benches"]
        .into_iter()
        .flat_map(files_below)
        .collect()
}

fn no_complaints(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n\n{}\n", complaints.join("\n"));
}

fn each(files: &[File], check: impl Fn(&File) -> Vec<String>) {
    no_complaints(files.iter().flat_map(check).collect());
}

#[test]
fn imports_go_down_the_floors() {
    no_complaints(floors::complaints(&src()));
}

#[test]
fn files_are_short() {
    each(&everywhere(), shape::file_length);
}

#[test]
fn functions_are_short() {
    each(&everywhere(), shape::function_length);
}

#[test]
fn folders_are_not_flat() {
    no_complaints(shape::flat_folders(&src()));
}

#[test]
fn files_import_each_other_in_no_circle() {
    no_complaints(cycles::complaints(&src()));
}

#[test]
fn large_rooms_have_a_map() {
    no_complaints(maps::unmapped(&src()));
}

#[test]
fn the_house_in_figures() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README");
    let limits = figures::Limits {
        files_in_cycles: 0,
        shared_names: names::SHARED_NAMES_MAX,
        folder_files: shape::FOLDER_FILES_MAX,
        readme_lines: 200,
    };
    for figure in figures::of(&src(), &readme, &limits) {
        let figures::Figure { name, value, max } = figure;
        let bound = max.map_or(String::new(), |max| format!("at most {max}"));
        println!("{name:40} {value:7}  {bound}");
        assert!(
            max.is_none_or(|max| value <= max),
            "{name}: {value}, {bound}"
        );
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    each(&everywhere(), shape::header);
}

#[test]
fn every_file_is_named_by_a_module() {
    no_complaints(shape::orphans(&everywhere()));
}

#[test]
fn modules_are_named_after_what_they_hold() {
    each(&everywhere(), shape::module_name);
}

#[test]
fn the_top_level_is_quiet() {
    let entries = std::fs::read_dir(root()).expect("the repository").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    no_complaints(shape::top_level(names));
}

#[test]
fn pages_that_are_read_whole_are_short() {
    let page = |path: &str| std::fs::read_to_string(root().join(path)).expect("a page");
    let lengths = documents::SHORT
        .iter()
        .flat_map(|(path, max)| documents::page_length(path, &page(path), *max));
    no_complaints(lengths.collect());
}

#[test]
fn every_module_of_the_tests_has_a_row() {
    let path = "tests/it/main.rs";
    let main = File::new(
        path,
        &std::fs::read_to_string(root().join(path)).expect("the tests"),
    );
    let page = std::fs::read_to_string(root().join("tests/README.md")).expect("the tests' page");
    no_complaints(documents::unnamed_modules(&main, &page));
}

#[test]
fn words_stay_at_home() {
    each(&src(), words::strays);
}

#[test]
fn sql_stays_in_the_store() {
    each(&src(), words::sql);
}

#[test]
fn no_test_is_left_out_but_of_the_second_tier() {
    each(&everywhere(), words::left_out);
}

#[test]
fn columns_are_read_by_name() {
    each(&src(), words::columns_by_position);
}

#[test]
fn names_are_the_fields_words() {
    each(&src(), names::private_words);
}

#[test]
fn a_type_name_means_one_thing() {
    no_complaints(names::shared_type_names(&src(), names::SHARED_NAMES_MAX));
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun() {
    no_complaints(names::question_words(
        &src(),
        names::QUESTIONS_PER_MILLE_MAX,
    ));
}
