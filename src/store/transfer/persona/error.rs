//! Reasons why a persona was not moved.

use crate::objects::ObjectError;
use crate::store::transfer::TransferError;
use crate::store::{OpenError, StoreError, db};
use std::io;
use std::path::Path;

/// Reason why a persona was not moved to another cell, or a move was not taken back.
#[derive(Debug, thiserror::Error)]
pub enum PersonaMoveError {
    /// The workspace has no folder of that persona.
    #[error("there is no persona `{persona}` in `{place}`")]
    Unknown { persona: String, place: String },
    /// Both cells have one workspace, or one database.
    #[error("source and target are the same: {place}")]
    SamePlace { place: String },
    /// The target has a folder or rows of that persona.
    #[error("the target has a persona `{persona}` already: {what}")]
    Exists { persona: String, what: String },
    /// The target's configuration would not be good with the persona.
    #[error("the configuration of the target does not take the persona: {}", problems.join("; "))]
    Config { problems: Vec<String> },
    /// An engine had something in hand when it ended.
    #[error("an engine ended with something of the persona in hand: {}", what.join(", "))]
    InHand { what: Vec<String> },
    /// A person is being erased here, in the rows of this persona too.
    #[error("an erasure in the source has not ended")]
    ErasureOpen,
    /// A move of another persona, or to another place, did not end.
    #[error("a move of `{persona}` to `{place}` did not end")]
    OtherMove { persona: String, place: String },
    /// There is no unfinished move of the persona.
    #[error("no move of `{persona}` has begun here and not ended")]
    NothingToCancel { persona: String },
    /// The persona's folder is in the target alone.
    #[error("the move of `{persona}` has come too far to be taken back")]
    TooFar { persona: String, place: String },
    /// Files of the persona cannot be read, written or removed.
    #[error("cannot use `{path}`")]
    Folder {
        path: String,
        #[source]
        source: io::Error,
    },
    /// The copy of the folder is not what was read.
    #[error("the copy of the folder in `{path}` differs from the original")]
    FolderDiffers { path: String },
    #[error(transparent)]
    Rows(#[from] TransferError),
}

impl PersonaMoveError {
    pub(super) fn at(path: &Path, source: io::Error) -> Self {
        Self::Folder {
            path: path.display().to_string(),
            source,
        }
    }
}

impl From<db::Error> for PersonaMoveError {
    fn from(error: db::Error) -> Self {
        Self::Rows(error.into())
    }
}

impl From<OpenError> for PersonaMoveError {
    fn from(error: OpenError) -> Self {
        Self::Rows(error.into())
    }
}

impl From<StoreError> for PersonaMoveError {
    fn from(error: StoreError) -> Self {
        Self::Rows(error.into())
    }
}

impl From<ObjectError> for PersonaMoveError {
    fn from(error: ObjectError) -> Self {
        StoreError::from(error).into()
    }
}
