//! Exit codes and remedies of what a backup or a restore can meet.

use crate::cli::{Exit, Failure};
use crate::keeping::KeepingError;

/// Makes a failure for the operator.
pub fn refusal(error: KeepingError) -> anyhow::Error {
    let (exit, hint) = match &error {
        // They have their own.
        KeepingError::Open(_) | KeepingError::Store(_) => return error.into(),
        KeepingError::NoRoom { .. } => (Exit::CannotCreate, "name a folder on another disk"),
        KeepingError::Exists { .. } | KeepingError::NotEmpty { .. } => (
            Exit::CannotCreate,
            "name a folder that is new or empty; what an interrupted restore left may be removed",
        ),
        KeepingError::OnServer { .. } => (
            Exit::Usage,
            "`pg_dump` and pgBackRest copy it; the folders of the workspace are copied beside it",
        ),
        KeepingError::NoDatabase { .. } => (
            Exit::NoInput,
            "the first start of an engine makes the database of a workspace; a backup is a file or a folder that `attache backup` made",
        ),
        KeepingError::NoManifest { .. } => (
            Exit::BadData,
            "name the folder that `attache backup` made, or the database file in it",
        ),
        KeepingError::Leftover { .. } => (
            Exit::Workspace,
            "restore into a new folder, or move `data/attache.db` away with its `-wal`, `-shm` and `-journal`: an old log would undo \
             the restore. A database with a log beside it is no backup: `attache backup` makes one",
        ),
        KeepingError::EngineWorks { .. } => (
            Exit::Workspace,
            "restore into a new folder, or stop that engine and move its folder `data` away",
        ),
        KeepingError::NotAsMade { .. } => (
            Exit::BadData,
            "take another backup; nothing was restored. `attache backup verify` says the same of any",
        ),
        KeepingError::StillOpen { .. } => (
            Exit::TryAgain,
            "nothing was erased: `attache drain` lets them end, `attache runs cancel` and `attache outbox cancel` end them, `attache approvals` decides questions; then say it \
             again",
        ),
        KeepingError::File { .. } => (
            Exit::CannotCreate,
            "see that the path is there and belongs to this user",
        ),
    };
    Failure::new(exit, error.to_string())
        .hint(hint)
        .because(error)
        .into()
}
