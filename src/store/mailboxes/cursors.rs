//! IMAP mailboxes: tables `mailboxes` and `mailbox_letters`. The content of a letter is in
//! `messages`.
//!
//! A letter's outcome is recorded in the commit that stores it; flag or move on the server follows,
//! then the cursor. So a crash between any two of them costs nothing but a second look at known
//! letters.
//!
//! The owner is notified in the transaction that records the failure, once per outage: at once when
//! a person has to act, after a while when waiting may help.

use crate::domain::{MailboxUid, NoticeId, NoticeKind, NoticeSubject, Timestamp};
use crate::store::db::{Connection, Row, Scope};
use crate::store::deliveries::transport::DOWN_AFTER;
use crate::store::notices::emit::{NewNotice, emit};
use crate::store::notices::wording::quoted;
use crate::store::{Result, Store, StoreError};
use crate::text::truncated;

/// Most characters of an error or a reason that are kept.
const TEXT_CHARS_MAX: usize = 300;

/// State of a mailbox that was just selected, from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxContact {
    /// Its name in the configuration.
    pub name: String,
    /// User, host and folder.
    pub source: String,
    pub uid_validity: u32,
    /// 0 when the mailbox is empty.
    pub newest_uid: u32,
    /// `true`: letters that are in the mailbox at the first contact are left alone.
    pub from_now_on: bool,
}

/// Read position in a mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxCursor {
    /// UID up to which every letter has its outcome.
    pub last_uid: u32,
    /// Letters that came before this instant are left alone, among those up to `resync_uid`.
    pub history_until: Option<Timestamp>,
    /// UID up to which the server has renumbered letters; 0: it never did.
    pub resync_uid: u32,
}

/// A letter after the cursor whose outcome is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailboxOutcome {
    pub uid: u32,
    /// `true`: the letter is flagged or moved, or never will be.
    pub marked: bool,
    /// `true`: it is stored, and nobody answers it.
    pub unanswered: bool,
}

/// State of a mailbox for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxHealth {
    pub name: String,
    /// UIDVALIDITY of the mailbox; 0: never selected.
    pub uid_validity: u32,
    pub last_uid: u32,
    /// Number of letters still to be fetched, at the last count.
    pub backlog: Option<u32>,
    /// Instant of the last complete fetch without an error.
    pub last_fetch_at: Option<Timestamp>,
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
    /// Number of letters that were refused for good.
    pub refused: u32,
}

/// Failure to read a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxFailure {
    /// Its name in the configuration.
    pub mailbox: String,
    /// User, host and folder.
    pub source: String,
    pub error: String,
    pub cause: FailureCause,
}

/// Kind of failure, by its remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    /// The server refuses our login: a person has to act.
    Login,
    /// The connection or the server fails: waiting mostly helps.
    Server,
    /// The engine is full or cannot write: reported elsewhere.
    Ourselves,
}

/// A refused letter, which stays in its mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedLetter {
    pub place: MailboxUid,
    pub reason: String,
    pub noted_at: Timestamp,
}

const MAILBOX: &str = "
    SELECT source, uid_validity, last_uid, history_until, resync_uid FROM mailboxes WHERE name = $1";
const FIRST_CONTACT: &str = "
    DELETE FROM mailbox_letters WHERE mailbox = $1;
    DELETE FROM mailbox_contents WHERE mailbox = $1;
    INSERT INTO mailboxes (name, source, uid_validity, last_uid, history_until) VALUES ($1, $2, $3, $4, $5)
      ON CONFLICT (name) DO UPDATE SET source = $2, uid_validity = $3, last_uid = $4, history_until = $5, resync_uid = 0,
        backlog = NULL, last_fetch_at = NULL";
const RENUMBERED: &str = "
    DELETE FROM mailbox_letters WHERE mailbox = $1 AND uid_validity <> $2;
    UPDATE mailboxes SET uid_validity = $2, last_uid = 0, resync_uid = $3 WHERE name = $1";
