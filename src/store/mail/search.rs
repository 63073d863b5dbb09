//! Full-text search over a persona's messages, and the only module that writes FTS5 query text.
//!
//! FTS5's MATCH operand is a query language: `NEAR`, `*`, `col:`, unbalanced quotes. Typed text
//! therefore never reaches it bare: every word becomes a quoted string, in which nothing is an
//! operator.

use crate::domain::{Address, MessageId, ThreadId, Timestamp};
use crate::store::sql::json_list;
use crate::store::{PersonaStore, Result, StoreError};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// Most words of one query; further ones are ignored.
const WORDS_MAX: usize = 32;
/// Most characters of one word.
const WORD_CHARS_MAX: usize = 64;

/// Most hits that are ranked; older ones are ignored.
const HITS_MAX: i64 = 256;
/// Most characters of an excerpt, and of these before the first hit.
const EXCERPT_CHARS: usize = 300;
const EXCERPT_BEFORE: usize = 80;
/// Number of newest messages that are searched first.
const LAST_MESSAGES: i64 = 10_000;
/// Factor by which each further step widens the search.
const WIDER: i64 = 3;

/// Filters of a search; `None` does not filter.
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
    /// Addresses that must all be allowed to read a message as participants of its thread, without
    /// messages that were withheld from them; `None` finds all messages.
    pub visible_to: Option<Vec<Address>>,
    /// Most messages to return.
    pub limit: u32,
}

/// A message that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMessage {
    pub id: MessageId,
    pub thread_id: ThreadId,
    /// `inbound` or `outbound`.
    pub direction: String,
    /// The From header in its display form.
    pub sender: String,
    /// `{"to": [..], "cc": [..], "reply_to": [..]}`
    pub recipients_json: String,
    pub subject: String,
    pub received_at: Timestamp,
    /// Disposition: `run`, `filed:<rule>`, `withheld:<rule>`, `sent`.
    pub disposition: String,
    /// A word of [`crate::domain::Trust`].
    pub trust: String,
    /// Text of the body around the hits, or its beginning; raw, at most 600 characters.
    pub snippet: String,
}

/// The newest messages with the words, after `$6` in the order of arrival. The index is scanned
/// backwards and only until there are enough: the total number of messages with the words makes no
/// difference.
pub(in crate::store) const NEWEST_HITS: &str = "
SELECT m.seq, m.subject, m.sender
FROM messages_fts f CROSS JOIN messages m ON m.seq = f.rowid
WHERE f.messages_fts MATCH $1 AND f.rowid > $6 AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition <> 'notice'
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
  AND ($5 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($5) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))))
ORDER BY f.rowid DESC LIMIT $7";

/// The messages with the words after `$7` and up to `$8`. Scanned forwards, because only so does
/// FTS5 skip to the next message that has a rare word.
pub(in crate::store) const EARLIER_HITS: &str = "
SELECT m.seq, m.subject, m.sender
FROM messages_fts f CROSS JOIN messages m ON m.seq = f.rowid
WHERE f.messages_fts MATCH $1 AND f.rowid > $7 AND f.rowid <= $8 AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition <> 'notice'
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
  AND ($5 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($5) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))))
ORDER BY +f.rowid DESC LIMIT $6";

/// Columns of the hits, in the requested order.
pub(in crate::store) const SHOW_HITS: &str = "
SELECT m.id, m.thread_id, m.direction, m.sender, m.recipients_json, m.subject, m.received_at, m.disposition,
       m.trust,
       substr(m.text_body, 1, 20000) AS snippet
FROM jsonb_each($1) hit CROSS JOIN messages m ON m.seq = hit.value ORDER BY hit.key";

pub(in crate::store) const LAST_SEQ: &str = "SELECT coalesce(max(seq), 0) FROM messages";

/// Newest first.
pub(in crate::store) const SEARCH_MESSAGES_BY_DATE: &str = "
SELECT m.id, m.thread_id, m.direction, m.sender, m.recipients_json, m.subject, m.received_at, m.disposition,
       m.trust,
       substr(m.text_body, 1, 600) AS snippet
FROM messages m
WHERE m.persona_id = $1 AND m.direction IN ('inbound', 'outbound') AND m.disposition <> 'notice'
  AND m.received_at >= coalesce($2, '') AND m.received_at < coalesce($3, '~')
  AND ($4 IS NULL OR (m.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($4) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = m.seq AND readable.address = reader.value))))
ORDER BY m.received_at DESC, m.seq DESC
LIMIT $5";

