//! One note to the sender of a letter whose run failed or takes long: table `sender_notes`.
//!
//! A run has at most one row, whatever becomes of it later: the row is inserted with the mail, or with the rule that
//! withheld it, so that no run is considered twice.
//!
//! Absent on purpose: who is told, and in which words (`gateway::sender_notes`).

use super::answer::{EngineMail, EngineMailPlace, insert_engine_mail};
use crate::domain::{MessageId, PersonaId, RunId, Timestamp};
use crate::store::db::{Connection, Row, Scope};
use crate::store::sql::persona_id;
use crate::store::threads::correspondence;
use crate::store::threads::history::StoredMessage;
use crate::store::threads::reply_limits::MailReservation;
use crate::store::{Result, Store};

/// What a note is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderNoteKind {
    /// The run failed for good.
    Failed,
    /// The run has not ended for some time.
    Slow,
}

impl SenderNoteKind {
    /// Returns the spelling in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Slow => "slow",
        }
    }
}

/// A run that a note may be about, with its letter.
#[derive(Debug, Clone)]
pub struct NoteCandidate {
    pub run: RunId,
    pub persona: PersonaId,
    pub letter: StoredMessage,
    /// `true`: a rule had filed the letter, and an operator had it answered.
    pub was_filed: bool,
}

/// A note with what it takes from the limits of mail to its recipient.
#[derive(Debug, Clone)]
pub struct NewSenderNote {
    pub mail: EngineMail,
    pub hops: u32,
    pub reservation: MailReservation,
}

/// Most runs of one pass; the others wait for the next.
const CANDIDATES_MAX: i64 = 50;

const FAILED_WITHOUT_NOTE: &str = "
    SELECT r.id AS run, r.trigger_message_id AS letter, r.persona_id FROM runs r
    WHERE r.state = 'failed' AND r.trigger = 'email' AND r.finished_at >= $1
      AND NOT EXISTS (SELECT 1 FROM sender_notes n WHERE n.run_id = r.id) ORDER BY r.finished_at LIMIT $2";
/// The first condition is the one of the index `runs_open`. A halted persona tells nobody: it is halted on purpose.
const SLOW_WITHOUT_NOTE: &str = "
    SELECT r.id AS run, r.trigger_message_id AS letter, r.persona_id FROM runs r
    WHERE r.state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') AND r.trigger = 'email'
      AND r.created_at <= $1 AND NOT EXISTS (SELECT 1 FROM sender_notes n WHERE n.run_id = r.id)
      AND NOT EXISTS (SELECT 1 FROM halts h WHERE h.persona_id IN ('', r.persona_id))
    ORDER BY r.seq LIMIT $2";
const NOTE_LETTER: &str = "
    SELECT seq, id, thread_id, direction, message_id, in_reply_to, references_json, sender, recipients_json, subject,
      text_body, fresh_text, received_at, trust, run_id, disposition, hops, metadata_json,
      EXISTS (SELECT 1 FROM audit_log l WHERE l.subject_id = messages.id AND l.subject_kind = 'message'
        AND l.decision = 'answer') AS was_filed
    FROM messages WHERE id = $1";
/// The run may have been retried, or have ended, since it was found. Fenced: an engine that is gone tells nobody.
const INSERT_NOTE: &str = "
    INSERT INTO sender_notes (run_id, kind, created_at)
      SELECT id, $2, $3 FROM runs WHERE id = $1 AND EXISTS (SELECT 1 FROM nodes WHERE epoch = $4)
        AND CASE $2 WHEN 'failed' THEN state = 'failed'
          ELSE state IN ('queued', 'running', 'waiting_approval', 'waiting_retry') END
    ON CONFLICT (run_id) DO NOTHING";
const END_NOTE: &str = "UPDATE sender_notes SET withheld = $2, delivery_id = $3 WHERE run_id = $1";
const READERS_OF_LETTER: &str = "SELECT readers_json FROM messages WHERE id = $1";

impl Store {
    /// Returns runs without a note, with their letters: those that failed since `instant`, or those that were queued
    /// before it and have not ended.
    pub async fn runs_without_note(
        &self,
        kind: SenderNoteKind,
        instant: Timestamp,
    ) -> Result<Vec<NoteCandidate>> {
        let sql = match kind {
            SenderNoteKind::Failed => FAILED_WITHOUT_NOTE,
            SenderNoteKind::Slow => SLOW_WITHOUT_NOTE,
        };
        let mut conn = self.readers().acquire().await?;
        let rows = conn.rows(sql, (instant, CANDIDATES_MAX)).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            found.push(candidate(&mut conn, row).await?);
        }
        Ok(found)
    }

    /// Stores a note and queues it, or stores the rule that withheld it; returns whether a mail was queued. Nothing is
    /// stored for a run that has a note, or whose state is no longer what the note says.
    pub async fn note_sender(
        &self,
        kind: SenderNoteKind,
        candidate: NoteCandidate,
        note: std::result::Result<NewSenderNote, &'static str>,
    ) -> Result<bool> {
        let (epoch, now) = (self.epoch(), self.clock().now());
        transact!(self, Scope::persona(&candidate.persona), |conn| {
            if conn
                .exec(INSERT_NOTE, (&candidate.run, &kind, now, epoch))
                .await?
                == 0
            {
                return Ok(false);
            }
            let (withheld, delivery) = match &note {
                Err(rule) => (Some(*rule), None),
                Ok(note) => match queue(conn, &candidate, note, now).await? {
                    Some(rule) => (Some(rule), None),
                    None => (None, Some(note.mail.delivery.id.as_str())),
                },
            };

            conn.exec(END_NOTE, (&candidate.run, withheld, delivery))
                .await?;
            Ok(delivery.is_some())
        })
        .await
    }
}

/// Queues the mail within the limits of mail to its recipient; returns the rule that withheld it.
async fn queue(
    conn: &mut Connection,
    candidate: &NoteCandidate,
    note: &NewSenderNote,
    now: Timestamp,
) -> Result<Option<&'static str>> {
    let (persona, thread) = (&candidate.persona, &candidate.letter.thread);
    let place = (&candidate.run, Some(thread));
    let over = correspondence::reserve(conn, persona, place, &note.reservation, now).await?;
    if let Some(rule) = over {
        return Ok(Some(rule.as_str()));
    }
    let readers = readers(conn, &candidate.letter.id).await?;
    let place = EngineMailPlace {
        persona,
        thread,
        disposition: "sent",
        readers_json: readers.as_deref(),
        hops: note.hops,
    };
    insert_engine_mail(conn, &place, &note.mail, now).await?;
    Ok(None)
}

/// Who may read the letter may read that it is not answered.
async fn readers(conn: &mut Connection, letter: &MessageId) -> Result<Option<String>> {
    conn.one(READERS_OF_LETTER, letter).await
}

async fn candidate(conn: &mut Connection, row: &Row) -> Result<NoteCandidate> {
    let letter = conn.row(NOTE_LETTER, row.get::<&str>("letter")).await?;
    Ok(NoteCandidate {
        run: row.get("run"),
        persona: persona_id(row)?,
        was_filed: letter.get("was_filed"),
        letter: letter.to()?,
    })
}

text_column!(SenderNoteKind;);
