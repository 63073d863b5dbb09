//! Full-text search over a persona's messages, and the one place that writes FTS5 query text.
//!
//! FTS5's MATCH operand is a query language: `NEAR`, `*`, `col:`, unbalanced quotes. Whatever a person or a model
//! typed therefore never reaches it bare: every word becomes a quoted string, in which nothing is an operator.

use super::threads::json_list;
use super::{PersonaStore, Result, StoreError};
use crate::domain::{Address, MessageId, ThreadId, Timestamp};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// Words of one query that count; further ones are ignored.
const WORDS_MAX: usize = 32;
/// Characters of one word that count.
const WORD_CHARS_MAX: usize = 64;

/// What to look for; filters that are `None` do not filter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MessageSearch {
    /// Words that must all occur in subject, sender or body.
    pub query: Option<String>,
    /// Words that must all occur in the sender.
    pub from: Option<String>,
    /// Words that must all occur in the subject.
    pub subject: Option<String>,
    /// Received at this instant or later.
    pub since: Option<Timestamp>,
    /// Received before this instant.
    pub before: Option<Timestamp>,
    /// Only threads in which all of these take part, and nothing that was withheld from them; `None` sees all.
    pub visible_to: Option<Vec<Address>>,
    /// Most messages to return.
    pub limit: u32,
}

/// One message that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMessage {
    pub id: MessageId,
    pub thread_id: ThreadId,
    /// `inbound` or `outbound`.
    pub direction: String,
    /// The From header as a person reads it.
    pub sender: String,
    /// `{"to": [..], "cc": [..], "reply_to": [..]}`
    pub recipients_json: String,
    pub subject: String,
    pub received_at: Timestamp,
    /// What became of it: `run`, `filed:<rule>`, `withheld:<rule>`, `sent`.
    pub disposition: String,
    /// Text of the body around the hits, or its beginning; raw, at most 600 characters.
    pub snippet: String,
}

/// Best first: a hit in the subject weighs four times, one in the sender twice as much as one in the body.
pub(super) const SEARCH_MESSAGES_BY_WORDS: &str = "
SELECT m.id, m.thread_id, m.direction, m.sender, m.recipients_json, m.subject, m.received_at, m.disposition,
       substr(snippet(messages_fts, 2, '', '', ' … ', 40), 1, 600) AS snippet
FROM messages_fts JOIN messages m ON m.seq = messages_fts.rowid
WHERE messages_fts MATCH $1 AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound') AND m.disposition <> 'notice'
  AND ($3 IS NULL OR m.received_at >= $3)
  AND ($4 IS NULL OR m.received_at < $4)
  AND ($5 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM json_each($5) reader WHERE NOT EXISTS (SELECT 1 FROM thread_participants p
          WHERE p.thread_id = m.thread_id AND p.address = reader.value))))
ORDER BY bm25(messages_fts, 4.0, 2.0, 1.0), m.seq DESC
LIMIT $6";

/// Newest first.
pub(super) const SEARCH_MESSAGES_BY_DATE: &str = "
SELECT m.id, m.thread_id, m.direction, m.sender, m.recipients_json, m.subject, m.received_at, m.disposition,
       substr(m.text_body, 1, 600) AS snippet
FROM messages m
WHERE m.persona_id = $1 AND m.direction IN ('inbound', 'outbound') AND m.disposition <> 'notice'
  AND ($2 IS NULL OR m.received_at >= $2)
  AND ($3 IS NULL OR m.received_at < $3)
  AND ($4 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM json_each($4) reader WHERE NOT EXISTS (SELECT 1 FROM thread_participants p
          WHERE p.thread_id = m.thread_id AND p.address = reader.value))))
ORDER BY m.received_at DESC, m.seq DESC
LIMIT $5";

impl PersonaStore {
    /// Searches what this persona received and sent: best first when words are given, else newest first. Notices to the
    /// owner are not found: they tell of mail that whoever is answered may know nothing of.
    ///
    /// A word filter in which nothing can be searched for (only punctuation) finds nothing.
    pub async fn search_messages(&self, search: &MessageSearch) -> Result<Vec<FoundMessage>> {
        let since = search.since.map(|t| t.to_string());
        let before = search.before.map(|t| t.to_string());
        let readers =
            search.visible_to.as_ref().map(|readers| readers.iter().map(Address::key).collect::<Vec<_>>());
        let visible_to = readers.map(|keys| json_list(keys.iter().map(String::as_str)));
        let rows = match match_text(search) {
            MatchText::Impossible => return Ok(Vec::new()),
            MatchText::Words(words) => {
                let query = sqlx::query(SEARCH_MESSAGES_BY_WORDS).bind(words).bind(self.persona.as_str());
                let query = query.bind(since).bind(before).bind(visible_to).bind(search.limit);
                query.fetch_all(self.store.readers()).await?
            }
            MatchText::Anything => {
                let query = sqlx::query(SEARCH_MESSAGES_BY_DATE).bind(self.persona.as_str());
                let query = query.bind(since).bind(before).bind(visible_to).bind(search.limit);
                query.fetch_all(self.store.readers()).await?
            }
        };
        rows.iter().map(found_message).collect()
    }
}

