//! Rows that no letter makes: threads, messages, mails and participants put there directly, for tests of what is done with
//! them later. The only place of the tests that inserts them.

use super::db;
use attache::store::packing;

/// Inserts a thread with its conversation, unless it is there, and its participants.
pub async fn thread(
    conn: &mut db::Connection,
    (persona, id, subject): (&str, &str, &str),
    at: &str,
    people: &[&str],
) {
    for sql in [
        "INSERT INTO conversations (id, persona_id, subject, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        "INSERT INTO threads (id, conversation_id, persona_id, subject, created_at, updated_at)
           VALUES ($1, $1, $2, $3, $4, $4) ON CONFLICT DO NOTHING",
    ] {
        let row = db::query(sql).bind(id).bind(persona).bind(subject);
        row.bind(at).execute(&mut *conn).await.expect("a thread");
    }
    for person in people {
        participant(conn, Some(id), person).await;
    }
}

/// Makes a person a participant of a thread, or of all threads, from its first message on.
pub async fn participant(conn: &mut db::Connection, thread: Option<&str>, address: &str) {
    let sql = "INSERT INTO thread_participants (thread_id, address)
        SELECT id, $1 FROM threads WHERE id = coalesce($2, id) ON CONFLICT DO NOTHING";
    let row = db::query(sql).bind(address).bind(thread);
    row.execute(conn).await.expect("a participant");
}

/// A message of a thread.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub id: &'a str,
    pub persona: &'a str,
    pub thread: &'a str,
    /// `inbound`, `outbound` or `synthetic`.
    pub direction: &'a str,
    pub message_id: &'a str,
    pub sender: &'a str,
    pub recipients_json: &'a str,
    pub subject: &'a str,
    pub body: &'a str,
    pub received_at: &'a str,
    pub trust: &'a str,
    pub disposition: &'a str,
}

pub async fn message(conn: &mut db::Connection, message: Message<'_>) {
    let sql = "INSERT INTO messages (id, thread_id, persona_id, direction, message_id, sender, recipients_json, subject,
        text_body, received_at, trust, disposition) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    let mut row = db::query(sql);
    for value in [
        message.id,
        message.thread,
        message.persona,
        message.direction,
        message.message_id,
        message.sender,
        message.recipients_json,
        message.subject,
        message.body,
        message.received_at,
        message.trust,
        message.disposition,
    ] {
        row = row.bind(value);
    }
    row.execute(conn).await.expect("a message");
}

/// Queues a mail of a message.
pub async fn delivery(
    conn: &mut db::Connection,
    (id, message, from): (&str, &str, &str),
    recipients: &[&str],
    bytes: &[u8],
    at: &str,
) {
    let sql = "INSERT INTO deliveries (id, persona_id, message_id, envelope_from, bytes, state, next_attempt_at, created_at, size_bytes)
        SELECT $1, persona_id, id, $3, $4, 'queued', $5, $5, length($4) FROM messages WHERE id = $2";
    let row = db::query(sql).bind(id).bind(message).bind(from);
    let row = row.bind(bytes).bind(at);
    row.execute(&mut *conn).await.expect("a delivery");
    let sql =
        "INSERT INTO delivery_recipients (delivery_id, recipient, state) VALUES ($1, $2, 'queued')";
    for recipient in recipients {
        let row = db::query(sql).bind(id).bind(recipient);
        row.execute(&mut *conn).await.expect("a recipient");
    }
}

/// Bytes of a letter or a mail as they were before they were packed.
pub fn unpacked(bytes: &[u8]) -> Vec<u8> {
    packing::unpack(bytes).expect("readable").into_owned()
}

/// Adds an attachment to a message.
pub async fn attachment(
    conn: &mut db::Connection,
    (id, message, persona): (&str, &str, &str),
    (filename, content_type): (&str, &str),
    bytes: &[u8],
) {
    let sql = "INSERT INTO attachments (id, message_id, persona_id, filename, declared_name, content_type, size_bytes,
          sha256, bytes)
        VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8)";
    let row = db::query(sql).bind(id).bind(message).bind(persona);
    let row = row.bind(filename).bind(content_type);
    let size = i64::try_from(bytes.len()).expect("a size");
    let sha256 = attache::domain::sha256_hex(&[bytes]);
    let row = row.bind(size).bind(sha256).bind(bytes);
    row.execute(conn).await.expect("an attachment");
}
