//! Text of knowledge files that are documents, read by the locked child once for each content.

use crate::domain::sha256_hex;
use crate::extract::Extractor;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Most contents that are remembered as unreadable.
const UNREADABLE_MAX: usize = 1_000;

/// Reads documents, and remembers those that cannot be read: a scan every second must not start a child for each.
pub struct DocumentReader {
    extractor: Extractor,
    /// Reasons by the digest of the content.
    unreadable: Mutex<BTreeMap<String, String>>,
}

impl DocumentReader {
    pub fn new(extractor: Extractor) -> Self {
        Self {
            extractor,
            unreadable: Mutex::default(),
        }
    }

    /// Returns the text of a document. Errors: a reason for an operator.
    pub async fn text(&self, bytes: &[u8]) -> Result<String, String> {
        let digest = sha256_hex(&[bytes]);
        let known = |reader: &Self| {
            let unreadable = reader.unreadable.lock();
            let unreadable = unreadable.unwrap_or_else(PoisonError::into_inner);
            unreadable.get(&digest).cloned()
        };
        if let Some(why) = known(self) {
            return Err(why);
        }
        let read = self.extractor.extract(bytes, "").await;
        let why = match read {
            Ok(read) => match read.text.filter(|text| !text.trim().is_empty()) {
                Some(text) => return Ok(text),
                None => format!("a document without text ({})", read.kind.as_str()),
            },
            Err(error) => error.to_string(),
        };
        let unreadable = self.unreadable.lock();
        let mut unreadable = unreadable.unwrap_or_else(PoisonError::into_inner);
        if unreadable.len() >= UNREADABLE_MAX {
            unreadable.clear();
        }
        unreadable.insert(digest, why.clone());
        Err(why)
    }
}
