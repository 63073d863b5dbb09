//! Turns files on disk into rows. An unusable file stops only itself.

use super::Scheduler;
use super::scan::{FOLDER, FileKey, Known, Scan, ScheduleFileText, Stamp, scan};
use super::slots::ScheduleInForce;
use crate::config::{Persona, Personas};
use crate::domain::{DeliverTo, PersonaId, ResponsibilityId, Timestamp, sha256_hex};
use crate::schedule_file::timing::Timing;
use crate::schedule_file::{FileError, ParseContext};
use crate::store::files::guard::is_guarded;
use crate::store::{
    FileChange, FileState, MissedSlots, NextSlot, Overslept, Result as StoreResult,
    StoredResponsibility, UsableFile,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Maximum files whose rows change in one commit.
const CHANGES_PER_COMMIT: usize = 500;

/// Result of a synchronisation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyncReport {
    pub added: usize,
    pub changed: usize,
    pub removed: usize,
    /// Files read by this synchronisation that cannot be used.
    pub problems: Vec<FileProblem>,
}

/// A problem and its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// Path below the workspace.
    pub file: String,
    pub problem: String,
}

/// Personas whose files an agent may be changing now.
fn guarded(personas: &Personas) -> BTreeSet<PersonaId> {
    let at_work = personas
        .iter()
        .filter(|persona| is_guarded(&persona.folder));
    at_work.map(|persona| persona.id.clone()).collect()
}

impl Scheduler {
    /// Brings the rows in line with the files. Cheap when no file changed: it reads sizes and times
    /// only.
    pub async fn sync(&self) -> StoreResult<SyncReport> {
        let known = self.lock_known().clone();
        let is_first = known.is_none();
        let before = match known {
            Some(known) => known,
            None => Arc::new(self.known_by_rows(&self.store.responsibilities().await?)),
        };
        let (personas, names) = (self.personas.clone(), self.names.clone());
        let (seen, now) = (before.clone(), self.clock.now());
        let scanned = tokio::task::spawn_blocking(move || {
            // Before and after: an agent's changes are reverted when it has ended.
            let mut held = guarded(&personas);
            let scan = scan(personas.iter(), &names, &seen, now);
            held.extend(guarded(&personas));
            (scan, held)
        });
        let scanned = scanned.await;
        let Ok((mut scan, held)) =
            scanned.inspect_err(|error| tracing::error!(%error, "looking at responsibilities"))
        else {
            return Ok(SyncReport::default());
        };
        let out = self.personas.out_of_service().iter();
        for id in out.filter_map(|out| PersonaId::parse(&out.name).ok()) {
            let reason = "is not read while its persona is out of service".to_owned();
            scan.unreadable.insert(id, reason);
        }
        scan.read.retain(|(owner, _), _| !held.contains(owner));
        scan.stamps.retain(|(owner, _), _| !held.contains(owner));
        let reason = || "is not read while an agent works in it".to_owned();
        scan.unreadable
            .extend(held.iter().map(|persona| (persona.clone(), reason())));
        let mut report = SyncReport::default();
        for (persona, reason) in &scan.unreadable {
            if !held.contains(persona) {
                let file = format!("personas/{persona}/{FOLDER}");
                report.problems.push(FileProblem {
                    file,
                    problem: reason.clone(),
                });
            }
            // Stamps of an unreadable folder are kept.
            let kept = before.iter().filter(|((owner, _), _)| owner == persona);
            scan.stamps
                .extend(kept.map(|(key, stamp)| (key.clone(), stamp.clone())));
        }
        if is_first || !scan.read.is_empty() || scan.stamps != *before {
            let settled = self.apply(&scan, &mut report).await?;
            if !settled {
                return Ok(report); // Another process changed a row meanwhile: scan again next time.
            }
            *self.lock_known() = Some(Arc::new(scan.stamps));
        }
        Ok(report)
    }

    /// Stamps of files in the rows, as far as the files would be parsed in the same way now.
    fn known_by_rows(&self, rows: &[StoredResponsibility]) -> Known {
        let usable = rows
            .iter()
            .filter(|row| row.removed_at.is_none() && row.error.is_none());
        let readings = self.readings();
        let known = usable.filter_map(|row| {
            let (reading, stamp) = row.mark.as_deref()?.split_once(' ')?;
            let is_current = readings
                .get(&row.persona)
                .is_some_and(|today| today == reading);
            is_current
                .then(|| {
                    Some((
                        (row.persona.clone(), row.file.clone()),
                        Stamp::parse(stamp)?,
                    ))
                })
                .flatten()
        });
        known.collect()
    }

