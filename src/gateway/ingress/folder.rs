//! A watched folder of `.eml` files: each complete file is a letter, and is moved once its outcome
//! is committed.
//!
//! An accepted letter ends in `processed/`, a refused one in `rejected/` with the reason beside it.
//! A crash between the commit and the move is harmless: the file is offered again, and the intake
//! recognises the duplicate. Absent on purpose: mbox files, and notification by the kernel (a
//! folder may be on a network share).

use crate::config::WatchedFolder;
use crate::domain::{Address, Arrival, Envelope, Letter, Via};
use crate::gateway::ingress::in_flight::InFlightMarker;
use crate::gateway::intake_contract::{
    Accepted, CopyOutcome, LetterIntake, Refusal, for_one_letter,
};
use crate::mime::Header;
use crate::store::Quarantined;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::fs;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

/// Maximum files of one sweep; the rest waits for the next.
const FILES_PER_SWEEP_MAX: usize = 1000;

/// One watched folder, with the state of its files at the last sweep.
pub struct FolderWatch {
    folder: WatchedFolder,
    /// Address of the persona that gets letters without a local recipient.
    fallback: Option<Address>,
    intake: Arc<dyn LetterIntake>,
    letter_bytes_max: usize,
    in_flight: Option<InFlightMarker>,
    seen: HashMap<OsString, DropFileStamp>,
    /// Files about which a warning was logged.
    complained: HashSet<OsString>,
}

/// Size and modification time, by which a file that is still being written is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DropFileStamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

/// Counts of one sweep, in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweepReport {
    /// Letters stored by this sweep.
    pub stored: usize,
    /// Letters stored before.
    pub duplicates: usize,
    pub rejected: usize,
    /// Files that are new or changed since the last sweep.
    pub waiting: usize,
    /// Files that could not be stored, read or moved now; the next sweep retries them.
    pub deferred: usize,
}

/// Sweeps a folder until `stop`.
pub async fn watch(mut watch: FolderWatch, stop: CancellationToken) {
    let mut was_readable = true;
    if !InFlightMarker::waited(watch.in_flight.as_ref(), &stop).await {
        return;
    }
    loop {
        let swept = watch.sweep_until(&stop).await;
        match &swept {
            Ok(report) if *report != SweepReport::default() => {
                let SweepReport {
                    stored,
                    duplicates,
                    rejected,
                    waiting,
                    deferred,
                } = report;
                let folder = watch.folder.path.display();
                tracing::debug!(%folder, stored, duplicates, rejected, waiting, deferred, "a folder was looked through");
            }
            Err(error) if was_readable => {
                tracing::warn!(%error, folder = %watch.folder.path.display(), "a watched folder cannot be read");
            }
            _ => {}
        }
        was_readable = swept.is_ok();
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(watch.folder.poll) => {}
        }
    }
}

impl FolderWatch {
    pub fn new(
        folder: WatchedFolder,
        fallback: Option<Address>,
        intake: Arc<dyn LetterIntake>,
        letter_bytes_max: usize,
    ) -> Self {
        let (seen, complained) = (HashMap::new(), HashSet::new());
        Self {
            folder,
            fallback,
            intake,
            letter_bytes_max,
            in_flight: None,
            seen,
            complained,
        }
    }

    /// Sets the marker of the letter that is in flight.
    #[must_use]
    pub fn with_in_flight(mut self, in_flight: InFlightMarker) -> Self {
        self.in_flight = Some(in_flight);
        self
    }

    /// Takes every file that has not changed since the last sweep, sorted by name.
    ///
    /// Creates the folder and its two subfolders when they are missing. Fails only when the folder
    /// cannot be listed.
    pub async fn sweep(&mut self) -> io::Result<SweepReport> {
        self.sweep_until(&CancellationToken::new()).await
    }

