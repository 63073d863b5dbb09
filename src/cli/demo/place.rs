//! A fresh workspace for every demo, below `data/demo/` of the workspace that it was started in.

use crate::cli::init::sample;
use crate::domain::Timestamp;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Number of the newest demos that are kept.
const KEPT: usize = 5;
/// Maximum number of demos that start in one millisecond.
const TWINS_MAX: usize = 99;

/// Writes the sample files into a new folder and removes demos that are too old.
pub fn make(workspace: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let parent = workspace.join("data/demo");
    std::fs::create_dir_all(&parent)?;
    let folder = new_folder(&parent, now)?;
    for (path, content) in sample::FILES {
        let file = folder.join(path);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(file, content)?;
    }
    remove_old(&parent)?;
    Ok(folder)
}

/// Creates a folder whose name sorts by age, also among demos of the same millisecond.
fn new_folder(parent: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let stamp = now.to_utc().format("%Y%m%dT%H%M%S%.3fZ").to_string();
    // Behind the youngest folder of this instant: the name of a removed one would make this folder
    // look older than it is.
    let mut twins = Vec::new();
    for entry in std::fs::read_dir(parent)? {
        twins.extend(twin_of(&entry?.file_name().to_string_lossy(), &stamp));
    }
    let first = twins.into_iter().max().map_or(0, |youngest| youngest + 1);
    for twin in first..=TWINS_MAX {
        let name = if twin == 0 {
            stamp.clone()
        } else {
            format!("{stamp}-{twin:02}")
        };
        let folder = parent.join(name);
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        ErrorKind::AlreadyExists,
        format!("`{stamp}` and {TWINS_MAX} twins of it exist"),
    ))
}

/// Number of a name among the folders of that instant; the first has none and counts as 0.
fn twin_of(name: &str, stamp: &str) -> Option<usize> {
    match name.strip_prefix(stamp)? {
        "" => Some(0),
        number => number.strip_prefix('-')?.parse().ok(),
    }
}

/// Removes demos that are too old: only folders with such a name; links are not followed.
fn remove_old(parent: &Path) -> io::Result<()> {
    let mut stamps = Vec::new();
    for entry in std::fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_stamp(&name) && entry.file_type()?.is_dir() {
            stamps.push(name);
        }
    }
    stamps.sort();
    let old = stamps.len().saturating_sub(KEPT);
    for name in &stamps[..old] {
        match std::fs::remove_dir_all(parent.join(name)) {
            // Two demos may remove old folders at the same time.
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn is_stamp(name: &str) -> bool {
    const SHAPE: &str = "ddddddddTdddddd.dddZ";
    let shape: String = name
        .chars()
        .map(|c| if c.is_ascii_digit() { 'd' } else { c })
        .collect();
    shape == SHAPE || shape == format!("{SHAPE}-dd")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_stamps() {
        for ours in ["20261121T000202.855Z", "20261121T000202.855Z-01"] {
            assert!(is_stamp(ours), "{ours}");
        }
        for other in [
            "",
            "photos",
            "20261121",
            "20261121T000202.855",
            "20261121T000202.855Z-1",
            "x20261121T000202.855Z",
        ] {
            assert!(!is_stamp(other), "{other}");
        }
    }

    #[test]
    fn twins_get_names_of_their_own_and_the_newest_five_are_kept() {
        let workspace = tempfile::tempdir().expect("a temporary folder");
        let now = Timestamp::from_millis(1_795_000_000_000);
        let made: Vec<PathBuf> = (0..7)
            .map(|_| make(workspace.path(), now).expect("a workspace"))
            .collect();
        let there: Vec<bool> = made
            .iter()
            .map(|folder| folder.join("configs/gateway.json").is_file())
            .collect();
        assert_eq!(there, [false, false, true, true, true, true, true]);
    }
}
