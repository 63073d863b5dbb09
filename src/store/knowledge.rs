//! The index of a persona's knowledge files: the indexed version of each file, and its pieces for
//! search.
//!
//! Absent on purpose: reading files and cutting them into pieces; that is the resolver's work.

use crate::store::db::{Connection, Row, Sql};
use crate::store::search::match_text::{MatchText, anywhere, listed};
use crate::store::search::ranking::{CandidateFacts, TermListing, candidates, counted, rank};
use crate::store::{PersonaStore, Result};
use std::collections::{BTreeMap, HashMap};

/// Most occurrences of terms in pieces that a search reads.
const PLACES_MAX: i64 = 50_000;
/// Most pieces that are scored.
const CANDIDATES_MAX: usize = 256;
/// Most files that the contents list, and most headings of one.
const FILES_LISTED: usize = 60;
const HEADINGS_LISTED: usize = 8;
/// Most pieces whose headings are looked at. Knowledge with more is not small.
const PIECES_LISTED: i64 = 400;
/// Number of pieces before and after one in its file that count as beside it.
const NEAR: i64 = 2;

/// State of a file when it was indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeFile {
    /// Path below the persona's folder, for example `knowledge/rooms.md`.
    pub path: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Its modification time in Unix milliseconds; 0 when that time cannot be relied on.
    pub modified_ms: i64,
    pub size_bytes: i64,
}

/// A piece of a file, small enough to be quoted in a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeChunk {
    /// The headings above it, outermost first, joined by ` > `; empty before the first heading.
    pub heading: String,
    /// Text in Markdown.
    pub body: String,
}

/// A piece that matches a search.
#[derive(Debug, Clone, PartialEq)]
pub struct KnowledgeHit {
    pub path: String,
    pub heading: String,
    pub body: String,
    /// Its place in its file.
    pub position: i64,
    /// The lower, the better; never above 0.
    pub rank: f64,
}

/// What a persona's knowledge holds: its files, and all of their pieces where they are few.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnowledgeContents {
    /// Paths in order, each with its outermost headings; the first [`FILES_LISTED`] files.
    pub files: Vec<(String, Vec<String>)>,
    /// Number of further files.
    pub more_files: usize,
    /// Characters of all pieces with their paths and headings; `None`: more pieces than were looked at.
    pub chars: Option<usize>,
    /// All pieces in the order of their files, with the rank 0; empty where they are longer than was asked for.
    pub pieces: Vec<KnowledgeHit>,
}

impl KnowledgeContents {
    /// Reports whether all pieces have at most so many characters together.
    pub fn fits(&self, chars_max: usize) -> bool {
        self.chars.is_some_and(|chars| chars <= chars_max)
    }
}

pub(super) const KNOWLEDGE_FILES: &str = "
SELECT path, sha256, modified_ms, size_bytes FROM knowledge_files WHERE persona_id = $1 ORDER BY path";

pub(super) const PUT_KNOWLEDGE_FILE: &str = "
INSERT INTO knowledge_files (persona_id, path, sha256, modified_ms, size_bytes) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (persona_id, path) DO UPDATE
SET sha256 = excluded.sha256, modified_ms = excluded.modified_ms, size_bytes = excluded.size_bytes";

pub(super) const DELETE_KNOWLEDGE_FILE: &str = "
DELETE FROM knowledge_files WHERE persona_id = $1 AND path = $2";

pub(super) const DELETE_KNOWLEDGE_CHUNKS: &str = "
DELETE FROM knowledge_chunks WHERE persona_id = $1 AND path = $2";

pub(super) const INSERT_KNOWLEDGE_CHUNK: &str = "
INSERT INTO knowledge_chunks (persona_id, path, chunk_index, heading, body) VALUES ($1, $2, $3, $4, $5)";

/// The pieces that have each term, of which `$1` lists the queries.
pub(super) const KNOWLEDGE_WITH: Sql = Sql::pair(
    "
SELECT t.key AS term, c.seq, c.path, c.chunk_index
FROM jsonb_each($1) t CROSS JOIN knowledge_fts f CROSS JOIN knowledge_chunks c
WHERE c.seq = f.rowid AND f.knowledge_fts MATCH t.value AND c.persona_id = $2
LIMIT $3",
    "
SELECT t.key AS term, c.seq, c.path, c.chunk_index
FROM jsonb_each($1) t JOIN knowledge_fts f ON f.words @@ CAST(t.value AS TSQUERY) JOIN knowledge_chunks c ON c.seq = f.seq
WHERE c.persona_id = $2
LIMIT $3",
);

