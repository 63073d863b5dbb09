//! A mail of the engine into an existing thread: the answer to a command, stored and queued in one commit, once.

use super::record::OpenCommand;
use crate::domain::{MessageId, PersonaId, ThreadId, Timestamp};
use crate::store::db::{Connection, Scope};
use crate::store::deliveries::queue::{self as deliveries, NewDelivery};
use crate::store::mail::messages::{self, Content, MessageRow};
use crate::store::sql::json_list;
use crate::store::threads::reply_limits::HOUR;
use crate::store::{Result, Store, StoreError};

/// A mail that the engine writes itself, with its delivery.
#[derive(Debug, Clone)]
pub struct EngineMail {
    pub id: MessageId,
    pub content: Content,
    pub delivery: NewDelivery,
}

/// Where a mail of the engine is stored, and who of the thread may read it.
pub struct EngineMailPlace<'a> {
    pub persona: &'a PersonaId,
    pub thread: &'a ThreadId,
    /// `notice` or `sent`, by the kind of its delivery.
    pub disposition: &'static str,
    /// A JSON array of keys; `None`: all of the thread.
    pub readers_json: Option<&'a str>,
    pub hops: u32,
}

/// An answer to the mail finds the thread by its Message-ID.
const LINK_MAIL: &str = "
    INSERT INTO message_links (persona_id, rfc_message_id, conversation_id)
      SELECT $1, $2, conversation_id FROM threads WHERE id = $3 ON CONFLICT DO NOTHING;
    UPDATE threads SET updated_at = CASE WHEN updated_at < $4 THEN $4 ELSE updated_at END WHERE id = $3";
const KEEP_READERS: &str = "UPDATE messages SET readers_json = $2 WHERE id = $1";
const ANSWERS_SINCE: &str = "
    SELECT count(*) FROM mail_commands WHERE persona_id = $1 AND answered_at >= $2 AND delivery_id IS NOT NULL";
/// Fenced: an engine that is gone answers nothing.
const MARK_ANSWERED: &str = "
    UPDATE mail_commands SET answered_at = $2, delivery_id = $3
    WHERE seq = $1 AND acted_at IS NOT NULL AND answered_at IS NULL AND EXISTS (SELECT 1 FROM nodes WHERE epoch = $4)";

impl Store {
    /// Queues the answer to a command that was carried out, and marks the command. Without a mail, and where the persona
    /// has sent `per_hour_max` answers to commands within the hour, it is only marked. Returns whether a mail was queued.
    ///
    /// Errors: [`StoreError::WrongState`] when it is answered already; nothing is stored then.
    pub async fn answer_command(
        &self,
        command: &OpenCommand,
        mail: Option<EngineMail>,
        per_hour_max: u32,
    ) -> Result<bool> {
        let (epoch, now) = (self.epoch(), self.clock().now());
        let command = command.clone();
        transact!(self, Scope::persona(&command.persona), |conn| {
            let sent: i64 = conn
                .one(ANSWERS_SINCE, (&command.persona, now.minus(HOUR)))
                .await?;
            let mail = mail.filter(|_| sent < i64::from(per_hour_max));
            if let Some(mail) = &mail {
                let owner = json_list(std::iter::once(command.owner.as_str()));
                let place = EngineMailPlace {
                    persona: &command.persona,
                    thread: &command.thread,
                    disposition: "notice",
                    readers_json: Some(&owner),
                    hops: 0,
                };
                insert_engine_mail(conn, &place, mail, now).await?;
            }
            crate::crash::crash_point!("MC2");
            if conn
                .exec(
                    MARK_ANSWERED,
                    (
                        command.seq,
                        now,
                        mail.as_ref().map(|mail| mail.delivery.id.as_str()),
                        epoch,
                    ),
                )
                .await?
                == 1
            {
                return Ok(mail.is_some());
            }
            Err(StoreError::WrongState {
                kind: "command",
                id: command.seq.to_string(),
                state: "answered already".to_owned(),
                hint: "another engine answers it",
            })
        })
        .await
    }
}

/// Stores a mail of the engine in a thread and queues it.
pub async fn insert_engine_mail(
    conn: &mut Connection,
    place: &EngineMailPlace<'_>,
    mail: &EngineMail,
    now: Timestamp,
) -> Result<()> {
    conn.exec(
        LINK_MAIL,
        (
            &place.persona,
            &mail.content.rfc_message_id,
            &place.thread,
            now,
        ),
    )
    .await?;
    let row = MessageRow {
        id: &mail.id,
        thread: Some(place.thread),
        persona: place.persona,
        direction: "outbound",
        content: &mail.content,
        raw: None,
        run: None,
        dedup_key: None,
        ack_confirmed: true,
        hops: place.hops,
        disposition: place.disposition,
        joining: &[],
    };
    messages::insert_message(conn, &row, now).await?;
    if let Some(readers) = place.readers_json {
        conn.exec(KEEP_READERS, (&mail.id, readers)).await?;
    }
    deliveries::insert(conn, &mail.delivery, now).await
}
