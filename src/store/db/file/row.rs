//! A row of a file's result.

use rusqlite::types::Value;
use std::sync::Arc;

/// A row, read whole.
pub struct FileRow {
    names: Arc<[String]>,
    values: Vec<Value>,
}

impl FileRow {
    pub fn new(names: Arc<[String]>, values: Vec<Value>) -> Self {
        Self { names, values }
    }

    /// Returns the place of a column.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|own| own == name)
    }

    pub fn value(&self, place: usize) -> Option<&Value> {
        self.values.get(place)
    }

    /// Returns the names and values of all columns.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.names.iter().map(String::as_str).zip(&self.values)
    }
}
