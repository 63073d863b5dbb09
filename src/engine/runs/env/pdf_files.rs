//! What the PDF files of a letter hold, read before a context is assembled.

use super::RunEnv;
use super::live::LiveEnv;
use crate::context::resolvers::PdfFacts;
use crate::extract::{DocumentKind, ExtractError, Extracted};
use crate::store::{ClaimedRun, MessageFile, StoreError};
use crate::tools::attachment_documents;

/// Most PDF files of a letter that are looked at: each may take its decoder 20 seconds.
const READ_MAX: usize = 4;

impl RunEnv {
    /// Reads the PDF files among those of the letter. A fork knows of those that were read before, and starts no process; a
    /// record has what was known then.
    pub async fn read_pdfs(
        &self,
        run: &ClaimedRun,
        files: &[MessageFile],
    ) -> Result<Vec<PdfFacts>, StoreError> {
        let (live, starts) = match self {
            RunEnv::Live(live) => (live.as_ref(), true),
            RunEnv::Fork(fork) => (&fork.live, false),
            RunEnv::Recorded(record) => {
                return Ok(record.subject().map_or_else(Vec::new, |known| known.pdfs));
            }
        };
        let mut facts = Vec::<PdfFacts>::new();
        for file in files.iter().filter(|file| file.is_pdf()) {
            if facts.iter().any(|known| known.sha256 == file.sha256) {
                continue;
            }
            facts.push(match facts.len() < READ_MAX {
                true => live.read_pdf(run, file, starts).await?,
                false => {
                    let why = format!("only the first {READ_MAX} PDF files are looked at");
                    PdfFacts::refused(file, why)
                }
            });
        }
        Ok(facts)
    }
}

impl LiveEnv {
    async fn read_pdf(
        &self,
        run: &ClaimedRun,
        file: &MessageFile,
        starts: bool,
    ) -> Result<PdfFacts, StoreError> {
        let rows = self.rows(run);
        if let Some(known) = attachment_documents::kept(&rows, &file.id).await? {
            return Ok(of(file, &known));
        }
        if file.bytes.is_empty() {
            let why = "it is too large, or its bytes were pruned";
            return Ok(PdfFacts::refused(file, why));
        }
        if !starts {
            return Ok(PdfFacts::refused(file, "it was not read before"));
        }
        let read = attachment_documents::read(
            &rows,
            self.documents(),
            &file.id,
            &file.content_type,
            &file.bytes,
        )
        .await;
        Ok(match read {
            Ok(document) => of(file, &document),
            Err(ExtractError::NotStarted(why)) => {
                tracing::error!(%why, "attachments cannot be read");
                PdfFacts::refused(file, "this engine cannot read attachments at the moment")
            }
            Err(error) => PdfFacts::refused(file, error.to_string()),
        })
    }
}

fn of(file: &MessageFile, document: &Extracted) -> PdfFacts {
    let text = document.text.as_deref().unwrap_or_default();
    match (document.kind, document.pages) {
        (DocumentKind::Pdf, Some(pages)) if pages > 0 => PdfFacts::of(file, pages, text),
        (DocumentKind::Pdf, _) => PdfFacts::refused(file, "its pages cannot be counted"),
        (kind, _) => PdfFacts::refused(file, format!("it is no pdf but {}", kind.as_str())),
    }
}
