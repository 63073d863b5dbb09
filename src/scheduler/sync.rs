//! Files on disk -> rows. A file that cannot be used stops itself and nothing else.

use super::duty::file::{FileError, Responsibility};
use super::duty::timing::Timing;
use super::duty::{file, schema};
use super::slots::owed;
use super::{Scheduler, next_slot};
use crate::config::Persona;
use crate::domain::{PersonaId, ResponsibilityId, RunTerms, SlotTerms, Timestamp, sha256_hex};
use crate::store::{
    Duty, FileChange, FileState, MissedSlots, Result as StoreResult, StoredResponsibility, Version,
};
use cap_std::ambient_authority;
use cap_std::fs_utf8::{Dir, DirEntry, File};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::time::SystemTime;

/// Files looked at per persona; more is a mistake, not a calendar.
const FILES_MAX: usize = 500;
const FOLDER: &str = "responsibilities";

/// What a synchronisation did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyncReport {
    pub added: usize,
    pub changed: usize,
    pub removed: usize,
    /// Files that cannot be used, as far as they were read now.
    pub problems: Vec<Problem>,
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path below the workspace.
    pub file: String,
    pub problem: String,
}

/// A file by persona and path below the persona's folder.
pub(super) type Key = (PersonaId, String);

/// Enough of a file's metadata to know that it is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    modified: Option<SystemTime>,
    size_bytes: u64,
}

/// Path of a schema below the persona's folder, and its mark; no mark: it is not there.
type SchemaStamp = (String, Option<Mark>);

/// Enough to know that a responsibility is the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Stamp {
    own: Mark,
    /// The schema that it names.
    schema: Option<SchemaStamp>,
}

/// A file that was read.
pub(super) struct Found {
    responsibility: Responsibility,
    /// On one line.
    output_schema: Option<String>,
}

/// The folders as they were found.
#[derive(Default)]
pub(super) struct Scan {
    pub stamps: BTreeMap<Key, Stamp>,
    /// What the files say whose stamp is new, or why they cannot be used.
    pub read: BTreeMap<Key, Result<Found, String>>,
    /// Personas whose folder could not be listed, with the reason: their rows stay as they are.
    pub unreadable: BTreeMap<PersonaId, String>,
}

/// Lists the responsibility files of all personas and reads those whose stamp is not in `known`. Blocking.
pub(super) fn scan<'a>(personas: impl Iterator<Item = &'a Persona>, known: &BTreeMap<Key, Stamp>) -> Scan {
    let mut scan = Scan::default();
    for persona in personas {
        if let Err(error) = scan_folder(persona, known, &mut scan) {
            scan.unreadable.insert(persona.id.clone(), error.to_string());
        }
    }
    scan
}

fn scan_folder(persona: &Persona, known: &BTreeMap<Key, Stamp>, scan: &mut Scan) -> io::Result<()> {
    // A folder that does not exist holds no responsibilities.
    let opened = Dir::open_ambient_dir(utf8(persona)?, ambient_authority())
        .and_then(|home| home.open_dir(FOLDER).map(|folder| (home, folder)));
    let (home, folder) = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut found = 0;
    for entry in folder.entries()? {
        let Some((name, entry)) = candidate(entry?) else { continue };
        found += 1;
        if found > FILES_MAX {
            return Err(io::Error::other(format!("more than {FILES_MAX} responsibilities")));
        }
        let key = (persona.id.clone(), format!("{FOLDER}/{name}"));
        let before = known.get(&key);
        let is_same = |own: Mark| {
            let of_schema = |path: &str| home.metadata(path).ok().map(|found| mark(&found));
            before.filter(|before| {
                let schema = before.schema.as_ref();
                before.own == own && schema.is_none_or(|(path, mark)| *mark == of_schema(path))
            })
        };
        let (own, content) = match folder.metadata(&name) {
            // Gone since it was listed, or a folder that is called `x.md`.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Ok(metadata) if !metadata.is_file() => continue,
            Ok(metadata) => (mark(&metadata), None),
            // For example a link that leads out of the persona's folder.
            Err(error) => (Mark::default(), Some(Err(error))),
        };
        if let Some(same) = is_same(own) {
            scan.stamps.insert(key, same.clone());
            continue;
        }
        let content = content.unwrap_or_else(|| read(entry.open(), file::FILE_BYTES_MAX));
        let (found, schema) = understood(&home, content);
        scan.read.insert(key.clone(), found);
        scan.stamps.insert(key, Stamp { own, schema });
    }
    Ok(())
}

fn mark(metadata: &cap_std::fs::Metadata) -> Mark {
    let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
    Mark { modified, size_bytes: metadata.len() }
}