const NOTE_TAKEN: &str = "
    INSERT INTO mailbox_contents (mailbox, sha256) VALUES ($1, $5) ON CONFLICT DO NOTHING;
    INSERT INTO mailbox_letters (mailbox, uid_validity, uid, outcome, reason, marked, noted_at)
    VALUES ($1, $2, $3, 'taken', $6, 0, $4)
      ON CONFLICT (mailbox, uid_validity, uid) DO UPDATE SET reason = excluded.reason, marked = 0";
const HAS_CONTENT: &str = "
    SELECT EXISTS (SELECT 1 FROM mailbox_contents WHERE mailbox = $1 AND sha256 = $2)";
pub const NOTE_REFUSED: &str = "
    INSERT INTO mailbox_letters (mailbox, uid_validity, uid, outcome, reason, marked, noted_at)
    VALUES ($1, $2, $3, 'refused', $4, $5, $6) ON CONFLICT DO NOTHING";
const OUTCOMES: &str = "
    SELECT uid, marked, outcome = 'taken' AND reason IS NOT NULL AS unanswered FROM mailbox_letters
    WHERE mailbox = $1 AND uid_validity = $2 AND (uid > $3 OR marked = 0) ORDER BY uid LIMIT $4";
const FINISH: &str = "
    UPDATE mailbox_letters SET marked = 1
      WHERE mailbox = $1 AND uid_validity = $2 AND uid IN (SELECT CAST(value AS BIGINT) FROM jsonb_each($3));
    UPDATE mailboxes SET last_uid = max(last_uid, $4) WHERE name = $1 AND uid_validity = $2;
    DELETE FROM mailbox_letters WHERE mailbox = $1 AND uid_validity = $2 AND outcome = 'taken' AND marked = 1
      AND uid <= (SELECT last_uid FROM mailboxes WHERE name = $1)";
const NOTE_FETCH: &str = "
    UPDATE mailboxes SET last_fetch_at = $2, backlog = $3, failing_since = NULL WHERE name = $1";
const NOTE_ERROR: &str = "
    INSERT INTO mailboxes (name, source, last_error, last_error_at, failing_since) VALUES ($1, $2, $3, $4, $4)
      ON CONFLICT (name) DO UPDATE SET last_error = $3, last_error_at = $4, failing_since = coalesce(mailboxes.failing_since, $4)
    RETURNING failing_since";
pub const HEALTH: &str = "
    SELECT m.name, m.uid_validity, m.last_uid, m.backlog, m.last_fetch_at, m.last_error, m.last_error_at,
      (SELECT count(*) FROM mailbox_letters l WHERE l.mailbox = m.name AND l.outcome = 'refused') AS refused
    FROM mailboxes m WHERE m.name = $1";
const REFUSED: &str = "
    SELECT uid_validity, uid, reason, noted_at FROM mailbox_letters
    WHERE mailbox = $1 AND outcome = 'refused' ORDER BY noted_at DESC LIMIT $2";

/// Records, in the commit that stores a letter, that it was fetched. `unanswered`: why nobody answers it.
pub async fn note_taken(
    conn: &mut Connection,
    from: &MailboxUid,
    (sha256, unanswered): (&str, Option<&str>),
    now: Timestamp,
) -> Result<()> {
    conn.exec(
        NOTE_TAKEN,
        (
            &from.mailbox,
            from.uid_validity,
            from.uid,
            now,
            sha256,
            unanswered,
        ),
    )
    .await?;
    Ok(())
}

impl Store {
    /// Returns the read position of a selected mailbox, after recording a first contact or new
    /// UIDs.
    pub async fn contact_mailbox(&self, contact: MailboxContact) -> Result<MailboxCursor> {
        let now = self.clock().now();
        transact!(self, Scope::Mailbox(contact.name.clone()), |conn| meet(
            conn, &contact, now
        )
        .await)
        .await
    }

    /// Reports whether a letter of these bytes was ever fetched from the mailbox.
    pub async fn mailbox_has_content(&self, mailbox: &str, sha256: &str) -> Result<bool> {
        self.one(HAS_CONTENT, (mailbox, sha256)).await
    }

