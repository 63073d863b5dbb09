//! Search over a persona's messages: by words, best first, or by filters, newest first.
//!
//! Every number that an order depends on is counted among the messages that the readers of the answer may see: how many
//! there are, how many have a word, what stands beside one. So what others write changes nothing for them.

use super::found::FoundMessage;
use super::match_text::{MatchText, all, in_threads, query_words, with_part, within};
use super::ranking::{
    CandidateFacts, Ranking, SHARE_MIN, TermDocuments, TermListing, candidates, counted, rank,
};
use super::received::{ReceivedLetter, of_named};
use super::scope::{MessageSearch, SearchScope};
use super::vectors::QuestionVector;
use crate::domain::MessageId;
use crate::store::db::{self, Query, Row, Sql, TextPair};
use crate::store::sql::{from_json, instant, json_list, to_i64};
use crate::store::{PersonaStore, Result};
use crate::text::word_parts::{WantedPart, wanted_part};
use futures_util::future::try_join_all;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Most messages that are read for all words in a search of all mail, the newest with each, and bounds for one word. Of a
/// word that more have, how many have it is estimated.
const ROWS_MAX: usize = 1_500;
const NEWEST: [usize; 2] = [75, 300];
/// Number of words that are looked up at a time.
const LOOKED_UP: usize = 2;
/// Most messages that are read for one word in a search for some readers.
const READABLE_MAX: i64 = 5_000;
/// Most threads of readers that are searched: the newest.
const THREADS_MAX: i64 = 400;
/// Number up to which messages are counted: beyond it, rarer is rare enough.
const COUNTED_MAX: i64 = 10_000;
/// Most messages whose neighbours are looked at: those with the most and rarest words of their own.
const CANDIDATES_MAX: usize = 64;
/// Number of messages before and after one in its thread that count as beside it.
const NEAR: usize = 2;

/// The newest messages with a word, from the newest on and only until there are enough.
const NEWEST_WITH: Sql = Sql::pair(
    "
SELECT m.seq, m.received_at
FROM letter_words f CROSS JOIN messages m
WHERE m.seq = f.rowid AND f.letter_words MATCH $1 AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition NOT IN ('notice', 'filed:command')
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
ORDER BY f.rowid DESC LIMIT $5",
    "
SELECT m.seq, m.received_at
FROM letter_words f JOIN messages m ON m.seq = f.seq
WHERE f.words @@ CAST($1 AS TSQUERY) AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition NOT IN ('notice', 'filed:command')
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
ORDER BY f.seq DESC LIMIT $5",
);

/// The messages with a word that all readers may see, in threads that are named in the MATCH text. Scanned
/// forwards, because only so does FTS5 skip to the next message of these threads.
const READABLE_WITH: Sql = Sql::pair(
    "
SELECT m.seq, m.received_at
FROM letter_words f CROSS JOIN messages m
WHERE m.seq = f.rowid AND f.letter_words MATCH $1 AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition NOT IN ('notice', 'filed:command') AND m.disposition NOT LIKE 'withheld:%'
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
  AND NOT EXISTS (SELECT 1 FROM jsonb_each($6) reader WHERE NOT EXISTS (SELECT 1 FROM readable
    WHERE readable.seq = m.seq AND readable.address = reader.value))
ORDER BY f.rowid LIMIT $5",
    "
SELECT m.seq, m.received_at
FROM letter_words f JOIN messages m ON m.seq = f.seq
WHERE f.words @@ CAST($1 AS TSQUERY) AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition NOT IN ('notice', 'filed:command') AND m.disposition NOT LIKE 'withheld:%'
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
  AND NOT EXISTS (SELECT 1 FROM jsonb_each($6) reader WHERE NOT EXISTS (SELECT 1 FROM readable
    WHERE readable.seq = m.seq AND readable.address = reader.value))
ORDER BY f.seq LIMIT $5",
);

