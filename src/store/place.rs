//! Where the database of a workspace is: in a file, or on a server.

use crate::domain::Timestamp;
use crate::store::postgres::away::away_since;
use crate::store::postgres::refusal::is_lost;
use crate::store::postgres::url::DatabaseUrl;
use crate::store::sqlite::leftovers::refuse_leftovers;
use crate::store::{OpenError, StoreError};
use std::path::{Path, PathBuf};

/// Place of a workspace's database.
pub struct DatabasePlace {
    file: PathBuf,
    url: Option<DatabaseUrl>,
}

impl DatabasePlace {
    /// Errors: [`OpenError::DatabaseUrl`].
    pub fn of(workspace: &Path) -> Result<Self, OpenError> {
        Ok(Self {
            file: workspace.join("data/attache.db"),
            url: DatabaseUrl::of(workspace)?,
        })
    }

    /// Returns the file; `None`: it is on a server.
    pub fn file(&self) -> Option<&Path> {
        match self.url {
            None => Some(&self.file),
            Some(_) => None,
        }
    }

    /// Reports whether a database can be opened without making it. What is on a server is known when
    /// it is opened.
    pub fn is_made(&self) -> bool {
        self.url.is_some() || self.file.is_file()
    }

    /// Refuses what another database or a restore has left in a file's place.
    ///
    /// Errors: [`OpenError::Gone`] and others; none where the database is on a server.
    pub fn refuse_leftovers(&self) -> Result<(), OpenError> {
        match (self.file(), self.file.parent()) {
            (Some(_), Some(data)) => refuse_leftovers(data),
            _ => Ok(()),
        }
    }

    /// Returns since when the server does not answer the engine of the workspace; `None`: it does, or no engine has noticed.
    pub fn away_since(&self, workspace: &Path) -> Option<Timestamp> {
        self.url.as_ref().and_then(|_| away_since(workspace))
    }

    /// Names the server in an error of a read that it did not answer.
    ///
    /// Errors: any other.
    pub fn away(&self, error: StoreError) -> Result<OpenError, StoreError> {
        match (&self.url, error) {
            (Some(url), StoreError::Sql(error)) if is_lost(&error) => {
                Ok(url.failed(OpenError::Sql(error)))
            }
            (_, error) => Err(error),
        }
    }

    /// Returns words for an operator, without a password.
    pub fn shown(&self) -> String {
        match &self.url {
            None => "data/attache.db".to_owned(),
            Some(url) => url.shown(),
        }
    }
}
