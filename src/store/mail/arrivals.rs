//! Storing of incoming letters. Letters that wait together are stored by the same few statements
//! (decision D-01): one query about all of them, one statement that stores all letters that are
//! independent of each other, and then the others one by one.
//!
//! The order of arrival holds within every thread: a letter that shares a Message-ID, a
//! conversation or a key with an earlier letter waits for that letter. The failure of one letter
//! leaves the others unaffected.

use crate::domain::mail::filed;
use crate::domain::{MessageId, PersonaId, Timestamp};
use crate::store::approvals::answers;
use crate::store::db::{self, Connection, Scope};
use crate::store::mail::arrival_facts::{ArrivalFacts, arrivals, question};
use crate::store::mail::held;
use crate::store::mail::inbound::{NewInbound, StoredInbound};
use crate::store::mail::letter_rows::{NewRow, fresh_text, insert, placing_of};
use crate::store::mail::reports;
use crate::store::mailboxes::cursors as mailboxes;
use crate::store::sqlite::refusal::is_broken;
use crate::store::threads::correspondence::DomainRuns;
use crate::store::threads::placement::{self};
use crate::store::threads::reply_limits::{DAY, DomainLimit, since};
use crate::store::writes::batch::ROWS_MAX;
use crate::store::writes::job::{Job, JobOutcome};
use crate::store::writes::refusal::CommitRefusal;
use crate::store::{Result, Store, StoreError};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::any::Any;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::oneshot;

const DISPOSITION: &str = "SELECT disposition FROM messages WHERE id = $1";

/// Raw bytes that are stored in one batch; a larger letter is stored by itself.
const BYTES_MAX: usize = 8 * 1024 * 1024;

impl Store {
    /// Stores one letter for every addressed persona, each with its queued run, in one commit. A
    /// duplicate is left alone.
    pub async fn accept_letter(&self, copies: Vec<NewInbound>) -> Result<Vec<StoredInbound>> {
        self.store_letter(copies, None).await
    }

    /// Stores a held letter like [`Store::accept_letter`]; the hold ends in the same commit.
    pub async fn release_letter(
        &self,
        copies: Vec<NewInbound>,
        held: MessageId,
    ) -> Result<Vec<StoredInbound>> {
        self.store_letter(copies, Some(held)).await
    }

    async fn store_letter(
        &self,
        copies: Vec<NewInbound>,
        releases: Option<MessageId>,
    ) -> Result<Vec<StoredInbound>> {
        let (reply, answer) = oneshot::channel();
        let bytes = copies.iter().map(NewInbound::size).sum();
        let letter = Waiting {
            copies,
            releases,
            now: self.clock().now(),
            result: None,
            reply,
        };
        self.submit(
            Box::new(LetterBatch {
                letters: vec![letter],
                bytes,
            }),
            answer,
        )
        .await?
    }
}

/// Batch of letters that are stored together.
struct LetterBatch {
    letters: Vec<Waiting>,
    bytes: usize,
}

/// A letter, with the caller that waits for its result.
struct Waiting {
    copies: Vec<NewInbound>,
    /// Id of the held letter that this letter was; `None`: it was not held.
    releases: Option<MessageId>,
    now: Timestamp,
    result: Option<Stored>,
    reply: oneshot::Sender<Stored>,
}

type Stored = Result<Vec<StoredInbound>>;

impl Job for LetterBatch {
    fn run<'a>(&'a mut self, conn: &'a mut Connection) -> BoxFuture<'a, JobOutcome> {
        Box::pin(async move {
            if let Err(error) = store_letters(conn, &mut self.letters).await {
                // The transaction is lost, or cannot be undone in part.
                let lost = Arc::new(error);
                let not_stored = || Some(Err(StoreError::NotCommitted(lost.clone())));
                self.letters
                    .iter_mut()
                    .for_each(|letter| letter.result = not_stored());
            }
            crate::crash::crash_point!("I3");
            let mut results = self
                .letters
                .iter()
                .filter_map(|letter| letter.result.as_ref());
            if results
                .clone()
                .any(|result| result.as_ref().is_err_and(is_broken))
            {
                return JobOutcome::Broken;
            }
            if results.any(Result::is_ok) {
                JobOutcome::Keep
            } else {
                JobOutcome::RollBack
            }
        })
    }

