//! Erasure: the text of entries and of what derives from them goes from every row that the engine may change, the summaries of
//! the letters that they rest on and the records of runs included. The digests stay, so a record says that it was redacted, and not that it differs.
//!
//! Searched is what a run was told and what it said, without the declarations of tools: a short text, such as "it is over", may
//! stand in one of these, and with it in the requests of all runs.
//!
//! Letters, mails and backups stay; the report counts where the text still stands.

use super::record::MemoryEntry;
use super::redaction::{
    FAST_DELETE, PAYLOADS, Redaction, SECURE_DELETE, mark, step, without_members,
};
use super::write::{MemoryAuthor, event};
use crate::domain::{MemoryProposal, PersonaId, RunId, Timestamp};
use crate::store::db::{self, Connection, Row, Scope, Sql};
use crate::store::packing;
use crate::store::sql::{column_bytes, json_list};
use crate::store::{Result, Store};
use crate::text::shortened;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// Entries with those that replaced them or that they replaced.
const DERIVED_MEMORY: Sql = Sql::pair(
    "
    WITH RECURSIVE derived (id) AS (
      SELECT value FROM jsonb_each($1)
      UNION SELECT m.id FROM derived d CROSS JOIN memory m WHERE m.id = (SELECT supersedes FROM memory o WHERE o.id = d.id)
      UNION SELECT m.id FROM derived d CROSS JOIN memory m WHERE m.id = (SELECT superseded_by FROM memory o WHERE o.id = d.id)
      UNION SELECT m.id FROM derived d CROSS JOIN memory m WHERE m.supersedes = d.id
      UNION SELECT r.memory_id FROM derived d CROSS JOIN memory_replaces r WHERE r.replaced_id = d.id)
    SELECT m.* FROM derived d CROSS JOIN memory m WHERE m.id = d.id ORDER BY m.id",
    "
    WITH RECURSIVE derived (id) AS (
      SELECT value FROM jsonb_each($1)
      UNION SELECT n.id FROM derived d CROSS JOIN LATERAL (
        SELECT o.supersedes AS id FROM memory o WHERE o.id = d.id
        UNION ALL SELECT o.superseded_by FROM memory o WHERE o.id = d.id
        UNION ALL SELECT m.id FROM memory m WHERE m.supersedes = d.id
        UNION ALL SELECT r.memory_id FROM memory_replaces r WHERE r.replaced_id = d.id) n WHERE n.id IS NOT NULL)
    SELECT m.* FROM derived d CROSS JOIN memory m WHERE m.id = d.id ORDER BY m.id",
);
/// Summaries of letters that the entries rest on.
const SUMMARIES_OF_SOURCES: &str = "
    SELECT DISTINCT s.id, s.run_id, s.text_sha256 FROM jsonb_each($1) w CROSS JOIN memory_sources o
      CROSS JOIN messages m
      CROSS JOIN thread_memory s WHERE s.thread_id = m.thread_id AND s.from_seq <= m.seq AND s.upto_seq >= m.seq AND m.id = o.message_id AND o.memory_id = w.value";
/// Runs whose records may hold a text; `is_summarised`: it made one of the summaries `$3`.
const RUNS_WITH_RECORDS: &str = "
    SELECT r.id, r.state IN ('succeeded', 'cancelled', 'failed') AS is_over,
      r.context_report_json, EXISTS (SELECT 1 FROM jsonb_each($3) s WHERE s.value = r.id) AS is_summarised
    FROM runs r
    WHERE r.persona_id = $1 AND r.seq >= $2 AND (EXISTS (SELECT 1 FROM run_turns t WHERE t.run_id = r.id AND t.pruned_at IS NULL)
      OR EXISTS (SELECT 1 FROM thread_tool_events e WHERE e.run_id = r.id))
    ORDER BY r.seq";
/// Number of the run that wrote the oldest of the entries: no record before it can hold their text.
const FIRST_RUN: &str = "
    SELECT coalesce(min(r.seq), 0) FROM jsonb_each($1) w CROSS JOIN memory m
      LEFT JOIN runs r ON r.id = m.created_run WHERE m.id = w.value";
const ENTRIES_WITH_WORDS: &str = "
    SELECT count(*) FROM jsonb_each($1) w CROSS JOIN memory m WHERE m.id = w.value AND m.erased_at IS NULL";
