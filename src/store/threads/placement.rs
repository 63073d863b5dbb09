//! Conversations by the graph of Message-IDs; threads by the participants that may see them
//! together (decision D-04).
//!
//! A conversation is a connected component: every Message-ID a message bears or mentions is linked
//! to it, seen or not, so trimmed References, any order of arrival and late joins need no special
//! case. A thread is the part of a conversation whose participants wrote or received its letters;
//! nothing that a sender writes into To, Cc or References opens a thread in which that sender was
//! not already.

use crate::domain::{ConversationId, PersonaId, ThreadId, Timestamp};
use crate::store::budgets::money::FOLD_MONEY;
use crate::store::commands::resets::FOLD_RESETS;
use crate::store::db::Connection;
use crate::store::mail::messages::Content;
use crate::store::sql::json_list;
use crate::store::threads::instructions::FOLD_INSTRUCTIONS;
use crate::store::threads::place::{Company, Place};
use crate::store::threads::reply_limits::Account;
use crate::store::threads::sessions::FOLD_SESSIONS;
use crate::store::{Result, StoreError};

/// Inputs for placing a message.
pub struct Placing<'a> {
    pub persona: &'a str,
    /// Its RFC Message-ID.
    pub own_id: &'a str,
    /// RFC Message-IDs it mentions, oldest first; the last is the nearest ancestor.
    pub mentioned: &'a [String],
    /// Address that must already be in a thread for the message to join it: the sender, or
    /// `list:<List-Id>`. `None` joins nothing.
    pub joins_as: Option<&'a str>,
    /// See [`crate::store::Place::joins_only`].
    pub joins_only: Option<&'a Company>,
    /// All addresses of the message, in [`crate::domain::Address::key`] form.
    pub participants: &'a [String],
    /// `true`: the sender is authenticated, so that the message may add its Cc to an existing
    /// thread (decision D-49).
    pub authenticated: bool,
    /// A participant that leaves because the sender is authenticated under its address (decision
    /// D-22).
    pub replaces: Option<&'a str>,
    pub subject: &'a str,
    pub now: &'a str,
    /// Counter account for answers in its thread, and the begin of its window.
    pub account: Account,
    pub answers_since: &'a str,
    /// Ids to use if a conversation or a thread has to be made.
    pub new_conversation: ConversationId,
    pub new_thread: ThreadId,
}

/// The conversations that some Message-IDs are linked to, as a JSON array.
const LINKED_CONVERSATIONS: &str = "
    SELECT json_group_array(DISTINCT conversation_id) FROM message_links
    WHERE persona_id = $1 AND rfc_message_id IN (SELECT value FROM jsonb_each($2))";
/// The thread that a message joins, and the number of its recent answers.
const FIND_THREAD: &str = "
    SELECT id, (SELECT coalesce(sum(mails), 0) FROM correspondence
      WHERE persona_id = $4 AND counterparty = $8 || id AND minute >= $5) AS answers
    FROM (SELECT t.id FROM threads t CROSS JOIN thread_participants p
      WHERE p.thread_id = t.id AND t.conversation_id = $1 AND p.address = $2
        AND ($6 IS NULL OR (
          NOT EXISTS (SELECT 1 FROM thread_participants o WHERE o.thread_id = t.id
            AND o.address NOT IN (SELECT value FROM jsonb_each($7)))
          AND NOT EXISTS (SELECT 1 FROM jsonb_each($6) wanted WHERE NOT EXISTS (SELECT 1 FROM thread_participants o
            WHERE o.thread_id = t.id AND o.address = wanted.value))))
      ORDER BY EXISTS (SELECT 1 FROM messages m WHERE m.persona_id = $4 AND m.message_id = $3 AND m.thread_id = t.id)
        DESC, t.updated_at DESC, t.id DESC LIMIT 1) AS found";
/// Inserts missing rows and touches existing ones. A participant that joins a thread with messages
/// reads from there on; an authenticated address replaces its unverified form. One text, because
/// every text that is sent to SQLite costs a thread switch, and this is the most frequent write of
/// the store.
const PLACE: &str = "
    INSERT INTO conversations (id, persona_id, subject, root_message_id, created_at) VALUES ($3, $1, $4, $5, $6)
      ON CONFLICT (id) DO NOTHING;
    INSERT INTO message_links (persona_id, rfc_message_id, conversation_id)
      SELECT $1, value, $3 FROM jsonb_each($2) WHERE true ON CONFLICT DO NOTHING;
    INSERT INTO threads (id, conversation_id, persona_id, subject, created_at, updated_at)
      VALUES ($7, $3, $1, $4, $6, $6) ON CONFLICT (id) DO UPDATE SET updated_at =
        CASE WHEN threads.updated_at < $6 THEN $6 ELSE threads.updated_at END;
    INSERT INTO thread_participants (thread_id, address, joined_after)
      SELECT $7, j.value, CASE WHEN u.address IS NOT NULL THEN u.joined_after ELSE
          (SELECT CASE WHEN max(seq) < 0 THEN 0 ELSE max(seq) END FROM messages WHERE thread_id = $7) END
      FROM jsonb_each($8) j
        LEFT JOIN thread_participants u ON u.thread_id = $7 AND u.address = 'unverified:' || j.value
      WHERE true ON CONFLICT DO NOTHING;
    DELETE FROM thread_participants WHERE thread_id = $7 AND address = $9";
