//! Marks of nodes in the folder of personas. A node keeps a file there while it serves, named by its number, with the digest of
//! its configuration: so it is seen whether all nodes have one folder of personas, and one configuration.
//!
//! Files and not rows: a row says nothing of the folder that its node sees.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Files are hidden and no folders, so that none is taken for a persona.
const PREFIX: &str = ".node-";

/// Writes the mark of a node, in place of an earlier one. Errors: the folder cannot be written.
pub fn write(workspace: &Path, epoch: i64, config_sha256: &str) -> io::Result<()> {
    let (path, unfinished) = (
        path_of(workspace, epoch),
        path_of(workspace, epoch).with_extension("new"),
    );
    std::fs::write(&unfinished, format!("{config_sha256}\n"))?;
    std::fs::rename(unfinished, path)
}

/// Removes the mark of a node, if there is one.
pub fn remove(workspace: &Path, epoch: i64) -> io::Result<()> {
    match std::fs::remove_file(path_of(workspace, epoch)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes the marks of nodes that have no row any more. One that is newer than all these nodes is left: its row may be newer
/// than what is known. Errors: the folder cannot be read or written.
pub fn remove_all_but(workspace: &Path, present: &BTreeSet<i64>) -> io::Result<()> {
    let newest = present.last().copied().unwrap_or(0);
    for epoch in read(workspace)?.into_keys() {
        if epoch < newest && !present.contains(&epoch) {
            remove(workspace, epoch)?;
        }
    }
    Ok(())
}

/// Returns the digests of configurations by the numbers of nodes. Errors: the folder cannot be read.
pub fn read(workspace: &Path) -> io::Result<BTreeMap<i64, String>> {
    let mut marks = BTreeMap::new();
    for entry in std::fs::read_dir(workspace.join("personas"))? {
        let entry = entry?;
        let name = entry.file_name();
        let epoch = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(epoch) = epoch.and_then(|epoch| epoch.parse().ok()) else {
            continue;
        };
        // It may go between the two looks.
        if let Ok(text) = std::fs::read_to_string(entry.path()) {
            marks.insert(epoch, text.trim_end().to_owned());
        }
    }
    Ok(marks)
}

fn path_of(workspace: &Path, epoch: i64) -> PathBuf {
    workspace.join("personas").join(format!("{PREFIX}{epoch}"))
}
