//! One sweep of a mailbox: every new letter is fetched, offered to the intake, and flagged or moved
//! only after its commit.
//!
//! This order makes a crash harmless: a letter's outcome is on disk before its server is told, and
//! the cursor moves last.

use super::MailboxWatch;
use super::error::MailboxError;
use super::session::{Announced, ImapSession};
use crate::config::MailTls;
use crate::domain::{Arrival, Letter, MailboxUid, Via, sha256_hex};
use crate::gateway::ingress::folder::{envelope_for_file, with_crlf};
use crate::gateway::intake_contract::{CopyOutcome, Refusal, for_one_letter};
use crate::mime::Header;
use crate::store::{MailboxContact, MailboxCursor, MailboxOutcome, Quarantined};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Maximum UIDs in the range of one search.
const SEARCH_UIDS_MAX: u32 = 1_000_000;
/// Maximum letters whose size is requested at once.
const ANNOUNCED_MAX: usize = 500;
/// Maximum bytes of letters fetched at once; a larger letter is fetched alone.
const BATCH_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Maximum letters whose missing flag or move is retried at the beginning of a sweep.
const MADE_UP_MAX: u32 = 1000;
/// Maximum time that a letter may have been in transit (RFC 5321 section 4.5.4.1: senders give up
/// after some days).
const UNDER_WAY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Key of several letters fetched together, in the in-flight marker.
const BATCH: &str = "several";

/// Counts of one sweep, in letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImapSweepReport {
    /// Letters stored by this sweep.
    pub stored: usize,
    /// Letters stored before.
    pub duplicates: usize,
    /// Letters refused for good by this sweep.
    pub refused: usize,
    /// Letters older than the first connection, in a mailbox whose letters got new UIDs.
    pub left_alone: usize,
}

/// A selected mailbox during a sweep.
struct Round<'w> {
    watch: &'w MailboxWatch,
    uid_validity: u32,
    cursor: MailboxCursor,
    report: ImapSweepReport,
}

/// Takes every letter without an outcome, sorted by UID.
///
/// Errors: the connection, the server, or our own store; letters with an outcome by then keep it.
pub(super) async fn sweep(
    watch: &MailboxWatch,
    session: &mut ImapSession,
    stop: &CancellationToken,
) -> Result<ImapSweepReport, MailboxError> {
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
    let mut round = Round {
        watch,
        uid_validity: selected.uid_validity,
        cursor,
        report: ImapSweepReport::default(),
    };
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
            watch
                .store
                .note_mailbox_fetch(&mailbox.name, u32::try_from(backlog).unwrap_or(u32::MAX))
                .await?;
        }
        round.finish(&[], to).await?;
        done_to = to;
    }
    watch.store.note_mailbox_fetch(&mailbox.name, 0).await?;
    Ok(round.report)
}

