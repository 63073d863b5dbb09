//! Files on disk -> rows. A file that cannot be used stops itself and nothing else.

use super::Scheduler;
use super::duty::timing::Timing;
use super::duty::{Bounds, FileError};
use super::scan::{FOLDER, Found, Key, Known, Scan, Stamp, scan};
use super::slots::Dues;
use crate::config::{Persona, Personas};
use crate::domain::{DeliverTo, PersonaId, ResponsibilityId, Timestamp, sha256_hex};
use crate::store::agent_files::is_guarded;
use crate::store::{
    Duty, FileChange, FileState, MissedSlots, NextSlot, Overslept, Result as StoreResult,
    StoredResponsibility,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Files whose rows change in one commit.
const CHANGES_PER_COMMIT: usize = 500;

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

/// Personas whose files an agent could be changing now.
fn guarded(personas: &Personas) -> BTreeSet<PersonaId> {
    let at_work = personas.iter().filter(|persona| is_guarded(&persona.folder));
    at_work.map(|persona| persona.id.clone()).collect()
}

impl Scheduler {
    /// Makes the rows what the files say. Cheap when no file changed: it looks at sizes and times only.
    pub async fn sync(&self) -> StoreResult<SyncReport> {
        let known = self.lock_known().clone();
        let is_first = known.is_none();
        let before = match known {
            Some(known) => known,
            None => Arc::new(self.known_by_rows(&self.store.responsibilities().await?)),
        };
        let (personas, offer) = (self.personas.clone(), self.offer.clone());
        let (seen, now) = (before.clone(), self.clock.now());
        let scanned = tokio::task::spawn_blocking(move || {
            // Before and after: what an agent writes meanwhile is put back when it has ended.
            let mut held = guarded(&personas);
            let scan = scan(personas.iter(), &offer, &seen, now);
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
        scan.unreadable.extend(held.iter().map(|persona| (persona.clone(), reason())));
        let mut report = SyncReport::default();
        for (persona, reason) in &scan.unreadable {
            if !held.contains(persona) {
                let file = format!("personas/{persona}/{FOLDER}");
                report.problems.push(Problem { file, problem: reason.clone() });
            }
            // What was known of an unreadable folder stays known.
            let kept = before.iter().filter(|((owner, _), _)| owner == persona);
            scan.stamps.extend(kept.map(|(key, stamp)| (key.clone(), stamp.clone())));
        }
        if is_first || !scan.read.is_empty() || scan.stamps != *before {
            let settled = self.apply(&scan, &mut report).await?;
            if !settled {
                return Ok(report); // Somebody else changed a row meanwhile: look again next time.
            }
            *self.lock_known() = Some(Arc::new(scan.stamps));
        }
        Ok(report)
    }

    /// What the rows know of their files, as far as they were read as they would be read now.
    fn known_by_rows(&self, rows: &[StoredResponsibility]) -> Known {
        let usable = rows.iter().filter(|row| row.removed_at.is_none() && row.error.is_none());
        let readings = self.readings();
        let known = usable.filter_map(|row| {
            let (reading, stamp) = row.mark.as_deref()?.split_once(' ')?;
            let is_current = readings.get(&row.persona).is_some_and(|today| today == reading);
            is_current
                .then(|| Some(((row.persona.clone(), row.file.clone()), Stamp::parse(stamp)?)))
                .flatten()
        });
        known.collect()
    }

    /// For each persona what stands for everything beside a file that has a say in how it is read: another reading, and it
    /// is read again.
    fn readings(&self) -> BTreeMap<PersonaId, String> {
        let reading = |owner: &Persona| {
            let bounds = format!("{:?}", Bounds::of(owner, &self.offer));
            let version = [env!("CARGO_PKG_VERSION"), chrono_tz::IANA_TZDB_VERSION, &bounds];
            let mut digest = sha256_hex(&version.map(str::as_bytes));
            digest.truncate(16);
            digest
        };
        self.personas.iter().map(|owner| (owner.id.clone(), reading(owner))).collect()
    }

    /// Brings the rows in line with a scan; false when a row changed under it.
    async fn apply(&self, scan: &Scan, report: &mut SyncReport) -> StoreResult<bool> {
        let rows = self.store.responsibilities().await?;
        let key_of = |row: &StoredResponsibility| (row.persona.clone(), row.file.clone());
        let by_key: BTreeMap<Key, &StoredResponsibility> =
            rows.iter().map(|row| (key_of(row), row)).collect();
        let (readings, mut changes, mut marks) = (self.readings(), Vec::new(), Vec::new());
        for (key, found) in &scan.read {
            let Some(owner) = self.personas.get(&key.0) else { continue };
            let row = by_key.get(key).copied();
            let mark = scan.stamps.get(key).and_then(Stamp::spelled);
            let mark = mark.and_then(|stamp| Some(format!("{} {stamp}", readings.get(&owner.id)?)));
            let astray = self.astray(owner, found).await?;
            let found = astray.as_ref().map_or(found.as_ref(), Err);
            let to = file_state(owner, &key.1, found, self.clock.now(), report);
            match row.filter(|row| is_same(row, &to)) {
                None => {
                    let to = self.unless_served(key, to, found.ok(), scan).await?;
                    let renamed_from = former(key, row, &to, &rows, scan).map(|former| former.id.clone());
                    changes.push(FileChange { renamed_from, ..self.change(key, row, to, mark) });
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

    /// What is wrong with a file whose answers go into a thread that its persona does not have.
    async fn astray(&self, owner: &Persona, found: &Result<Found, String>) -> StoreResult<Option<String>> {
        let Ok(Found { responsibility, .. }) = found else { return Ok(None) };
        let DeliverTo::Thread(thread) = &responsibility.run_terms.deliver_to else { return Ok(None) };
        if self.store.persona(&owner.id).has_thread(thread).await? {
            return Ok(None);
        }
        let problem = format!(
            "`deliver_to`: `{}` has no thread `{thread}`; `attache threads list` shows those that there are",
            owner.id
        );
        Ok(Some(FileError { line: responsibility.deliver_to_line, problem }.to_string()))
    }

    /// Owes no one-shot that fired: a file that was renamed, copied with its times, restored, or is read in another zone was
    /// written before its instant too.
    async fn unless_served(
        &self,
        (persona, file): &Key,
        mut to: FileState,
        found: Option<&Found>,
        scan: &Scan,
    ) -> StoreResult<FileState> {
        let FileState::InForce(duty) = &mut to else { return Ok(to) };
        let Some(found) = found.filter(|_| duty.cursor_at.is_some()) else { return Ok(to) };
        let Some((instant, written_at)) = overslept(found, self.clock.now()) else { return Ok(to) };
        let (name, prompt_sha256) = (&duty.name, &duty.prompt_sha256);
        let of = Overslept { persona, file, name, prompt_sha256, instant, written_at };
        let served = self.store.served_one_shot(of).await?;
        // What waits ends when its own file changes or goes, and then nothing ran for it.
        let stays =
            |other: &str| other != file && scan.stamps.contains_key(&(persona.clone(), other.to_owned()));
        if served.iter().any(|by| !by.is_waiting || stays(&by.file)) {
            duty.cursor_at = None;
        }
        Ok(to)
    }

    fn change(
        &self,
        key: &Key,
        row: Option<&StoredResponsibility>,
        mut to: FileState,
        mark: Option<String>,
    ) -> FileChange {
        let now = self.clock.now();
        let cursor = match &to {
            FileState::InForce(duty) => duty.cursor_at.unwrap_or(now),
            _ => now,
        };
        let new_id = ResponsibilityId::new(self.clock.new_id());
        if let FileState::InForce(duty) = &mut to {
            duty.next = first_slot(row.map_or(&new_id, |row| &row.id), duty, (cursor, now));
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

    /// Other zone data than the last time moves future slots, and only those.
    async fn refresh_next_slot(&self, row: &StoredResponsibility) -> StoreResult<()> {
        let Some(timing) = in_force(row) else { return Ok(()) };
        let dues = Dues { id: &row.id, timing: &timing, terms: &row.slot_terms };
        let next = dues.next(row.version.cursor_at, self.clock.now());
        if next.at == row.next.at {
            return Ok(());
        }
        self.store.set_next_slot(&row.id, row.version, next).await
    }
}

fn file_state(
    owner: &Persona,
    path: &str,
    found: Result<&Found, &String>,
    now: Timestamp,
    report: &mut SyncReport,
) -> FileState {
    match found {
        Ok(found) => FileState::InForce(Box::new(duty(found, now))),
        Err(problem) => {
            let file = format!("personas/{}/{path}", owner.id);
            let error = format!("{file}: {problem}");
            report.problems.push(Problem { file, problem: problem.clone() });
            FileState::Unusable { error }
        }
    }
}

/// What a usable file makes of its row.
fn duty(found: &Found, now: Timestamp) -> Duty {
    let parsed = &found.responsibility;
    Duty {
        name: parsed.name.clone(),
        schedule: parsed.timing.spelled(),
        timezone: parsed.timezone.name().to_owned(),
        enabled: parsed.enabled,
        prompt_sha256: sha256_hex(&[parsed.prompt.as_bytes()]),
        prompt: parsed.prompt.clone(),
        budget_micros: parsed.budget_micros,
        output_schema: found.output_schema.clone(),
        slot_terms: parsed.slot_terms.clone(),
        run_terms: parsed.run_terms.clone(),
        next: NextSlot::default(), // needs an id, see `Scheduler::change`
        // Just before its instant, so that it is owed.
        cursor_at: overslept(found, now)
            .filter(|_| parsed.enabled)
            .map(|(instant, _)| instant.minus(Duration::from_millis(1))),
    }
}

/// The instant of a one-shot that was written in time and is read too late, because no engine ran: it is owed all the same.
/// A file that was written after its instant is late by itself. Gives the instant, and when the file was written.
fn overslept(found: &Found, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let Timing::At(instant) = found.responsibility.timing else { return None };
    found.modified_at.filter(|written| *written < instant && instant <= now).map(|written| (instant, written))
}

/// Whether the file of a row that was in force is no longer there.
fn is_gone(row: &StoredResponsibility, scan: &Scan) -> bool {
    let key = (row.persona.clone(), row.file.clone());
    row.removed_at.is_none() && !scan.stamps.contains_key(&key) && !scan.unreadable.contains_key(&row.persona)
}

/// The row under whose name a file was until now: it appears in the look in which another of its persona goes that has the
/// same name in its front matter or the same prompt. Paused ones come first: what somebody paused must not fire because its
/// file was renamed.
fn former<'a>(
    (persona, _): &Key,
    row: Option<&StoredResponsibility>,
    to: &FileState,
    rows: &'a [StoredResponsibility],
    scan: &Scan,
) -> Option<&'a StoredResponsibility> {
    let FileState::InForce(duty) = to else { return None };
    if row.is_some_and(|row| row.removed_at.is_none()) {
        return None;
    }
    let likeness = |row: &StoredResponsibility| [row.name == duty.name, row.prompt == duty.prompt];
    rows.iter()
        .filter(|row| row.persona == *persona && is_gone(row, scan) && likeness(row).contains(&true))
        .max_by_key(|row| (row.paused.is_some(), likeness(row)))
}

/// Whether a file was gone before.
fn is_back(rows: &BTreeMap<Key, &StoredResponsibility>, change: &FileChange) -> bool {
    let row = rows.get(&(change.persona.clone(), change.file.clone()));
    row.is_some_and(|row| row.removed_at.is_some())
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
    let timing = in_force(row)?;
    let dues = Dues { id: &row.id, timing: &timing, terms: &row.slot_terms };
    let note = Some("the file changed before they could fire".to_owned());
    dues.lapsed(row.version.cursor_at, now).map(|lapsed| MissedSlots { note, ..lapsed })
}

/// What comes first of a version whose cursor begins at `cursor`.
fn first_slot(id: &ResponsibilityId, duty: &Duty, (cursor, now): (Timestamp, Timestamp)) -> NextSlot {
    let zone = duty.timezone.parse().ok().filter(|_| duty.enabled);
    let timing = zone.and_then(|zone| Timing::parse(&duty.schedule, zone).ok());
    timing.map_or_else(NextSlot::default, |timing| {
        Dues { id, timing: &timing, terms: &duty.slot_terms }.next(cursor, now)
    })
}

/// When a row that may fire does so.
pub(super) fn in_force(row: &StoredResponsibility) -> Option<Timing> {
    let usable = row.enabled && row.removed_at.is_none() && row.error.is_none();
    usable.then(|| Timing::parse(&row.schedule, row.timezone.parse().ok()?).ok()).flatten()
}
