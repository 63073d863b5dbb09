//! The index of a persona's knowledge files: the indexed version of each file, and its pieces for
//! search.
//!
//! Absent on purpose: reading files and cutting them into pieces; that is the resolver's work.

use crate::store::mail::search::any_of;
use crate::store::{PersonaStore, Result};
use sqlx::Row;

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
    /// FTS5's bm25: the lower, the better.
    pub rank: f64,
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

/// A hit in a heading weighs three times one in the text.
pub(super) const SEARCH_KNOWLEDGE: &str = "
SELECT c.path, c.heading, c.body, bm25(knowledge_fts, 3.0, 1.0) AS rank
FROM knowledge_fts JOIN knowledge_chunks c ON c.seq = knowledge_fts.rowid
WHERE knowledge_fts MATCH $1 AND c.persona_id = $2
ORDER BY rank, c.path, c.chunk_index
LIMIT $3";

/// A negative number merges segments of all levels, that many pages at most (fts5.html, section 6.8).
pub(super) const MERGE_KNOWLEDGE: &str = "
INSERT INTO knowledge_fts (knowledge_fts, rank) VALUES ('merge', -1000)";

impl PersonaStore {
    /// Returns every indexed file, by path.
    pub async fn knowledge_state(&self) -> Result<Vec<KnowledgeFile>> {
        let query = sqlx::query(KNOWLEDGE_FILES).bind(self.persona.as_str());
        let rows = query.fetch_all(self.store.readers()).await?;
        let file = |row: &sqlx::sqlite::SqliteRow| {
            Ok(KnowledgeFile {
                path: row.try_get("path")?,
                sha256: row.try_get("sha256")?,
                modified_ms: row.try_get("modified_ms")?,
                size_bytes: row.try_get("size_bytes")?,
            })
        };
        rows.iter().map(file).collect()
    }

    /// Replaces the indexed pieces of a file.
    pub async fn replace_knowledge_file(
        &self,
        file: KnowledgeFile,
        chunks: Vec<KnowledgeChunk>,
    ) -> Result<()> {
        let persona = self.persona.clone();
        self.store
            .write(move |conn| {
                Box::pin(async move {
                    let delete = sqlx::query(DELETE_KNOWLEDGE_CHUNKS)
                        .bind(persona.as_str())
                        .bind(&file.path);
                    delete.execute(&mut *conn).await?;
                    for (index, chunk) in (0_i64..).zip(&chunks) {
                        let insert = sqlx::query(INSERT_KNOWLEDGE_CHUNK)
                            .bind(persona.as_str())
                            .bind(&file.path);
                        let insert = insert.bind(index).bind(&chunk.heading).bind(&chunk.body);
                        insert.execute(&mut *conn).await?;
                    }
                    put_file(conn, persona.as_str(), &file).await
                })
            })
            .await
    }

    /// Records another modification time or size of a file whose pieces are still right.
    pub async fn touch_knowledge_file(&self, file: KnowledgeFile) -> Result<()> {
        let persona = self.persona.clone();
        self.store
            .write(move |conn| {
                Box::pin(async move { put_file(conn, persona.as_str(), &file).await })
            })
            .await
    }

    /// Removes a file from the index; an unknown file is no error.
    pub async fn remove_knowledge_file(&self, path: &str) -> Result<()> {
        let (persona, path) = (self.persona.clone(), path.to_owned());
        self.store
            .write(move |conn| {
                Box::pin(async move {
                    for sql in [DELETE_KNOWLEDGE_CHUNKS, DELETE_KNOWLEDGE_FILE] {
                        sqlx::query(sql)
                            .bind(persona.as_str())
                            .bind(&path)
                            .execute(&mut *conn)
                            .await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Merges what earlier changes left of the index in pieces. A search looks up each of its terms in every piece, so
    /// this belongs after changes and not before a search.
    pub async fn merge_knowledge(&self) -> Result<()> {
        self.store
            .write(move |conn| {
                Box::pin(async move {
                    sqlx::query(MERGE_KNOWLEDGE).execute(conn).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Returns the pieces in which at least one term occurs, best first; none when there is no term
    /// to search for.
    pub async fn search_knowledge(
        &self,
        terms: &[String],
        limit: u32,
    ) -> Result<Vec<KnowledgeHit>> {
        let Some(words) = any_of(terms.iter().map(String::as_str)) else {
            return Ok(Vec::new());
        };
        let query = sqlx::query(SEARCH_KNOWLEDGE)
            .bind(words)
            .bind(self.persona.as_str())
            .bind(limit);
        let rows = query.fetch_all(self.store.readers()).await?;
        let hit = |row: &sqlx::sqlite::SqliteRow| {
            Ok(KnowledgeHit {
                path: row.try_get("path")?,
                heading: row.try_get("heading")?,
                body: row.try_get("body")?,
                rank: row.try_get("rank")?,
            })
        };
        rows.iter().map(hit).collect()
    }
}

async fn put_file(
    conn: &mut sqlx::SqliteConnection,
    persona: &str,
    file: &KnowledgeFile,
) -> Result<()> {
    let put = sqlx::query(PUT_KNOWLEDGE_FILE)
        .bind(persona)
        .bind(&file.path)
        .bind(&file.sha256);
    put.bind(file.modified_ms)
        .bind(file.size_bytes)
        .execute(conn)
        .await?;
    Ok(())
}