    /// For each persona a digest of everything beside a file that influences its parsing: after a
    /// change the file is parsed again.
    fn readings(&self) -> BTreeMap<PersonaId, String> {
        let reading = |owner: &Persona| {
            let bounds = format!("{:?}", ParseContext::for_persona(owner, &self.names));
            let version = [
                env!("CARGO_PKG_VERSION"),
                chrono_tz::IANA_TZDB_VERSION,
                &bounds,
            ];
            let mut digest = sha256_hex(&version.map(str::as_bytes));
            digest.truncate(16);
            digest
        };
        self.personas
            .iter()
            .map(|owner| (owner.id.clone(), reading(owner)))
            .collect()
    }

    /// Brings the rows in line with a scan; `false` when a row changed meanwhile.
    async fn apply(&self, scan: &Scan, report: &mut SyncReport) -> StoreResult<bool> {
        let rows = self.store.responsibilities().await?;
        let key_of = |row: &StoredResponsibility| (row.persona.clone(), row.file.clone());
        let by_key: BTreeMap<FileKey, &StoredResponsibility> =
            rows.iter().map(|row| (key_of(row), row)).collect();
        let (readings, mut changes, mut marks) = (self.readings(), Vec::new(), Vec::new());
        for (key, found) in &scan.read {
            let Some(owner) = self.personas.get(&key.0) else {
                continue;
            };
            let row = by_key.get(key).copied();
            let mark = scan.stamps.get(key).and_then(Stamp::formatted);
            let mark = mark.and_then(|stamp| Some(format!("{} {stamp}", readings.get(&owner.id)?)));
            let astray = self.astray(owner, found).await?;
            let found = astray.as_ref().map_or(found.as_ref(), Err);
            let to = file_state(owner, &key.1, found, self.clock.now(), report);
            match row.filter(|row| is_same(row, &to)) {
                None => {
                    let to = self.unless_served(key, to, found.ok(), scan).await?;
                    let renamed_from =
                        former(key, row, &to, &rows, scan).map(|former| former.id.clone());
                    changes.push(FileChange {
                        renamed_from,
                        ..self.change(key, row, to, mark)
                    });
                }
                Some(row) => {
                    if row.mark != mark && row.error.is_none() {
                        marks.push((row.id.clone(), mark));
                    }
                    self.refresh_next_slot(row).await?;
                }
            }
        }
        for row in rows.iter().filter(|row| is_gone(row, scan)) {
            changes.push(self.change(&key_of(row), Some(row), FileState::Removed, None));
        }
        let mut settled = true;
        for changes in changes.chunks(CHANGES_PER_COMMIT) {
            let done = self.store.sync_responsibilities(changes.to_vec()).await?;
            for (change, done) in changes.iter().zip(done) {
                settled &= done;
                let count = match (&change.to, change.seen) {
                    (FileState::Removed, _) => &mut report.removed,
                    (_, Some(_)) if !is_back(&by_key, change) => &mut report.changed,
                    _ => &mut report.added,
                };
                *count += usize::from(done);
            }
        }
        self.store.mark_responsibilities(marks).await?;
        Ok(settled)
    }

    /// Problem of a file whose answers go into a thread that its persona does not have.
    async fn astray(
        &self,
        owner: &Persona,
        found: &Result<ScheduleFileText, String>,
    ) -> StoreResult<Option<String>> {
        let Ok(ScheduleFileText { responsibility, .. }) = found else {
            return Ok(None);
        };
        let DeliverTo::Thread(thread) = &responsibility.run_options.deliver_to else {
            return Ok(None);
        };
        if self.store.persona(&owner.id).has_thread(thread).await? {
            return Ok(None);
        }
        let problem = format!(
            "`deliver_to`: `{}` has no thread `{thread}`; `attache threads list` shows those that there are",
            owner.id
        );
        Ok(Some(
            FileError {
                line: responsibility.deliver_to_line,
                problem,
            }
            .to_string(),
        ))
    }

