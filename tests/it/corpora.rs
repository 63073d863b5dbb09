//! Letters of the field, used in place and never copied here; and the case files of a folder.

use std::path::PathBuf;

/// A folder below `ATTACHE_CORPORA`, or below `../shared/corpora`; `None`, said aloud, when it is absent.
pub fn corpus(name: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/corpora");
    let folder = std::env::var_os("ATTACHE_CORPORA")
        .map_or_else(beside, PathBuf::from)
        .join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: no corpus at `{}`; set ATTACHE_CORPORA",
        folder.display()
    );
    None
}

/// The files of a folder with that extension, in order of name.
pub fn files(folder: &std::path::Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .expect("readable folder")
        .map(|e| e.expect("entry").path());
    let mut files: Vec<PathBuf> = entries
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .collect();
    files.sort();
    files
}