const ERASE_ENTRIES: &str = "
    UPDATE memory SET text = '', status = 'forgotten', erased_at = coalesce(erased_at, $2)
    WHERE id IN (SELECT value FROM jsonb_each($1))";
const ERASE_QUOTES: &str =
    "UPDATE memory_sources SET quote = '' WHERE memory_id IN (SELECT value FROM jsonb_each($1))";
const ERASE_REASONS: &str = "
    UPDATE memory_events SET why = '' WHERE memory_id IN (SELECT value FROM jsonb_each($1)) AND why <> ''";
const ERASE_SUMMARIES: &str =
    "DELETE FROM thread_memory WHERE id IN (SELECT value FROM jsonb_each($1))";
const ERASE_SUMMARY_TEXTS: &str =
    "DELETE FROM contents WHERE sha256 IN (SELECT value FROM jsonb_each($1))";
/// Columns of all tables that hold text or bytes; those of indexes are shadows of them.
const TEXT_COLUMNS: Sql = Sql::pair(
    "
    SELECT m.name AS table_name, c.name AS column_name, c.type = 'BLOB' AS is_bytes FROM sqlite_master m CROSS JOIN pragma_table_info(m.name) c
    WHERE m.type = 'table' AND m.sql NOT LIKE 'CREATE VIRTUAL%' AND c.type IN ('TEXT', 'BLOB') ORDER BY 1, 2",
    "
    SELECT c.table_name, c.column_name, c.data_type = 'bytea' AS is_bytes FROM information_schema.columns c
    JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
    WHERE t.table_type = 'BASE TABLE' AND c.table_schema = current_schema() AND c.data_type IN ('text', 'bytea') ORDER BY 1, 2",
);

/// Tables that an erasure takes the text out of.
const ERASED_TABLES: [&str; 7] = [
    "forks",
    "memory",
    "memory_events",
    "memory_sources",
    "run_turns",
    "thread_memory",
    "thread_tool_events",
];
/// Most characters of a text that is shown before it is erased.
const SHOWN_CHARS_MAX: usize = 80;

/// Outcome of an erasure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErasedMemory {
    /// `true`: nothing was changed; the rest says what would be.
    pub dry_run: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub would_go: Vec<ErasableEntry>,
    /// Without those that were erased before.
    pub entries: usize,
    /// Summaries of letters that the entries rest on. The next runs of their threads make others.
    pub summaries: usize,
    /// Runs whose requests and answers were redacted.
    pub runs: usize,
    /// Calls of tools and their results that were redacted.
    pub steps: usize,
    /// Runs that were at work at an earlier erasure, and were redacted because they have ended since.
    pub runs_ended: usize,
    /// Runs at work that hold a text, of this erasure or of an earlier one: their records are emptied when they have ended.
    pub runs_at_work: usize,
    /// Rows in which the text still stands. Once it is erased nobody can look for it any more.
    pub remains: Vec<RemainingText>,
    /// `true`: the file was written anew, so that no page of it holds what was overwritten before.
    pub is_rewritten: bool,
    /// Why the file could not be written anew, such as a full disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_rewritten: Option<String>,
}

/// An entry that would go, with the beginning of its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErasableEntry {
    pub id: String,
    pub persona: PersonaId,
    pub text: String,
}

/// Rows in which an erased text still stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemainingText {
    pub table: String,
    pub column: String,
    pub rows: u64,
}

/// Entries with what is to go along, found by reading.
struct Erasure {
    /// Those that were erased before, too: they have no words to look for, and are erased again in case a row came back.
    entries: Vec<MemoryEntry>,
    needles: Needles,
    redaction: Redaction,
}

impl Erasure {
    fn fresh(&self) -> impl Iterator<Item = &MemoryEntry> {
        self.entries.iter().filter(is_there)
    }

    fn counts(&self) -> ErasedMemory {
        ErasedMemory {
            entries: self.fresh().count(),
            summaries: self.needles.summaries.len(),
            runs: self.redaction.runs.len(),
            steps: self.redaction.steps.len(),
            ..ErasedMemory::default()
        }
    }
}

