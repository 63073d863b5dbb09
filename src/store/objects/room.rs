//! The object store of a workspace, and what its rows name.

use crate::config::objects_of;
use crate::domain::LoopKey;
use crate::objects::{ObjectClient, ObjectError, ObjectName};
use crate::store::db::Row;
use crate::store::{OpenError, Result};
use std::borrow::Cow;
use std::path::Path;

/// An object that a row names in place of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptObject {
    pub name: ObjectName,
    pub size_bytes: usize,
}

impl KeptObject {
    /// Returns the size as a column has it.
    pub(in crate::store) fn size_column(&self) -> i64 {
        i64::try_from(self.size_bytes).unwrap_or(i64::MAX)
    }
}

/// The object store of a workspace.
#[derive(Clone, Default)]
pub(in crate::store) enum ObjectRoom {
    /// None is configured: bytes are in their rows.
    #[default]
    None,
    Open(ObjectClient),
    /// One is configured and cannot be used; why. Commands that need none of its objects work all the same.
    Unusable(String),
}

impl ObjectRoom {
    /// Opens the object store of a workspace; asks nothing of it.
    pub fn of(workspace: &Path) -> Self {
        Self::try_of(workspace).unwrap_or_else(|error| Self::Unusable(error.to_string()))
    }

    /// Opens the object store of a workspace for an engine, which would store bytes where its configuration does not say.
    ///
    /// Errors: [`OpenError::Objects`].
    pub fn of_engine(workspace: &Path) -> std::result::Result<Self, OpenError> {
        Self::try_of(workspace).map_err(OpenError::Objects)
    }

    fn try_of(workspace: &Path) -> std::result::Result<Self, ObjectError> {
        let settings = objects_of(workspace);
        let settings = settings.map_err(|problem| ObjectError::Settings(problem.to_string()))?;
        match settings {
            None => Ok(Self::None),
            Some(settings) => ObjectClient::new(&settings).map(Self::Open),
        }
    }

    /// Returns the client; `None`: bytes are in their rows.
    ///
    /// Errors: [`ObjectError::Settings`].
    pub fn client(&self) -> std::result::Result<Option<&ObjectClient>, ObjectError> {
        match self {
            Self::None => Ok(None),
            Self::Open(client) => Ok(Some(client)),
            Self::Unusable(why) => Err(ObjectError::Settings(why.clone())),
        }
    }

    /// Reads the object that a row names.
    pub async fn read(&self, name: &str) -> std::result::Result<Vec<u8>, ObjectError> {
        let client = self.client()?.ok_or(ObjectError::NotConfigured)?;
        Ok(client.get(&ObjectName::of_row(name)).await?.into())
    }

    /// Returns bytes of a row: those of the column, or of the object that another column names.
    pub async fn bytes_of<'r>(
        &self,
        row: &'r Row,
        (bytes, object): (&str, &str),
    ) -> Result<Option<Cow<'r, [u8]>>> {
        match row.try_get::<Option<&str>>(object)? {
            Some(name) => Ok(Some(Cow::Owned(self.read(name).await?))),
            None => Ok(row.try_get::<Option<&[u8]>>(bytes)?.map(Cow::Borrowed)),
        }
    }
}

/// Returns the name under which a database keeps its objects, so that two of them in one place do not sweep each other's.
pub(in crate::store) fn owner_of(key: &LoopKey) -> String {
    key.name()
}