    async fn sweep_until(&mut self, stop: &CancellationToken) -> io::Result<SweepReport> {
        let mut report = SweepReport::default();
        let files = self.list().await?;
        let mut before = std::mem::replace(&mut self.seen, files.iter().cloned().collect());
        self.complained.retain(|name| self.seen.contains_key(name));
        if let Some(in_flight) = self
            .in_flight
            .as_ref()
            .filter(|_| self.seen.len() < FILES_PER_SWEEP_MAX)
        {
            in_flight.retain(|letter| {
                self.seen
                    .keys()
                    .any(|name| name.to_string_lossy() == letter)
            });
        }
        for (name, look) in files {
            if before.remove(&name) != Some(look) {
                report.waiting += 1;
            } else if stop.is_cancelled() || !self.intake.has_room() {
                report.deferred += 1;
            } else if let Err(error) = self.take(&name, &mut report).await {
                report.deferred += 1;
                if self.complained.insert(name.clone()) {
                    tracing::warn!(error = &error as &dyn std::error::Error, file = ?name, "a letter file waits");
                }
            }
        }
        Ok(report)
    }

    /// Lists `*.eml` files by name. Links are ignored: they may lead out of the folder.
    async fn list(&self) -> io::Result<Vec<(OsString, DropFileStamp)>> {
        for kind in [FileOutcome::PROCESSED, FileOutcome::REJECTED] {
            fs::create_dir_all(self.folder.path.join(kind)).await?;
        }
        let mut entries = fs::read_dir(&self.folder.path).await?;
        let mut files = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            let name = entry.file_name();
            if !is_letter_name(&name) {
                continue;
            }
            // A file that disappears meanwhile was removed by its writer.
            if let Ok(metadata) = entry.metadata().await
                && metadata.is_file()
            {
                files.push((
                    name,
                    DropFileStamp {
                        bytes: metadata.len(),
                        modified: metadata.modified().ok(),
                    },
                ));
                if files.len() == FILES_PER_SWEEP_MAX {
                    break;
                }
            }
        }
        files.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(files)
    }

    async fn take(&self, name: &OsStr, report: &mut SweepReport) -> Result<(), Wait> {
        let letter = name.to_string_lossy();
        if let Some(in_flight) = self
            .in_flight
            .as_ref()
            .filter(|in_flight| in_flight.is_fatal(&letter))
        {
            let folder = self.folder.path.display().to_string();
            in_flight
                .quarantined(Quarantined::File {
                    folder,
                    name: letter.into_owned(),
                })
                .await?;
            tracing::error!(file = ?name, reason = Quarantined::REASON, "a letter file was quarantined");
            self.put_away(
                name,
                &FileOutcome::Rejected(Refusal::Hostile(Quarantined::REASON)),
            )
            .await?;
            in_flight.clear();
            report.rejected += 1;
            return Ok(());
        }
        let in_flight_letter = self
            .in_flight
            .as_ref()
            .map(|in_flight| in_flight.enter(&letter));
        let answer = self.submit(&self.folder.path.join(name)).await;
        drop(in_flight_letter);
        match answer? {
            Ok(accepted) => {
                self.put_away(name, &FileOutcome::Processed).await?;
                // The move tells the writer that the letter was accepted: a file with the same
                // letter after it is a new letter.
                if accepted.needs_confirmation {
                    self.intake.confirm(&accepted).await;
                }
                match accepted
                    .copies
                    .iter()
                    .all(|copy| copy.outcome == CopyOutcome::Duplicate)
                {
                    true => report.duplicates += 1,
                    false => report.stored += 1,
                }
            }
            Err(Refusal::NotStored(cause)) => return Err(Wait::NotStored(cause)),
            Err(Refusal::Unverifiable) => return Err(Wait::Unverifiable),
            Err(Refusal::OutOfService) => return Err(Wait::OutOfService),
            Err(refusal) => {
                log_rejection(name, &refusal);
                self.put_away(name, &FileOutcome::Rejected(refusal)).await?;
                report.rejected += 1;
            }
        }
        Ok(())
    }

    async fn submit(&self, path: &Path) -> io::Result<Result<Accepted, Refusal>> {
        let too_large = Refusal::TooLarge {
            max_bytes: self.letter_bytes_max,
        };
        let Some(bytes) = read_bounded(path, self.letter_bytes_max).await? else {
            return Ok(Err(too_large));
        };
        let bytes = with_crlf(bytes);
        if bytes.len() > self.letter_bytes_max {
            return Ok(Err(too_large));
        }
        if letters_of_mbox(&bytes) > 1 {
            return Ok(Err(Refusal::Hostile(
                "an mbox of several letters; give each a file of its own",
            )));
        }
        let intake = for_one_letter(&self.intake);
        let fallback = self.fallback.as_ref();
        match envelope_for_file(&bytes, intake.as_ref(), fallback, Via::Folder) {
            Some(envelope) => Ok(intake.accept(Letter { envelope, bytes }).await),
            None => Ok(Err(Refusal::NobodyAddressed)),
        }
    }

    async fn put_away(&self, name: &OsStr, outcome: &FileOutcome) -> io::Result<()> {
        let target = free_path(&self.folder.path.join(outcome.folder()), name).await?;
        if let FileOutcome::Rejected(refusal) = outcome {
            let mut reason = target.clone().into_os_string();
            reason.push(".reason.txt");
            fs::write(reason, format!("{refusal}\n")).await?;
        }
        fs::rename(self.folder.path.join(name), target).await
    }
}

