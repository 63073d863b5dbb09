//! The workspace of a persona: the folder in which its agents, and tools that write files, may write.
//! Making it, listing it, and its quota.
//!
//! It is opened as a capability: what an agent put there, links above all, leads nowhere else.

use super::entry::{is_missing, key_of};
use crate::config::{AGENT_FOLDER, Limits};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

/// Deepest folder; deeper ones are over quota, because a path has a longest length.
const DEPTH_MAX: usize = 32;

/// Error of work on a workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// It holds more than it may; the message says what to do.
    #[error("{0}")]
    OverQuota(String),
    /// The name, or the version, does not exist or cannot be used.
    #[error("{0}")]
    NotFound(String),
    #[error("the workspace cannot be read or written")]
    Io(#[from] io::Error),
}

/// Quota of one workspace, and bounds of its versions.
#[derive(Debug, Clone, Copy)]
pub struct WorkspaceQuota {
    pub bytes_max: u64,
    /// Most files, folders and links together.
    pub files_max: usize,
    pub versions_max: usize,
    pub versions_bytes_max: u64,
}

impl From<&Limits> for WorkspaceQuota {
    fn from(limits: &Limits) -> Self {
        Self {
            bytes_max: limits.workspace_bytes_max,
            files_max: limits.workspace_files_max,
            versions_max: limits.workspace_versions_max,
            versions_bytes_max: limits.workspace_versions_bytes_max,
        }
    }
}

/// Content of a workspace in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkspaceUsage {
    pub bytes: u64,
    /// Files, folders and links.
    pub files: usize,
}

/// A regular file of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFile {
    /// Below the workspace, as `entry::key_of` writes it.
    pub path: String,
    pub bytes: u64,
    /// Changes whenever the file does: its inode, and the times of content and inode, which a program
    /// cannot set at will.
    pub stamp: [i64; 5],
    /// `true`: it has a second name, which may lie anywhere.
    pub is_linked: bool,
}

impl WorkspaceFile {
    /// Returns the last change of content or inode in nanoseconds.
    pub fn changed_at_ns(&self) -> i128 {
        nanos(self.stamp[3], self.stamp[4])
    }
}

