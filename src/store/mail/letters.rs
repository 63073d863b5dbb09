//! Raw letters as received, for operators and exports.

use crate::domain::MessageId;
use crate::store::packing;
use crate::store::{Result, Store, StoreError};

/// Raw bytes of a letter, and our `Received` field for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawLetter {
    /// Our `Received` field; `None` for our own mail, and for letters older than the field.
    pub trace: Option<String>,
    pub bytes: Vec<u8>,
}

const MESSAGES_LIKE: &str =
    "SELECT id FROM messages WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
const MESSAGES_ENDING: &str = "SELECT id FROM messages WHERE substr(id, length(id) - length($1) + 1) = $1 ORDER BY id DESC LIMIT $2";
const RAW_LETTER: &str = "
    SELECT l.trace, l.bytes FROM messages m JOIN raw_letters l ON l.id = m.raw_id WHERE m.id = $1";

impl Store {
    /// Finds the message whose id is `piece`, or the only message whose id begins or else ends with
    /// it.
    ///
    /// Errors: [`StoreError::Missing`], [`StoreError::Ambiguous`].
    pub async fn find_message(&self, piece: &str) -> Result<MessageId> {
        self.find("message", (MESSAGES_LIKE, MESSAGES_ENDING), piece)
            .await
            .map(MessageId::new)
    }

    /// Returns the raw letter of a message. Errors: [`StoreError::Missing`] for a message that
    /// never was a letter.
    pub async fn raw_letter(&self, message: &MessageId) -> Result<RawLetter> {
        let row = self.maybe_row(RAW_LETTER, message).await?;
        let row = row.ok_or_else(|| StoreError::missing("letter", message))?;
        Ok(RawLetter {
            trace: row.get("trace"),
            bytes: packing::bytes_of(&row, "bytes")?,
        })
    }
}
