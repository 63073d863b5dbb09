//! What decoders read from attachments, kept by the attachment: a cache, and no effect of a call.

use crate::extract::{DocumentKind, EXTRACTOR_VERSION, ExtractError, Extracted, Extractor};
use crate::store::{PersonaStore, StoreError};

/// Returns what decoders of this version have read from an attachment before.
pub async fn kept(store: &PersonaStore, id: &str) -> Result<Option<Extracted>, StoreError> {
    let kept = store.attachment_text(id, EXTRACTOR_VERSION).await?;
    Ok(kept.and_then(|json| serde_json::from_str(&json).ok()))
}

/// Reads an attachment, by its id and the media type that its sender declared, and keeps what was read.
pub async fn read(
    store: &PersonaStore,
    documents: &Extractor,
    id: &str,
    claimed: &str,
    bytes: &[u8],
) -> Result<Extracted, ExtractError> {
    let document = documents.extract(bytes, claimed).await?;
    if !matches!(
        document.kind,
        DocumentKind::Archive | DocumentKind::Program | DocumentKind::Unknown
    ) {
        let json = serde_json::to_string(&document).unwrap_or_default();
        if let Err(error) = store
            .keep_attachment_text(id, EXTRACTOR_VERSION, json)
            .await
        {
            // It is read again the next time.
            tracing::debug!(%error, "the text of an attachment cannot be kept");
        }
    }
    Ok(document)
}
