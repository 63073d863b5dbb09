//! Keeps the index of a persona's `knowledge/` up to date. Cheap when nothing changed: one query
//! and one `stat` of each file.

use super::super::estimate_tokens;
use super::chunk::KnowledgeFormat;
use super::documents::DocumentReader;
use crate::clock::Clock;
use crate::domain::{PersonaId, Timestamp, sha256_hex};
use crate::mime::{self, FileText};
use crate::store::{KnowledgeFile, PersonaStore, StoreError};
use cap_std::fs_utf8::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// Folder of knowledge, relative to the persona's folder.
const FOLDER: &str = "knowledge";
/// A file that changed within this time may change again without a new modification time.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// Shortest time between two scans of one persona's folder.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// Limits of the index.
#[derive(Debug, Clone)]
pub struct SyncLimits {
    /// Most files of one persona; the first in order of their paths are indexed.
    pub files_max: usize,
    pub file_bytes_max: u64,
    /// Most bytes of a document, such as a PDF.
    pub document_bytes_max: u64,
    /// Deepest folder below `knowledge` that is entered.
    pub depth_max: usize,
}

impl Default for SyncLimits {
    fn default() -> Self {
        Self {
            files_max: 500,
            file_bytes_max: 1024 * 1024,
            document_bytes_max: 16 * 1024 * 1024,
            depth_max: 8,
        }
    }
}

impl SyncLimits {
    fn bytes_max(&self, name: &str) -> u64 {
        match KnowledgeFormat::of(name) {
            Some(KnowledgeFormat::Document) => self.document_bytes_max,
            _ => self.file_bytes_max,
        }
    }
}

/// Result of one scan of the folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnowledgeSyncReport {
    /// Number of files whose pieces stay as they were.
    pub unchanged: usize,
    /// Paths of files that were indexed, because they are new or changed.
    pub indexed: Vec<String>,
    /// Paths of files that are gone.
    pub removed: Vec<String>,
    /// Paths of files that are not indexed, with the reason.
    pub skipped: Vec<(String, String)>,
}

/// Files of a folder that are used, without an index: for an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnowledgeSurvey {
    pub used: Vec<Surveyed>,
    /// Paths that are left out, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// One file of knowledge.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Surveyed {
    pub path: String,
    /// Estimated tokens of the whole file; a run is given the pieces that match its input. `None`: a document, which is
    /// read when a run needs it.
    pub tokens: Option<usize>,
    /// Character set, where it is not UTF-8.
    pub charset: Option<&'static str>,
}

/// Scans a persona's folder, as a run would. Errors: it cannot be read.
pub fn survey(folder: &Path) -> io::Result<KnowledgeSurvey> {
    let limits = &SyncLimits::default();
    let folder = &Dir::open_ambient_dir(
        folder.to_string_lossy().as_ref(),
        cap_std::ambient_authority(),
    )?;
    let walk = find(folder, limits)?;
    let mut survey = KnowledgeSurvey {
        left_out: walk.skipped,
        ..KnowledgeSurvey::default()
    };
    for file in walk.found {
        if file.is_document() {
            survey.used.push(Surveyed {
                path: file.path,
                tokens: None,
                charset: None,
            });
            continue;
        }
        match read(folder, &file.path, limits).and_then(|bytes| text_of(&bytes)) {
            Ok(FileText { text, charset }) => {
                survey.used.push(Surveyed {
                    tokens: Some(estimate_tokens(&text)),
                    path: file.path,
                    charset,
                });
            }
            Err(why) => survey.left_out.push((file.path, why)),
        }
    }
    Ok(survey)
}

