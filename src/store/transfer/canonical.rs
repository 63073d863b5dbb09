//! The form of rows that is compared, and its digest. It is the same for both databases.
//!
//! A row is its values in the order of the columns' names. A value is a byte for its type and its content: nothing for NULL; eight
//! bytes, the highest first, for an integer and for a floating-point number (IEEE 754, 0 without a sign); the length in eight bytes
//! and the bytes for a text, in UTF-8, and for bytes. A table is its rows in the order of its key.

use super::error::TransferError;
use super::shape::TableShape;
use crate::domain::hex;
use crate::store::db::{Cell, without_nul};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Rows of a table, as they were read from one of the databases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableDigest {
    pub table: String,
    pub rows: u64,
    /// SHA-256 of the rows in canonical form, in hexadecimal.
    pub sha256: String,
}

/// Texts in which PostgreSQL has U+FFFD for NUL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReplacedNul {
    /// Number of texts.
    pub texts: u64,
    /// Row and column of the first.
    pub first: Option<String>,
}

/// Computes the digest of a table, row by row.
#[derive(Default)]
pub(super) struct TableHasher {
    rows: u64,
    hash: Sha256,
}

impl TableHasher {
    pub fn add(&mut self, cells: &[Cell]) {
        self.rows += 1;
        for cell in cells {
            match cell {
                Cell::Null => self.hash.update([0]),
                Cell::Integer(value) => self.fixed(1, value.to_be_bytes()),
                Cell::Real(value) => self.fixed(2, without_sign_of_zero(*value).to_be_bytes()),
                Cell::Text(value) => self.sized(3, value.as_bytes()),
                Cell::Bytes(value) => self.sized(4, value),
            }
        }
    }

    fn fixed(&mut self, kind: u8, value: [u8; 8]) {
        self.hash.update([kind]);
        self.hash.update(value);
    }

    fn sized(&mut self, kind: u8, value: &[u8]) {
        self.fixed(kind, (value.len() as u64).to_be_bytes());
        self.hash.update(value);
    }

    pub fn end(self, table: &str) -> TableDigest {
        TableDigest {
            table: table.to_owned(),
            rows: self.rows,
            sha256: hex(&self.hash.finalize()),
        }
    }
}

/// SQLite stores a whole number of a REAL column as an integer, which has no sign of zero.
fn without_sign_of_zero(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

impl ReplacedNul {
    /// Replaces what PostgreSQL cannot hold, as every write of the store does (D-127), and counts it.
    ///
    /// Errors: [`TransferError::NulInKey`].
    pub(super) fn replace(
        &mut self,
        shape: &TableShape,
        cells: &mut [Cell],
    ) -> Result<(), TransferError> {
        for at in 0..cells.len() {
            let Cell::Text(text) = &cells[at] else {
                continue;
            };
            let Cow::Owned(clean) = without_nul(text) else {
                continue;
            };
            // An escape of JSON that is quoted itself stays.
            if clean == *text {
                continue;
            }
            let column = &shape.columns[at];
            if column.is_in_key {
                let row = shape.row_name(cells);
                return Err(TransferError::NulInKey { row });
            }
            self.texts += 1;
            if self.first.is_none() {
                let row = shape.row_name(cells);
                self.first = Some(format!("`{}` of {row}", column.name));
            }
            cells[at] = Cell::Text(clean);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(cells: &[Cell]) -> String {
        let mut hasher = TableHasher::default();
        hasher.add(cells);
        hasher.end("t").sha256
    }

    #[test]
    fn values_that_differ_in_type_or_border_differ_and_zero_has_no_sign() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let rows = [
            vec![Cell::Null, Cell::Null],
            vec![Cell::Null],
            vec![Cell::Integer(1)],
            vec![Cell::Real(1.0)],
            vec![text("1")],
            vec![text("")],
            vec![Cell::Bytes(b"1".to_vec())],
            vec![text("a"), text("bc")],
            vec![text("ab"), text("c")],
        ];
        let digests: std::collections::BTreeSet<String> =
            rows.iter().map(|row| digest(row)).collect();
        assert_eq!(digests.len(), rows.len());
        assert_eq!(digest(&[Cell::Real(-0.0)]), digest(&[Cell::Real(0.0)]));
    }
}
