//! A part of a list that is read from its beginning, or from behind a row that its reader has.

use super::StoreError;

/// Beginning and length of a part of a list.
#[derive(Debug, Clone, Copy)]
pub struct ListPage<'a> {
    /// Key of the last row that its reader has, as the list gives it; `None`: from the beginning.
    pub after: Option<&'a str>,
    /// Most rows to return.
    pub limit: u32,
}

impl ListPage<'_> {
    /// Returns the beginning of a list.
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }
}

/// Returns an error where a row is named that is not there: a list behind it would be empty, as if it had ended.
pub fn known<T>(after: Option<&str>, found: Option<T>) -> Result<Option<T>, StoreError> {
    match (after, found) {
        (Some(id), None) => Err(StoreError::missing("row of this list", id)),
        (_, found) => Ok(found),
    }
}