    /// Cancels a late one-shot that has fired already: a file that was renamed, copied with its
    /// times, restored, or is read in another zone was written before its instant too.
    async fn unless_served(
        &self,
        (persona, file): &FileKey,
        mut to: FileState,
        found: Option<&ScheduleFileText>,
        scan: &Scan,
    ) -> StoreResult<FileState> {
        let FileState::InForce(schedule) = &mut to else {
            return Ok(to);
        };
        let Some(found) = found.filter(|_| schedule.cursor_at.is_some()) else {
            return Ok(to);
        };
        let Some((instant, written_at)) = overslept(found, self.clock.now()) else {
            return Ok(to);
        };
        let (name, prompt_sha256) = (&schedule.name, &schedule.prompt_sha256);
        let of = Overslept {
            persona,
            file,
            name,
            prompt_sha256,
            instant,
            written_at,
        };
        let served = self.store.served_one_shot(of).await?;
        // A waiting slot ends when its own file changes or disappears, and then no run started for
        // it.
        let stays = |other: &str| {
            other != file
                && scan
                    .stamps
                    .contains_key(&(persona.clone(), other.to_owned()))
        };
        if served.iter().any(|by| !by.is_waiting || stays(&by.file)) {
            schedule.cursor_at = None;
        }
        Ok(to)
    }

    fn change(
        &self,
        key: &FileKey,
        row: Option<&StoredResponsibility>,
        mut to: FileState,
        mark: Option<String>,
    ) -> FileChange {
        let now = self.clock.now();
        let cursor = match &to {
            FileState::InForce(schedule) => schedule.cursor_at.unwrap_or(now),
            _ => now,
        };
        let new_id = ResponsibilityId::new(self.clock.new_id());
        if let FileState::InForce(schedule) = &mut to {
            schedule.next = first_slot(row.map_or(&new_id, |row| &row.id), schedule, cursor, now);
        }
        FileChange {
            persona: key.0.clone(),
            file: key.1.clone(),
            seen: row.map(|row| row.version),
            new_id,
            renamed_from: None,
            to,
            mark,
            lapsed: row.and_then(|row| lapsed(row, cursor)),
            now,
        }
    }

    /// Updates the next slot after a change of the zone data, which affects only future slots.
    async fn refresh_next_slot(&self, row: &StoredResponsibility) -> StoreResult<()> {
        let Some(timing) = in_force(row) else {
            return Ok(());
        };
        let schedule = ScheduleInForce {
            id: &row.id,
            timing: &timing,
            options: &row.slot_options,
        };
        let next = schedule.next(row.version.cursor_at, self.clock.now());
        if next.at == row.next.at {
            return Ok(());
        }
        self.store.set_next_slot(&row.id, row.version, next).await
    }
}

fn file_state(
    owner: &Persona,
    path: &str,
    found: Result<&ScheduleFileText, &String>,
    now: Timestamp,
    report: &mut SyncReport,
) -> FileState {
    match found {
        Ok(found) => FileState::InForce(Box::new(schedule(found, now))),
        Err(problem) => {
            let file = format!("personas/{}/{path}", owner.id);
            let error = format!("{file}: {problem}");
            report.problems.push(FileProblem {
                file,
                problem: problem.clone(),
            });
            FileState::Unusable { error }
        }
    }
}

/// Builds the schedule of a row from a usable file.
fn schedule(found: &ScheduleFileText, now: Timestamp) -> UsableFile {
    let parsed = &found.responsibility;
    UsableFile {
        name: parsed.name.clone(),
        schedule: parsed.timing.formatted(),
        timezone: parsed.timezone.name().to_owned(),
        enabled: parsed.enabled,
        prompt_sha256: sha256_hex(&[parsed.prompt.as_bytes()]),
        prompt: parsed.prompt.clone(),
        budget_micros: parsed.budget_micros,
        output_schema: found.output_schema.clone(),
        slot_options: parsed.slot_options.clone(),
        run_options: parsed.run_options.clone(),
        next: NextSlot::default(), // needs an id, see `Scheduler::change`
        // Just before its instant, so that it is due.
        cursor_at: overslept(found, now)
            .filter(|_| parsed.enabled)
            .map(|(instant, _)| instant.minus(Duration::from_millis(1))),
    }
}