/// The same as [`NEWEST_WITH`] for a part of words; `$6`: MATCH text of the index of words that must hold, too.
const NEWEST_WITH_PART: Sql = Sql::pair(
    "
SELECT m.seq, m.received_at
FROM letter_parts f CROSS JOIN messages m
WHERE m.seq = f.rowid AND f.letter_parts MATCH $1 AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition NOT IN ('notice', 'filed:command')
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
  AND ($6 IS NULL OR EXISTS (SELECT 1 FROM letter_words w WHERE w.letter_words MATCH $6 AND w.rowid = m.seq))
ORDER BY f.rowid DESC LIMIT $5",
    "
SELECT m.seq, m.received_at
FROM letter_parts f JOIN messages m ON m.seq = f.seq
WHERE f.words @@ CAST($1 AS TSQUERY) AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition NOT IN ('notice', 'filed:command')
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
  AND ($6 IS NULL OR EXISTS (SELECT 1 FROM letter_words w WHERE w.words @@ CAST($6 AS TSQUERY) AND w.seq = m.seq))
ORDER BY f.seq DESC LIMIT $5",
);

/// The same as [`READABLE_WITH`] for a part of words; `$7` as `$6` of [`NEWEST_WITH_PART`].
const READABLE_WITH_PART: Sql = Sql::pair(
    "
SELECT m.seq, m.received_at
FROM letter_parts f CROSS JOIN messages m
WHERE m.seq = f.rowid AND f.letter_parts MATCH $1 AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition NOT IN ('notice', 'filed:command') AND m.disposition NOT LIKE 'withheld:%'
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
  AND NOT EXISTS (SELECT 1 FROM jsonb_each($6) reader WHERE NOT EXISTS (SELECT 1 FROM readable
    WHERE readable.seq = m.seq AND readable.address = reader.value))
  AND ($7 IS NULL OR EXISTS (SELECT 1 FROM letter_words w WHERE w.letter_words MATCH $7 AND w.rowid = m.seq))
ORDER BY f.rowid LIMIT $5",
    "
SELECT m.seq, m.received_at
FROM letter_parts f JOIN messages m ON m.seq = f.seq
WHERE f.words @@ CAST($1 AS TSQUERY) AND m.persona_id = $2 AND m.direction IN ('inbound', 'outbound')
  AND m.disposition NOT IN ('notice', 'filed:command') AND m.disposition NOT LIKE 'withheld:%'
  AND m.received_at >= coalesce($3, '') AND m.received_at < coalesce($4, '~')
  AND NOT EXISTS (SELECT 1 FROM jsonb_each($6) reader WHERE NOT EXISTS (SELECT 1 FROM readable
    WHERE readable.seq = m.seq AND readable.address = reader.value))
  AND ($7 IS NULL OR EXISTS (SELECT 1 FROM letter_words w WHERE w.words @@ CAST($7 AS TSQUERY) AND w.seq = m.seq))
ORDER BY f.seq LIMIT $5",
);

/// Threads that the first reader is in, the newest first.
const THREADS_OF: &str = "
SELECT t.id FROM thread_participants p CROSS JOIN threads t
WHERE t.id = p.thread_id AND p.address = $1 AND t.persona_id = $2 ORDER BY t.updated_at DESC LIMIT $3";

/// The number of messages that can be found, counted up to a limit.
const COUNT_ALL: &str = "
SELECT count(*) FROM (SELECT 1 FROM messages WHERE persona_id = $1 LIMIT $2) AS letters";

/// The number of messages in these threads that all readers may see, counted up to a limit.
const COUNT_READABLE: &str = "
SELECT count(*) FROM (SELECT 1 FROM jsonb_each($1) t CROSS JOIN messages m
  WHERE m.thread_id = t.value AND m.disposition NOT IN ('notice', 'filed:command') AND m.disposition NOT LIKE 'withheld:%'
    AND NOT EXISTS (SELECT 1 FROM jsonb_each($2) reader WHERE NOT EXISTS (SELECT 1 FROM readable
      WHERE readable.seq = m.seq AND readable.address = reader.value))
  LIMIT $3) AS letters";

