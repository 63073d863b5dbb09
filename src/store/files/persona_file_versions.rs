//! Earlier versions of a persona's files: what its owner replaced on a page, by the API or by a command is kept, the oldest
//! goes first.
//!
//! A version is stored before its file is replaced, so that no text is lost when the engine stops in between. An edit on the
//! machine leaves none; it is seen by its digest, when the file is not what the last replacement has written.

use super::owner_edits;
use super::persona_files::{self, FileResult, PersonaFileError, PersonaFileText};
use crate::domain::{Timestamp, sha256_hex};
use crate::store::mail::audit_log::audit;
use crate::store::{PersonaStore, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::io;
use std::path::Path;
use tokio::task::spawn_blocking;

/// Most versions of a file.
pub const VERSIONS_MAX: i64 = 50;
/// Most bytes of the versions of a file: eight of the largest ones.
const VERSIONS_BYTES_MAX: i64 = 8 * persona_files::PERSONA_FILE_BYTES_MAX as i64;
/// Most bytes of all versions of a persona.
const PERSONA_BYTES_MAX: i64 = 32 * 1024 * 1024;
/// Most versions that are listed.
const LISTED_MAX: i64 = 500;

/// Person who replaces a file, and the session of their browser.
#[derive(Debug, Clone)]
pub struct FileEditor {
    pub user: String,
    pub session: Option<String>,
}

/// A text that is to replace a file, as it was when its writer read it.
#[derive(Debug, Clone)]
pub struct NewFileText {
    pub name: String,
    pub text: String,
    /// Digest of the file that is replaced; empty: there is none yet.
    pub base_sha256: String,
    /// `true`: byte by byte; `false`: with the ends of lines that the file has, since a browser sends its own.
    pub is_exact: bool,
}

/// A text that a file had until it was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PersonaFileVersion {
    /// Counts up, over all files.
    pub version: i64,
    pub name: String,
    pub bytes: i64,
    /// Digest; empty: there was no file.
    pub sha256: String,
    /// `true`: it is not what the replacement before it had written; somebody has changed it on the machine.
    pub changed_outside: bool,
    pub replaced_at: Timestamp,
    pub replaced_by: String,
    /// Session of the browser; `None`: a command on the machine.
    pub session: Option<String>,
    /// Digest of what came in its place.
    pub replaced_with: String,
}

/// A version with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PersonaFileVersionText {
    #[serde(flatten)]
    pub about: PersonaFileVersion,
    pub text: String,
}

/// A file with what it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PersonaFileHistory {
    #[serde(flatten)]
    pub file: PersonaFileText,
    /// `true`: it is not what the last replacement has written.
    pub changed_outside: bool,
    /// The newest first.
    pub versions: Vec<PersonaFileVersion>,
}

const KEEP_VERSION: &str = "
    INSERT INTO persona_file_versions (persona_id, name, bytes, sha256, replaced_at, replaced_by, session_id, replaced_with, text)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING seq";
/// The newest version of a file is within every bound.
const PRUNE_VERSIONS: &str = "
    DELETE FROM persona_file_versions WHERE seq IN (SELECT seq FROM (
      SELECT seq, row_number() OVER of_file AS place, sum(bytes) OVER of_file AS file_bytes, sum(bytes) OVER of_all AS all_bytes
      FROM persona_file_versions WHERE persona_id = $1
      WINDOW of_file AS (PARTITION BY name ORDER BY seq DESC), of_all AS (ORDER BY seq DESC)) AS placed
      WHERE place > $2 OR file_bytes > $3 OR all_bytes > $4)";
const DROP_VERSION: &str = "DELETE FROM persona_file_versions WHERE seq = $1 AND persona_id = $2";
const VERSIONS: &str = "
    SELECT seq, name, bytes, sha256, replaced_at, replaced_by, session_id, replaced_with,
      sha256 <> lag(replaced_with, 1, sha256) OVER (PARTITION BY name ORDER BY seq) AS changed_outside
    FROM persona_file_versions WHERE persona_id = $1 AND ($2 IS NULL OR name = $2) ORDER BY seq DESC LIMIT $3";
const VERSION_TEXT: &str =
    "SELECT text FROM persona_file_versions WHERE persona_id = $1 AND seq = $2";

impl PersonaStore {
    /// Replaces a file as its writer saw it, and keeps what it was. Two changes at once are the caller's to keep apart.
    pub async fn replace_file(
        &self,
        folder: &Path,
        new: NewFileText,
        by: &FileEditor,
    ) -> FileResult<PersonaFileText> {
        let name = new.name.clone();
        let before = on_disk(folder, move |folder| persona_files::read(folder, &name)).await?;
        if before.sha256 != new.base_sha256 {
            return Err(PersonaFileError::Changed(Box::new(before)));
        }
        let text = match new.is_exact {
            true => new.text,
            false => persona_files::with_ends_of(&before.text, &new.text),
        };
        let sha256 = sha256_hex(&[text.as_bytes()]);
        if sha256 == before.sha256 {
            return Ok(before);
        }
        persona_files::check_size(&text)?;
        let kept = self.keep_version(before, sha256, by.clone()).await?;
        let (name, base) = (new.name, new.base_sha256);
        let saved = on_disk(folder, move |folder| {
            save_noted(folder, &name, &text, &base)
        });
        match saved.await {
            Ok(saved) => {
                self.note_file(&saved, by).await?;
                Ok(saved)
            }
            Err(error) => {
                self.drop_version(kept).await?;
                Err(error)
            }
        }
    }