    fn scope(&self) -> Scope {
        let copies = self.letters.iter().flat_map(|letter| &letter.copies);
        // A token alone says what an answer decides on: of whichever persona that is.
        if copies.clone().any(|copy| copy.answer.is_some()) {
            return Scope::Engine;
        }
        Scope::Personas(copies.map(|copy| copy.persona.clone()).collect())
    }

    fn answer(self: Box<Self>, committed: std::result::Result<(), CommitRefusal>) {
        for letter in self.letters {
            let answer = match (letter.result, &committed) {
                (Some(Ok(stored)), Ok(())) => Ok(stored),
                (Some(Err(own)), _) => Err(own),
                (_, Err(group)) => Err(group.clone().into()),
                (None, Ok(())) => Err(StoreError::Closed),
            };
            // A caller that disconnected (a client hung up) does not undo a commit.
            let _gone = letter.reply.send(answer);
        }
    }

    fn absorb(&mut self, next: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let is_letters = (&*next as &dyn Any).is::<LetterBatch>();
        if !is_letters || self.bytes >= BYTES_MAX || self.letters.len() >= ROWS_MAX {
            return Some(next);
        }
        if let Ok(next) = (next as Box<dyn Any>).downcast::<LetterBatch>() {
            self.bytes += next.bytes;
            self.letters.extend(next.letters);
        }
        None
    }

    fn is_absorbable(&self) -> bool {
        true
    }
}

/// Stores the letters and sets the result of each. A failure is undone for its letter alone.
async fn store_letters(
    conn: &mut Connection,
    letters: &mut [Waiting],
) -> std::result::Result<(), db::Error> {
    if let [only] = letters {
        only.result = Some(guarded(store_alone(conn, only)).await);
        return Ok(());
    }
    db::raw_sql("SAVEPOINT letters").execute(&mut *conn).await?;
    match guarded(store_together(conn, letters)).await {
        Ok(stored) => {
            for (letter, stored) in letters.iter_mut().zip(stored) {
                letter.result = stored.map(Ok);
            }
        }
        Err(error) => {
            tracing::warn!(%error, letters = letters.len(), "letters are stored one by one");
            db::raw_sql("ROLLBACK TO letters")
                .execute(&mut *conn)
                .await?;
        }
    }
    for letter in letters.iter_mut().filter(|letter| letter.result.is_none()) {
        db::raw_sql("SAVEPOINT letter").execute(&mut *conn).await?;
        let stored = guarded(store_alone(conn, letter)).await;
        let end = if stored.is_ok() {
            "RELEASE letter"
        } else {
            "ROLLBACK TO letter; RELEASE letter"
        };
        letter.result = Some(stored);
        db::raw_sql(end).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Catches a panic, so that a bug fails one letter and not the batch.
async fn guarded<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|_bug| {
            tracing::error!("storing a letter panicked and is undone");
            Err(StoreError::Closed)
        })
}

/// Stores the letters that are independent of each other; `None` for those to be stored alone.
async fn store_together(
    conn: &mut Connection,
    letters: &[Waiting],
) -> Result<Vec<Option<Vec<StoredInbound>>>> {
    let copies = letters
        .iter()
        .flat_map(|letter| letter.copies.iter().map(|copy| (copy, letter.now)));
    let asked = question(copies)?;
    let mut arrivals = arrivals(conn, asked).await?.into_iter();
    let now = letters.iter().map(|letter| letter.now).max();
    let now = now.unwrap_or(Timestamp::from_millis(0));
    let copies = letters.iter().flat_map(|letter| letter.copies.iter());
    let domains: Vec<_> = copies.filter_map(limited).collect();
    let mut of_domains = DomainRuns::read(conn, &domains, now).await?;
    let mut taken = HashSet::new();
    let (mut rows, mut stored) = (Vec::new(), Vec::with_capacity(letters.len()));
    for letter in letters {
        let arrived: Vec<_> = letter.copies.iter().zip(arrivals.by_ref()).collect();
        let mut is_first = true;
        for (copy, arrival) in &arrived {
            for name in arrival.names(copy) {
                is_first &= taken.insert((&copy.persona, name));
            }
        }
        let is_plain = |(copy, arrival): &(&NewInbound, ArrivalFacts)| {
            copy.report.is_none()
                && copy.answer.is_none()
                && copy.fetched_from.is_none()
                && arrival.linked.len() < 2
        };
        if !is_first || letter.releases.is_some() || !arrived.iter().all(is_plain) {
            stored.push(None);
            continue;
        }
        let mut of_letter = Vec::with_capacity(arrived.len());
        for (copy, arrival) in arrived {
            if let Some(message) = arrival.duplicate {
                of_letter.push(StoredInbound::Duplicate { message });
                continue;
            }
            let found = arrival.found(copy);
            let fresh = fresh_text(conn, copy, found.joined()).await?;
            let of_domain = of_domains.of(&copy.persona, limited(copy).map(|(_, of)| of));
            let row = NewRow::new(copy, (arrival.sent, of_domain, found), fresh, letter.now);
            if let Some(limit) = row.counted_domain() {
                of_domains.add(&copy.persona, limit);
            }
            of_letter.push(row.stored());
            rows.push(row);
        }
        stored.push(Some(of_letter));
    }
    insert(conn, &rows).await?;
    of_domains.store(conn, now).await?;
    Ok(stored)
}