/// What a file says, with the schema that it names; and the mark of that schema, taken before it is read.
fn understood(home: &Dir, content: io::Result<Vec<u8>>) -> (Result<Found, String>, Option<SchemaStamp>) {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let parsed = content.map_err(unreadable);
    let parsed = parsed.and_then(|bytes| file::parse(&bytes).map_err(|error| error.to_string()));
    let responsibility = match parsed {
        Ok(responsibility) => responsibility,
        Err(error) => return (Err(error), None),
    };
    let Some(at) = responsibility.output_schema.clone() else {
        return (Ok(Found { responsibility, output_schema: None }), None);
    };
    let metadata = home.metadata(&at.path);
    let mark = metadata.as_ref().ok().map(mark);
    let opened = match metadata {
        // A pipe would be waited for.
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is no file")),
        _ => home.open(&at.path),
    };
    let content = read(opened, schema::SCHEMA_BYTES_MAX).map_err(unreadable);
    let found = content.and_then(|bytes| schema::check(&bytes)).map_err(|problem| {
        FileError { line: at.line, problem: format!("`output_schema`: `{}` {problem}", at.path) }.to_string()
    });
    let found = found.map(|schema| Found { responsibility, output_schema: Some(schema) });
    (found, Some((at.path, mark)))
}

fn utf8(persona: &Persona) -> io::Result<&str> {
    persona.folder.to_str().ok_or_else(|| io::Error::other("the path of the folder is not UTF-8"))
}

/// `*.md`, except hidden files and the folder's README.
fn candidate(entry: DirEntry) -> Option<(String, DirEntry)> {
    let name = entry.file_name().ok()?;
    let named_well = name.ends_with(".md") && !name.starts_with('.');
    (named_well && !name.eq_ignore_ascii_case("readme.md")).then_some((name, entry))
}

