//! Mails of a run: stored and queued, or stored and withheld, in one transaction of its journal.

use crate::domain::{MessageId, PersonaId, RunId, ThreadId, Timestamp, Withheld};
use crate::mime::LetterFooter;
use crate::store::calendar::record::EventWrite;
use crate::store::calendar::write as calendar;
use crate::store::db::{Connection, Sql};
use crate::store::deliveries::queue::{self as deliveries, NewDelivery};
use crate::store::mail::audit_log;
use crate::store::mail::filed;
use crate::store::mail::messages::{self, Content, MessageRow};
use crate::store::notices::events;
use crate::store::threads::correspondence;
use crate::store::threads::place::Place;
use crate::store::threads::placement;
use crate::store::threads::reply_limits::MailReservation;
use crate::store::threads::sessions;
use crate::store::{PersonaStore, Result};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// A message that a run sends, or would have sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewOutbound {
    pub id: MessageId,
    /// `None`: into the run's thread; `Some`: a mail to another recipient, in a conversation of its
    /// own.
    pub place: Option<Place>,
    /// Addresses to add to the thread's participants.
    pub participants: Vec<String>,
    pub content: Content,
    /// Number of consecutive mails that personas wrote, this one included.
    pub hops: u32,
    pub outcome: MessageOutcome,
    /// What the mail does to an event, once it is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventWrite>,
    /// What the mail has below its text.
    #[serde(default, skip_serializing_if = "LetterFooter::is_empty")]
    pub footer: LetterFooter,
    /// Address in the `Reply-To` of the letter that is answered, if the mail goes to its sender instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused_reply_to: Option<String>,
}

/// Outcome of a message that a run writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum MessageOutcome {
    /// The message is queued, unless the transaction finds that a limit is exceeded: then it is
    /// withheld.
    Send {
        delivery: Box<NewDelivery>,
        reservation: MailReservation,
    },
    Withhold(Withheld),
}

/// Inserts a message with its delivery.
static SEND_MESSAGE: LazyLock<Sql> =
    LazyLock::new(|| Sql::chained(messages::INSERT_MESSAGE, deliveries::INSERT));

impl PersonaStore {
    /// Queues a mail that a fork of this run wrote, at an operator's request, like a mail of the
    /// run itself.
    pub async fn send_of_fork(&self, run: &RunId, mut mail: NewOutbound) -> Result<()> {
        if let MessageOutcome::Send { delivery, .. } = &mut mail.outcome {
            delivery.run_id = Some(run.clone());
        }
        let run = self.store.run_summary(run).await?.id;
        let (persona, now) = (self.persona.clone(), self.store.clock().now());
        transact!(self, |conn| insert(conn, (&run, &persona), &mail, now)
            .await
            .map(|_withheld| ()))
        .await
    }
}

/// Stores a mail of a run inside the caller's transaction: queued, or withheld. Returns the rule that withheld it.
pub async fn insert(
    conn: &mut Connection,
    (run, persona): (&RunId, &PersonaId),
    mail: &NewOutbound,
    now: Timestamp,
) -> Result<Option<Withheld>> {
    let elsewhere = match &mail.place {
        Some(place) => {
            Some(placement::place_message(conn, persona, place, &mail.content, now).await?)
        }
        None => None,
    };
    let (delivery, withheld) = match &mail.outcome {
        MessageOutcome::Withhold(rule) => (None, Some(*rule)),
        MessageOutcome::Send {
            delivery,
            reservation,
        } => {
            let place = (run, elsewhere.as_ref());
            match over_limit(conn, persona, place, (&mail.id, reservation), now).await? {
                None => (Some(delivery), None),
                Some(rule) => (None, Some(rule)),
            }
        }
    };
    let disposition = withheld.map_or_else(|| "sent".to_owned(), |rule| format!("withheld:{rule}"));
    let row = MessageRow {
        id: &mail.id,
        thread: elsewhere.as_ref(),
        persona,
        direction: "outbound",
        content: &mail.content,
        raw: None,
        run: Some(run),
        dedup_key: None,
        ack_confirmed: true,
        disposition: &disposition,
        hops: mail.hops,
        // An address that the mail is not sent to does not become a participant.
        joining: if delivery.is_some() {
            &mail.participants
        } else {
            &[]
        },
    };
    match delivery {
        Some(delivery) => {
            let values = (
                messages::message_values(&row, now),
                deliveries::delivery_values(delivery, now),
            );
            let queued = conn.row(&SEND_MESSAGE, values).await?;
            deliveries::is_queued(conn, &queued, delivery)?;
            if let Some(event) = &mail.event {
                calendar::apply_mail(conn, persona, &mail.id, event, now).await?;
            }
            if let (Some(reply_to), Some(to)) = (&mail.unused_reply_to, delivery.recipients.first())
            {
                events::reply_to_unused(conn, persona, &mail.id, to, reply_to, now).await?;
            }
        }
        None => {
            messages::insert_message(conn, &row, now).await?;
            let subject = ("message", mail.id.as_str());
            audit_log::audit(conn, Some(persona), subject, &disposition, now).await?;
        }
    }
    Ok(withheld)
}

/// Counts a mail against the limits of its run, its recipients and its thread. Returns the rule
/// whose limit it exceeds; the owner is notified of that, and the mail must not be queued.
///
/// Errors: [`crate::store::StoreError::MailsUsedUp`].
async fn over_limit(
    conn: &mut Connection,
    persona: &PersonaId,
    (run, thread): (&RunId, Option<&ThreadId>),
    (mail, reservation): (&MessageId, &MailReservation),
    now: Timestamp,
) -> Result<Option<Withheld>> {
    if let Some(max) = reservation.mails_of_run_max {
        sessions::room_for_mail(conn, run, persona, max).await?;
    }
    let over = correspondence::reserve(conn, persona, (run, thread), reservation, now).await?;
    if let Some(rule) = over {
        // The recipient over the limit is not known here; the first one stands for all.
        let who = reservation
            .counterparties
            .first()
            .map_or("somebody", String::as_str);
        filed::limit_reached(conn, persona, (who, rule), mail, now).await?;
    }
    Ok(over)
}
