//! Modes and owners of the files that the engine keeps: none is for other users, all belong to one. `--fix` mends modes.
//!
//! Files that other users cannot reach, because a folder above is closed to them, are well. Absent on purpose: sockets,
//! whose mode is a setting, and `.secrets`, keys and files of the configuration that others may write, which are problems of the
//! configuration (`config::file::open_files`); `--fix` mends those, too.

use super::finding::{ExaminedArea, FindingArea, FindingSeverity, InstallCheck, InstallFinding};
use crate::config::{WritableFile, writable_files};
use crate::text::plural;
use serde::Serialize;
use std::fs::{Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Folders of a workspace that hold mail, memory or keys.
const PRIVATE: [&str; 2] = ["data", "personas"];
/// Files with keys beside them.
const SECRETS: &str = ".secrets";
/// Most files that are looked at.
const FILES_MAX: usize = 200_000;

/// A file that other users may read or write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// Path below the workspace.
    pub path: PathBuf,
    pub mode: u32,
    pub is_folder: bool,
}

/// Files of a workspace that are not for their owner alone.
#[derive(Debug, Default)]
pub struct ModeFacts {
    pub open: Vec<OpenFile>,
    /// Files of the configuration, and skills, that others may write.
    pub trusted: Vec<WritableFile>,
    /// Files below `data` of another user than the folder's, with the number of that user.
    pub foreign: Vec<(PathBuf, u32)>,
    /// User of `data`, and the user who asks.
    pub owner: Option<(u32, u32)>,
    /// User of `.secrets`, where it is another one than that of the workspace.
    pub secrets_owner: Option<(u32, u32)>,
}

/// A mode that was mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MendedMode {
    pub file: String,
    /// In octal digits.
    pub before: String,
    pub after: String,
}

static CHECKS: &[InstallCheck<ModeFacts>] =
    &[open_data, open_personas, foreign, secrets_owner, other_user];

pub fn examine(facts: &ModeFacts) -> ExaminedArea {
    ExaminedArea::of(CHECKS, facts)
}

/// Looks at the files of a workspace.
pub fn gather(workspace: &Path) -> ModeFacts {
    let mut facts = ModeFacts::default();
    let data = workspace.join("data");
    let owner = data.metadata().ok().map(|folder| folder.uid());
    facts.owner = owner.map(|owner| (owner, rustix::process::geteuid().as_raw()));
    for folder in PRIVATE {
        let owner = owner.filter(|_| folder == "data");
        walk(workspace, &workspace.join(folder), owner, &mut facts);
    }
    facts.trusted = writable_files(workspace);
    facts.open.sort_by(|a, b| a.path.cmp(&b.path));
    facts.foreign.sort();
    let uid = |path: &Path| path.metadata().ok().map(|found| found.uid());
    let owners = uid(&workspace.join(SECRETS)).zip(uid(workspace));
    facts.secrets_owner = owners.filter(|(secrets, workspace)| secrets != workspace);
    facts
}

fn walk(workspace: &Path, folder: &Path, owner: Option<u32>, facts: &mut ModeFacts) {
    let (mut left, mut seen) = (vec![(folder.to_path_buf(), true)], 0);
    while let Some((path, is_reachable)) = left.pop() {
        let Ok(found) = path.symlink_metadata() else {
            continue;
        };
        seen += 1;
        if seen > FILES_MAX {
            return;
        }
        let below = path.strip_prefix(workspace).unwrap_or(&path).to_path_buf();
        if owner.is_some_and(|owner| owner != found.uid()) {
            facts.foreign.push((below.clone(), found.uid()));
        }
        let mode = found.permissions().mode() & 0o7777;
        let is_open = is_reachable && is_open(&found, mode);
        if found.is_dir() {
            let may_enter = is_reachable && mode & 0o011 != 0;
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| (entry.path(), may_enter)));
        }
        if is_open {
            facts.open.push(OpenFile {
                path: below,
                mode,
                is_folder: found.is_dir(),
            });
        }
    }
}

/// Reports whether others may read or write a file, or write into a folder. That a folder may be entered matters by what is
/// in it.
fn is_open(found: &Metadata, mode: u32) -> bool {
    match (found.is_file(), found.is_dir()) {
        (true, _) => mode & 0o066 != 0,
        (_, true) => mode & 0o022 != 0,
        _ => false,
    }
}

