//! Bytes of attachments: a range of their letter, or their own.
//!
//! What a letter brings stands in its bytes already. So an attachment that decoding a range of them gives is kept as that range
//! (`encoding`, `range_start`, `range_len`), and has no bytes. Files out of containers, and those that no letter brought, have their
//! own. Whoever throws a letter's bytes away writes out the attachments that stay, in the same transaction; an attachment that is
//! pruned or erased loses its range as others lose their bytes.

use crate::domain::{LetterRange, TransferEncoding};
use crate::mime::decoded_range;
use crate::store::db::{Connection, Row};
use crate::store::packing;
use crate::store::{Result, StoreError};

/// Attachments that are ranges of the letters `$1`, by the ids of their messages.
const RANGES_OF_LETTERS: &str = "
    SELECT a.id FROM jsonb_each($1) w CROSS JOIN attachments a
    WHERE a.message_id = w.value AND a.encoding IS NOT NULL AND a.pruned_at IS NULL ORDER BY a.id";
const RANGE: &str = "
    SELECT a.bytes, a.encoding, a.range_start, a.range_len, l.bytes AS letter
    FROM attachments a JOIN messages m ON m.id = a.message_id JOIN raw_letters l ON l.id = m.raw_id WHERE a.id = $1";
const WRITE_OUT: &str = "
    UPDATE attachments SET bytes = $2, encoding = NULL, range_start = NULL, range_len = NULL WHERE id = $1";

/// Reads a row with `bytes`, `encoding`, `range_start`, `range_len`, and `letter`, the bytes of the letter where it has a range.
///
/// Errors: [`StoreError::Unreadable`] when the letter is damaged.
pub fn read(row: &Row) -> Result<Vec<u8>> {
    let damaged = || StoreError::Unreadable {
        what: "attachment of a letter",
    };
    let Some(range) = range_of(row)? else {
        return row.try_get("bytes");
    };
    let letter: Option<&[u8]> = row.try_get("letter")?;
    let letter = packing::unpack(letter.ok_or_else(damaged)?)?;
    let bytes = decoded_range(&letter, range).ok_or_else(damaged)?;
    Ok(bytes.into_owned())
}

fn range_of(row: &Row) -> Result<Option<LetterRange>> {
    let damaged = || StoreError::Unreadable {
        what: "range of a letter",
    };
    let Some(encoding) = row.try_get::<Option<&str>>("encoding")? else {
        return Ok(None);
    };
    let number = |column: &str| -> Result<usize> {
        let number: i64 = row.try_get(column)?;
        usize::try_from(number).map_err(|_| damaged())
    };
    Ok(Some(LetterRange {
        encoding: TransferEncoding::parse(encoding).ok_or_else(damaged)?,
        start: number("range_start")?,
        len: number("range_len")?,
    }))
}

/// Gives the attachments of these letters, a JSON list of the ids of their messages, bytes of their own: the letters lose theirs.
pub async fn write_out(conn: &mut Connection, letters: &str) -> Result<()> {
    let attachments: Vec<String> = conn.all(RANGES_OF_LETTERS, letters).await?;
    for id in &attachments {
        let row = conn.row(RANGE, id).await?;
        match read(&row) {
            Ok(bytes) => conn.exec(WRITE_OUT, (id, bytes)).await?,
            // The letter is damaged: its attachment is, too, and the audit goes on saying so.
            Err(error) if error.is_of_one_row() => conn.exec(WRITE_OUT, (id, Vec::new())).await?,
            Err(error) => return Err(error),
        };
    }
    Ok(())
}
