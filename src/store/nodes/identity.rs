//! Which process a node is.

use std::path::Path;

/// A process that works on a database. Host and workspace are those of one node at a time, because a
/// lock of the workspace is had by one process.
pub(in crate::store) struct NodeIdentity {
    pub host: String,
    /// Absolute path of the workspace.
    pub workspace: String,
    pub pid: i64,
    pub version: &'static str,
}

impl NodeIdentity {
    /// Returns this process, as the node of a workspace.
    pub fn of(workspace: &Path) -> Self {
        let host = rustix::system::uname();
        let path = std::path::absolute(workspace).unwrap_or_else(|_| workspace.to_path_buf());
        let path = path.canonicalize().unwrap_or(path);
        Self {
            host: host.nodename().to_string_lossy().into_owned(),
            workspace: path.display().to_string(),
            pid: i64::from(std::process::id()),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}