fn found_message(row: &SqliteRow) -> Result<FoundMessage> {
    let received_at: String = row.try_get("received_at")?;
    Ok(FoundMessage {
        id: MessageId::new(row.try_get::<String, _>("id")?),
        thread_id: ThreadId::new(row.try_get::<String, _>("thread_id")?),
        direction: row.try_get("direction")?,
        sender: row.try_get("sender")?,
        recipients_json: row.try_get("recipients_json")?,
        subject: row.try_get("subject")?,
        received_at: Timestamp::parse(&received_at)
            .ok_or(StoreError::Unreadable { what: "messages.received_at" })?,
        disposition: row.try_get("disposition")?,
        snippet: row.try_get("snippet")?,
    })
}

/// The MATCH operand of a search.
#[derive(Debug, PartialEq, Eq)]
enum MatchText {
    /// No filter by words.
    Anything,
    Words(String),
    /// Some filter by words has no word in it, so nothing can match.
    Impossible,
}

fn match_text(search: &MessageSearch) -> MatchText {
    let filters = [("", &search.query), ("sender : ", &search.from), ("subject : ", &search.subject)];
    let mut parts = Vec::new();
    for (column, typed) in filters {
        let Some(typed) = typed else { continue };
        match all_of(typed) {
            Some(words) => parts.push(format!("({column}({words}))")),
            None => return MatchText::Impossible,
        }
    }
    if parts.is_empty() { MatchText::Anything } else { MatchText::Words(parts.join(" AND ")) }
}

/// MATCH text for a text of which every word must occur; `None` when it has no word.
pub(super) fn all_of(text: &str) -> Option<String> {
    // Neighbours without an operator mean AND, and unlike a written AND they forgive a string without tokens.
    joined(text.split_whitespace(), " ")
}

/// MATCH text for words of which at least one must occur; `None` when there is none.
pub(super) fn any_of<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<String> {
    joined(words, " OR ")
}

fn joined<'a>(words: impl IntoIterator<Item = &'a str>, operator: &str) -> Option<String> {
    let quoted: Vec<String> = words.into_iter().filter_map(quoted).take(WORDS_MAX).collect();
    (!quoted.is_empty()).then(|| quoted.join(operator))
}

/// One word as an FTS5 string (SQLite's "Full-text Query Syntax": `"` is doubled); `None` when it has nothing to
/// search for.
fn quoted(word: &str) -> Option<String> {
    let searchable = |c: &char| !c.is_control();
    let word: String = word.chars().filter(searchable).take(WORD_CHARS_MAX).collect();
    word.chars().any(char::is_alphanumeric).then(|| format!("\"{}\"", word.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_quoted_so_operators_are_words() {
        let cases = [
            ("late NEAR supper*", Some(r#""late" "NEAR" "supper*""#)),
            (r#"a" OR "b"#, Some(r#""a""" "OR" """b""#)),
            ("sender:x -y", Some(r#""sender:x" "-y""#)),
            ("a\0b", Some(r#""ab""#)),
            (" *** ( ) ", None),
            ("", None),
        ];
        for (typed, wanted) in cases {
            assert_eq!(all_of(typed).as_deref(), wanted, "{typed:?}");
        }
        assert_eq!(any_of(["rooms", "!", "supper"]).as_deref(), Some(r#""rooms" OR "supper""#));
    }

    #[test]
    fn filters_by_column_are_joined_and_a_wordless_one_finds_nothing() {
        let search = |query: Option<&str>, from: Option<&str>| MessageSearch {
            query: query.map(str::to_owned),
            from: from.map(str::to_owned),
            ..MessageSearch::default()
        };
        let both = match_text(&search(Some("late supper"), Some("carol@partner.test")));
        let wanted = r#"(("late" "supper")) AND (sender : ("carol@partner.test"))"#;
        assert_eq!(both, MatchText::Words(wanted.to_owned()));
        assert_eq!(match_text(&search(Some("?!"), Some("carol"))), MatchText::Impossible);
        assert_eq!(match_text(&search(None, None)), MatchText::Anything);
    }

    #[test]
    fn a_query_is_bounded() {
        let many = "word ".repeat(1000);
        assert_eq!(all_of(&many).map(|q| q.split(' ').count()), Some(WORDS_MAX));
    }
}