/// The four messages before and after each of `$1` in its thread, as far as all readers may see them.
const NEIGHBOURS: &str = "
SELECT m.seq,
  (SELECT json_group_array(b.seq) FROM (SELECT n.seq FROM messages n
    WHERE n.thread_id = m.thread_id AND n.seq < m.seq AND n.direction IN ('inbound', 'outbound') AND n.disposition NOT IN ('notice', 'filed:command')
      AND ($2 IS NULL OR (n.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($2) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = n.seq AND readable.address = reader.value))))
    ORDER BY n.seq DESC LIMIT 4) b) AS before_json,
  (SELECT json_group_array(a.seq) FROM (SELECT n.seq FROM messages n
    WHERE n.thread_id = m.thread_id AND n.seq > m.seq AND n.direction IN ('inbound', 'outbound') AND n.disposition NOT IN ('notice', 'filed:command')
      AND ($2 IS NULL OR (n.disposition NOT LIKE 'withheld:%' AND NOT EXISTS (
        SELECT 1 FROM jsonb_each($2) reader WHERE NOT EXISTS (SELECT 1 FROM readable
          WHERE readable.seq = n.seq AND readable.address = reader.value))))
    ORDER BY n.seq LIMIT 4) a) AS after_json
FROM jsonb_each($1) h CROSS JOIN messages m WHERE m.seq = CAST(h.value AS BIGINT)";

/// When messages came, and from whom.
const RECEIVED: &str = "
SELECT m.seq, m.received_at, m.sender FROM jsonb_each($1) h CROSS JOIN messages m WHERE m.seq = CAST(h.value AS BIGINT)";

const NUMBER_OF: &str = "SELECT m.seq FROM messages m WHERE m.id = $1 AND m.persona_id = $2";

/// Newest first.
const SEARCH_MESSAGES_BY_DATE: &str = "
SELECT m.id, m.thread_id, m.direction, m.sender, m.recipients_json, m.subject, m.received_at, m.disposition,
       m.trust,
       substr(m.text_body, 1, 600) AS snippet
