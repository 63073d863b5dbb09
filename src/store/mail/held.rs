//! Letters whose sender could not be verified on arrival: table `held_letters`. They are no
//! messages until they are verified, because the sender of a letter decides its thread; the commit
//! that stores a letter as a message ends its hold (`arrivals.rs`).

use crate::domain::{MailboxUid, MessageId, PersonaId, Timestamp};
use crate::store::db::{Connection, Scope};
use crate::store::mailboxes::cursors as mailboxes;
use crate::store::{Result, Store, StoreError};
use std::sync::Arc;

/// A letter to be held for one persona.
#[derive(Debug, Clone)]
pub struct NewHeld {
    /// Id of the message that the letter will become.
    pub id: MessageId,
    pub persona: PersonaId,
    pub sha256: String,
    pub envelope_json: String,
    pub bytes: Arc<[u8]>,
    /// Instant of the second verification.
    pub next_attempt_at: Timestamp,
}

/// A held letter that is due.
#[derive(Debug, Clone)]
pub struct HeldLetter {
    pub id: MessageId,
    pub persona: PersonaId,
    pub envelope_json: String,
    pub bytes: Arc<[u8]>,
    pub held_at: Timestamp,
    /// Number of failed verifications since it was held.
    pub attempts: u32,
}

/// A duplicate of a held letter keeps the existing row.
const HOLD: &str = "
    INSERT INTO held_letters (id, persona_id, sha256, envelope_json, bytes, held_at, next_attempt_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (persona_id, sha256) DO UPDATE SET sha256 = excluded.sha256
    RETURNING id";
const NEXT_HELD: &str = "
    SELECT id, persona_id, envelope_json, bytes, held_at, attempts FROM held_letters
    WHERE next_attempt_at <= $1 ORDER BY next_attempt_at, id LIMIT 1";
const POSTPONE: &str = "
    UPDATE held_letters SET attempts = attempts + 1, next_attempt_at = $2 WHERE id = $1";
pub const RELEASE: &str = "DELETE FROM held_letters WHERE id = $1";

/// Ends the hold, in the commit that stores the letter as a message.
pub async fn release(conn: &mut Connection, held: &MessageId) -> Result<()> {
    conn.exec(RELEASE, held).await?;
    Ok(())
}

impl Store {
    /// Holds a letter for every addressed persona, and records in the same commit that it was
    /// fetched from its mailbox. Returns the ids under which it is held.
    pub async fn hold_letter(
        &self,
        copies: Vec<NewHeld>,
        from: Option<MailboxUid>,
    ) -> Result<Vec<MessageId>> {
        let now = self.clock().now();
        transact!(
            self,
            Scope::Personas(copies.iter().map(|copy| copy.persona.clone()).collect()),
            |conn| {
                let mut held = Vec::with_capacity(copies.len());
                for copy in &copies {
                    held.push(MessageId::new(
                        conn.one::<String>(
                            HOLD,
                            (
                                &copy.id,
                                &copy.persona,
                                &copy.sha256,
                                &copy.envelope_json,
                                &copy.bytes[..],
                                now,
                                copy.next_attempt_at,
                            ),
                        )
                        .await?,
                    ));
                }
                if let (Some(copy), Some(from)) = (copies.first(), &from) {
                    let content = (copy.sha256.as_str(), Some("held"));
                    mailboxes::note_taken(conn, from, content, now).await?;
                }
                Ok(held)
            }
        )
        .await
    }

    /// Returns the held letter that has been due for longest.
    pub async fn next_held_letter(&self, now: Timestamp) -> Result<Option<HeldLetter>> {
        let asked = self.maybe_row(NEXT_HELD, now).await?;
        asked
            .map(|row| {
                let unreadable = |what| StoreError::Unreadable { what };
                let held_at = Timestamp::parse(row.get("held_at"));
                Ok(HeldLetter {
                    id: row.get("id"),
                    persona: PersonaId::parse(row.get("persona_id"))
                        .map_err(|_| unreadable("persona of a held letter"))?,
                    envelope_json: row.get("envelope_json"),
                    bytes: row.get::<Vec<u8>>("bytes").into(),
                    held_at: held_at.ok_or(unreadable("time of a held letter"))?,
                    attempts: row.get("attempts"),
                })
            })
            .transpose()
    }

    /// Records a further failed verification of a held letter.
    pub async fn postpone_held_letter(&self, held: &MessageId, until: Timestamp) -> Result<()> {
        let (held, until) = (held.to_string(), until.to_string());
        transact!(self, Scope::Rows, |conn| {
            conn.exec(POSTPONE, (held, until)).await?;
            Ok(())
        })
        .await
    }
}
