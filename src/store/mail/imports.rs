//! Import of archived letters as a persona's history. They start no run and are ordered by their
//! arrival, not by their import.

use crate::domain::{MessageId, ThreadId, Timestamp};
use crate::store::db::{Connection, Scope};
use crate::store::mail::inbound::{NewInbound, StoredInbound};
use crate::store::mail::letter_rows::fresh_text;
use crate::store::mail::messages;
use crate::store::sql::json_list;
use crate::store::threads::placement;
use crate::store::{Result, Store};

/// Direction of an archived letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchivedWay {
    ToPersona,
    /// The persona wrote it.
    FromPersona,
}

/// Whenever and however the letter came.
const KNOWN: &str = "
    SELECT id FROM messages WHERE persona_id = $1 AND dedup_key IN (SELECT value FROM jsonb_each($2)) LIMIT 1";
/// Mail that this engine wrote itself is in its outbox already.
const WRITTEN_HERE: &str = "
    SELECT id FROM messages WHERE persona_id = $1 AND message_id = $2 AND direction = 'outbound' LIMIT 1";
/// `$1` is the first number of the second in which the letter came: all of them lie before 0, and
/// so before every letter that came by itself. Each second has 2^24 numbers.
const INSERT_IMPORTED: &str = "
    INSERT INTO raw_letters (id, persona_id, sha256, envelope_json, bytes, trace, size_bytes)
      VALUES ($16, $4, $20, $21, $22, '', $24);
    INSERT INTO messages (seq, id, thread_id, persona_id, direction, message_id, in_reply_to, references_json, sender,
      recipients_json, subject, text_body, fresh_text, html_body, received_at, raw_id, dedup_key, disposition,
      metadata_json, trust)
    VALUES ((SELECT coalesce(max(seq), $1 - 1) + 1 FROM messages WHERE seq >= $1 AND seq < $1 + 16777216),
      $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $23)";

impl Store {
    /// Stores a letter of an archive, unless it is a duplicate, in a commit that it may share with
    /// other letters.
    pub async fn import_letter(&self, copy: NewInbound, way: ArchivedWay) -> Result<StoredInbound> {
        transact!(self, Scope::Engine, |conn| import(conn, &copy, way).await).await
    }
}

async fn import(
    conn: &mut Connection,
    copy: &NewInbound,
    way: ArchivedWay,
) -> Result<StoredInbound> {
    let stamp = copy.received_at.to_string();
    // No answer of ours is counted: `stamp` is a day outside every limit's window.
    let placing = placement::placing(&copy.persona, &copy.place, &copy.content, (&stamp, &stamp));
    let known: Option<String> = conn.maybe(KNOWN, (&copy.persona, copy.known_as())).await?;
    if let Some(id) = known {
        return Ok(StoredInbound::Duplicate {
            message: MessageId::new(id),
        });
    }
    if way == ArchivedWay::FromPersona {
        let written: Option<String> = conn
            .maybe(WRITTEN_HERE, (&copy.persona, &copy.content.rfc_message_id))
            .await?;
        if let Some(id) = written {
            return Ok(StoredInbound::Duplicate {
                message: MessageId::new(id),
            });
        }
    }
    let thread = placement::find_or_create(conn, &placing).await?;
    let fresh = fresh_text(conn, copy, Some(thread.as_str())).await?;
    insert(conn, copy, way, fresh, &thread).await?;
    for attachment in &copy.attachments {
        messages::insert_attachment(conn, &copy.persona, &copy.id, attachment).await?;
    }
    let (message, disposition) = (copy.id.clone(), copy.disposition.clone());
    Ok(StoredInbound::New {
        message,
        run: None,
        disposition,
    })
}

async fn insert(
    conn: &mut Connection,
    copy: &NewInbound,
    way: ArchivedWay,
    fresh: Option<String>,
    thread: &ThreadId,
) -> Result<()> {
    let content = &copy.content;
    let direction = match way {
        ArchivedWay::ToPersona => "inbound",
        ArchivedWay::FromPersona => "outbound",
    };
    conn.exec(
        INSERT_IMPORTED,
        (
            (
                first_seq(copy.received_at),
                &copy.id,
                thread,
                &copy.persona,
                direction,
                &content.rfc_message_id,
                &content.in_reply_to,
                json_list(content.references.iter()),
                &content.sender,
                &content.recipients_json,
                &content.subject,
                &content.text_body,
                &fresh,
                &content.html_body,
                copy.received_at,
                &copy.raw_id,
            ),
            (
                &copy.dedup_key,
                &copy.disposition,
                &content.metadata_json,
                &copy.sha256,
                &copy.envelope_json,
                &copy.bytes.bytes,
                &content.trust,
                copy.bytes.size_bytes(),
            ),
        ),
    )
    .await?;
    Ok(())
}

/// Returns the first message number of the second in which a letter came; years before 1970 count
/// as 1970.
fn first_seq(received_at: Timestamp) -> i64 {
    let second = (received_at.as_millis() / 1000).max(0);
    (second << 24) - (1 << 62)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archived_letters_are_numbered_by_time_and_before_all_others() {
        let last_second = Timestamp::parse("9999-12-31T23:59:59Z").expect("an instant");
        let times = [
            Timestamp::from_millis(-5000),
            Timestamp::from_millis(1000),
            last_second,
        ];
        let numbers = times.map(first_seq);
        assert!(
            numbers.is_sorted_by(|a, b| a + (1 << 24) <= *b),
            "{numbers:?}"
        );
        assert!(numbers[2] + (1 << 24) < 0, "{numbers:?}");
    }
}