impl PersonaStore {
    /// Searches what this persona received and sent: best first when words are given, else newest
    /// first. Notices to the owner are not found: they describe mail that a correspondent may not
    /// know of.
    ///
    /// A word filter without a searchable word (only punctuation) finds nothing.
    pub async fn search_messages(&self, search: &MessageSearch) -> Result<Vec<FoundMessage>> {
        let since = search.since.map(|t| t.to_string());
        let before = search.before.map(|t| t.to_string());
        let readers = search
            .visible_to
            .as_ref()
            .map(|readers| readers.iter().map(Address::key).collect::<Vec<_>>());
        let visible_to = readers.map(|keys| json_list(keys.iter().map(String::as_str)));
        let rows = match match_text(search) {
            MatchText::Impossible => return Ok(Vec::new()),
            MatchText::Words(words) => {
                let times = (since.as_deref(), before.as_deref());
                let hits = self
                    .hits(&words, times, visible_to.as_deref(), search.limit)
                    .await?;
                let show = sqlx::query(SHOW_HITS).bind(ranked(hits, search));
                let rows = show.fetch_all(self.store.readers()).await?;
                let mut found = rows.iter().map(found_message).collect::<Result<Vec<_>>>()?;
                let words = search.query.as_deref().unwrap_or_default();
                found
                    .iter_mut()
                    .for_each(|found| found.snippet = excerpt(&found.snippet, words));
                return Ok(found);
            }
            MatchText::Anything => {
                let query = sqlx::query(SEARCH_MESSAGES_BY_DATE).bind(self.persona.as_str());
                let query = query
                    .bind(since)
                    .bind(before)
                    .bind(visible_to)
                    .bind(search.limit);
                query.fetch_all(self.store.readers()).await?
            }
        };
        rows.iter().map(found_message).collect()
    }
}

impl PersonaStore {
    /// Returns the newest messages with the words. Each step searches three times as far back,
    /// until there are enough: so that a word costs as much as its visible hits, and not as much as
    /// all messages that ever had it.
    async fn hits(
        &self,
        words: &str,
        (since, before): (Option<&str>, Option<&str>),
        visible_to: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Hit>> {
        let readers = self.store.readers();
        let last: i64 = sqlx::query_scalar(LAST_SEQ).fetch_one(readers).await?;
        let mut upper = last.saturating_sub(LAST_MESSAGES);
        let newest = sqlx::query(NEWEST_HITS)
            .bind(words)
            .bind(self.persona.as_str())
            .bind(since)
            .bind(before);
        let newest = newest
            .bind(visible_to)
            .bind(upper)
            .bind(HITS_MAX)
            .fetch_all(readers)
            .await?;
        let mut hits: Vec<Hit> = newest.iter().map(hit).collect();
        let mut span = LAST_MESSAGES;
        while hits.len() < limit as usize && upper > i64::MIN {
            span = span.saturating_mul(WIDER);
            let lower = last.saturating_sub(span);
            // Letters of an archive have numbers below 0; they are searched in the last step.
            let lower = if lower > 0 { lower } else { i64::MIN };
            let earlier = sqlx::query(EARLIER_HITS)
                .bind(words)
                .bind(self.persona.as_str())
                .bind(since)
                .bind(before);
            let earlier = earlier
                .bind(visible_to)
                .bind(HITS_MAX)
                .bind(lower)
                .bind(upper);
            hits.extend(earlier.fetch_all(readers).await?.iter().map(hit));
            upper = lower;
        }
        Ok(hits)
    }
}

struct Hit {
    seq: i64,
    subject: String,
    sender: String,
}

fn hit(row: &SqliteRow) -> Hit {
    Hit {
        seq: row.get("seq"),
        subject: row.get("subject"),
        sender: row.get("sender"),
    }
}

/// Ranks the best hits, as a JSON array of their numbers: a word in the subject weighs four times,
/// one in the sender twice as much as one in the body; among equals the newest comes first.
fn ranked(mut hits: Vec<Hit>, search: &MessageSearch) -> String {
    let query = search.query.as_deref().unwrap_or_default().to_lowercase();
    let words: Vec<&str> = query.split_whitespace().take(WORDS_MAX).collect();
    let weight = |hit: &Hit| -> u32 {
        let (subject, sender) = (hit.subject.to_lowercase(), hit.sender.to_lowercase());
        let weight_of = |word: &&str| match (subject.contains(word), sender.contains(word)) {
            (true, _) => 4,
            (false, true) => 2,
            (false, false) => 1,
        };
        words.iter().map(weight_of).sum()
    };
    hits.sort_by_cached_key(|hit| std::cmp::Reverse((weight(hit), hit.seq)));
    let best = hits.iter().take(search.limit as usize).map(|hit| hit.seq);
    serde_json::Value::from_iter(best).to_string()
}

/// Returns the text around the first of the words that occurs, or the beginning. FTS5's own
/// `snippet` would begin the search anew for every message, from the first one that has the words.
fn excerpt(text: &str, words: &str) -> String {
    let lower = |c: char| c.to_lowercase().next().unwrap_or(c);
    let (text, small): (Vec<char>, Vec<char>) = text.chars().map(|c| (c, lower(c))).unzip();
    // Words match in other forms too, so their stems count when they do not occur as they are.
    let stem = |word: &str, cut: usize| -> Vec<char> {
        let word: Vec<char> = word
            .chars()
            .filter(|c| c.is_alphanumeric())
            .map(lower)
            .collect();
        let kept = word.len().saturating_sub(cut).max(word.len().min(4));
        word[..kept].to_vec()
    };
    let occurs = |cut: usize| {
        let stems = words
            .split_whitespace()
            .map(|word| stem(word, cut))
            .filter(|stem| !stem.is_empty());
        stems
            .filter_map(|stem| small.windows(stem.len()).position(|piece| piece == stem))
            .min()
    };
    let at = occurs(0).or_else(|| occurs(3)).unwrap_or(0);
    let begins = |from: usize| {
        text[from..at]
            .iter()
            .position(|c| c.is_whitespace())
            .map_or(at, |n| from + n + 1)
    };
    let start = if at <= EXCERPT_BEFORE {
        0
    } else {
        begins(at - EXCERPT_BEFORE)
    };
    let end = text.len().min(start + EXCERPT_CHARS);
    let piece: String = text[start..end].iter().collect();
    let mark = |is_cut: bool| if is_cut { " … " } else { "" };
    format!("{}{piece}{}", mark(start > 0), mark(end < text.len()))
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
        received_at: Timestamp::parse(&received_at).ok_or(StoreError::Unreadable {
            what: "messages.received_at",
        })?,
        disposition: row.try_get("disposition")?,
        trust: row.try_get("trust")?,
        snippet: row.try_get("snippet")?,
    })
}

