//! Scans the folders of responsibilities: lists their files and reads the new or changed ones.
//!
//! A file is identified by its modification time and its size, as in `make`; a file that was
//! changed a moment ago is read again, because a second change in the same tick of the file
//! system's clock would look equal.

use crate::config::{Persona, answer_schema};
use crate::domain::{PersonaId, Timestamp};
use crate::schedule_file::{FileError, ParseContext, Responsibility, WorkspaceNames, file};
use cap_std::ambient_authority;
use cap_std::fs_utf8::{Dir, DirEntry, File};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum files per persona; more are a mistake, not a calendar.
const FILES_MAX: usize = 20_000;
pub(super) const FOLDER: &str = "responsibilities";
/// Longest tick of a file system's clock (FAT counts in twos).
const SETTLES_AFTER: Duration = Duration::from_secs(2);

/// A file by persona and path below the persona's folder.
pub(super) type FileKey = (PersonaId, String);

/// Metadata of a file by which a change is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FileMark {
    /// Nanoseconds since the Unix epoch; 0 when the file system does not tell.
    modified_ns: u64,
    size_bytes: u64,
}

impl FileMark {
    fn from_metadata(metadata: &cap_std::fs::Metadata) -> Self {
        let modified = metadata
            .modified()
            .ok()
            .map(cap_std::time::SystemTime::into_std);
        let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let modified_ns = since
            .and_then(|since| u64::try_from(since.as_nanos()).ok())
            .unwrap_or(0);
        Self {
            modified_ns,
            size_bytes: metadata.len(),
        }
    }
    fn modified_at(self) -> Option<Timestamp> {
        let ms = i64::try_from(self.modified_ns / 1_000_000).ok()?;
        (ms > 0).then(|| Timestamp::from_millis(ms))
    }
    fn is_finished(self, now: Timestamp) -> bool {
        let modified = UNIX_EPOCH + Duration::from_nanos(self.modified_ns);
        let now = SystemTime::from(now.to_utc());
        let apart = now
            .duration_since(modified)
            .unwrap_or_else(|ahead| ahead.duration());
        apart > SETTLES_AFTER
    }
    fn formatted(self) -> String {
        format!("{}:{}", self.modified_ns, self.size_bytes)
    }
    fn parse(text: &str) -> Option<Self> {
        let (modified, size) = text.split_once(':')?;
        Some(Self {
            modified_ns: modified.parse().ok()?,
            size_bytes: size.parse().ok()?,
        })
    }
}

/// Path of a schema below the persona's folder, and its mark; `None`: it does not exist.
type SchemaStamp = (String, Option<FileMark>);

/// Marks by which a change of a responsibility is detected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Stamp {
    own: FileMark,
    /// The schema that it names.
    schema: Option<SchemaStamp>,
    /// `true`: it was changed so recently that a further change may look equal.
    is_fresh: bool,
}

impl Stamp {
    /// Formats `MODIFIED:SIZE`, then that of its schema (`-`: missing) and its path. `None`: not
    /// reliable later.
    pub fn formatted(&self) -> Option<String> {
        let own = self.own.formatted();
        match &self.schema {
            _ if self.is_fresh => None,
            None => Some(own),
            Some((path, mark)) => {
                let mark = mark.map_or("-".to_owned(), FileMark::formatted);
                Some(format!("{own} {mark} {path}"))
            }
        }
    }
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let own = FileMark::parse(words.next()?)?;
        let schema = match (words.next(), words.next()) {
            (None, _) => None,
            (Some("-"), Some(path)) => Some((path.to_owned(), None)),
            (Some(mark), Some(path)) => Some((path.to_owned(), Some(FileMark::parse(mark)?))),
            (Some(_), None) => return None,
        };
        Some(Self {
            own,
            schema,
            is_fresh: false,
        })
    }
}

/// A file that was read.
pub(super) struct ScheduleFileText {
    pub responsibility: Responsibility,
    /// JSON on one line.
    pub output_schema: Option<String>,
    /// Modification time; `None` when the file system does not tell.
    pub modified_at: Option<Timestamp>,
}

/// Result of a scan.
#[derive(Default)]
pub(super) struct Scan {
    pub stamps: BTreeMap<FileKey, Stamp>,
    /// Parsed files with a new stamp, or the reason for which they cannot be used.
    pub read: BTreeMap<FileKey, Result<ScheduleFileText, String>>,
    /// Personas whose folder could not be listed, with the reason: their rows stay unchanged.
    pub unreadable: BTreeMap<PersonaId, String>,
}

/// Stamps of files that are already read.
pub(super) type Known = BTreeMap<FileKey, Stamp>;

/// Lists the responsibility files of all personas and reads those whose stamp is not in `known`.
/// Blocking.
pub(super) fn scan<'a>(
    personas: impl Iterator<Item = &'a Persona>,
    names: &WorkspaceNames,
    known: &Known,
    now: Timestamp,
) -> Scan {
    let mut scan = Scan::default();
    for persona in personas {
        if let Err(error) = scan_folder(persona, names, known, now, &mut scan) {
            scan.unreadable
                .insert(persona.id.clone(), error.to_string());
        }
    }
    scan
}