impl Store {
    /// Counts those of these entries that were not erased before.
    pub async fn count_entries_with_words(&self, ids: &[String]) -> Result<usize> {
        let count: i64 = self.one(ENTRIES_WITH_WORDS, json_list(ids.iter())).await?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// Returns what an erasure of entries would take, and where the text would stand still. Changes nothing.
    pub async fn erasable_memory(&self, ids: &[String]) -> Result<ErasedMemory> {
        let found = self.find_erasure(ids).await?;
        let shown = |entry: &MemoryEntry| ErasableEntry {
            id: entry.id.clone(),
            persona: entry.persona.clone(),
            text: shortened(&entry.text, SHOWN_CHARS_MAX),
        };
        let mut remains = self.remaining(&found.needles).await?;
        remains.retain(|place| !ERASED_TABLES.contains(&place.table.as_str()));
        Ok(ErasedMemory {
            dry_run: true,
            would_go: found.fresh().map(shown).collect(),
            runs_at_work: found.redaction.at_work.len(),
            remains,
            ..found.counts()
        })
    }

    /// Erases entries and what derives from them. `by`: the user.
    pub async fn erase_memory(&self, ids: &[String], by: &str) -> Result<ErasedMemory> {
        let found = self.find_erasure(ids).await?;
        let erased = found.counts();
        let Erasure {
            entries,
            needles,
            redaction,
        } = found;
        let (by, now) = (by.to_owned(), self.clock().now());
        let summaries = needles.summaries.clone();
        transact!(self, Scope::Engine, |conn| {
            conn.exec(SECURE_DELETE, ()).await?;
            erase_summaries(conn, &summaries).await?;
            let done = erase(conn, &entries, &redaction, &by, now).await;
            conn.exec(FAST_DELETE, ()).await?;
            done
        })
        .await?;
        Ok(ErasedMemory {
            runs_at_work: self.pending_redactions().await?,
            remains: self.remaining(&needles).await?,
            ..erased
        })
    }

    async fn find_erasure(&self, ids: &[String]) -> Result<Erasure> {
        let entries = self.all(DERIVED_MEMORY, json_list(ids.iter())).await?;
        let fresh: Vec<MemoryEntry> = entries.iter().filter(is_there).cloned().collect();
        let needles = Needles {
            summaries: self.summaries_of_sources(&fresh).await?,
            ..Needles::of(&fresh)
        };
        let mut redaction = Redaction::default();
        let personas: BTreeSet<&PersonaId> = fresh.iter().map(|entry| &entry.persona).collect();
        for persona in personas {
            self.find_records(persona, &fresh, &needles, &mut redaction)
                .await?;
        }
        Ok(Erasure {
            entries,
            needles,
            redaction,
        })
    }

    async fn summaries_of_sources(&self, entries: &[MemoryEntry]) -> Result<Vec<CitingSummary>> {
        let ids = json_list(entries.iter().map(|entry| entry.id.as_str()));
        let rows = self.rows(SUMMARIES_OF_SOURCES, ids).await?;
        let summary = |row: &Row| CitingSummary {
            id: row.get("id"),
            run: row.get("run_id"),
            text_sha256: row.get("text_sha256"),
        };
        Ok(rows.iter().map(summary).collect())
    }

    /// Finds the runs of a persona whose records hold the text.
    async fn find_records(
        &self,
        persona: &PersonaId,
        entries: &[MemoryEntry],
        needles: &Needles,
        redaction: &mut Redaction,
    ) -> Result<()> {
        if needles.are_none() {
            return Ok(());
        }
        let ids = json_list(entries.iter().map(|entry| entry.id.as_str()));
        let first: i64 = self.one(FIRST_RUN, ids).await?;
        for row in self
            .rows(
                RUNS_WITH_RECORDS,
                (persona, first, needles.summaries_and_runs()),
            )
            .await?
        {
            let (run, is_over): (String, bool) = (row.get("id"), row.get("is_over"));
            // A report that cannot be read may name one.
            let report = packing::text_of(&row, "context_report_json");
            let is_named = report.map_or(true, |report| {
                report.is_some_and(|report| needles.summary_is_in(&report))
            });
            let is_summarised = is_named || row.get("is_summarised");
            let steps = self.rows(PAYLOADS, &run).await?;
            let found: Vec<Value> = steps
                .iter()
                .filter_map(|row| redacted(&run, row, needles))
                .collect();
            let is_in_turns = is_summarised || self.is_in_turns(persona, &run, needles).await?;
            if is_over {
                redaction.steps.extend(found);
                redaction.runs.extend(is_in_turns.then_some(run));
            } else if is_in_turns || !found.is_empty() {
                redaction.at_work.insert(run);
            }
        }
        Ok(())
    }

    async fn is_in_turns(&self, persona: &PersonaId, run: &str, needles: &Needles) -> Result<bool> {
        let turns = self.persona(persona).turns_of_run(&RunId::new(run)).await;
        let turns = match turns {
            // What cannot be read holds no text that anybody could find, and goes with its run.
            Err(error) if error.is_of_one_row() => return Ok(true),
            turns => turns?,
        };
        Ok(turns.iter().any(|turn| {
            let bodies = [Some(&turn.request_json), turn.context_json.as_ref()];
            let mut bodies = bodies.into_iter().flatten();
            let answer = turn.response_json.as_ref();
            bodies.any(|body| needles.are_in_request(run, body))
                || answer.is_some_and(|answer| needles.are_in(run, answer))
        }))
    }

    /// Counts the rows in which the text still stands.
    async fn remaining(&self, needles: &Needles) -> Result<Vec<RemainingText>> {
        if needles.texts.is_empty() {
            return Ok(Vec::new());
        }
        let mut conn = self.unhurried_reader().await?;
        let is_in = |words: &str| needles.texts.iter().any(|needle| words.contains(needle));
        let remains = rows_with(&mut conn, is_in).await;
        conn.close().await?;
        remains
    }
}

/// Counts the rows of each column whose words, unpacked, meet a condition. All texts of a large database take longer than a read
/// may: the connection is one without a bound of time.
pub async fn rows_with(
    conn: &mut Connection,
    is_in: impl Fn(&str) -> bool,
) -> Result<Vec<RemainingText>> {
    let mut found = Vec::new();
    let columns = conn.rows(TEXT_COLUMNS, ()).await?;
    for row in &columns {
        let (table, column): (String, String) = (row.get("table_name"), row.get("column_name"));
        let words = column_bytes(&format!("\"{column}\""), row.get("is_bytes"));
        let [sqlite, postgres] = words.map(|words| {
            format!("SELECT {words} AS words FROM \"{table}\" WHERE \"{column}\" IS NOT NULL")
        });
        let sql = Sql::built_pair(sqlite, postgres);
        let mut rows = 0;
        let read = db::query(sql).each(&mut *conn, |row| {
            let words: &[u8] = row.get("words");
            let words = packing::unpack(words).unwrap_or(words.into());
            rows += u64::from(is_in(&String::from_utf8_lossy(&words)));
            Ok(())
        });
        read.await?;
        found.extend((rows > 0).then_some(RemainingText {
            table,
            column,
            rows,
        }));
    }
    Ok(found)
}

/// Reports whether an entry is still to be erased.
fn is_there(entry: &&MemoryEntry) -> bool {
    entry.erased_at.is_none() || !entry.text.is_empty()
}

/// Members of a request, in every dialect, that declare tools and the form of the answer: standing words, which a run is not told
/// by any entry.
const DECLARATIONS: [&str; 2] = ["tools", "output"];

/// Texts to look for, each also as JSON writes it, once and twice, and summaries that may say the same in other words.
struct Needles {
    texts: BTreeSet<String>,
    /// Runs that proposed to use an entry no longer, with their reasons: words about an entry, such as "it is over", that are only
    /// looked for in the run that wrote them.
    reasons: Vec<(String, BTreeSet<String>)>,
    summaries: Vec<CitingSummary>,
}

/// A summary of letters that an entry rests on.
#[derive(Clone)]
struct CitingSummary {
    id: String,
    /// Run that made it.
    run: String,
    text_sha256: String,
}

impl Needles {
    fn of(entries: &[MemoryEntry]) -> Self {
        let (mut texts, mut reasons) = (BTreeSet::new(), Vec::new());
        for entry in entries.iter().filter(|entry| !entry.text.is_empty()) {
            match (entry.proposes, &entry.created_run) {
                (Some(MemoryProposal::Expire), Some(run)) => {
                    reasons.push((run.to_string(), written(&entry.text)));
                }
                _ => texts.extend(written(&entry.text)),
            }
        }
        Self {
            texts,
            reasons,
            summaries: Vec::new(),
        }
    }

