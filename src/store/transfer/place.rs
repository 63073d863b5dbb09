//! Where rows come from, and where they go to.

use super::error::TransferError;
use crate::store::postgres::url::DatabaseUrl;
use std::path::{Path, PathBuf};

/// A database that takes part in a transfer.
#[derive(Clone)]
pub(super) enum TransferPlace {
    /// `attache.db` in the folder `data` of a workspace.
    File {
        data: PathBuf,
    },
    Server(Box<DatabaseUrl>),
}

impl TransferPlace {
    /// Reads what the operator has typed: the address of a database of PostgreSQL, or the folder of a workspace.
    pub fn typed(to: &str) -> Result<Self, TransferError> {
        if to.contains("://") {
            return Ok(Self::Server(Box::new(DatabaseUrl::parse(to)?)));
        }
        let data = Path::new(to).join("data");
        Ok(Self::File { data })
    }

    /// Returns the database of a workspace whose rows go to `to`, which is of the other kind. That the workspace names the target
    /// already, or has the unfinished file of an earlier attempt, is no obstacle.
    ///
    /// Errors: [`TransferError::NoSource`], [`TransferError::SameKind`].
    pub fn source(workspace: &Path, to: &Self) -> Result<Self, TransferError> {
        let file = Self::File {
            data: workspace.join("data"),
        };
        let server = DatabaseUrl::named(workspace)?.map(|url| Self::Server(Box::new(url)));
        let is_file = workspace.join("data/attache.db").is_file();
        match (to, server) {
            (Self::Server(_), _) if is_file => Ok(file),
            (Self::File { .. }, Some(server)) => Ok(server),
            (Self::File { .. }, None) if is_file => Err(file.same_kind(to)),
            (Self::Server(_), Some(server)) => Err(server.same_kind(to)),
            _ => Err(TransferError::NoSource),
        }
    }

    fn same_kind(&self, to: &Self) -> TransferError {
        TransferError::SameKind {
            from: self.shown(),
            to: to.shown(),
        }
    }

    /// Returns words for an operator, without a password.
    pub fn shown(&self) -> String {
        match self {
            Self::File { data } => {
                let data = std::fs::canonicalize(data).unwrap_or_else(|_| data.clone());
                format!("`{}`", data.join("attache.db").display())
            }
            Self::Server(url) => url.shown(),
        }
    }
}