fn scan_folder(
    persona: &Persona,
    names: &WorkspaceNames,
    known: &Known,
    now: Timestamp,
    scan: &mut Scan,
) -> io::Result<()> {
    // A missing folder has no responsibilities.
    let opened = Dir::open_ambient_dir(utf8(persona)?, ambient_authority())
        .and_then(|home| home.open_dir(FOLDER).map(|folder| (home, folder)));
    let (home, folder) = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut found = 0;
    for entry in folder.entries()? {
        let Some((name, entry)) = candidate(entry?) else {
            continue;
        };
        found += 1;
        if found > FILES_MAX {
            return Err(io::Error::other(format!(
                "more than {FILES_MAX} responsibilities"
            )));
        }
        let key = (persona.id.clone(), format!("{FOLDER}/{name}"));
        let before = known.get(&key);
        let is_same = |own: FileMark| {
            let of_schema = |path: &str| {
                home.metadata(path)
                    .ok()
                    .map(|found| FileMark::from_metadata(&found))
            };
            before.filter(|before| {
                let schema = before.schema.as_ref();
                let is_known = before.own == own && !before.is_fresh;
                is_known && schema.is_none_or(|(path, mark)| *mark == of_schema(path))
            })
        };
        let (own, content) = match folder.metadata(&name) {
            // Removed since it was listed, or a folder named `x.md`.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Ok(metadata) if !metadata.is_file() => continue,
            Ok(metadata) => (FileMark::from_metadata(&metadata), None),
            // For example a link that leads out of the persona's folder.
            Err(error) => (FileMark::default(), Some(Err(error))),
        };
        if let Some(same) = is_same(own) {
            scan.stamps.insert(key, same.clone());
            continue;
        }
        let content = content.unwrap_or_else(|| read(entry.open(), file::FILE_BYTES_MAX));
        let (mut found, schema) =
            understood(&home, &ParseContext::for_persona(persona, names), content);
        if let Ok(found) = &mut found {
            found.modified_at = own.modified_at();
        }
        scan.read.insert(key.clone(), found);
        let marks = schema.iter().filter_map(|(_, mark)| *mark).chain([own]);
        let is_fresh = marks.into_iter().any(|mark| !mark.is_finished(now));
        scan.stamps.insert(
            key,
            Stamp {
                own,
                schema,
                is_fresh,
            },
        );
    }
    Ok(())
}

/// Parses a file and the schema that it names; also returns the mark of that schema, taken before
/// it is read.
fn understood(
    home: &Dir,
    bounds: &ParseContext<'_>,
    content: io::Result<Vec<u8>>,
) -> (Result<ScheduleFileText, String>, Option<SchemaStamp>) {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let parsed = content.map_err(unreadable);
    let parsed = parsed.and_then(|bytes| parse(&bytes, bounds));
    let responsibility = match parsed {
        Ok(responsibility) => responsibility,
        Err(error) => return (Err(error), None),
    };
    let Some(at) = responsibility.output_schema.clone() else {
        return (
            Ok(ScheduleFileText {
                responsibility,
                output_schema: None,
                modified_at: None,
            }),
            None,
        );
    };
    let metadata = home.metadata(&at.path);
    let mark = metadata.as_ref().ok().map(FileMark::from_metadata);
    let opened = match metadata {
        // Opening a pipe would block.
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is no file")),
        _ => home.open(&at.path),
    };
    let content = read(opened, answer_schema::SCHEMA_BYTES_MAX).map_err(unreadable);
    let found = content
        .and_then(|bytes| answer_schema::check(&bytes))
        .map_err(|problem| {
            FileError {
                line: at.line,
                problem: format!("`output_schema`: `{}` {problem}", at.path),
            }
            .to_string()
        });
    let found = found.map(|schema| ScheduleFileText {
        responsibility,
        output_schema: Some(schema),
        modified_at: None,
    });
    (found, Some((at.path, mark)))
}

/// Parses a file. A panic of the parser, or of the YAML library, concerns this file only.
fn parse(bytes: &[u8], bounds: &ParseContext<'_>) -> Result<Responsibility, String> {
    let parsed = catch_unwind(AssertUnwindSafe(|| file::parse(bytes, bounds)));
    match parsed {
        Ok(parsed) => parsed.map_err(|error| error.to_string()),
        Err(_bug) => {
            Err("cannot be read: its reader broke off, which is a bug of the engine".to_owned())
        }
    }
}

/// Reads one file for a persona, from any path; a schema that it names is looked up in the
/// persona's folder. Blocking.
///
/// Errors: the problem with its line.
pub fn examine(
    persona: &Persona,
    names: &WorkspaceNames,
    content: &[u8],
) -> Result<Responsibility, String> {
    let bounds = ParseContext::for_persona(persona, names);
    let parsed = parse(content, &bounds)?;
    if parsed.output_schema.is_none() {
        return Ok(parsed);
    }
    let home = utf8(persona).and_then(|path| Dir::open_ambient_dir(path, ambient_authority()));
    let home =
        home.map_err(|error| format!("the folder of `{}` cannot be read: {error}", persona.id))?;
    understood(&home, &bounds, Ok(content.to_vec()))
        .0
        .map(|found| found.responsibility)
}

fn utf8(persona: &Persona) -> io::Result<&str> {
    persona
        .folder
        .to_str()
        .ok_or_else(|| io::Error::other("the path of the folder is not UTF-8"))
}

/// Accepts `*.md`, except hidden files and the folder's README.
fn candidate(entry: DirEntry) -> Option<(String, DirEntry)> {
    let name = entry.file_name().ok()?;
    let named_well = name.ends_with(".md") && !name.starts_with('.');
    (named_well && !name.eq_ignore_ascii_case("readme.md")).then_some((name, entry))
}

fn read(opened: io::Result<File>, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // One byte more than permitted, so that the parser reports that the file is too large.
    opened?
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut content)?;
    Ok(content)
}
