//! Errors of backups and of restoring.

use crate::store::{OpenError, StoreError, VerifyError};
use std::io;
use std::path::Path;

/// Error of a backup, of its check, or of a restore.
#[derive(Debug, thiserror::Error)]
pub enum KeepingError {
    #[error("cannot use `{path}`")]
    File {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("the backup needs {needed} bytes in `{folder}`, and {free} are free there")]
    NoRoom {
        needed: u64,
        free: u64,
        folder: String,
    },
    /// A folder or file of the copy's name exists.
    #[error("`{path}` exists")]
    Exists { path: String },
    #[error("there is no database `{path}`")]
    NoDatabase { path: String },
    /// A server keeps the rows; nothing here copies them.
    #[error(
        "the database is {place}, and is copied by tools of the server; take `backup` out of `configs/keeping.json`"
    )]
    OnServer { place: String },
    #[error("`{folder}` is no backup: its `manifest.json` cannot be used: {what}")]
    NoManifest { folder: String, what: String },
    /// Something of a database stands where one is to be restored.
    #[error("`{path}` is left of another database")]
    Leftover { path: String },
    /// Something of a workspace stands where one is to be restored.
    #[error("`{path}` is not empty")]
    NotEmpty { path: String },
    #[error("an engine (process {pid}) works in `{folder}`")]
    EngineWorks { folder: String, pid: String },
    /// Files that are not as the manifest says, or checks that found something.
    #[error("the backup is not as it was made: {}", found.join("; "))]
    NotAsMade { found: Vec<String> },
    /// Runs or mails that belong to a person are still open.
    #[error("still open, and in the way: {}", ids.join(", "))]
    StillOpen { ids: Vec<String> },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl KeepingError {
    /// Makes an error of a file from one of the system.
    pub fn at(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.display().to_string();
        move |source| match source.kind() {
            io::ErrorKind::AlreadyExists => Self::Exists { path: path.clone() },
            _ => Self::File {
                path: path.clone(),
                source,
            },
        }
    }
}

impl From<VerifyError> for KeepingError {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Open(error) => Self::Open(error),
            VerifyError::Store(error) => Self::Store(error),
        }
    }
}