pub const TOUCH_THREAD: &str = "UPDATE threads SET updated_at = $2 WHERE id = $1";

const MOVE_THREADS: &str = "
    UPDATE threads SET conversation_id = $1 WHERE conversation_id IN (SELECT value FROM jsonb_each($2))";
const MOVE_LINKS: &str = "
    UPDATE message_links SET conversation_id = $1 WHERE conversation_id IN (SELECT value FROM jsonb_each($2))";
const DELETE_CONVERSATIONS: &str = "
    DELETE FROM conversations WHERE id IN (SELECT value FROM jsonb_each($1))";
/// Threads of one conversation with the same participants since the same message, youngest first,
/// with the oldest such thread.
const EQUAL_THREADS: &str = "
    WITH people AS (
      SELECT t.id, (SELECT group_concat(address, ' ') FROM
        (SELECT address || coalesce(' after ' || joined_after, '') AS address FROM thread_participants
          WHERE thread_id = t.id ORDER BY address) AS present) AS everybody
      FROM threads t WHERE t.conversation_id = $1)
    SELECT young.id AS young, min(old.id) AS old FROM people young JOIN people old
      ON old.everybody = young.everybody AND old.id < young.id GROUP BY young.id";
const FOLD_MESSAGES: &str = "UPDATE messages SET thread_id = $2 WHERE thread_id = $1";
const FOLD_RUNS: &str = "UPDATE runs SET thread_id = $2 WHERE thread_id = $1";
/// Before the runs are moved, by which they are found.
const FOLD_EVENTS: &str = "
    UPDATE thread_tool_events SET thread_id = $2 WHERE run_id IN (SELECT id FROM runs WHERE thread_id = $1)";
const FOLD_SCHEDULES: &str = "
    UPDATE responsibilities SET thread_id = $2 WHERE thread_id = $1;
    UPDATE responsibilities SET own_thread_id = $2 WHERE own_thread_id = $1";
/// The letters of both lie between each other now: neither summary has all up to its cursor.
const FOLD_MEMORY: &str = "DELETE FROM thread_memory WHERE thread_id IN ($1, $2)";
const FOLD_PARTICIPANTS: &str = "DELETE FROM thread_participants WHERE thread_id = $1";
const FOLD_THREAD: &str = "DELETE FROM threads WHERE id = $1";

/// Conversation and thread of a message.
pub struct FoundThread {
    pub conversation: String,
    /// The thread that it joins, and the number of answers there within a day, since its owner last
    /// wrote.
    pub thread: Option<(String, i64)>,
}

impl FoundThread {
    /// The thread that it joins.
    pub fn joined(&self) -> Option<&str> {
        self.thread.as_ref().map(|(thread, _)| thread.as_str())
    }
}

/// Finds or creates the conversation and the thread of a message, and merges conversations that it
/// links.
pub async fn find_or_create(conn: &mut Connection, placing: &Placing<'_>) -> Result<ThreadId> {
    let linked: String = conn
        .one(LINKED_CONVERSATIONS, (placing.persona, placing.ids()))
        .await?;
    let FoundThread {
        conversation,
        thread,
    } = find(conn, placing, &conversations(&linked)?).await?;
    let joining = placing.joining(thread.is_some());
    let thread = thread.map_or_else(
        || placing.new_thread.as_str().to_owned(),
        |(thread, _)| thread,
    );

    conn.exec(
        PLACE,
        (
            placing.persona,
            placing.ids(),
            conversation,
            placing.subject,
            placing.root(),
            placing.now,
            &thread,
            joining,
            placing.replaces,
        ),
    )
    .await?;
    Ok(ThreadId::new(thread))
}