    fn are_none(&self) -> bool {
        self.texts.is_empty() && self.reasons.is_empty() && self.summaries.is_empty()
    }

    fn summaries_and_runs(&self) -> String {
        let summaries = self.summaries.iter();
        json_list(summaries.flat_map(|summary| [summary.id.as_str(), summary.run.as_str()]))
    }

    /// Reports whether a report names one of the summaries, or the run that made it.
    fn summary_is_in(&self, report: &str) -> bool {
        let mut summaries = self.summaries.iter();
        summaries.any(|summary| report.contains(&summary.id) || report.contains(&summary.run))
    }

    fn are_in(&self, run: &str, text: &str) -> bool {
        let reasons = self.reasons.iter().filter(|(of, _)| of == run);
        let mut needles = self
            .texts
            .iter()
            .chain(reasons.flat_map(|(_, texts)| texts));
        needles.any(|needle| text.contains(needle.as_str()))
    }

    /// Reports whether a request, or a context, holds a text beside its declarations.
    fn are_in_request(&self, run: &str, body: &str) -> bool {
        if !self.are_in(run, body) {
            return false;
        }
        let Ok(Value::Object(mut members)) = serde_json::from_str(body) else {
            return true;
        };
        members.retain(|name, _| !DECLARATIONS.contains(&name.as_str()));
        self.are_in(run, &Value::Object(members).to_string())
    }
}

/// Returns a text as it stands alone, and inside JSON, once and twice.
fn written(text: &str) -> BTreeSet<String> {
    let (mut forms, mut text) = (BTreeSet::new(), text.to_owned());
    for _ in 0..3 {
        let json = Value::from(text.as_str()).to_string();
        let inner = json
            .strip_prefix('"')
            .and_then(|json| json.strip_suffix('"'));
        let inner = inner.unwrap_or_default().to_owned();
        forms.insert(std::mem::replace(&mut text, inner));
    }
    forms
}

/// Returns the payload of a step without the text; `None`: it does not hold it. The label stays: later runs go by it.
fn redacted(run: &str, row: &Row, needles: &Needles) -> Option<Value> {
    let payload: String = row.get("payload_json");
    if !needles.are_in(run, &payload) {
        return None;
    }
    let mark = mark(&payload);
    let mut left: Value = serde_json::from_str(&payload).unwrap_or_default();
    for member in ["args", "result", "begun", "malformed", "policy"] {
        if let Some(value) = left.get_mut(member) {
            *value = mark.clone();
        }
    }
    if needles.are_in(run, &left.to_string()) || !left.is_object() {
        left = without_members(row.get("event_type"), mark);
    }
    Some(step(row, &left))
}

async fn erase_summaries(conn: &mut Connection, summaries: &[CitingSummary]) -> Result<()> {
    let ids = json_list(summaries.iter().map(|summary| summary.id.as_str()));
    let texts = json_list(summaries.iter().map(|summary| summary.text_sha256.as_str()));
    conn.exec(ERASE_SUMMARIES, ids).await?;
    conn.exec(ERASE_SUMMARY_TEXTS, texts).await?;
    Ok(())
}

async fn erase(
    conn: &mut Connection,
    entries: &[MemoryEntry],
    redaction: &Redaction,
    by: &str,
    now: Timestamp,
) -> Result<()> {
    let ids = json_list(entries.iter().map(|entry| entry.id.as_str()));
    let stamp = now.to_string();

    conn.exec(ERASE_ENTRIES, (&ids, &stamp)).await?;
    conn.exec(ERASE_QUOTES, &ids).await?;
    conn.exec(ERASE_REASONS, &ids).await?;
    for entry in entries.iter().filter(|entry| entry.erased_at.is_none()) {
        let author = MemoryAuthor {
            actor: "owner",
            who: by,
            why: "",
        };
        event(conn, &entry.id, ("erased", None), author, now).await?;
    }
    redaction.apply(conn, now).await
}