fn log_rejection(name: &OsStr, refusal: &Refusal) {
    let error: &dyn std::error::Error = refusal;
    tracing::info!(file = ?name, error, "a letter file was rejected");
}

/// Reason of a deferred file, which is not moved.
#[derive(Debug, thiserror::Error)]
enum Wait {
    #[error("the letter could not be stored")]
    NotStored(#[from] crate::store::StoreError),
    #[error("the sender cannot be verified now")]
    Unverifiable,
    #[error("a persona that it is addressed to is out of service")]
    OutOfService,
    #[error("the file could not be read or moved")]
    File(#[from] io::Error),
}

enum FileOutcome {
    Processed,
    Rejected(Refusal),
}

impl FileOutcome {
    const PROCESSED: &'static str = "processed";
    const REJECTED: &'static str = "rejected";

    fn folder(&self) -> &'static str {
        match self {
            FileOutcome::Processed => Self::PROCESSED,
            FileOutcome::Rejected(_) => Self::REJECTED,
        }
    }
}

/// Reports whether a name ends with `.eml` in any case; hidden files are temporary files of the
/// programs that write here.
fn is_letter_name(name: &OsStr) -> bool {
    let hidden = name.as_encoded_bytes().starts_with(b".");
    !hidden
        && Path::new(name)
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("eml"))
}

/// Reads a file; `None` when it has more than `max_bytes`.
async fn read_bounded(path: &Path, max_bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max_bytes)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    fs::File::open(path)
        .await?
        .take(limit)
        .read_to_end(&mut bytes)
        .await?;
    Ok((bytes.len() <= max_bytes).then_some(bytes))
}

/// An unused name in `folder`: `letter.eml`, `letter-1.eml`, … Only this task writes there.
async fn free_path(folder: &Path, name: &OsStr) -> io::Result<PathBuf> {
    let short = shortened(name);
    let (stem, mut n) = (short.file_stem().unwrap_or_default(), 0_u64);
    let mut path = folder.join(&short);
    while fs::try_exists(&path).await? {
        n += 1;
        let mut numbered = stem.to_owned();
        numbered.push(format!("-{n}.eml"));
        path = folder.join(numbered);
    }
    Ok(path)
}

/// Shortens a file name, which may have 255 bytes, so that a suffix fits.
fn shortened(name: &OsStr) -> PathBuf {
    const NAME_BYTES_MAX: usize = 200;
    if name.len() <= NAME_BYTES_MAX {
        return name.into();
    }
    let text = name.to_string_lossy();
    format!("{}.eml", &text[..text.floor_char_boundary(NAME_BYTES_MAX)]).into()
}