pub(super) const COUNT_KNOWLEDGE: &str = "
SELECT count(*) FROM knowledge_chunks WHERE persona_id = $1";

/// Where pieces begin to be read: their headings and lengths, in the order of their files.
pub(super) const KNOWLEDGE_OUTLINE: &str = "
SELECT path, heading, CAST(length(body) AS BIGINT) AS chars FROM knowledge_chunks
WHERE persona_id = $1 ORDER BY path, chunk_index LIMIT $2";

pub(super) const WHOLE_KNOWLEDGE: &str = "
SELECT path, heading, chunk_index, body FROM knowledge_chunks
WHERE persona_id = $1 ORDER BY path, chunk_index LIMIT $2";

pub(super) const SHOW_KNOWLEDGE: &str = "
SELECT c.seq, c.path, c.heading, c.chunk_index, c.body FROM jsonb_each($1) hit CROSS JOIN knowledge_chunks c
WHERE c.seq = CAST(hit.value AS BIGINT) AND c.persona_id = $2 ORDER BY hit.key";

/// A negative number merges segments of all levels, that many pages at most (fts5.html, section 6.8). The index of PostgreSQL
/// has no segments.
pub(super) const MERGE_KNOWLEDGE: Sql = Sql::pair(
    "
INSERT INTO knowledge_fts (knowledge_fts, rank) VALUES ('merge', -1000)",
    "SELECT 1",
);

impl PersonaStore {
    /// Returns every indexed file, by path.
    pub async fn knowledge_state(&self) -> Result<Vec<KnowledgeFile>> {
        let rows = self.rows(KNOWLEDGE_FILES, &self.persona).await?;
        let file = |row: &Row| {
            Ok(KnowledgeFile {
                path: row.try_get("path")?,
                sha256: row.try_get("sha256")?,
                modified_ms: row.try_get("modified_ms")?,
                size_bytes: row.try_get("size_bytes")?,
            })
        };
        rows.iter().map(file).collect()
    }

    /// Returns what the knowledge holds; all of its pieces if they have at most `chars_max` characters together.
    pub async fn knowledge_contents(&self, chars_max: usize) -> Result<KnowledgeContents> {
        let (persona, readers) = (self.persona.as_str(), self.store.readers());
        let files = self.knowledge_state().await?;
        let mut contents = KnowledgeContents {
            more_files: files.len().saturating_sub(FILES_LISTED),
            files: files
                .into_iter()
                .take(FILES_LISTED)
                .map(|file| (file.path, Vec::new()))
                .collect(),
            chars: None,
            pieces: Vec::new(),
        };
        let rows = readers
            .rows(KNOWLEDGE_OUTLINE, (persona, PIECES_LISTED))
            .await?;
        let mut chars = 0_usize;
        for row in &rows {
            let (path, heading): (String, String) = (row.try_get("path")?, row.try_get("heading")?);
            let length: i64 = row.try_get("chars")?;
            chars = chars.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
            chars = chars.saturating_add(path.chars().count() + heading.chars().count());
            let outermost = heading.split(" > ").next().unwrap_or_default();
            if let Some((_, headings)) = contents.files.iter_mut().find(|(of, _)| *of == path)
                && !outermost.is_empty()
                && headings.len() < HEADINGS_LISTED
                && !headings.iter().any(|known| known == outermost)
            {
                headings.push(outermost.to_owned());
            }
        }
        let is_whole = rows.len() < usize::try_from(PIECES_LISTED).unwrap_or(usize::MAX);
        contents.chars = is_whole.then_some(chars);
        if contents.fits(chars_max) {
            let rows = readers
                .rows(WHOLE_KNOWLEDGE, (persona, PIECES_LISTED))
                .await?;
            let piece = |row: &Row| {
                Ok(KnowledgeHit {
                    path: row.try_get("path")?,
                    heading: row.try_get("heading")?,
                    body: row.try_get("body")?,
                    position: row.try_get("chunk_index")?,
                    rank: 0.0,
                })
            };
            contents.pieces = rows.iter().map(piece).collect::<Result<_>>()?;
        }
        Ok(contents)
    }