FROM messages m
WHERE m.persona_id = $1 AND m.direction IN ('inbound', 'outbound') AND m.disposition NOT IN ('notice', 'filed:command')
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
    /// A message is found when it has a word of the query; the more and the rarer, the better. When
    /// even the best has too little of the query, nothing is found. A word filter without a searchable
    /// word (only punctuation) finds nothing.
    pub async fn search_messages(&self, search: &MessageSearch) -> Result<Vec<FoundMessage>> {
        self.search_with_vector(search, None, std::future::ready(None))
            .await
    }

    /// Searches as [`Self::search_messages`]; where words find something, the order of vectors counts as much. `question`
    /// is awaited only then; `None` leaves the order to the words. `asks`: the message in which the question came, which has
    /// its words and is no answer to it.
    pub async fn search_with_vector(
        &self,
        search: &MessageSearch,
        asks: Option<&MessageId>,
        question: impl Future<Output = Option<QuestionVector>>,
    ) -> Result<Vec<FoundMessage>> {
        let scope = SearchScope::of(search);
        let Some(columns) = search.columns() else {
            return Ok(Vec::new());
        };
        if search.query.is_none() && columns.is_empty() {
            return self.newest(&scope, search.limit).await;
        }
        self.store.index_new_letters().await?;
        let words = query_words(search.query.as_deref().unwrap_or_default());
        let Some(filters) = self.limited(columns, words.len(), &scope).await? else {
            return Ok(Vec::new());
        };
        let mut is_answered = false;
        let mut hits: Vec<i64> = match &search.query {
            Some(_) => {
                let ranking = self.ranking(&words, &filters, &scope, asks).await?;
                is_answered = ranking.share_of_others >= SHARE_MIN;
                let best = ranking.hits.into_iter().map(|(seq, _)| seq);
                best.filter(|_| ranking.share >= SHARE_MIN).collect()
            }
            None => match all(&filters.all()) {
                Some(matching) => self.with(matching, &filters, &scope).await?.documents,
                None => Vec::new(),
            },
        };
        if is_answered && let Some(question) = question.await {
            hits = self.fused(search, &hits, &question).await?;
        }
        let best = hits.into_iter().take(search.limit as usize);
        self.shown(best, &words).await
    }

    async fn newest(&self, scope: &SearchScope, limit: u32) -> Result<Vec<FoundMessage>> {
        self.all(
            SEARCH_MESSAGES_BY_DATE,
            (
                &self.persona,
                &scope.since,
                &scope.before,
                &scope.readers_json,
                limit,
            ),
        )
        .await
    }

    /// Returns the numbers of messages with words of the query and their scores, however little of the query the best
    /// has; filters of columns are left out.
    pub async fn rank_messages(&self, search: &MessageSearch) -> Result<Ranking> {
        self.store.index_new_letters().await?;
        let scope = SearchScope::of(search);
        let words = query_words(search.query.as_deref().unwrap_or_default());
        let Some(filters) = self.limited(Vec::new(), words.len(), &scope).await? else {
            return Ok(Ranking::default());
        };
        self.ranking(&words, &filters, &scope, None).await
    }

    async fn ranking(
        &self,
        words: &[String],
        filters: &Filters,
        scope: &SearchScope,
        asks: Option<&MessageId>,
    ) -> Result<Ranking> {
        let mut lists = Vec::with_capacity(words.len());
        for words in words.chunks(LOOKED_UP) {
            let mut looked_up = Vec::with_capacity(LOOKED_UP);
            for word in words {
                looked_up.push(self.with_word(word, filters, scope));
            }
            lists.extend(try_join_all(looked_up).await?);
        }
        let terms = counted(lists, filters.total);
        let seeds = candidates(&terms, filters.total, CANDIDATES_MAX);
        let (found, near) = self.neighbours(&seeds, &terms, scope).await?;
        let around: BTreeSet<i64> = near.values().flatten().chain(&found).copied().collect();
        let letters = self.received(&around).await?;
        let facts = CandidateFacts {
            of_named: of_named(words, &letters),
            near,
            asks: match asks {
                Some(id) => self.number_of(id).await?,
                None => None,
            },
        };
        let mut ranking = rank(&terms, filters.total, &found, &facts);
        let times = found
            .iter()
            .filter_map(|seq| Some((*seq, letters.get(seq)?.at_ms)));
        ranking.prefer_recent(&times.collect());
        Ok(ranking)
    }

    /// Returns the number of a message; `None`: there is none of that id.
    async fn number_of(&self, id: &MessageId) -> Result<Option<i64>> {
        self.maybe(NUMBER_OF, (id, &self.persona)).await
    }

    /// Returns when each of the messages came, and from whom.
    async fn received(&self, seqs: &BTreeSet<i64>) -> Result<HashMap<i64, ReceivedLetter>> {
        let seqs = serde_json::Value::from_iter(seqs.iter().copied()).to_string();
        let rows = self.rows(RECEIVED, seqs).await?;
        let letter = |row: &Row| -> Result<(i64, ReceivedLetter)> {
            let letter = ReceivedLetter {
                at_ms: instant(row.get("received_at"))?.as_millis(),
                sender: row.get("sender"),
            };
            Ok((row.get("seq"), letter))
        };
        rows.iter().map(letter).collect()
    }

    /// Adds the filter of the readers' threads to the others, and counts what they may see; `None` when they are in no
    /// thread.
    async fn limited(
        &self,
        columns: Vec<MatchText>,
        words: usize,
        scope: &SearchScope,
    ) -> Result<Option<Filters>> {
        let (persona, readers) = (self.persona.as_str(), self.store.readers());
        let mut in_these = Vec::new();
        let total: i64 = match &scope.readers {
            None => readers.one(COUNT_ALL, (persona, COUNTED_MAX)).await?,
            Some(keys) => {
                let threads: Vec<String> = readers
                    .all(THREADS_OF, (keys.first(), persona, THREADS_MAX))
                    .await?;
                let Some(filter) = in_threads(&threads) else {
                    return Ok(None);
                };
                in_these.push(filter);
                let threads = json_list(threads.iter());

                readers
                    .one(COUNT_READABLE, (threads, &scope.readers_json, COUNTED_MAX))
                    .await?
            }
        };
        Ok(Some(Filters {
            columns,
            threads: in_these,
            total: total as f64,
            rows_max: match scope.readers {
                None => to_i64((ROWS_MAX / words.max(1)).clamp(NEWEST[0], NEWEST[1])),
                Some(_) => READABLE_MAX,
            },
        }))
    }

    /// Returns the messages with a word, or with a code or a run that it is a part of.
    async fn with_word(
        &self,
        word: &str,
        filters: &Filters,
        scope: &SearchScope,
    ) -> Result<TermListing> {
        let part = wanted_part(word);
        let mut found = TermListing::default();
        if part.as_ref().is_none_or(|part| part.is_word) {
            found = self
                .with(within(word, &filters.all()), filters, scope)
                .await?;
        }
        if let Some(part) = part {
            found = found.or(self.part_with(&part, filters, scope).await?);
        }
        Ok(found)
    }

    /// Returns the messages that match and that the readers may see.
    async fn with(
        &self,
        matching: MatchText,
        filters: &Filters,
        scope: &SearchScope,
    ) -> Result<TermListing> {
        let limit = filters.rows_max;
        let query = self.listed((NEWEST_WITH, READABLE_WITH), (matching, limit), scope);
        listing(&query.rows(self.store.readers()).await?, limit)
    }

    async fn part_with(
        &self,
        part: &WantedPart,
        filters: &Filters,
        scope: &SearchScope,
    ) -> Result<TermListing> {
        let matching = with_part(part, &filters.threads);
        let statements = (NEWEST_WITH_PART, READABLE_WITH_PART);
        let limit = filters.rows_max;
        let query = self.listed(statements, (matching, limit), scope);
        let query = query.bind(all(&filters.columns).map(TextPair::from));
        listing(&query.rows(self.store.readers()).await?, limit)
    }

    /// Binds the statement for all mail, or that for some readers.
    fn listed(
        &self,
        (newest, readable): (Sql, Sql),
        (matching, limit): (MatchText, i64),
        scope: &SearchScope,
    ) -> Query {
        let sql = match scope.readers {
            None => newest,
            Some(_) => readable,
        };
        let query = db::query(sql).bind((
            TextPair::from(matching),
            &self.persona,
            &scope.since,
            &scope.before,
            limit,
        ));
        match scope.readers {
            None => query,
            Some(_) => query.bind(&scope.readers_json),
        }
    }

    /// Returns the candidates with those beside them that have a word themselves, and for each what is beside it.
    async fn neighbours(
        &self,
        seeds: &[i64],
        terms: &[TermDocuments],
        scope: &SearchScope,
    ) -> Result<(Vec<i64>, HashMap<i64, Vec<i64>>)> {
        let own: HashSet<i64> = terms
            .iter()
            .flat_map(|term| &term.documents)
            .copied()
            .collect();
        let seqs = serde_json::Value::from_iter(seeds.iter().copied()).to_string();
        let rows = self.rows(NEIGHBOURS, (seqs, &scope.readers_json)).await?;
        let (mut found, mut near) = (BTreeSet::new(), HashMap::new());
        for row in &rows {
            let mut thread: Vec<i64> = from_json(row.get("before_json"), "numbers")?;
            thread.reverse();
            let at = thread.len();
            thread.push(row.get("seq"));
            let after: Vec<i64> = from_json(row.get("after_json"), "numbers")?;
            thread.extend(after);
            for place in at.saturating_sub(NEAR)..(at + NEAR + 1).min(thread.len()) {
                if !own.contains(&thread[place]) {
                    continue;
                }
                found.insert(thread[place]);
                let beside = thread[place.saturating_sub(NEAR)..place].iter();
                let after = (place + NEAR + 1).min(thread.len());
                let beside = beside.chain(&thread[place + 1..after]);
                near.insert(thread[place], beside.copied().collect());
            }
        }
        Ok((found.into_iter().collect(), near))
    }
}

/// Parts of the query that are the same for every word.
struct Filters {
    /// Of columns that only the index of words has.
    columns: Vec<MatchText>,
    threads: Vec<MatchText>,
    /// Number of messages that can be found.
    total: f64,
    /// Most messages that are read for one word.
    rows_max: i64,
}

impl Filters {
    fn all(&self) -> Vec<MatchText> {
        [&self.columns[..], &self.threads].concat()
    }
}

/// Returns what the rows of a word list; as many rows as `limit` are not all.
fn listing(rows: &[Row], limit: i64) -> Result<TermListing> {
    let at = |row: &Row| -> Result<i64> { Ok(instant(row.get("received_at"))?.as_millis()) };
    let times = (
        rows.first().map(at).transpose()?,
        rows.last().map(at).transpose()?,
    );
    let mut documents: Vec<i64> = rows.iter().map(|row| row.get("seq")).collect();
    documents.sort_unstable_by(|a, b| b.cmp(a));
    Ok(TermListing {
        is_cut: rows.len() as i64 == limit,
        documents,
        span_ms: times.0.zip(times.1),
    })
}
