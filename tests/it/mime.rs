//! Letters to emails and back: agreement with other parsers, hostile letters, and what goes over the wire.

mod composing;
mod consensus;
mod hostile;
mod reading;
mod replies;

use std::path::PathBuf;

/// A folder of the letters that are used in place and never copied here; `None`, said aloud, when they are absent.
fn corpus(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("ATTACHE_CORPORA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/corpora"), PathBuf::from);
    let folder = root.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no corpus at `{}`; set ATTACHE_CORPORA", folder.display());
    None
}

/// The files of a folder with that extension, in order of name.
fn files(folder: &std::path::Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("readable folder").map(|e| e.expect("entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files
}