    /// Returns letters after `cursor` that have an outcome already, and earlier letters that are
    /// still to be flagged or moved, in order.
    pub async fn mailbox_outcomes(
        &self,
        mailbox: &str,
        uid_validity: u32,
        cursor: u32,
        limit: u32,
    ) -> Result<Vec<MailboxOutcome>> {
        let rows = self
            .rows(OUTCOMES, (mailbox, uid_validity, cursor, limit))
            .await?;
        Ok(rows
            .iter()
            .map(|row| MailboxOutcome {
                uid: row.get("uid"),
                marked: row.get("marked"),
                unanswered: row.get("unanswered"),
            })
            .collect())
    }

    /// Records that a letter is refused, so that it is not fetched again. `marked`: it is neither
    /// flagged nor moved on the server.
    pub async fn refuse_mailbox_letter(
        &self,
        place: MailboxUid,
        reason: &str,
        marked: bool,
    ) -> Result<()> {
        let (reason, now) = (
            truncated(reason, TEXT_CHARS_MAX),
            self.clock().now().to_string(),
        );
        transact!(self, Scope::Mailbox(place.mailbox.clone()), |conn| {
            conn.exec(
                NOTE_REFUSED,
                (
                    place.mailbox,
                    place.uid_validity,
                    place.uid,
                    reason,
                    marked,
                    now,
                ),
            )
            .await?;
            Ok(())
        })
        .await
    }

    /// Records the letters that were flagged or moved, and that every letter up to `last_uid` has
    /// its outcome.
    pub async fn finish_mailbox_letters(
        &self,
        mailbox: &str,
        uid_validity: u32,
        marked: &[u32],
        last_uid: u32,
    ) -> Result<()> {
        let mailbox = mailbox.to_owned();
        let marked = serde_json::Value::from_iter(marked.iter().copied()).to_string();
        transact!(self, Scope::Mailbox(mailbox.clone()), |conn| {
            conn.exec(FINISH, (mailbox, uid_validity, marked, last_uid))
                .await?;
            Ok(())
        })
        .await
    }

    /// Records a complete fetch and the number of letters that are still to be fetched.
    pub async fn note_mailbox_fetch(&self, mailbox: &str, backlog: u32) -> Result<()> {
        let (mailbox, now) = (mailbox.to_owned(), self.clock().now().to_string());
        transact!(self, Scope::Mailbox(mailbox.clone()), |conn| {
            conn.exec(NOTE_FETCH, (mailbox, now, backlog)).await?;
            Ok(())
        })
        .await
    }

    /// Records a failure of a mailbox, which may never have been selected.
    pub async fn note_mailbox_failure(&self, failure: MailboxFailure) -> Result<()> {
        let clock = self.clock().clone();
        let now = clock.now();
        transact!(self, Scope::Mailbox(failure.mailbox.clone()), |conn| {
            let since: String = conn
                .one(
                    NOTE_ERROR,
                    (
                        &failure.mailbox,
                        &failure.source,
                        truncated(&failure.error, TEXT_CHARS_MAX),
                        now,
                    ),
                )
                .await?;
            let since = instant(Some(&since))?.unwrap_or(now);
            if let Some(notice) = notice(&failure, since, now) {
                emit(
                    conn,
                    &NewNotice {
                        id: NoticeId::new(clock.new_id()),
                        ..notice
                    },
                    now,
                )
                .await?;
            }
            Ok(())
        })
        .await
    }

    /// Returns the state of a mailbox; `None` when no engine has tried it yet.
    pub async fn mailbox_health(&self, mailbox: &str) -> Result<Option<MailboxHealth>> {
        self.maybe(HEALTH, mailbox).await
    }

