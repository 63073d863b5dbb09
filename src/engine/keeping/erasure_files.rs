//! Files of a workspace that hold what a person wrote.
//!
//! What programs wrote goes, by the names that the engine makes below `data`: mails in a folder, what agents and forks left, earlier versions of workspaces. Notes of a persona lose
//! the lines that quote. What the owner wrote is named and left.

use crate::store::ErasureScope;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Most bytes of a file that is read.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Most folders inside each other.
const DEPTH_MAX: usize = 64;
/// What is looked into elsewhere, or is a copy that the report names.
const SKIPPED: [&str; 7] = [
    "data/attache.db",
    "data/attache.db-wal",
    "data/attache.db-shm",
    "data/attache.db-journal",
    "data/backups",
    "data/erasures",
    ".git",
];
/// Folders below `data` in which only the engine and the programs that it starts write.
const PROGRAMS: [&str; 9] = [
    "agents",
    "demo",
    "forks",
    "in-flight",
    "outbox",
    "quarantine",
    "streams",
    "tokens",
    "workspaces",
];
/// The log of decisions, and what it was renamed to.
const AUDIT_LOG: &str = "audit.log";
const IN_FORCE: &str = "in-force.json";

/// Files that were found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ErasedFiles {
    /// They lost the lines that quote.
    pub changed: Vec<String>,
    pub removed: Vec<String>,
    /// The owner's, which still quote.
    pub left: Vec<String>,
}

/// Erases below a workspace and in other folders, such as one that takes mails; with `dry` it only looks.
pub fn erase_files(
    workspace: &Path,
    others: &[PathBuf],
    scope: &ErasureScope,
    dry: bool,
) -> io::Result<ErasedFiles> {
    let mut found = ErasedFiles::default();
    let eraser = FileEraser {
        workspace,
        mail: others,
        scope,
        dry,
    };
    eraser.folder(workspace, DEPTH_MAX, &mut found)?;
    for other in others.iter().filter(|other| !other.starts_with(workspace)) {
        eraser.folder(other, DEPTH_MAX, &mut found)?;
    }
    Ok(found)
}

struct FileEraser<'a> {
    workspace: &'a Path,
    /// Folders that give or take mails.
    mail: &'a [PathBuf],
    scope: &'a ErasureScope,
    dry: bool,
}

impl FileEraser<'_> {
    fn folder(&self, folder: &Path, depth: usize, found: &mut ErasedFiles) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            let name = self.name(&path);
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            // A backup has a manifest; the report names it.
            if kind.is_dir() && depth > 0 && !path.join(super::contents::MANIFEST).exists() {
                self.folder(&path, depth - 1, found)?;
            } else if kind.is_file() {
                self.file(&path, name, found)?;
            }
        }
        Ok(())
    }

    /// Path below the workspace, or the whole path of a file elsewhere.
    fn name(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.workspace).unwrap_or(path);
        below.to_string_lossy().into_owned()
    }

    fn file(&self, path: &Path, name: String, found: &mut ErasedFiles) -> io::Result<()> {
        if fs::metadata(path)?.len() > BYTES_MAX {
            return Ok(());
        }
        let bytes = fs::read(path)?;
        let text = String::from_utf8_lossy(&bytes);
        if name.ends_with(".eml") {
            // A mail that answers or quotes one of them is another one.
            let is_theirs = message_id(&text).is_some_and(|id| self.scope.ids.contains(id));
            let is_of_owner = !is_of_programs(&name) && !is_notes(&name) && !self.takes_mails(path);
            if is_theirs && !is_of_owner {
                return self.remove(path, name, found);
            }
            if is_theirs || self.scope.quotations.are_in(&text) {
                found.left.push(name);
            }
            return Ok(());
        }
        if !self.scope.is_in(&text) {
            return Ok(());
        }
        let is_of_mail = path.starts_with(self.workspace.join("data")) && self.takes_mails(path);
        if is_of_programs(&name) || is_of_mail {
            return self.remove(path, name, found);
        }
        if !is_notes(&name) {
            found.left.push(name);
            return Ok(());
        }
        match self.scope.quotations.cut(&text) {
            Some(left) if std::str::from_utf8(&bytes).is_ok() => {
                if !self.dry {
                    fs::write(path, left)?;
                }
                found.changed.push(name);
                Ok(())
            }
            // It quotes over the ends of its lines, or is no text.
            _ => self.remove(path, name, found),
        }
    }

    /// Reports whether a file lies in a folder that gives or takes mails by the configuration.
    fn takes_mails(&self, path: &Path) -> bool {
        let wide = [self.workspace.to_owned(), self.workspace.join("data")];
        let mut folders = self.mail.iter().filter(|folder| !wide.contains(folder));
        folders.any(|folder| path.starts_with(folder))
    }

    fn remove(&self, path: &Path, name: String, found: &mut ErasedFiles) -> io::Result<()> {
        if !self.dry {
            fs::remove_file(path)?;
        }
        found.removed.push(name);
        Ok(())
    }
}

/// Reports whether the engine or a program that it started wrote a file, by the names that they make; the rest of `data` is the
/// owner's.
fn is_of_programs(name: &str) -> bool {
    let below = name.strip_prefix("data/").unwrap_or_default();
    let folder = below.split_once('/').map(|(folder, _)| folder);
    below.starts_with(AUDIT_LOG)
        || below == IN_FORCE
        || folder.is_some_and(|folder| PROGRAMS.contains(&folder))
}

/// Reports whether a file is a persona's notes: its memory, its workspace.
fn is_notes(name: &str) -> bool {
    let mut parts = name.split('/');
    if parts.next() != Some("personas") {
        return false;
    }
    let of_persona = parts.nth(1);
    matches!(
        of_persona,
        Some("active.md" | "workspace" | "correspondents")
    )
}

/// Returns the Message-ID of a mail's header.
fn message_id(mail: &str) -> Option<&str> {
    let header = mail.lines().take_while(|line| !line.trim().is_empty());
    let mut ids = header.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("message-id").then_some(value)
    });
    let id = ids.next()?.trim();
    Some(id.trim_start_matches('<').trim_end_matches('>'))
}