/// Converts bare LF to CRLF. Files of Unix programs have bare LF on every line, which SMTP does not
/// permit.
pub fn with_crlf(bytes: Vec<u8>) -> Vec<u8> {
    let bare = |at: usize| bytes[at] == b'\n' && (at == 0 || bytes[at - 1] != b'\r');
    let missing = (0..bytes.len()).filter(|&at| bare(at)).count();
    if missing == 0 {
        return bytes;
    }
    let mut out = Vec::with_capacity(bytes.len() + missing);
    for (at, &byte) in bytes.iter().enumerate() {
        if bare(at) {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

/// Number of letters in a file that is read as an mbox (RFC 4155): a line `From SENDER DATE` begins
/// it, and each further letter after an empty line. Delivery agents put a single such line before a
/// letter.
pub fn letters_of_mbox(bytes: &[u8]) -> usize {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if !is_mbox_separator(lines[0]) {
        return 1;
    }
    let follows = |pair: &&[&[u8]]| pair[0].trim_ascii().is_empty() && is_mbox_separator(pair[1]);
    1 + lines.windows(2).filter(follows).count()
}

/// Reports whether a line begins a letter of an mbox.
pub(super) fn is_mbox_separator(line: &[u8]) -> bool {
    line.starts_with(b"From ") && has_time_of_day(line)
}

/// Reports whether a line has `hh:mm` after a blank, by which a separator differs from a sentence
/// that begins with `From`.
fn has_time_of_day(line: &[u8]) -> bool {
    let is_time = |word: &[u8]| matches!(word, [a, b, b':', c, d, ..] if [a, b, c, d].iter().all(|n| n.is_ascii_digit()));
    line.split(|byte| *byte == b' ').any(is_time)
}

/// Builds the envelope of a stored letter; `None` when it is addressed to no persona.
///
/// Recipients are the personas, including those out of service, in `Delivered-To` and
/// `X-Original-To`, with the tag that `To` or `Cc` gives them, else those in `To` and `Cc`, else `fallback`. The sender is `Return-Path` (`<>`
/// is the null sender), else the only address of `From`.
pub fn envelope_for_file(
    bytes: &[u8],
    intake: &dyn LetterIntake,
    fallback: Option<&Address>,
    via: Via,
) -> Option<Envelope> {
    let header = Header::read(bytes);
    let personas = |names: [&str; 2]| {
        let mut personas: Vec<Address> = Vec::new();
        for address in names
            .iter()
            .flat_map(|name| header.mailboxes(name))
            .filter_map(|m| m.address())
        {
            let known = personas
                .iter()
                .any(|persona| persona.key() == address.key());
            if !known && intake.recipient(&address).is_ours() {
                personas.push(address);
            }
        }
        Some(personas).filter(|personas| !personas.is_empty())
    };
    let written_to = || personas(["to", "cc"]);
    // Many servers write the mailbox into `Delivered-To` and leave out the tag, by which an owner's answer is known.
    let with_its_tag = |delivered: Vec<Address>| -> Vec<Address> {
        let written = written_to().unwrap_or_default();
        let of = |address: &Address| {
            let is_it = |written: &&Address| written.counted_key() == address.key();
            written.iter().find(is_it).unwrap_or(address).clone()
        };
        delivered.iter().map(of).collect()
    };
    let rcpt_to = personas(["delivered-to", "x-original-to"])
        .map(with_its_tag)
        .or_else(written_to)
        .or_else(|| fallback.map(|address| vec![address.clone()]))?;
    let sender = if header.has("return-path") {
        "return-path"
    } else {
        "from"
    };
    let mail_from = match header.mailboxes(sender).as_slice() {
        [only] => only.address(),
        _ => None,
    };
    Some(Envelope {
        mail_from,
        rcpt_to,
        helo: String::new(),
        peer: None,
        via,
        arrival: Arrival::default(),
    })
}