fn read(opened: io::Result<File>, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // One byte more than is allowed lets the parser say that the file is too large.
    opened?.take(bytes_max as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// The responsibility files that cannot be used, without touching a row. Blocking.
pub fn unusable<'a>(personas: impl Iterator<Item = &'a Persona>) -> Vec<Problem> {
    let scan = scan(personas, &BTreeMap::new());
    let folders = scan.unreadable.into_iter();
    let folders = folders.map(|(id, problem)| Problem { file: format!("personas/{id}/{FOLDER}"), problem });
    let files = scan.read.into_iter().filter_map(|((id, path), found)| {
        Some(Problem { file: format!("personas/{id}/{path}"), problem: found.err()? })
    });
    folders.chain(files).collect()
}

impl Scheduler {
    /// Makes the rows what the files say. Cheap when no file changed: it looks at sizes and times only.
    pub async fn sync(&self) -> StoreResult<SyncReport> {
        let known = self.lock_known().clone();
        let first = known.is_none();
        let seen = known.unwrap_or_default();
        let personas = self.personas.clone();
        let before = seen.clone();
        let scanned = tokio::task::spawn_blocking(move || scan(personas.iter(), &seen)).await;
        let Ok(mut scan) =
            scanned.inspect_err(|error| tracing::error!(%error, "looking at responsibilities"))
        else {
            return Ok(SyncReport::default());
        };
        let mut report = SyncReport::default();
        for (persona, reason) in &scan.unreadable {
            let file = format!("personas/{persona}/{FOLDER}");
            report.problems.push(Problem { file, problem: reason.clone() });
            // What was known of an unreadable folder stays known.
            let kept = before.iter().filter(|((owner, _), _)| owner == persona);
            scan.stamps.extend(kept.map(|(key, stamp)| (key.clone(), stamp.clone())));
        }
        if first || scan.stamps != before || !scan.read.is_empty() {
            let settled = self.apply(&scan, &mut report).await?;
            if !settled {
                return Ok(report); // Somebody else changed a row meanwhile: look again next time.
            }
            *self.lock_known() = Some(scan.stamps);
        }
        Ok(report)
    }

    /// Brings the rows in line with a scan; false when a row changed under it.
    async fn apply(&self, scan: &Scan, report: &mut SyncReport) -> StoreResult<bool> {
        let rows = self.store.responsibilities().await?;
        let mut settled = true;
        for ((persona, path), found) in &scan.read {
            let Some(owner) = self.personas.get(persona) else { continue };
            let row = rows.iter().find(|row| row.persona == *persona && row.file == *path);
            let to = self.file_state(owner, path, found, report);
            settled &= self.apply_file(owner, path, row, to, report).await?;
        }
        for row in &rows {
            let key = (row.persona.clone(), row.file.clone());
            let gone = !scan.stamps.contains_key(&key) && !scan.unreadable.contains_key(&row.persona);
            if gone && row.removed_at.is_none() {
                let done = self.change(&key, Some(row), FileState::Removed).await?;
                report.removed += usize::from(done);
                settled &= done;
            }
        }
        Ok(settled)
    }

    fn file_state(
        &self,
        owner: &Persona,
        path: &str,
        found: &Result<Found, String>,
        report: &mut SyncReport,
    ) -> FileState {
        match found {
            Ok(Found { responsibility: parsed, output_schema }) => {
                let zone = parsed.timezone.unwrap_or(owner.timezone);
                let now = self.clock.now();
                let timing = Timing::Cron(parsed.schedule.clone(), zone);
                let next_slot_at = parsed.enabled.then(|| timing.next_after(now)).flatten();
                FileState::InForce(Box::new(Duty {
                    name: parsed.name.clone(),
                    schedule: timing.spelled(),
                    timezone: zone.name().to_owned(),
                    enabled: parsed.enabled,
                    prompt_sha256: sha256_hex(&[parsed.prompt.as_bytes()]),
                    prompt: parsed.prompt.clone(),
                    budget_micros: parsed.budget_micros,
                    output_schema: output_schema.clone(),
                    slot_terms: SlotTerms::default(),
                    run_terms: RunTerms::default(),
                    next: next_slot(next_slot_at),
                }))
            }
            Err(problem) => {
                let file = format!("personas/{}/{path}", owner.id);
                let error = format!("{file}: {problem}");
                report.problems.push(Problem { file, problem: problem.clone() });
                FileState::Unusable { error }
            }
        }
    }

    async fn apply_file(
        &self,
        owner: &Persona,
        path: &str,
        row: Option<&StoredResponsibility>,
        to: FileState,
        report: &mut SyncReport,
    ) -> StoreResult<bool> {
        if let Some(row) = row.filter(|row| is_same(row, &to)) {
            self.refresh_next_slot(row).await?;
            return Ok(true);
        }
        let done = self.change(&(owner.id.clone(), path.to_owned()), row, to).await?;
        match row {
            Some(row) if row.removed_at.is_none() => report.changed += usize::from(done),
            _ => report.added += usize::from(done),
        }
        Ok(done)
    }

    async fn change(
        &self,
        key: &Key,
        row: Option<&StoredResponsibility>,
        to: FileState,
    ) -> StoreResult<bool> {
        let now = self.clock.now();
        let change = FileChange {
            persona: key.0.clone(),
            file: key.1.clone(),
            seen: row.map(|row| row.version),
            new_id: ResponsibilityId::new(self.clock.new_id()),
            to,
            lapsed: row.and_then(|row| lapsed(row, now)),
            now,
        };
        self.store.sync_responsibility(change).await
    }

    /// Other zone data than the last time moves future slots, and only those.
    async fn refresh_next_slot(&self, row: &StoredResponsibility) -> StoreResult<()> {
        let Some(timing) = in_force(row) else { return Ok(()) };
        let Version { cursor_at, .. } = row.version;
        let next = timing.next_after(cursor_at);
        if next == row.next.at {
            return Ok(());
        }
        self.store.set_next_slot(&row.id, row.version, next_slot(next)).await
    }
}

/// Whether the row says what the file says.
fn is_same(row: &StoredResponsibility, to: &FileState) -> bool {
    match to {
        FileState::InForce(duty) => {
            row.removed_at.is_none()
                && row.error.is_none()
                && row.enabled == duty.enabled
                && row.budget_micros == duty.budget_micros
                && row.output_schema == duty.output_schema
                && (&row.slot_terms, &row.run_terms) == (&duty.slot_terms, &duty.run_terms)
                && [&row.name, &row.schedule, &row.timezone, &row.prompt]
                    == [&duty.name, &duty.schedule, &duty.timezone, &duty.prompt]
        }
        FileState::Unusable { error } => row.removed_at.is_none() && row.error.as_ref() == Some(error),
        FileState::Removed => row.removed_at.is_some(),
    }
}

/// Slots of the version that a change ends, which came due and did not fire: accounted for, never fired.
fn lapsed(row: &StoredResponsibility, now: Timestamp) -> Option<MissedSlots> {
    row.next.at.filter(|next| *next <= now)?;
    let owed = owed(&in_force(row)?, row.version.cursor_at, now);
    let (first, last) = (owed.missed.as_ref().map(|m| m.first).or(owed.newest)?, owed.last?);
    let count = owed.missed.map_or(0, |missed| missed.count) + u64::from(owed.newest.is_some());
    Some(MissedSlots { first, last, count, note: Some("the file changed before they could fire".to_owned()) })
}

/// When a row that may fire does so.
pub(super) fn in_force(row: &StoredResponsibility) -> Option<Timing> {
    let usable = row.enabled && row.removed_at.is_none() && row.error.is_none();
    usable.then(|| Timing::parse(&row.schedule, row.timezone.parse().ok()?).ok()).flatten()
}
