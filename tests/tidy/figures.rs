//! The house in figures: what the other checks bound, counted, so that anybody can measure it again.
//!
//! `cargo test --locked --test tidy -- --nocapture the_house_in_figures` prints them.

use crate::source::File;
use crate::{cycles, names};
use std::collections::BTreeMap;

/// One figure and its highest permitted value; `None`: it is only counted.
pub struct Figure {
    pub name: &'static str,
    pub value: usize,
    pub max: Option<usize>,
}

pub struct Limits {
    pub files_in_cycles: usize,
    pub shared_names: usize,
    pub folder_files: usize,
    pub readme_lines: usize,
}

pub fn of(src: &[File], readme: &str, limits: &Limits) -> Vec<Figure> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for file in src {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder).or_default() += 1;
    }
    let lines = |file: &File| file.text.lines().count();
    let (comments, questions) = names::questions(src);
    let cycles = cycles::circles(src);
    let figure = |name, value, max| Figure { name, value, max };
    vec![
        figure("files of src", src.len(), None),
        figure("lines of src", src.iter().map(lines).sum(), None),
        figure(
            "lines of the longest file",
            src.iter().map(lines).max().unwrap_or(0),
            None,
        ),
        figure(
            "files in import cycles",
            cycles.iter().map(Vec::len).sum(),
            Some(limits.files_in_cycles),
        ),
        figure(
            "files of the largest folder",
            folders.values().copied().max().unwrap_or(0),
            Some(limits.folder_files),
        ),
        figure(
            "type names given to several types",
            names::shared_names(src).len(),
            Some(limits.shared_names),
        ),
        figure(
            "private words in identifiers",
            src.iter()
                .map(|file| names::private_words(file).len())
                .sum(),
            Some(0),
        ),
        figure("doc comments", comments, None),
        figure(
            "of them beginning with a question word",
            questions.len(),
            Some(comments * names::QUESTIONS_PER_MILLE_MAX / 1000),
        ),
        figure(
            "lines of the README",
            readme.lines().count(),
            Some(limits.readme_lines),
        ),
    ]
}