impl Round<'_> {
    /// Marks letters that were stored when a crash or an error prevented their flag or move.
    async fn make_up_for_marks(&self, session: &mut ImapSession) -> Result<(), MailboxError> {
        let (name, cursor) = (&self.watch.mailbox.name, self.cursor.last_uid);
        let mut outcomes = self
            .watch
            .store
            .mailbox_outcomes(name, self.uid_validity, cursor, MADE_UP_MAX)
            .await?;
        outcomes.retain(|outcome| !outcome.marked);
        self.mark(session, &outcomes, cursor).await
    }

    /// Letters from this UID on that have an outcome, and earlier ones that are still to be marked.
    async fn outcomes_from(&self, first: u32) -> Result<Vec<MailboxOutcome>, MailboxError> {
        let many = u32::try_from(ANNOUNCED_MAX)
            .unwrap_or(u32::MAX)
            .saturating_add(MADE_UP_MAX);
        let (name, after) = (&self.watch.mailbox.name, first.saturating_sub(1));
        let store = &self.watch.store;
        Ok(store
            .mailbox_outcomes(name, self.uid_validity, after, many)
            .await?)
    }

    async fn take_chunk(
        &mut self,
        session: &mut ImapSession,
        uids: &[u32],
    ) -> Result<(), MailboxError> {
        let (Some(first), Some(last)) = (uids.first(), uids.last()) else {
            return Ok(());
        };
        let watch = self.watch;
        let outcomes = self.outcomes_from(*first).await?;
        let known: BTreeSet<u32> = outcomes.iter().map(|outcome| outcome.uid).collect();
        let unknown: Vec<u32> = uids
            .iter()
            .copied()
            .filter(|uid| !known.contains(uid))
            .collect();
        if !unknown.is_empty() {
            let announced = session.announced(&unknown).await?;
            let found: BTreeSet<u32> = announced.iter().map(|letter| letter.uid).collect();
            self.note_withheld(session, &unknown, |uid| found.contains(&uid))
                .await?;
            let wanted = self.wanted(announced).await?;
            for batch in batches(wanted, watch.batch_letters_max()) {
                self.take_batch(session, &batch).await?;
            }
        }
        self.finish(&[], *last).await
    }

    /// The letters to fetch, sorted; letters that are too large, and history, get their outcome
    /// here.
    async fn wanted(
        &mut self,
        mut announced: Vec<Announced>,
    ) -> Result<Vec<Announced>, MailboxError> {
        announced.sort_by_key(|letter| letter.uid);
        let max_bytes = self.watch.letter_bytes_max;
        let mut wanted = Vec::new();
        for letter in announced {
            let is_history = self.may_be_history(letter.uid)
                && letter
                    .arrived_at
                    .zip(self.cursor.history_until)
                    .is_some_and(|(at, until)| at < until);
            if is_history {
                self.report.left_alone += 1;
            } else if letter.size_bytes as usize > max_bytes {
                // Never marked, whatever the configuration says about refused letters: the
                // mailbox's user should find it unchanged.
                self.refuse(letter.uid, &Refusal::TooLarge { max_bytes }, true)
                    .await?;
            } else if self
                .watch
                .in_flight
                .as_ref()
                .is_some_and(|step| step.is_fatal(&self.key(letter.uid)))
            {
                self.quarantined(letter.uid).await?;
            } else {
                wanted.push(letter);
            }
        }
        Ok(wanted)
    }

    /// Reports whether a UID may belong to history: only after the server gave all letters new
    /// UIDs; otherwise the cursor is beyond all history.
    fn may_be_history(&self, uid: u32) -> bool {
        uid <= self.cursor.resync_uid
    }

    async fn take_batch(
        &mut self,
        session: &mut ImapSession,
        batch: &[Announced],
    ) -> Result<(), MailboxError> {
        if !self.watch.intake.has_room() {
            return Err(MailboxError::NoRoom);
        }
        let uids: Vec<u32> = batch.iter().map(|letter| letter.uid).collect();
        let key = if let [only] = batch {
            self.key(only.uid)
        } else {
            BATCH.to_owned()
        };
        let in_flight_letter = self
            .watch
            .in_flight
            .as_ref()
            .map(|in_flight| in_flight.enter(&key));
        let fetched = session.letters(&uids).await;
        // A single letter stays in the marker until its outcome is known; of several letters each
        // one is entered in turn.
        let _one = in_flight_letter.filter(|_| batch.len() == 1);
        if let (Err(MailboxError::TooMuch), [only]) = (&fetched, batch) {
            let max_bytes = self.watch.letter_bytes_max;
            self.refuse(only.uid, &Refusal::TooLarge { max_bytes }, true)
                .await?;
        }
        let letters: BTreeMap<u32, Vec<u8>> = fetched?.into_iter().collect();
        self.note_withheld(session, &uids, |uid| letters.contains_key(&uid))
            .await?;
        let arrivals: BTreeMap<u32, &Announced> =
            batch.iter().map(|letter| (letter.uid, letter)).collect();
        let mut offered = Ok(());
        for (uid, bytes) in letters {
            let Some(announced) = arrivals.get(&uid) else {
                continue;
            };
            match self.submit(announced, bytes).await {
                Ok(()) => {}
                // This letter waits for its persona; letters for other personas in the same batch
                // do not.
                Err(error @ MailboxError::OutOfService) => offered = Err(error),
                Err(error) => {
                    offered = Err(error);
                    break;
                }
            }
        }
        // Letters stored before the error are marked all the same; the cursor does not move.
        if let Some(first) = uids.first() {
            let mut outcomes = self.outcomes_from(*first).await?;
            outcomes.retain(|outcome| !outcome.marked && uids.contains(&outcome.uid));
            self.mark(session, &outcomes, 0).await?;
        }
        offered
    }

    /// Refuses letters that the server lists but does not send, so that the refusal is recorded.
    /// Letters that are no longer listed were removed by the mailbox's user.
    async fn note_withheld(
        &mut self,
        session: &mut ImapSession,
        asked: &[u32],
        is_found: impl Fn(u32) -> bool,
    ) -> Result<(), MailboxError> {
        let missing: Vec<u32> = asked
            .iter()
            .copied()
            .filter(|uid| !is_found(*uid))
            .collect();
        let (Some(first), Some(last)) = (missing.first(), missing.last()) else {
            return Ok(());
        };
        let there = session.uids(*first, *last).await?;
        for uid in missing.into_iter().filter(|uid| there.contains(uid)) {
            self.refuse(
                uid,
                &Refusal::Hostile("its server does not hand it out"),
                true,
            )
            .await?;
        }
        Ok(())
    }

    /// Offers one letter; returns after its outcome is committed.
    async fn submit(&mut self, announced: &Announced, bytes: Vec<u8>) -> Result<(), MailboxError> {
        let watch = self.watch;
        let bytes = with_crlf(bytes);
        if self.is_older_than_contact(announced, &bytes) {
            self.report.left_alone += 1;
            return Ok(());
        }
        if watch
            .store
            .mailbox_has_content(&watch.mailbox.name, &sha256_hex(&[&bytes]))
            .await?
        {
            // A server that gave it a new UID kept its flags.
            self.report.duplicates += 1;
            return Ok(());
        }
        let (place, key) = (self.place(announced.uid), self.key(announced.uid));
        let _in_flight_letter = watch
            .in_flight
            .as_ref()
            .map(|in_flight| in_flight.enter(&key));
        let intake = for_one_letter(&watch.intake);
        let fallback = watch.fallback.as_ref();
        let envelope = envelope_for_file(&bytes, intake.as_ref(), fallback, Via::Imap);
        crate::crash::crash_point!("IM1");
        let answer = match envelope {
            None => Err(Refusal::NobodyAddressed),
            Some(mut envelope) => {
                envelope.arrival = Arrival {
                    encrypted: watch.mailbox.tls != MailTls::None,
                    arrived_at: announced.arrived_at,
                    mailbox: Some(place),
                    authserv_id: watch.mailbox.authserv_id.clone(),
                    ..Arrival::default()
                };
                intake.accept(Letter { envelope, bytes }).await
            }
        };
        match answer {
            Ok(accepted) => {
                match accepted
                    .copies
                    .iter()
                    .all(|copy| copy.outcome == CopyOutcome::Duplicate)
                {
                    true => self.report.duplicates += 1,
                    false => self.report.stored += 1,
                }
                Ok(())
            }
            Err(Refusal::NotStored(cause)) => Err(MailboxError::NotStored(cause)),
            Err(Refusal::Unverifiable) => Err(MailboxError::Unverifiable),
            Err(Refusal::OutOfService) => Err(MailboxError::OutOfService),
            Err(refusal) => {
                let leave = !watch.mailbox.mark_unanswered;
                self.refuse(announced.uid, &refusal, leave).await
            }
        }
    }

    /// Reports whether a letter was written long before the first connection: a mailbox that was
    /// moved to another server may have lost the arrival times as well.
    fn is_older_than_contact(&self, announced: &Announced, bytes: &[u8]) -> bool {
        let Some(until) = self
            .cursor
            .history_until
            .filter(|_| self.may_be_history(announced.uid))
        else {
            return false;
        };
        Header::read(bytes)
            .date()
            .is_some_and(|written| written < until.minus(UNDER_WAY_MAX))
    }

    async fn refuse(
        &mut self,
        uid: u32,
        refusal: &Refusal,
        leave: bool,
    ) -> Result<(), MailboxError> {
        tracing::warn!(mailbox = self.watch.mailbox.name, uid, reason = %refusal, "a letter stays in its mailbox");
        self.report.refused += 1;
        let reason = refusal.to_string();
        Ok(self
            .watch
            .store
            .refuse_mailbox_letter(self.place(uid), &reason, leave)
            .await?)
    }

    /// Quarantines a letter: a refusal that leaves it unchanged, with a notice to the owner.
    async fn quarantined(&mut self, uid: u32) -> Result<(), MailboxError> {
        let Some(in_flight) = &self.watch.in_flight else {
            return Ok(());
        };
        tracing::error!(
            mailbox = self.watch.mailbox.name,
            uid,
            reason = Quarantined::REASON,
            "a letter was quarantined"
        );
        in_flight
            .quarantined(Quarantined::InMailbox(self.place(uid)))
            .await?;
        in_flight.clear();
        self.report.refused += 1;
        Ok(())
    }

    /// Key of a letter in the in-flight marker.
    fn key(&self, uid: u32) -> String {
        format!("{}.{uid}", self.uid_validity)
    }

    /// Flags or moves letters on the server, then records it; letters that nobody answers stay unread. A server that
    /// refuses it does not stop the sweep.
    async fn mark(
        &self,
        session: &mut ImapSession,
        outcomes: &[MailboxOutcome],
        done_to: u32,
    ) -> Result<(), MailboxError> {
        let mark_all = self.watch.mailbox.mark_unanswered;
        let uids = |is_left: bool| -> Vec<u32> {
            let chosen = outcomes.iter();
            let chosen = chosen.filter(|outcome| (outcome.unanswered && !mark_all) == is_left);
            chosen.map(|outcome| outcome.uid).collect()
        };
        let (left, answered) = (uids(true), uids(false));
        if !left.is_empty() {
            self.finish(&left, done_to).await?;
        }
        if answered.is_empty() {
            return Ok(());
        }
        crate::crash::crash_point!("IM2");
        match session.mark(&answered, &self.watch.mailbox.after).await {
            Ok(()) => {
                crate::crash::crash_point!("IM3");
                self.finish(&answered, done_to).await
            }
            Err(refused @ MailboxError::Refused { .. }) => {
                self.watch.complain(&refused).await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn finish(&self, marked: &[u32], done_to: u32) -> Result<(), MailboxError> {
        let name = &self.watch.mailbox.name;
        Ok(self
            .watch
            .store
            .finish_mailbox_letters(name, self.uid_validity, marked, done_to)
            .await?)
    }

    fn place(&self, uid: u32) -> MailboxUid {
        MailboxUid {
            mailbox: self.watch.mailbox.name.clone(),
            uid_validity: self.uid_validity,
            uid,
        }
    }
}

/// Splits letters into batches by number and by bytes.
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
        let letter = |(uid, size_bytes)| Announced {
            uid,
            size_bytes,
            arrived_at: None,
        };
        let cut = |sizes: &[u32], max| {
            let letters = (1..).zip(sizes.iter().copied()).map(letter).collect();
            batches(letters, max)
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(&[10; 7], 3), [3, 3, 1]);
        assert_eq!(
            cut(&[5_000_000, 3_000_000, 1_000_000, 20_000_000, 1], 50),
            [2, 1, 1, 1]
        );
        assert_eq!(cut(&[], 50), [0; 0]);
    }
}