/// Returns the limit of the organisation of a letter's sender, with the persona whose it is.
fn limited(copy: &NewInbound) -> Option<(&PersonaId, &DomainLimit)> {
    let limit = copy.reply_limits.as_ref()?.domain.as_ref()?;
    Some((&copy.persona, limit))
}

/// Stores the copies of one letter, one after the other.
async fn store_alone(conn: &mut Connection, letter: &Waiting) -> Stored {
    let mut stored = Vec::with_capacity(letter.copies.len());
    for copy in &letter.copies {
        let arrival = arrivals(conn, question(std::iter::once((copy, letter.now)))?)
            .await?
            .pop();
        let arrival = arrival.ok_or(StoreError::Unreadable {
            what: "arrival of a letter",
        })?;
        if let Some(message) = arrival.duplicate {
            stored.push(StoredInbound::Duplicate { message });
            continue;
        }
        let found = match arrival.linked.len() {
            0 | 1 => arrival.found(copy),
            _ => {
                let (stamp, today) = (copy.received_at.to_string(), since(letter.now, DAY));
                placement::find(conn, &placing_of(copy, (&stamp, &today)), &arrival.linked).await?
            }
        };
        let fresh = fresh_text(conn, copy, found.joined()).await?;
        let limit = limited(copy);
        let mut of_domains = DomainRuns::read(conn, limit.as_slice(), letter.now).await?;
        let of_domain = of_domains.of(&copy.persona, limit.map(|(_, of)| of));
        let row = NewRow::new(copy, (arrival.sent, of_domain, found), fresh, letter.now);
        if let Some(limit) = row.counted_domain() {
            of_domains.add(&copy.persona, limit);
        }
        insert(conn, std::slice::from_ref(&row)).await?;
        of_domains.store(conn, letter.now).await?;
        if let Some(report) = &copy.report {
            reports::record(conn, &copy.persona, &copy.id, report, letter.now).await?;
        }
        if let Some(answer) = &copy.answer {
            answers::apply(conn, &copy.id, answer, letter.now).await?;
        }
        stored.push(row.stored());
    }
    if let Some((copy, from)) = letter
        .copies
        .first()
        .and_then(|copy| Some((copy, copy.fetched_from.as_ref()?)))
    {
        let unanswered = unanswered(conn, &stored).await?;
        // A held letter has its row already, and is marked once somebody answers it.
        if letter.releases.is_none() || unanswered.is_none() {
            let content = (copy.sha256.as_str(), unanswered.as_deref());
            mailboxes::note_taken(conn, from, content, letter.now).await?;
        }
    }
    if let Some(held) = &letter.releases {
        held::release(conn, held).await?;
    }
    Ok(stored)
}

/// The rule by which nobody answers any copy of a letter; `None`: one of them has a run, or the engine did what it says.
async fn unanswered(conn: &mut Connection, stored: &[StoredInbound]) -> Result<Option<String>> {
    let mut unanswered = None;
    for copy in stored {
        let disposition = match copy {
            StoredInbound::New { disposition, .. } => disposition.clone(),
            StoredInbound::Duplicate { message } => conn.one(DISPOSITION, message).await?,
        };
        match filed::rule_of(&disposition).filter(|rule| !filed::is_dealt_with(rule)) {
            None => return Ok(None),
            Some(rule) => unanswered = Some(rule.to_owned()),
        }
    }
    Ok(unanswered)
}
