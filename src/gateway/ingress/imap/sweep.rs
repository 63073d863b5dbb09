//! One sweep of a mailbox: every new letter is fetched, offered at the door, and only after its commit flagged or moved.
//!
//! The order of the three is what makes a crash harmless: a letter's fate is on disk before its server hears of it, and
//! the cursor moves last.

use super::MailboxWatch;
use super::error::MailboxError;
use super::session::{Announced, Session};
use crate::config::MailboxTls;
use crate::domain::{Arrival, Letter, MailboxUid, Via, sha256_hex};
use crate::gateway::door::{CopyOutcome, Refusal};
use crate::gateway::ingress::folder::{envelope_for_file, with_crlf};
use crate::mime::Header;
use crate::store::{MailboxContact, MailboxCursor, SetAside};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// UIDs that one search looks through.
const SEARCH_UIDS_MAX: u32 = 1_000_000;
/// Letters asked for their size at once.
const ANNOUNCED_MAX: usize = 500;
/// Bytes of letters fetched at once; a larger letter is fetched alone.
const BATCH_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Letters whose flag or move is made up for at the beginning of a sweep.
const MADE_UP_MAX: u32 = 1000;
/// How long a letter may have been under way (RFC 5321 section 4.5.4.1: senders give up after some days).
const UNDER_WAY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// What several letters are called at the doorstep, which are fetched together.
const BATCH: &str = "several";

/// What one sweep did, in letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweepReport {
    /// Stored now.
    pub stored: usize,
    /// Stored before.
    pub duplicates: usize,
    /// Refused for good, now.
    pub refused: usize,
    /// Older than the first contact, in a mailbox whose letters got new numbers.
    pub left_alone: usize,
}

/// A selected mailbox while it is swept.
struct Round<'w> {
    watch: &'w MailboxWatch,
    uid_validity: u32,
    cursor: MailboxCursor,
    report: SweepReport,
}

/// Takes every letter that has no fate yet, in the order of their UIDs.
///
/// Errors: the connection, the server, or our own store; what has its fate by then keeps it.
pub(super) async fn sweep(
    watch: &MailboxWatch,
    session: &mut Session,
    stop: &CancellationToken,
) -> Result<SweepReport, MailboxError> {
    let mailbox = &watch.mailbox;
    let selected = session.select(&mailbox.folder, false).await?;
    let newest_uid = session.newest_uid(&selected).await?;
    let contact = MailboxContact {
        name: mailbox.name.clone(),
        source: super::source(&watch.mailbox),
        uid_validity: selected.uid_validity,
        newest_uid,
        from_now_on: mailbox.from_now_on,
    };
    let cursor = watch.store.contact_mailbox(contact).await?;
    let mut round =
        Round { watch, uid_validity: selected.uid_validity, cursor, report: SweepReport::default() };
    round.make_up_for_marks(session).await?;
    let mut done_to = cursor.last_uid;
    while done_to < newest_uid && !stop.is_cancelled() {
        let to = newest_uid.min(done_to.saturating_add(SEARCH_UIDS_MAX));
        let uids = session.uids(done_to + 1, to).await?;
        for (index, chunk) in uids.chunks(ANNOUNCED_MAX).enumerate() {
            if stop.is_cancelled() {
                return Ok(round.report);
            }
            round.take_chunk(session, chunk).await?;
            let backlog = uids.len().saturating_sub((index + 1) * ANNOUNCED_MAX);
            watch.store.note_mailbox_fetch(&mailbox.name, u32::try_from(backlog).unwrap_or(u32::MAX)).await?;
        }
        round.settle(&[], to).await?;
        done_to = to;
    }
    watch.store.note_mailbox_fetch(&mailbox.name, 0).await?;
    Ok(round.report)
}