/// The instant of a one-shot that was written in time but read too late, because no engine ran: it
/// is still due. A file that was written after its instant is late by itself. Returns the instant
/// and the modification time.
fn overslept(found: &ScheduleFileText, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let Timing::At(instant) = found.responsibility.timing else {
        return None;
    };
    found
        .modified_at
        .filter(|written| *written < instant && instant <= now)
        .map(|written| (instant, written))
}

/// Reports whether the file of a row that was in force no longer exists.
fn is_gone(row: &StoredResponsibility, scan: &Scan) -> bool {
    let key = (row.persona.clone(), row.file.clone());
    row.removed_at.is_none()
        && !scan.stamps.contains_key(&key)
        && !scan.unreadable.contains_key(&row.persona)
}

/// The row of a renamed file: a file appears in the scan in which another file of its persona
/// disappears that has the same name in its front matter or the same prompt. Paused rows come
/// first: a paused responsibility must not fire because its file was renamed.
fn former<'a>(
    (persona, _): &FileKey,
    row: Option<&StoredResponsibility>,
    to: &FileState,
    rows: &'a [StoredResponsibility],
    scan: &Scan,
) -> Option<&'a StoredResponsibility> {
    let FileState::InForce(schedule) = to else {
        return None;
    };
    if row.is_some_and(|row| row.removed_at.is_none()) {
        return None;
    }
    let likeness =
        |row: &StoredResponsibility| [row.name == schedule.name, row.prompt == schedule.prompt];
    rows.iter()
        .filter(|row| {
            row.persona == *persona && is_gone(row, scan) && likeness(row).contains(&true)
        })
        .max_by_key(|row| (row.paused.is_some(), likeness(row)))
}

/// Reports whether a file was missing before.
fn is_back(rows: &BTreeMap<FileKey, &StoredResponsibility>, change: &FileChange) -> bool {
    let row = rows.get(&(change.persona.clone(), change.file.clone()));
    row.is_some_and(|row| row.removed_at.is_some())
}

/// Reports whether the row equals the file.
fn is_same(row: &StoredResponsibility, to: &FileState) -> bool {
    match to {
        FileState::InForce(schedule) => {
            row.removed_at.is_none()
                && row.error.is_none()
                && row.enabled == schedule.enabled
                && row.budget_micros == schedule.budget_micros
                && row.output_schema == schedule.output_schema
                && (&row.slot_options, &row.run_options)
                    == (&schedule.slot_options, &schedule.run_options)
                && [&row.name, &row.schedule, &row.timezone, &row.prompt]
                    == [
                        &schedule.name,
                        &schedule.schedule,
                        &schedule.timezone,
                        &schedule.prompt,
                    ]
        }
        FileState::Unusable { error } => {
            row.removed_at.is_none() && row.error.as_ref() == Some(error)
        }
        FileState::Removed => row.removed_at.is_some(),
    }
}

/// Slots of the version that a change ends, which came due and did not fire: recorded, never fired.
fn lapsed(row: &StoredResponsibility, now: Timestamp) -> Option<MissedSlots> {
    row.next.at.filter(|next| *next <= now)?;
    let timing = in_force(row)?;
    let schedule = ScheduleInForce {
        id: &row.id,
        timing: &timing,
        options: &row.slot_options,
    };
    let note = Some("the file changed before they could fire".to_owned());
    schedule
        .lapsed(row.version.cursor_at, now)
        .map(|lapsed| MissedSlots { note, ..lapsed })
}

/// The first slot of a version whose cursor begins at `cursor`.
fn first_slot(
    id: &ResponsibilityId,
    schedule: &UsableFile,
    cursor: Timestamp,
    now: Timestamp,
) -> NextSlot {
    let zone = schedule.timezone.parse().ok().filter(|_| schedule.enabled);
    let timing = zone.and_then(|zone| Timing::parse(&schedule.schedule, zone).ok());
    timing.map_or_else(NextSlot::default, |timing| {
        ScheduleInForce {
            id,
            timing: &timing,
            options: &schedule.slot_options,
        }
        .next(cursor, now)
    })
}

/// Timing of a row that may fire; `None` otherwise.
pub(super) fn in_force(row: &StoredResponsibility) -> Option<Timing> {
    let usable = row.enabled && row.removed_at.is_none() && row.error.is_none();
    usable
        .then(|| Timing::parse(&row.schedule, row.timezone.parse().ok()?).ok())
        .flatten()
}