/// Takes the rights of others from files that [`gather`] found, in `.secrets` too. Only modes change.
pub fn mend(workspace: &Path, facts: &ModeFacts) -> io::Result<Vec<MendedMode>> {
    let secrets = workspace.join(SECRETS);
    let is_file = secrets
        .symlink_metadata()
        .is_ok_and(|found| found.is_file());
    let secrets = is_file.then(|| PathBuf::from(SECRETS));
    let data = PathBuf::from("data");
    let private = (!facts.open.is_empty()).then_some(data);
    let paths = facts.open.iter().map(|open| open.path.clone());
    let trusted = facts.trusted.iter();
    let trusted = trusted.filter_map(|file| file.path.strip_prefix(workspace).ok());
    let closed = paths.chain(secrets).chain(private);
    let closed = closed.map(|below| (below, 0o077));
    let kept = trusted.map(|below| (below.to_path_buf(), 0o022));
    let mut mended = Vec::new();
    for (below, rights) in closed.chain(kept) {
        let path = workspace.join(&below);
        let before = path.symlink_metadata()?.permissions().mode() & 0o7777;
        let after = before & !rights;
        if before == after {
            continue;
        }
        std::fs::set_permissions(&path, Permissions::from_mode(after))?;
        mended.push(MendedMode {
            file: below.display().to_string(),
            before: format!("{before:04o}"),
            after: format!("{after:04o}"),
        });
    }
    Ok(mended)
}

fn open_data(facts: &ModeFacts) -> Vec<InstallFinding> {
    open_below("data", facts)
}

fn open_personas(facts: &ModeFacts) -> Vec<InstallFinding> {
    open_below("personas", facts)
}

fn open_below(folder: &str, facts: &ModeFacts) -> Vec<InstallFinding> {
    let mut open = facts
        .open
        .iter()
        .filter(|file| file.path.starts_with(folder));
    let Some(first) = open.next() else {
        return Vec::new();
    };
    let count = plural(1 + open.count(), "file");
    let may = match first.is_folder {
        true => "write into",
        false => "read",
    };
    let what = format!(
        "other users of this machine may {may} {count} of `{folder}`, such as `{}` (mode {:04o})",
        first.path.display(),
        first.mode
    );
    let remedy = "`attache doctor --fix` takes their rights away, as `chmod -R go= data personas` does, if they are not meant to";
    let finding = InstallFinding::new(FindingArea::Modes, FindingSeverity::Warning, what, remedy);
    vec![finding.of_file(first.path.display().to_string())]
}

fn foreign(facts: &ModeFacts) -> Vec<InstallFinding> {
    let (Some((first, uid)), Some((owner, _))) = (facts.foreign.first(), facts.owner) else {
        return Vec::new();
    };
    let count = plural(facts.foreign.len(), "file");
    let what = format!(
        "{count} of `data` belong to another user, such as `{}` to the one with the number {uid}; the folder is of {owner}",
        first.display()
    );
    let remedy =
        format!("`chown -R {owner} data`, and work as that user: root's files lock the engine out");
    let finding = InstallFinding::new(FindingArea::Modes, FindingSeverity::Fault, what, remedy);
    vec![finding.of_file(first.display().to_string())]
}

fn secrets_owner(facts: &ModeFacts) -> Vec<InstallFinding> {
    let Some((secrets, owner)) = facts.secrets_owner else {
        return Vec::new();
    };
    let what = format!(
        "it belongs to the user with the number {secrets}, and the workspace to {owner}, who may not read it"
    );
    let remedy = format!("`chown {owner} .secrets`");
    let finding = InstallFinding::new(FindingArea::Keys, FindingSeverity::Fault, what, remedy);
    vec![finding.of_file(SECRETS)]
}

fn other_user(facts: &ModeFacts) -> Vec<InstallFinding> {
    let Some((owner, user)) = facts.owner.filter(|(owner, user)| owner != user) else {
        return Vec::new();
    };
    let what = format!("`data` belongs to the user with the number {owner}, and you are {user}");
    let remedy = "ask as that user, or what is found here is not what the engine finds";
    vec![
        InstallFinding::new(FindingArea::Modes, FindingSeverity::Note, what, remedy)
            .of_file("data"),
    ]
}