impl Round<'_> {
    /// Letters that were stored when a crash or a fault kept them from being flagged or moved.
    async fn make_up_for_marks(&self, session: &mut Session) -> Result<(), MailboxError> {
        let (name, cursor) = (&self.watch.mailbox.name, self.cursor.last_uid);
        let fates = self.watch.store.mailbox_fates(name, self.uid_validity, cursor, MADE_UP_MAX).await?;
        let unmarked: Vec<u32> = fates.iter().filter(|fate| !fate.marked).map(|fate| fate.uid).collect();
        self.mark(session, &unmarked, cursor).await
    }

    async fn take_chunk(&mut self, session: &mut Session, uids: &[u32]) -> Result<(), MailboxError> {
        let (Some(first), Some(last)) = (uids.first(), uids.last()) else { return Ok(()) };
        let watch = self.watch;
        let many = u32::try_from(ANNOUNCED_MAX).unwrap_or(u32::MAX).saturating_add(MADE_UP_MAX);
        let fates =
            watch.store.mailbox_fates(&watch.mailbox.name, self.uid_validity, first - 1, many).await?;
        let known: BTreeSet<u32> = fates.iter().map(|fate| fate.uid).collect();
        let unknown: Vec<u32> = uids.iter().copied().filter(|uid| !known.contains(uid)).collect();
        if !unknown.is_empty() {
            let announced = session.announced(&unknown).await?;
            let found: BTreeSet<u32> = announced.iter().map(|letter| letter.uid).collect();
            self.note_withheld(session, &unknown, |uid| found.contains(&uid)).await?;
            let wanted = self.wanted(announced).await?;
            for batch in batches(wanted, watch.batch_letters_max()) {
                self.take_batch(session, &batch).await?;
            }
        }
        self.settle(&[], *last).await
    }

    /// The letters to fetch, in order; those that are too large or history get their fate here.
    async fn wanted(&mut self, mut announced: Vec<Announced>) -> Result<Vec<Announced>, MailboxError> {
        announced.sort_by_key(|letter| letter.uid);
        let max_bytes = self.watch.letter_bytes_max;
        let mut wanted = Vec::new();
        for letter in announced {
            let is_history = self.may_be_history(letter.uid)
                && letter.arrived_at.zip(self.cursor.history_until).is_some_and(|(at, until)| at < until);
            if is_history {
                self.report.left_alone += 1;
            } else if letter.size_bytes as usize > max_bytes {
                // Never touched, whatever the configuration says of refused letters: somebody should find it as it was.
                self.refuse(letter.uid, &Refusal::TooLarge { max_bytes }, true).await?;
            } else if self.watch.doorstep.as_ref().is_some_and(|step| step.is_fatal(&self.key(letter.uid))) {
                self.set_aside(letter.uid).await?;
            } else {
                wanted.push(letter);
            }
        }
        Ok(wanted)
    }

    /// Only after the server gave all letters new numbers; otherwise the cursor stands behind all history.
    fn may_be_history(&self, uid: u32) -> bool {
        uid <= self.cursor.resync_uid
    }

    async fn take_batch(&mut self, session: &mut Session, batch: &[Announced]) -> Result<(), MailboxError> {
        if !self.watch.door.has_room() {
            return Err(MailboxError::NoRoom);
        }
        let uids: Vec<u32> = batch.iter().map(|letter| letter.uid).collect();
        let key = if let [only] = batch { self.key(only.uid) } else { BATCH.to_owned() };
        let standing = self.watch.doorstep.as_ref().map(|doorstep| doorstep.enter(&key));
        let fetched = session.letters(&uids).await;
        // One alone stands there until its fate is known; of several each is written down in its turn.
        let _one = standing.filter(|_| batch.len() == 1);
        if let (Err(MailboxError::TooMuch), [only]) = (&fetched, batch) {
            let max_bytes = self.watch.letter_bytes_max;
            self.refuse(only.uid, &Refusal::TooLarge { max_bytes }, true).await?;
        }
        let letters: BTreeMap<u32, Vec<u8>> = fetched?.into_iter().collect();
        self.note_withheld(session, &uids, |uid| letters.contains_key(&uid)).await?;
        let arrivals: BTreeMap<u32, &Announced> = batch.iter().map(|letter| (letter.uid, letter)).collect();
        let mut to_mark = Vec::new();
        let mut offered = Ok(());
        for (uid, bytes) in letters {
            let Some(announced) = arrivals.get(&uid) else { continue };
            match self.offer(announced, bytes).await {
                Ok(true) => to_mark.push(uid),
                Ok(false) => {}
                // It waits for its persona; letters for others that came with it do not.
                Err(error @ MailboxError::OutOfService) => offered = Err(error),
                Err(error) => {
                    offered = Err(error);
                    break;
                }
            }
        }
        // What was stored before the fault is marked all the same; the cursor stays behind.
        self.mark(session, &to_mark, 0).await?;
        offered
    }

    /// Letters that were asked for and not found have vanished, which is their owner's right, or their server keeps them
    /// back: those are refused, so that somebody learns of them.
    async fn note_withheld(
        &mut self,
        session: &mut Session,
        asked: &[u32],
        is_found: impl Fn(u32) -> bool,
    ) -> Result<(), MailboxError> {
        let missing: Vec<u32> = asked.iter().copied().filter(|uid| !is_found(*uid)).collect();
        let (Some(first), Some(last)) = (missing.first(), missing.last()) else { return Ok(()) };
        let there = session.uids(*first, *last).await?;
        for uid in missing.into_iter().filter(|uid| there.contains(uid)) {
            self.refuse(uid, &Refusal::Hostile("its server does not hand it out"), true).await?;
        }
        Ok(())
    }

    /// Offers one letter; resolves after its fate is committed, to whether it is to be marked on the server.
    async fn offer(&mut self, announced: &Announced, bytes: Vec<u8>) -> Result<bool, MailboxError> {
        let watch = self.watch;
        let bytes = with_crlf(bytes);
        if self.is_older_than_contact(announced, &bytes) {
            self.report.left_alone += 1;
            return Ok(false);
        }
        if watch.store.mailbox_has_content(&watch.mailbox.name, &sha256_hex(&[&bytes])).await? {
            self.report.duplicates += 1;
            return Ok(true);
        }
        let (place, key) = (self.place(announced.uid), self.key(announced.uid));
        let _standing = watch.doorstep.as_ref().map(|doorstep| doorstep.enter(&key));
        let envelope = envelope_for_file(&bytes, watch.door.as_ref(), watch.fallback.as_ref(), Via::Imap);
        crate::crash::crash_point!("IM1");
        let answer = match envelope {
            None => Err(Refusal::NobodyAddressed),
            Some(mut envelope) => {
                envelope.arrival = Arrival {
                    encrypted: watch.mailbox.tls != MailboxTls::None,
                    arrived_at: announced.arrived_at,
                    mailbox: Some(place),
                    authserv_id: watch.mailbox.authserv_id.clone(),
                    ..Arrival::default()
                };
                watch.door.accept(Letter { envelope, bytes }).await
            }
        };
        match answer {
            Ok(accepted) => {
                match accepted.copies.iter().all(|copy| copy.outcome == CopyOutcome::Duplicate) {
                    true => self.report.duplicates += 1,
                    false => self.report.stored += 1,
                }
                Ok(true)
            }
            Err(Refusal::NotStored(cause)) => Err(MailboxError::NotStored(cause)),
            Err(Refusal::Unverifiable) => Err(MailboxError::Unverifiable),
            Err(Refusal::OutOfService) => Err(MailboxError::OutOfService),
            Err(refusal) => {
                let leave = !watch.mailbox.mark_refused;
                self.refuse(announced.uid, &refusal, leave).await?;
                Ok(!leave)
            }
        }
    }

    /// A mailbox that was moved to another server may have lost its times of arrival as well; what was written long
    /// before the first contact is history also then.
    fn is_older_than_contact(&self, announced: &Announced, bytes: &[u8]) -> bool {
        let Some(until) = self.cursor.history_until.filter(|_| self.may_be_history(announced.uid)) else {
            return false;
        };
        Header::read(bytes).date().is_some_and(|written| written < until.minus(UNDER_WAY_MAX))
    }

    async fn refuse(&mut self, uid: u32, refusal: &Refusal, leave: bool) -> Result<(), MailboxError> {
        tracing::warn!(mailbox = self.watch.mailbox.name, uid, reason = %refusal, "a letter stays in its mailbox");
        self.report.refused += 1;
        let reason = refusal.to_string();
        Ok(self.watch.store.refuse_mailbox_letter(self.place(uid), &reason, leave).await?)
    }

    /// As a refusal that touches nothing, with a word to the owner.
    async fn set_aside(&mut self, uid: u32) -> Result<(), MailboxError> {
        let Some(doorstep) = &self.watch.doorstep else { return Ok(()) };
        tracing::error!(
            mailbox = self.watch.mailbox.name,
            uid,
            reason = SetAside::REASON,
            "a letter was set aside"
        );
        doorstep.set_aside(SetAside::InMailbox(self.place(uid))).await?;
        doorstep.clear();
        self.report.refused += 1;
        Ok(())
    }

    /// What a letter is called at the doorstep.
    fn key(&self, uid: u32) -> String {
        format!("{}.{uid}", self.uid_validity)
    }

    /// Flags or moves letters on the server, then notes it. A server that will not do it keeps nobody from reading on.
    async fn mark(&self, session: &mut Session, uids: &[u32], done_to: u32) -> Result<(), MailboxError> {
        if uids.is_empty() {
            return Ok(());
        }
        crate::crash::crash_point!("IM2");
        match session.mark(uids, &self.watch.mailbox.after).await {
            Ok(()) => {
                crate::crash::crash_point!("IM3");
                self.settle(uids, done_to).await
            }
            Err(refused @ MailboxError::Refused { .. }) => {
                self.watch.complain(&refused).await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn settle(&self, marked: &[u32], done_to: u32) -> Result<(), MailboxError> {
        let name = &self.watch.mailbox.name;
        Ok(self.watch.store.settle_mailbox_letters(name, self.uid_validity, marked, done_to).await?)
    }

    fn place(&self, uid: u32) -> MailboxUid {
        MailboxUid { mailbox: self.watch.mailbox.name.clone(), uid_validity: self.uid_validity, uid }
    }
}

/// Cuts letters into batches by number and by bytes.
fn batches(letters: Vec<Announced>, letters_max: usize) -> Vec<Vec<Announced>> {
    let mut batches: Vec<Vec<Announced>> = Vec::new();
    let mut bytes = 0;
    for letter in letters {
        let size = u64::from(letter.size_bytes);
        match batches.last_mut() {
            Some(batch) if batch.len() < letters_max && bytes + size <= BATCH_BYTES_MAX => {
                bytes += size;
                batch.push(letter);
            }
            _ => {
                bytes = size;
                batches.push(vec![letter]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_by_number_and_by_bytes() {
        let letter = |(uid, size_bytes)| Announced { uid, size_bytes, arrived_at: None };
        let cut = |sizes: &[u32], max| {
            let letters = (1..).zip(sizes.iter().copied()).map(letter).collect();
            batches(letters, max).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(cut(&[10; 7], 3), [3, 3, 1]);
        assert_eq!(cut(&[5_000_000, 3_000_000, 1_000_000, 20_000_000, 1], 50), [2, 1, 1, 1]);
        assert_eq!(cut(&[], 50), [0; 0]);
    }
}