/// Joins the two halves of a time of the file system.
pub fn nanos(seconds: i64, nanos: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

/// Makes a folder below the persona's, readable for its owner alone, and every folder on the way.
/// Blocking. Errors: something else, such as a link, has the name.
pub fn make(folder: &Path, working: &str) -> io::Result<()> {
    let mut path = folder.to_path_buf();
    for part in Path::new(working).components() {
        let Component::Normal(name) = part else {
            return Err(io::Error::from(ErrorKind::InvalidInput));
        };
        path.push(name);
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                let shown = path.display();
                let message = format!("`{shown}` is no folder; move it away, and one is made");
                return Err(io::Error::other(message));
            }
            Err(error) if is_missing(&error) => {
                match fs::DirBuilder::new().mode(0o700).create(&path) {
                    // Another agent of the persona begins, too; what it made is judged next time.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    made => made?,
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens the workspace of a persona's folder; `None`: there is none, or something else has its name.
pub fn open(folder: &Path) -> io::Result<Option<Dir>> {
    let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
    match folder.symlink_metadata(AGENT_FOLDER) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Ok(metadata) if !metadata.is_dir() => Ok(None),
        metadata => {
            metadata?;
            folder.open_dir(AGENT_FOLDER).map(Some)
        }
    }
}

/// Lists a workspace, sorted by path. Errors: it holds more than the quota.
pub fn list(
    workspace: &Dir,
    quota: &WorkspaceQuota,
) -> Result<(Vec<WorkspaceFile>, WorkspaceUsage), WorkspaceError> {
    let (mut files, mut usage) = (Vec::new(), WorkspaceUsage::default());
    let mut left = vec![(PathBuf::new(), 0)];
    while let Some((parent, depth)) = left.pop() {
        let listed = match parent.as_os_str().is_empty() {
            true => workspace.entries(),
            false => workspace.read_dir(&parent),
        };
        let listed = match listed {
            // Its agent may still work.
            Err(error) if is_missing(&error) => continue,
            listed => listed?,
        };
        for entry in listed {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Err(error) if is_missing(&error) => continue,
                metadata => metadata?,
            };
            let path = parent.join(entry.file_name());
            usage.files += 1;
            if metadata.is_dir() {
                if depth == DEPTH_MAX {
                    let shown = key_of(path.as_os_str());
                    let message = format!(
                        "`{AGENT_FOLDER}/{shown}` is more than {DEPTH_MAX} folders deep; move or remove it"
                    );
                    return Err(WorkspaceError::OverQuota(message));
                }
                left.push((path, depth + 1));
            } else if metadata.is_file() {
                usage.bytes = usage.bytes.saturating_add(metadata.len());
                files.push(WorkspaceFile {
                    path: key_of(path.as_os_str()),
                    bytes: metadata.len(),
                    stamp: [
                        metadata.ino().cast_signed(),
                        metadata.mtime(),
                        metadata.mtime_nsec(),
                        metadata.ctime(),
                        metadata.ctime_nsec(),
                    ],
                    is_linked: metadata.nlink() > 1,
                });
            }
            fits(usage, WorkspaceUsage::default(), quota)?;
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((files, usage))
}

/// Names in a workspace that lead out of it, below it and sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeadingOut {
    /// Symbolic links.
    pub links: Vec<PathBuf>,
    /// Files with a further name (a hard link) that is not in the workspace.
    pub second_names: Vec<PathBuf>,
}

/// Finds what leads out of a workspace. A link does so by an absolute target, by more `..` than it has folders above it, or by
/// a link on its way. Blocking.
pub fn leading_out(workspace: &Dir) -> io::Result<LeadingOut> {
    let mut out = LeadingOut::default();
    let mut linked: BTreeMap<(u64, u64), (u64, Vec<PathBuf>)> = BTreeMap::new();
    let mut left = vec![PathBuf::new()];
    while let Some(parent) = left.pop() {
        let listed = match parent.as_os_str().is_empty() {
            true => workspace.entries(),
            false => workspace.read_dir(&parent),
        };
        let listed = match listed {
            // It is gone, its path is too long for any tool, or it is closed to the engine.
            Err(error) if is_missing(&error) || is_out_of_reach(&error) => continue,
            listed => listed?,
        };
        for entry in listed {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Err(error) if is_missing(&error) => continue,
                metadata => metadata?,
            };
            let path = parent.join(entry.file_name());
            if metadata.is_dir() {
                left.push(path);
            } else if metadata.is_symlink() {
                if leads_out(workspace, &path) {
                    out.links.push(path);
                }
            } else if metadata.nlink() > 1 {
                let of_inode = linked.entry((metadata.dev(), metadata.ino()));
                let (names, here) = of_inode.or_default();
                *names = metadata.nlink();
                here.push(path);
            }
        }
    }
    let elsewhere = linked
        .into_values()
        .filter(|(names, here)| *names > here.len() as u64);
    out.second_names = elsewhere.flat_map(|(_, here)| here).collect();
    out.second_names.sort();
    out.links.sort();
    Ok(out)
}

fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidFilename | ErrorKind::PermissionDenied
    )
}

fn leads_out(workspace: &Dir, link: &Path) -> bool {
    let Ok(target) = workspace.read_link_contents(link) else {
        return false;
    };
    let parent = link.parent().unwrap_or(Path::new(""));
    let mut depth = parent.components().count();
    for component in target.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    // Another link on the way may lead out; the refusal is cap-std's own, without a number of the system's.
    workspace.canonicalize(link).is_err_and(|error| {
        error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none()
    })
}

/// Removes the links of a persona's workspace that lead out of it, and returns their names. Blocking.
pub fn remove_links_out(folder: &Path) -> io::Result<Vec<String>> {
    let Some(workspace) = open(folder)? else {
        return Ok(Vec::new());
    };
    let mut removed = Vec::new();
    // What led out by another link does not any more once that is gone.
    for link in leading_out(&workspace)?.links {
        match workspace.remove_file(&link) {
            Err(error) if !is_missing(&error) => return Err(error),
            _ => removed.push(key_of(link.as_os_str())),
        }
    }
    Ok(removed)
}

/// Checks that a workspace may hold `more` than it does. Errors: what to do.
pub fn fits(
    usage: WorkspaceUsage,
    more: WorkspaceUsage,
    quota: &WorkspaceQuota,
) -> Result<(), WorkspaceError> {
    let (bytes, files) = (
        usage.bytes.saturating_add(more.bytes),
        usage.files.saturating_add(more.files),
    );
    let (is_over, limit, key) = match bytes > quota.bytes_max {
        true => (
            true,
            format!("{} bytes", quota.bytes_max),
            "workspace_bytes_max",
        ),
        false => (
            files > quota.files_max,
            format!("{} files and folders", quota.files_max),
            "workspace_files_max",
        ),
    };
    match is_over {
        false => Ok(()),
        true => Err(WorkspaceError::OverQuota(format!(
            "`{AGENT_FOLDER}` would hold more than {limit}; remove files in it, or raise `limits.{key}` in \
             `configs/gateway.json`"
        ))),
    }
}
