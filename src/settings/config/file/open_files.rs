//! Files of the configuration, and programs, that other users of the machine may write: what is in them is nobody's word.
//!
//! What other users cannot reach, because the workspace or a folder on the way is closed to them, is well. What besides its owner
//! only a group may write that the engine is in itself, as an umask of 002 and volumes of Kubernetes leave files, is a warning.

use super::problem::Problem;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Folders of a workspace whose files the engine acts upon. Skills of a persona are in its folder.
pub const TRUSTED_FOLDERS: [&str; 2] = ["configs", "skills"];
/// Rights of a group and of everybody to write, and to enter.
const WRITES: u32 = 0o022;
const ENTERS: u32 = 0o011;
/// Right of a folder in which each may rename and remove what is theirs.
const STICKY: u32 = 0o1000;
/// Most files that are looked at.
const FILES_MAX: usize = 20_000;

/// A file or folder that other users may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritableFile {
    pub path: PathBuf,
    pub mode: u32,
    /// Those who may write it are in a group of this process.
    pub is_of_own_group: bool,
}

/// Returns the first of the folders from the workspace down to a path, and of the path itself, that other users may write; `None`:
/// there is none. Of a path elsewhere, itself alone is looked at.
pub fn writable_by_others(workspace: &Path, path: &Path) -> Option<WritableFile> {
    let itself = || is_foreign(path, true);
    let Ok(below) = path.strip_prefix(workspace) else {
        return itself();
    };
    let mut folder = workspace.to_path_buf();
    let mut names: Vec<_> = below.components().collect();
    names.pop()?;
    if let Some(found) = is_foreign(&folder, true) {
        return Some(found);
    }
    for name in names {
        if !is_reachable(&folder) {
            return None;
        }
        folder.push(name);
        if let Some(found) = is_foreign(&folder, true) {
            return Some(found);
        }
    }
    is_foreign(path, is_reachable(&folder))
}

/// Returns the first file that a command line names and that other users may write; its paths are relative to `folder`.
pub fn writable_part(
    command: &[String],
    (folder, workspace): (&Path, &Path),
) -> Option<WritableFile> {
    let named = command.iter().enumerate();
    // A bare word is looked up on `PATH`, or is no file.
    let named = named.filter(|(at, part)| part.contains('/') || *at > 0);
    let paths = named.map(|(_, part)| super::below(folder, part));
    paths
        .filter(|path| path.is_file())
        .find_map(|path| writable_by_others(workspace, &path))
}

/// Finds the files below the folders of a workspace that the engine acts upon which other users may write, and the folders.
pub fn writable_files(workspace: &Path) -> Vec<WritableFile> {
    let mut found: Vec<WritableFile> = is_writable(workspace, true).into_iter().collect();
    if !is_reachable(workspace) {
        return found;
    }
    let own = TRUSTED_FOLDERS.map(|folder| workspace.join(folder));
    let personas = std::fs::read_dir(workspace.join("personas"));
    let personas = personas.into_iter().flatten().flatten();
    let of_personas = personas.map(|persona| persona.path().join("skills"));
    let mut left: Vec<PathBuf> = own.into_iter().chain(of_personas).collect();
    let mut seen = 0;
    while let Some(path) = left.pop() {
        seen += 1;
        let Ok(facts) = path.symlink_metadata() else {
            continue;
        };
        if seen > FILES_MAX {
            break;
        }
        found.extend(is_writable(&path, true).filter(|_| !facts.is_symlink()));
        if facts.is_dir() && is_reachable(&path) {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Returns the problems of a workspace, and the warnings, one for each of its folders; `commands`: command lines of hooks, tools and
/// servers, with the folders that they are started in.
pub fn problems<'c>(
    workspace: &Path,
    commands: impl Iterator<Item = (&'c [String], &'c Path)>,
) -> (Vec<Problem>, Vec<Problem>) {
    let mut found = writable_files(workspace);
    for (command, folder) in commands {
        let part = writable_part(command, (folder, workspace));
        found.extend(part.filter(|part| !found.contains(part)));
    }
    let (warned, refused): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|file| file.is_of_own_group);
    (by_folder(workspace, refused), by_folder(workspace, warned))
}

fn by_folder(workspace: &Path, found: Vec<WritableFile>) -> Vec<Problem> {
    let mut of_folder: BTreeMap<String, (WritableFile, usize)> = BTreeMap::new();
    for file in found {
        let below = file.path.strip_prefix(workspace).unwrap_or(&file.path);
        let first = below.components().next();
        let folder = first.map_or(".".to_owned(), |name| {
            name.as_os_str().to_string_lossy().into_owned()
        });
        of_folder.entry(folder).or_insert((file, 0)).1 += 1;
    }
    let problems = of_folder.into_iter().map(|(folder, (file, count))| {
        let below = file.path.strip_prefix(workspace).unwrap_or(&file.path);
        let shown = match below.as_os_str().is_empty() {
            true => ".".to_owned(),
            false => below.display().to_string(),
        };
        let more = match count {
            1 => String::new(),
            count => format!(", and so are {} more", count - 1),
        };
        let whom = match file.is_of_own_group {
            true => "everybody in a group of this engine's",
            false => "other users of this machine",
        };
        let what = format!("may be written by {whom} (mode {:04o}){more}", file.mode);
        let hint = match folder.as_str() {
            "." => "`chmod go-w .`: whoever may write into the workspace may replace what is in it".to_owned(),
            folder => format!("`chmod -R go-w {folder}`, as `attache doctor --fix` does; look first at what stands there"),
        };
        Problem::in_file(&shown, what).hint(hint)
    });
    problems.collect()
}

fn mode(facts: &Metadata) -> u32 {
    facts.permissions().mode() & 0o7777
}

fn is_writable(path: &Path, is_reachable: bool) -> Option<WritableFile> {
    let facts = path.metadata().ok()?;
    let mode = mode(&facts);
    let is_kept = facts.is_dir() && mode & STICKY != 0;
    let is_open = is_reachable && mode & WRITES != 0 && !is_kept;
    is_open.then(|| WritableFile {
        path: path.to_path_buf(),
        mode,
        is_of_own_group: mode & WRITES & 0o007 == 0 && is_own_group(facts.gid()),
    })
}

/// [`is_writable`], by others than a group of this process.
fn is_foreign(path: &Path, is_reachable: bool) -> Option<WritableFile> {
    is_writable(path, is_reachable).filter(|found| !found.is_of_own_group)
}

fn is_own_group(group: u32) -> bool {
    let others = rustix::process::getgroups().unwrap_or_default();
    let mut own = others.into_iter().chain([rustix::process::getegid()]);
    own.any(|own| own.as_raw() == group)
}

fn is_reachable(folder: &Path) -> bool {
    folder
        .metadata()
        .is_ok_and(|facts| mode(&facts) & ENTERS != 0)
}