    /// Returns the letters of a mailbox that were refused for good, the newest first.
    pub async fn refused_mailbox_letters(
        &self,
        mailbox: &str,
        limit: u32,
    ) -> Result<Vec<RefusedLetter>> {
        let rows = self.rows(REFUSED, (mailbox, limit)).await?;
        let refused = |row: &Row| {
            let place = MailboxUid {
                mailbox: mailbox.to_owned(),
                uid_validity: row.get("uid_validity"),
                uid: row.get("uid"),
            };
            let reason: Option<String> = row.get("reason");
            let noted_at = instant(row.get("noted_at"))?.unwrap_or(Timestamp::from_millis(0));
            Ok(RefusedLetter {
                place,
                reason: reason.unwrap_or_default(),
                noted_at,
            })
        };
        rows.iter().map(refused).collect()
    }
}

/// Returns the notice to the owner, once per outage: the same outage has the same `since`. The id
/// is the caller's.
fn notice(failure: &MailboxFailure, since: Timestamp, now: Timestamp) -> Option<NewNotice> {
    let MailboxFailure {
        mailbox,
        source,
        error,
        cause,
    } = failure;
    let (name, reason) = (quoted(mailbox), quoted(error));
    let (kind, summary, hint) = match cause {
        FailureCause::Login => (
            NoticeKind::MailboxRefused,
            format!(
                "the mailbox {name} ({}) refuses our login since {since}: {reason}",
                quoted(source)
            ),
            "put the right password or refresh token into `.secrets`, and it is used within seconds (one in the environment after a \
             restart)",
        ),
        FailureCause::Server if now.since(since) >= DOWN_AFTER => (
            NoticeKind::MailboxDown,
            format!(
                "the mailbox {name} ({}) cannot be read since {since}: {reason}",
                quoted(source)
            ),
            "nothing has to be done if it comes back, it is tried again by itself",
        ),
        FailureCause::Server | FailureCause::Ourselves => return None,
    };
    Some(NewNotice {
        id: NoticeId::new(String::new()),
        persona: None,
        kind,
        detail: mailbox.clone(),
        subject: NoticeSubject::Mailbox,
        subject_id: mailbox.clone(),
        occurrence: since.to_string(),
        summary,
        hint: format!(
            "{hint}; `attache mailboxes check {mailbox}` tries it now, letters there wait meanwhile"
        ),
    })
}

async fn meet(
    conn: &mut Connection,
    contact: &MailboxContact,
    now: Timestamp,
) -> Result<MailboxCursor> {
    let row = conn.maybe_row(MAILBOX, &contact.name).await?;
    let known = row.filter(|row| {
        let (source, uid_validity): (&str, u32) = (row.get("source"), row.get("uid_validity"));
        source == contact.source && uid_validity != 0
    });
    let Some(row) = known else {
        let (last_uid, history_until) = match contact.from_now_on {
            true => (contact.newest_uid, Some(now)),
            false => (0, None),
        };

        conn.exec(
            FIRST_CONTACT,
            (
                &contact.name,
                &contact.source,
                contact.uid_validity,
                last_uid,
                history_until,
            ),
        )
        .await?;
        return Ok(MailboxCursor {
            last_uid,
            history_until,
            resync_uid: 0,
        });
    };
    let history_until = instant(row.get("history_until"))?;
    if row.get::<u32>("uid_validity") == contact.uid_validity {
        return Ok(MailboxCursor {
            last_uid: row.get("last_uid"),
            history_until,
            resync_uid: row.get("resync_uid"),
        });
    }

    conn.exec(
        RENUMBERED,
        (&contact.name, contact.uid_validity, contact.newest_uid),
    )
    .await?;
    Ok(MailboxCursor {
        last_uid: 0,
        history_until,
        resync_uid: contact.newest_uid,
    })
}

from_row!(|row| MailboxHealth {
    name,
    uid_validity,
    last_uid,
    backlog,
    last_fetch_at: { instant(row.get("last_fetch_at"))? },
    last_error,
    last_error_at: { instant(row.get("last_error_at"))? },
    refused
});

fn instant(text: Option<&str>) -> Result<Option<Timestamp>> {
    let read = |text| {
        Timestamp::parse(text).ok_or(StoreError::Unreadable {
            what: "time of a mailbox",
        })
    };
    text.map(read).transpose()
}
