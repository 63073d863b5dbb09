//! A bounded walk over the persona's folder: regular files that a reader may see, links not followed.

use super::folder::{cannot_use, objection, open_folder, real_path};
use crate::tools::contract::*;
use cap_std::fs_utf8::Dir;

/// Most files and folders that one walk looks at.
const ENTRIES_MAX: usize = 20_000;
/// Deepest folder below the first that is entered.
const DEPTH_MAX: usize = 16;

/// A file that a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkedFile {
    /// Relative to the persona's folder.
    pub path: String,
    pub bytes: u64,
}

/// Files below a folder, sorted by path.
#[derive(Debug, Default)]
pub struct WalkedFiles {
    pub files: Vec<WalkedFile>,
    /// `true`: there are more than a walk looks at.
    pub is_cut: bool,
}

/// Lists the files below `path`, or the one file that it is. Errors: as [`real_path`].
pub fn files_below(folder: &Dir, path: &str, reader: Reader) -> Result<WalkedFiles, ToolError> {
    let path = match path.trim_end_matches('/') {
        "" => ".",
        path => path,
    };
    let failed = cannot_use(path);
    let real = real_path(folder, path, reader)?;
    let metadata = folder.metadata(&real).map_err(failed)?;
    if metadata.is_file() {
        let file = WalkedFile {
            path: real,
            bytes: metadata.len(),
        };
        return Ok(WalkedFiles {
            files: vec![file],
            is_cut: false,
        });
    }
    let prefix = match real.as_str() {
        "." => String::new(),
        real => format!("{real}/"),
    };
    let mut walk = Walk {
        found: WalkedFiles::default(),
        entries_left: ENTRIES_MAX,
        reader,
    };
    let top = open_folder(folder, &real)?;
    walk.add(&top, &prefix, 0).map_err(failed)?;
    walk.found.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(walk.found)
}

struct Walk {
    found: WalkedFiles,
    entries_left: usize,
    reader: Reader,
}

impl Walk {
    fn add(&mut self, dir: &Dir, prefix: &str, depth: usize) -> std::io::Result<()> {
        for entry in dir.entries()?.filter_map(Result::ok) {
            // A name that is not UTF-8 cannot be passed to any tool.
            let Ok(name) = entry.file_name() else {
                continue;
            };
            let path = format!("{prefix}{name}");
            if name.starts_with('.') || objection(&path, self.reader).is_err() {
                continue;
            }
            let Some(left) = self.entries_left.checked_sub(1) else {
                self.found.is_cut = true;
                return Ok(());
            };
            self.entries_left = left;
            let kind = entry.file_type()?;
            if kind.is_file() {
                let bytes = entry.metadata()?.len();
                self.found.files.push(WalkedFile { path, bytes });
            } else if kind.is_dir() && depth == DEPTH_MAX {
                self.found.is_cut = true;
            } else if kind.is_dir() {
                self.add(&entry.open_dir()?, &format!("{path}/"), depth + 1)?;
            }
        }
        Ok(())
    }
}