    /// Replaces the indexed pieces of a file.
    pub async fn replace_knowledge_file(
        &self,
        file: KnowledgeFile,
        chunks: Vec<KnowledgeChunk>,
    ) -> Result<()> {
        let persona = self.persona.clone();
        transact!(self, |conn| {
            conn.exec(DELETE_KNOWLEDGE_CHUNKS, (&persona, &file.path))
                .await?;
            for (index, chunk) in (0_i64..).zip(&chunks) {
                conn.exec(
                    INSERT_KNOWLEDGE_CHUNK,
                    (&persona, &file.path, index, &chunk.heading, &chunk.body),
                )
                .await?;
            }
            put_file(conn, persona.as_str(), &file).await
        })
        .await
    }

    /// Records another modification time or size of a file whose pieces are still right.
    pub async fn touch_knowledge_file(&self, file: KnowledgeFile) -> Result<()> {
        let persona = self.persona.clone();
        transact!(self, |conn| put_file(conn, persona.as_str(), &file).await).await
    }

    /// Removes a file from the index; an unknown file is no error.
    pub async fn remove_knowledge_file(&self, path: &str) -> Result<()> {
        let (persona, path) = (self.persona.clone(), path.to_owned());
        transact!(self, |conn| {
            for sql in [DELETE_KNOWLEDGE_CHUNKS, DELETE_KNOWLEDGE_FILE] {
                conn.exec(sql, (&persona, &path)).await?;
            }
            Ok(())
        })
        .await
    }

    /// Merges what earlier changes left of the index in pieces. A search looks up each of its terms in every piece, so
    /// this belongs after changes and not before a search.
    pub async fn merge_knowledge(&self) -> Result<()> {
        transact!(self, |conn| {
            conn.exec(MERGE_KNOWLEDGE, ()).await?;
            Ok(())
        })
        .await
    }

    /// Returns the pieces in which at least one term occurs, best first; none when there is no term
    /// to search for. Terms in the pieces around one in its file count as those beside a letter do.
    pub async fn search_knowledge(
        &self,
        terms: &[String],
        limit: u32,
    ) -> Result<Vec<KnowledgeHit>> {
        let (persona, readers) = (self.persona.as_str(), self.store.readers());
        let words: Vec<MatchText> = terms.iter().filter_map(|term| anywhere(term)).collect();
        let rows = readers
            .rows(KNOWLEDGE_WITH, (listed(&words), persona, PLACES_MAX))
            .await?;
        let total: i64 = readers.one(COUNT_KNOWLEDGE, persona).await?;
        let mut lists = vec![TermListing::default(); words.len()];
        let mut places: BTreeMap<(String, i64), i64> = BTreeMap::new();
        for row in &rows {
            let (term, seq): (i64, i64) = (row.try_get("term")?, row.try_get("seq")?);
            if let Some(list) = usize::try_from(term).ok().and_then(|at| lists.get_mut(at)) {
                list.documents.push(seq);
            }
            places.insert((row.try_get("path")?, row.try_get("chunk_index")?), seq);
        }
        let terms = counted(lists, total as f64);
        let near = places.iter().map(|((path, index), seq)| {
            let around = (index - NEAR..=index + NEAR).filter(|other| other != index);
            let beside = around.filter_map(|other| places.get(&(path.clone(), other)).copied());
            (*seq, beside.collect())
        });
        let facts = CandidateFacts {
            near: near.collect(),
            ..CandidateFacts::default()
        };
        let found = candidates(&terms, total as f64, CANDIDATES_MAX);
        let ranking = rank(&terms, total as f64, &found, &facts);
        let best = &ranking.hits[..ranking.hits.len().min(limit as usize)];
        let ranks: HashMap<i64, f64> = best.iter().copied().collect();
        let seqs = serde_json::Value::from_iter(best.iter().map(|(seq, _)| *seq)).to_string();
        let rows = readers.rows(SHOW_KNOWLEDGE, (seqs, persona)).await?;
        let hit = |row: &Row| {
            let seq: i64 = row.try_get("seq")?;
            Ok(KnowledgeHit {
                path: row.try_get("path")?,
                heading: row.try_get("heading")?,
                body: row.try_get("body")?,
                position: row.try_get("chunk_index")?,
                rank: -ranks.get(&seq).copied().unwrap_or_default(),
            })
        };
        rows.iter().map(hit).collect()
    }
}

async fn put_file(conn: &mut Connection, persona: &str, file: &KnowledgeFile) -> Result<()> {
    conn.exec(
        PUT_KNOWLEDGE_FILE,
        (
            persona,
            &file.path,
            &file.sha256,
            file.modified_ms,
            file.size_bytes,
        ),
    )
    .await?;
    Ok(())
}
