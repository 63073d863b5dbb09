//! Letters of the field, used in place and never copied here; and the case files of a folder.

use std::path::PathBuf;

/// A folder below `ATTACHE_CORPORA`, or below `../shared/corpora`; `None`, said aloud, when it is absent.
pub fn corpus(name: &str) -> Option<PathBuf> {
    shared("corpora", "ATTACHE_CORPORA", name)
}

/// A folder below `ATTACHE_CASES`, or below `../shared/cases`; `None`, said aloud, when it is absent.
pub fn cases(name: &str) -> Option<PathBuf> {
    shared("cases", "ATTACHE_CASES", name)
}

fn shared(kind: &str, variable: &str, name: &str) -> Option<PathBuf> {
    let beside = || {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../shared")
            .join(kind)
    };
    let folder = std::env::var_os(variable)
        .map_or_else(beside, PathBuf::from)
        .join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: no {kind} at `{}`; set {variable}",
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