/// The MATCH operand of a search.
#[derive(Debug, PartialEq, Eq)]
enum MatchText {
    /// No filter by words.
    Anything,
    Words(String),
    /// A filter by words has no searchable word, so that no message can match.
    Impossible,
}

fn match_text(search: &MessageSearch) -> MatchText {
    let filters = [
        ("", &search.query),
        ("sender : ", &search.from),
        ("subject : ", &search.subject),
    ];
    let mut parts = Vec::new();
    for (column, typed) in filters {
        let Some(typed) = typed else { continue };
        match all_of(typed) {
            Some(words) => parts.push(format!("({column}({words}))")),
            None => return MatchText::Impossible,
        }
    }
    if parts.is_empty() {
        MatchText::Anything
    } else {
        MatchText::Words(parts.join(" AND "))
    }
}

/// Returns MATCH text for a text of which every word must occur; `None` when it has no word.
pub(in crate::store) fn all_of(text: &str) -> Option<String> {
    // Neighbours without an operator mean AND, and unlike a written AND they accept a string
    // without tokens.
    joined(text.split_whitespace(), " ")
}

/// Returns MATCH text for words of which at least one must occur; `None` when there is none.
pub(in crate::store) fn any_of<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<String> {
    joined(words, " OR ")
}

fn joined<'a>(words: impl IntoIterator<Item = &'a str>, operator: &str) -> Option<String> {
    let quoted: Vec<String> = words
        .into_iter()
        .filter_map(quoted)
        .take(WORDS_MAX)
        .collect();
    (!quoted.is_empty()).then(|| quoted.join(operator))
}

/// Formats one word as an FTS5 string (SQLite's "Full-text Query Syntax": `"` is doubled); `None`
/// when it has nothing to search for.
fn quoted(word: &str) -> Option<String> {
    let searchable = |c: &char| !c.is_control();
    let word: String = word
        .chars()
        .filter(searchable)
        .take(WORD_CHARS_MAX)
        .collect();
    word.chars()
        .any(char::is_alphanumeric)
        .then(|| format!("\"{}\"", word.replace('"', "\"\"")))
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
        assert_eq!(
            any_of(["rooms", "!", "supper"]).as_deref(),
            Some(r#""rooms" OR "supper""#)
        );
    }

    #[test]
    fn column_filters_are_joined_and_a_wordless_one_finds_nothing() {
        let search = |query: Option<&str>, from: Option<&str>| MessageSearch {
            query: query.map(str::to_owned),
            from: from.map(str::to_owned),
            ..MessageSearch::default()
        };
        let both = match_text(&search(Some("late supper"), Some("carol@partner.test")));
        let wanted = r#"(("late" "supper")) AND (sender : ("carol@partner.test"))"#;
        assert_eq!(both, MatchText::Words(wanted.to_owned()));
        assert_eq!(
            match_text(&search(Some("?!"), Some("carol"))),
            MatchText::Impossible
        );
        assert_eq!(match_text(&search(None, None)), MatchText::Anything);
    }

    #[test]
    fn an_excerpt_begins_near_the_first_word_or_another_form_of_it() {
        let long = format!(
            "{} rooms with a view {}",
            "before ".repeat(40),
            "after ".repeat(80)
        );
        let cut = excerpt(&long, "ROOM");
        assert!(
            cut.starts_with(" … before") && cut.contains("rooms with") && cut.ends_with(" … "),
            "{cut}"
        );
        assert_eq!(cut.chars().count(), EXCERPT_CHARS + 6);
        assert!(excerpt(&long, "viewing").contains("a view"));
        assert_eq!(excerpt("short für alle", "nothing"), "short für alle");
        assert_eq!(excerpt("", "x"), "");
    }

    #[test]
    fn a_query_is_bounded() {
        let many = "word ".repeat(1000);
        assert_eq!(all_of(&many).map(|q| q.split(' ').count()), Some(WORDS_MAX));
    }
}
