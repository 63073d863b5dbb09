//! Rows of a table, sent one after the other without a statement for each
//! (postgresql.org/docs/current/sql-copy.html, "Binary Format").

use crate::store::db::{Cell, Connection};
use sqlx::postgres::{PgConnection, PgCopyIn};

/// Bytes after which the rows in memory are sent.
const SENT_BYTES: usize = 1024 * 1024;
/// Signature, flags and length of the header's extension.
static HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Number of fields that ends the data.
const END: i16 = -1;
/// Length that means NULL.
const NULL: i32 = -1;

/// A table that rows are sent to.
pub struct CopyIn<'c> {
    copy: PgCopyIn<&'c mut PgConnection>,
    unsent: Vec<u8>,
}

impl<'c> CopyIn<'c> {
    /// Begins for `columns`, the name of a table and its columns, in parentheses.
    pub async fn begin(conn: &'c mut Connection, columns: &str) -> Result<Self, sqlx::Error> {
        let conn = conn.postgres().ok_or_else(|| {
            sqlx::Error::Protocol("only PostgreSQL takes rows without statements".to_owned())
        })?;
        let sql = format!("COPY {columns} FROM STDIN (FORMAT binary)");
        Ok(Self {
            copy: conn.copy_in_raw(&sql).await?,
            unsent: HEADER.to_vec(),
        })
    }

    /// Sends a row. Its values have the types of their columns: BIGINT, DOUBLE PRECISION, TEXT without a NUL, BYTEA.
    pub async fn row(&mut self, cells: &[Cell]) -> Result<(), sqlx::Error> {
        let count = i16::try_from(cells.len()).map_err(|_| too_large())?;
        self.unsent.extend(count.to_be_bytes());
        for cell in cells {
            match cell {
                Cell::Null => self.unsent.extend(NULL.to_be_bytes()),
                Cell::Integer(value) => self.field(&value.to_be_bytes())?,
                Cell::Real(value) => self.field(&value.to_be_bytes())?,
                Cell::Text(value) => self.field(value.as_bytes())?,
                Cell::Bytes(value) => self.field(value)?,
            }
        }
        match self.unsent.len() {
            SENT_BYTES.. => self.send().await,
            _ => Ok(()),
        }
    }

    fn field(&mut self, bytes: &[u8]) -> Result<(), sqlx::Error> {
        let length = i32::try_from(bytes.len()).map_err(|_| too_large())?;
        self.unsent.extend(length.to_be_bytes());
        self.unsent.extend_from_slice(bytes);
        Ok(())
    }

    async fn send(&mut self) -> Result<(), sqlx::Error> {
        self.copy.send(self.unsent.as_slice()).await?;
        self.unsent.clear();
        Ok(())
    }

    /// Ends the data, and waits until the server has taken all rows.
    pub async fn end(mut self) -> Result<(), sqlx::Error> {
        self.unsent.extend(END.to_be_bytes());
        self.send().await?;
        self.copy.finish().await?;
        Ok(())
    }
}

fn too_large() -> sqlx::Error {
    sqlx::Error::Protocol("a row is larger than a message to the server may be".to_owned())
}