#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("cannot read the folder `knowledge`")]
    Folder(#[from] io::Error),
    #[error("cannot store the index of `knowledge`")]
    Store(#[from] StoreError),
}

/// Indexes of all personas, with the time of the last scan of each folder. Owned by the environment
/// that assembles contexts.
#[derive(Default)]
pub struct KnowledgeSync {
    limits: SyncLimits,
    documents: Option<DocumentReader>,
    looked: Mutex<BTreeMap<PersonaId, LastScan>>,
}

/// Last scan of a persona's folder.
#[derive(Debug)]
struct LastScan {
    /// Time of the scan, by the clock's monotonic time.
    at: Duration,
    left_out: Vec<(String, String)>,
}

impl KnowledgeSync {
    /// Builds the indexes with a reader of documents; without one, documents are left as they were indexed.
    pub fn reading(documents: DocumentReader) -> Self {
        Self {
            documents: Some(documents),
            ..Self::default()
        }
    }

    /// Runs [`sync_knowledge`], unless the last scan is less than a second old: then `None`.
    pub async fn refresh(
        &self,
        store: &PersonaStore,
        folder: &Dir,
        clock: &dyn Clock,
    ) -> Result<Option<KnowledgeSyncReport>, SyncError> {
        let (persona, started) = (store.persona_id(), clock.monotonic());
        if self
            .looked()
            .get(persona)
            .is_some_and(|last| started.saturating_sub(last.at) < LOOKS_APART)
        {
            return Ok(None);
        }
        let report = sync_knowledge(
            store,
            folder,
            &self.limits,
            clock.now(),
            self.documents.as_ref(),
        )
        .await?;
        // Recorded only now: a second run that starts meanwhile scans too, which does no harm,
        // rather than search an index that is not ready.
        let left_out = report.skipped.clone();
        self.looked().insert(
            persona.clone(),
            LastScan {
                at: started,
                left_out,
            },
        );
        Ok(Some(report))
    }

    /// Returns the files of the last scan that are not used, with the reason.
    pub fn left_out(&self, persona: &PersonaId) -> Vec<(String, String)> {
        self.looked()
            .get(persona)
            .map(|look| look.left_out.clone())
            .unwrap_or_default()
    }

    fn looked(&self) -> MutexGuard<'_, BTreeMap<PersonaId, LastScan>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Brings the index up to date with the files.
///
/// A file is unchanged when its modification time and size are, else when its digest is. A file
/// that vanishes or cannot be read meanwhile is skipped; it does not fail the others. The text of a document is read only
/// when its digest is new.
pub async fn sync_knowledge(
    store: &PersonaStore,
    folder: &Dir,
    limits: &SyncLimits,
    now: Timestamp,
    documents: Option<&DocumentReader>,
) -> Result<KnowledgeSyncReport, SyncError> {
    let mut indexed: BTreeMap<String, KnowledgeFile> = store
        .knowledge_state()
        .await?
        .into_iter()
        .map(|file| (file.path.clone(), file))
        .collect();
    let walk = on_disk(folder, limits, find).await??;
    let mut report = KnowledgeSyncReport {
        skipped: walk.skipped,
        ..KnowledgeSyncReport::default()
    };
    for file in walk.found {
        let known = indexed.remove(&file.path);
        let settled = |known: &KnowledgeFile| {
            known.modified_ms == file.modified_ms && known.size_bytes == file.size_bytes as i64
        };
        if known.as_ref().is_some_and(settled) {
            report.unchanged += 1;
            continue;
        }
        let kind = KnowledgeFormat::of(&file.path);
        let content = content(folder, limits, &file).await?;
        let path = file.path.clone();
        let new = match content {
            Ok((digest, _)) if known.as_ref().is_some_and(|known| known.sha256 == digest) => {
                report.unchanged += 1;
                let row = file.into_row(digest, now);
                if known.as_ref() != Some(&row) {
                    store.touch_knowledge_file(row).await?;
                }
                continue;
            }
            Ok((digest, content)) => content.text(documents).await.map(|text| (digest, text)),
            Err(why) => Err(why),
        };
        match new {
            Ok((digest, text)) => {
                report.indexed.push(path);
                let kind = kind.unwrap_or(KnowledgeFormat::Plain);
                let row = file.into_row(digest, now);
                store
                    .replace_knowledge_file(row, kind.chunks(&text))
                    .await?;
            }
            Err(why) => {
                report.skipped.push((path.clone(), why));
                // Pieces of a version that can no longer be checked must not be quoted.
                indexed.extend(known.map(|known| (path, known)));
            }
        }
    }
    for path in indexed.into_keys() {
        store.remove_knowledge_file(&path).await?;
        report.removed.push(path);
    }
    if !report.indexed.is_empty() || !report.removed.is_empty() {
        store.merge_knowledge().await?;
    }
    Ok(report)
}

/// Reads a file; the digest is that of its text, or of the bytes of a document.
async fn content(
    folder: &Dir,
    limits: &SyncLimits,
    file: &ScannedFile,
) -> io::Result<Result<(String, FileContent), String>> {
    let path = file.path.clone();
    let read = on_disk(folder, limits, move |folder, limits| {
        read(folder, &path, limits)
    });
    let is_document = file.is_document();
    Ok(read.await?.and_then(|bytes| {
        if is_document {
            return Ok((sha256_hex(&[&bytes]), FileContent::Document(bytes)));
        }
        let text = text_of(&bytes)?.text;
        Ok((sha256_hex(&[text.as_bytes()]), FileContent::Text(text)))
    }))
}

/// Content of a file that is new or changed.
enum FileContent {
    Text(String),
    Document(Vec<u8>),
}

impl FileContent {
    async fn text(self, documents: Option<&DocumentReader>) -> Result<String, String> {
        match (self, documents) {
            (FileContent::Text(text), _) => Ok(text),
            (FileContent::Document(bytes), Some(documents)) => documents.text(&bytes).await,
            (FileContent::Document(_), None) => Err("documents are not read here".to_owned()),
        }
    }
}

/// Reports whether a later change of the file would show in its modification time.
fn is_finished(modified_ms: i64, now: Timestamp) -> bool {
    modified_ms > 0 && Timestamp::from_millis(modified_ms).plus(SETTLED_AFTER) <= now
}

async fn on_disk<T, F>(folder: &Dir, limits: &SyncLimits, work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce(&Dir, &SyncLimits) -> T + Send + 'static,
{
    let (folder, limits) = (folder.try_clone()?, limits.clone());
    let done = tokio::task::spawn_blocking(move || work(&folder, &limits)).await;
    done.map_err(|_| io::Error::from(ErrorKind::Interrupted))
}

/// A file by its metadata.
struct ScannedFile {
    path: String,
    modified_ms: i64,
    size_bytes: u64,
}

impl ScannedFile {
    fn is_document(&self) -> bool {
        KnowledgeFormat::of(&self.path) == Some(KnowledgeFormat::Document)
    }

    /// Returns the row of the file with the digest of its content. A modification time that a later change may
    /// repeat is stored as 0, so that the next scan reads the file again.
    fn into_row(self, sha256: String, now: Timestamp) -> KnowledgeFile {
        let is_settled = is_finished(self.modified_ms, now);
        KnowledgeFile {
            sha256,
            modified_ms: if is_settled { self.modified_ms } else { 0 },
            size_bytes: self.size_bytes as i64,
            path: self.path,
        }
    }
}

#[derive(Default)]
struct FolderWalk {
    found: Vec<ScannedFile>,
    skipped: Vec<(String, String)>,
}

fn find(folder: &Dir, limits: &SyncLimits) -> io::Result<FolderWalk> {
    let mut walk = FolderWalk::default();
    match folder.open_dir(FOLDER) {
        Ok(knowledge) => walk.enter(&knowledge, FOLDER, 0, limits)?,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
        Err(error) => return Err(error),
    }
    Ok(walk)
}

impl FolderWalk {
    fn enter(
        &mut self,
        dir: &Dir,
        path: &str,
        depth: usize,
        limits: &SyncLimits,
    ) -> io::Result<()> {
        // A name that is not UTF-8 could not be cited.
        let readable = dir
            .entries()?
            .filter_map(Result::ok)
            .filter_map(|e| Some((e.file_name().ok()?, e)));
        let mut entries: Vec<_> = readable
            .filter(|(name, _)| !name.starts_with('.'))
            .collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, entry) in entries {
            let path = format!("{path}/{name}");
            // A file may have vanished since the folder was read.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                match entry.open_dir() {
                    Ok(below) if depth < limits.depth_max => {
                        self.enter(&below, &path, depth + 1, limits)?;
                    }
                    Ok(_) => self.skip(path, "too many folders deep"),
                    Err(_) => self.skip(path, "cannot be opened"),
                }
                continue;
            }
            match self.objection(&name, &metadata, limits) {
                Some(why) => self.skip(path, why),
                None => {
                    let modified_ms = modified_ms(&metadata);
                    self.found.push(ScannedFile {
                        path,
                        modified_ms,
                        size_bytes: metadata.len(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns the reason why a file is not read.
    fn objection(
        &self,
        name: &str,
        metadata: &Metadata,
        limits: &SyncLimits,
    ) -> Option<&'static str> {
        if !metadata.is_file() {
            return Some("not a regular file");
        }
        let kind = KnowledgeFormat::of(name);
        if kind.is_none() {
            return Some(
                "not a kind of file that is read (.md, .txt, .csv, .html, .pdf, .docx, .odt, .pptx, .xlsx, .ods)",
            );
        }
        if metadata.nlink() > 1 {
            return Some("has a second name (a hard link), which may lie anywhere");
        }
        if metadata.len() > limits.bytes_max(name) {
            return Some("too large");
        }
        (self.found.len() == limits.files_max).then_some("too many files")
    }

    fn skip(&mut self, path: String, why: &str) {
        self.skipped.push((path, why.to_owned()));
    }
}

/// Returns the modification time in milliseconds since 1970; 0 when the file system has none, or
/// one before 1970.
fn modified_ms(metadata: &Metadata) -> i64 {
    let modified = metadata
        .modified()
        .ok()
        .map(cap_std::time::SystemTime::into_std);
    let since_epoch = modified
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(0)
}

fn read(folder: &Dir, path: &str, limits: &SyncLimits) -> Result<Vec<u8>, String> {
    // A regular file may have been replaced by a FIFO; opening it must not wait for a writer.
    let options = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .to_owned();
    let file = folder
        .open_with(path, &options)
        .map_err(|_| "cannot be opened")?;
    if !file
        .metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 1)
    {
        return Err("not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let most = limits.bytes_max(path);
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|_| "cannot be read")?;
    match bytes.len() as u64 > most {
        true => Err("too large".to_owned()),
        false => Ok(bytes),
    }
}

fn text_of(bytes: &[u8]) -> Result<FileText, String> {
    mime::file_text(bytes).map_err(|error| error.to_string())
}