/// Finds the place of a message that is linked to these conversations, which are merged.
pub async fn find(
    conn: &mut Connection,
    placing: &Placing<'_>,
    linked: &[String],
) -> Result<FoundThread> {
    let Some((oldest, younger)) = linked.split_first() else {
        return Ok(FoundThread {
            conversation: placing.new_conversation.as_str().to_owned(),
            thread: None,
        });
    };
    if !younger.is_empty() {
        // Ids are ordered by time: the oldest conversation keeps its id.
        join(conn, oldest, younger).await?;
    }
    let thread = existing_thread(conn, placing, oldest).await?;
    Ok(FoundThread {
        conversation: oldest.clone(),
        thread,
    })
}

/// Parses a list of conversations; the oldest comes first.
pub fn conversations(linked_json: &str) -> Result<Vec<String>> {
    let linked: Option<Vec<String>> = serde_json::from_str(linked_json).ok();
    let mut linked = linked.ok_or(StoreError::Unreadable {
        what: "message links",
    })?;
    linked.sort();
    Ok(linked)
}

impl<'a> Placing<'a> {
    /// Returns the addresses that join the thread by the message, as a JSON array.
    pub(in crate::store) fn joining(&self, exists: bool) -> String {
        let joining = if exists && !self.authenticated {
            &[]
        } else {
            self.participants
        };
        json_list(joining.iter())
    }

    /// Returns the oldest known Message-ID of its conversation.
    pub(in crate::store) fn root(&self) -> &'a str {
        self.mentioned.first().map_or(self.own_id, String::as_str)
    }

    /// Returns every Message-ID that the message bears or mentions, as a JSON array.
    pub(in crate::store) fn ids(&self) -> String {
        json_list(
            self.mentioned
                .iter()
                .map(String::as_str)
                .chain([self.own_id]),
        )
    }
}

async fn existing_thread(
    conn: &mut Connection,
    placing: &Placing<'_>,
    conversation: &str,
) -> Result<Option<(String, i64)>> {
    let Some(joins_as) = placing.joins_as else {
        return Ok(None);
    };
    let nearest = placing.mentioned.last().map(String::as_str);
    let (all_of, none_but) = placing.joins_only.map(Company::lists).unzip();
    let found = conn
        .maybe_row(
            FIND_THREAD,
            (
                conversation,
                joins_as,
                nearest,
                placing.persona,
                placing.answers_since,
                all_of,
                none_but,
                placing.account.thread_prefix(),
            ),
        )
        .await?;
    Ok(found.map(|row| (row.get("id"), row.get("answers"))))
}

/// Merges conversations that a late letter links: they become the oldest of them, and threads among
/// exactly the same participants become one. Threads with different participants stay apart,
/// whatever their letters quote.
async fn join(conn: &mut Connection, oldest: &str, younger: &[String]) -> Result<()> {
    let gone = json_list(younger.iter());
    for sql in [MOVE_THREADS, MOVE_LINKS] {
        conn.exec(sql, (oldest, &gone)).await?;
    }
    conn.exec(DELETE_CONVERSATIONS, &gone).await?;
    let pairs = conn.rows(EQUAL_THREADS, oldest).await?;
    for pair in pairs {
        let (young, old): (String, String) = (pair.get("young"), pair.get("old"));
        for sql in [
            FOLD_MESSAGES,
            FOLD_EVENTS,
            FOLD_RUNS,
            FOLD_SESSIONS,
            FOLD_MONEY,
            FOLD_SCHEDULES,
            FOLD_RESETS,
            FOLD_MEMORY,
            FOLD_INSTRUCTIONS,
        ] {
            conn.exec(sql, (&young, &old)).await?;
        }
        for sql in [FOLD_PARTICIPANTS, FOLD_THREAD] {
            conn.exec(sql, &young).await?;
        }
    }
    Ok(())
}

pub fn placing<'a>(
    persona: &'a PersonaId,
    place: &'a Place,
    content: &'a Content,
    (now, answers_since): (&'a str, &'a str),
) -> Placing<'a> {
    Placing {
        persona: persona.as_str(),
        own_id: &content.rfc_message_id,
        mentioned: &place.mentioned,
        joins_as: place.joins_as.as_deref(),
        joins_only: place.joins_only.as_ref(),
        participants: &place.participants,
        authenticated: place.authenticated,
        replaces: place.replaces.as_deref(),
        subject: &content.subject,
        now,
        account: Account::of(content.trust.as_str()),
        answers_since,
        new_conversation: place.new_conversation.clone(),
        new_thread: place.new_thread.clone(),
    }
}

/// Finds or creates the thread of a message.
pub async fn place_message(
    conn: &mut Connection,
    persona: &PersonaId,
    place: &Place,
    content: &Content,
    now: Timestamp,
) -> Result<ThreadId> {
    let now = now.to_string();
    find_or_create(conn, &placing(persona, place, content, (&now, &now))).await
}