    /// Returns a file with its earlier versions.
    pub async fn file_history(&self, folder: &Path, name: &str) -> FileResult<PersonaFileHistory> {
        let typed = name.to_owned();
        let file = on_disk(folder, move |folder| persona_files::read(folder, &typed)).await?;
        let versions = self.file_versions(Some(name)).await?;
        let written = versions.first().map(|newest| &newest.replaced_with);
        Ok(PersonaFileHistory {
            changed_outside: written.is_some_and(|written| *written != file.sha256),
            file,
            versions,
        })
    }

    /// Returns earlier versions of a file or of all, the newest first.
    pub async fn file_versions(&self, name: Option<&str>) -> Result<Vec<PersonaFileVersion>> {
        self.all(VERSIONS, (&self.persona, name, LISTED_MAX)).await
    }

    /// Returns a version of a file with its text; without a number the newest that has one. `None`: it is not kept, or there
    /// was no file then.
    pub async fn file_version(
        &self,
        name: &str,
        number: Option<i64>,
    ) -> Result<Option<PersonaFileVersionText>> {
        let versions = self.file_versions(Some(name)).await?;
        let mut versions = versions.into_iter();
        let wanted = versions.find(|version| {
            !version.sha256.is_empty() && number.is_none_or(|number| version.version == number)
        });
        let Some(about) = wanted else {
            return Ok(None);
        };
        let text: Option<String> = self
            .maybe(VERSION_TEXT, (&self.persona, about.version))
            .await?;
        Ok(text.map(|text| PersonaFileVersionText { about, text }))
    }

    async fn keep_version(
        &self,
        before: PersonaFileText,
        replaced_with: String,
        by: FileEditor,
    ) -> Result<i64> {
        let (persona, now) = (self.persona.clone(), self.store.clock().now());
        transact!(self, |conn| {
            let kept: i64 = conn
                .row(
                    KEEP_VERSION,
                    (
                        &persona,
                        &before.name,
                        before.text.len(),
                        &before.sha256,
                        now,
                        &by.user,
                        &by.session,
                        &replaced_with,
                        &before.text,
                    ),
                )
                .await?
                .get("seq");

            conn.exec(
                PRUNE_VERSIONS,
                (
                    &persona,
                    VERSIONS_MAX,
                    VERSIONS_BYTES_MAX,
                    PERSONA_BYTES_MAX,
                ),
            )
            .await?;
            Ok(kept)
        })
        .await
    }

    /// Forgets a version whose file was not replaced after all.
    async fn drop_version(&self, kept: i64) -> Result<()> {
        let persona = self.persona.clone();
        transact!(self, |conn| {
            conn.exec(DROP_VERSION, (kept, &persona)).await?;
            Ok(())
        })
        .await
    }

    /// Records who has replaced a file, and what it is since.
    async fn note_file(&self, saved: &PersonaFileText, by: &FileEditor) -> Result<()> {
        let (persona, now) = (self.persona.clone(), self.store.clock().now());
        let way = if by.session.is_some() { "web" } else { "cli" };
        let file = format!("{} {}", saved.name, saved.sha256);
        let decision = format!("edit:{way}:{}", by.user);
        transact!(self, |conn| {
            let subject = ("persona_file", file.as_str());
            audit(conn, Some(&persona), subject, &decision, now).await
        })
        .await
    }
}

from_row!(PersonaFileVersion {
    version: "seq",
    name,
    bytes,
    sha256,
    changed_outside,
    replaced_at,
    replaced_by,
    session: "session_id",
    replaced_with
});

/// Replaces a file, with a note for the guard of an agent that works in the folder.
fn save_noted(folder: &Path, name: &str, text: &str, base: &str) -> FileResult<PersonaFileText> {
    let noted = owner_edits::note(folder, name, text)?;
    match (persona_files::save(folder, name, text, base), noted) {
        (Ok(saved), Some(_)) => Ok(saved),
        (Ok(saved), None) => {
            // An agent may have begun in between, with a copy of the file before.
            owner_edits::note(folder, name, text)?;
            Ok(saved)
        }
        (Err(error), noted) => {
            noted.map_or(Ok(()), |note| note.undo(folder))?;
            Err(error)
        }
    }
}

/// Works on a folder on a thread that may block.
async fn on_disk<T: Send + 'static>(
    folder: &Path,
    work: impl FnOnce(&Path) -> FileResult<T> + Send + 'static,
) -> FileResult<T> {
    let folder = folder.to_owned();
    let worked = spawn_blocking(move || work(&folder)).await;
    worked.map_err(|error| PersonaFileError::Io(io::Error::other(error)))?
}
