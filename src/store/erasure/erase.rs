//! The transaction of an erasure: everything goes, or nothing.

use super::progress::ROWS_ERASED;
use super::quotes::{ANSWERS_OF_THE_API, REPORTS_TO_OWNERS, VERSIONS_OF_FILES};
use super::scope::{ErasureScope, list};
use super::statements::{ErasedRows, STATEMENTS};
use crate::domain::Timestamp;
use crate::store::db::{Connection, Scope};
use crate::store::memory::redaction::{FAST_DELETE, PAYLOADS, Redaction, SECURE_DELETE, emptied};
use crate::store::sql::to_json;
use crate::store::{MemoryFilter, Result, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Most entries of memory of one erasure.
const ENTRIES_MAX: u32 = 100_000;
/// Most runs of which nothing but the number is known at once.
const RUNS_AT_ONCE: usize = 500;

impl Store {
    /// Returns the entries of memory about a person, and those that rest on what they wrote.
    pub async fn memory_of_scope(&self, scope: &ErasureScope) -> Result<Vec<String>> {
        let mut ids = BTreeSet::new();
        for address in &scope.addresses {
            let filter = MemoryFilter {
                after: None,
                persona: None,
                status: None,
                contact: Some(address.clone()),
                limit: ENTRIES_MAX,
            };
            let entries = self.memory_entries(&filter).await?;
            ids.extend(entries.into_iter().map(|entry| entry.id));
        }
        for message in scope.messages.union(&scope.past) {
            let message = crate::domain::MessageId::new(message);
            ids.extend(self.memory_of_message(&message, None).await?);
        }
        Ok(ids.into_iter().collect())
    }

    /// Counts what [`Self::memory_of_scope`] finds and was not erased before.
    pub async fn count_memory_of_scope(&self, scope: &ErasureScope) -> Result<usize> {
        let ids = self.memory_of_scope(scope).await?;
        self.count_entries_with_words(&ids).await
    }

    /// Erases what [`Self::memory_of_scope`] finds; returns the number of entries. `by`: the user.
    pub async fn erase_memory_of_scope(&self, scope: &ErasureScope, by: &str) -> Result<usize> {
        let ids = self.memory_of_scope(scope).await?;
        Ok(self.erase_memory(&ids, by).await?.entries)
    }

    /// Erases the rows of a scope in one transaction, and notes it in the row of the erasure. Returns rows by kind.
    pub async fn erase_scope(
        &self,
        erasure: &str,
        scope: &ErasureScope,
        before: BTreeMap<String, u64>,
    ) -> Result<BTreeMap<String, u64>> {
        let lists = Lists {
            versions: list(&self.quoting_rows(VERSIONS_OF_FILES, scope).await?),
            api_answers: list(&self.quoting_rows(ANSWERS_OF_THE_API, scope).await?),
            owner_reports: list(&self.quoting_rows(REPORTS_TO_OWNERS, scope).await?),
            ..Lists::of(scope)
        };
        let (id, now) = (erasure.to_owned(), self.clock().now());
        let runs = scope.runs.clone();
        transact!(self, Scope::Engine, |conn| {
            conn.exec(SECURE_DELETE, ()).await?;
            let done = erase(conn, &lists, &runs, before, &id, now).await;
            conn.exec(FAST_DELETE, ()).await?;
            done
        })
        .await
    }

    /// Deletes the texts of requests that no turn names any more.
    pub async fn erase_unnamed_texts(&self) -> Result<u64> {
        // Older than nothing: only what is pruned already names no text.
        let pruned = self.prune_unnamed_texts(Timestamp::from_millis(0)).await?;
        Ok(pruned.rows)
    }
}

/// Parameters of the statements.
struct Lists {
    messages: String,
    runs: String,
    threads: String,
    whole_threads: String,
    held: String,
    subjects: String,
    versions: String,
    api_answers: String,
    owner_reports: String,
}

impl Lists {
    fn of(scope: &ErasureScope) -> Self {
        // Also of the past: a notice about an old letter may be new.
        let all = [
            &scope.messages,
            &scope.runs,
            &scope.whole_threads,
            &scope.addresses,
            &scope.past,
        ];
        let subjects: BTreeSet<String> = all.into_iter().flatten().cloned().collect();
        Self {
            messages: list(&scope.messages),
            runs: list(&scope.runs),
            threads: list(&scope.threads),
            whole_threads: list(&scope.whole_threads),
            held: list(&scope.held),
            subjects: list(&subjects),
            versions: String::new(),
            api_answers: String::new(),
            owner_reports: String::new(),
        }
    }

    fn get(&self, of: ErasedRows) -> &str {
        match of {
            ErasedRows::Messages => &self.messages,
            ErasedRows::Runs => &self.runs,
            ErasedRows::Threads => &self.threads,
            ErasedRows::WholeThreads => &self.whole_threads,
            ErasedRows::Held => &self.held,
            ErasedRows::Subjects => &self.subjects,
            ErasedRows::Versions => &self.versions,
            ErasedRows::ApiAnswers => &self.api_answers,
            ErasedRows::OwnerReports => &self.owner_reports,
        }
    }
}

async fn erase(
    conn: &mut Connection,
    lists: &Lists,
    runs: &BTreeSet<String>,
    mut counts: BTreeMap<String, u64>,
    erasure: &str,
    now: Timestamp,
) -> Result<BTreeMap<String, u64>> {
    let steps = redact(conn, runs, now).await?;
    counts.insert("steps".to_owned(), steps as u64);
    for statement in STATEMENTS {
        let rows = conn
            .exec(statement.sql, (lists.get(statement.of), now))
            .await?;
        counts.insert(statement.kind.to_owned(), rows);
    }
    conn.exec(ROWS_ERASED, (erasure, to_json(&counts)?)).await?;
    Ok(counts)
}

/// Empties the records of runs; returns the number of their steps.
async fn redact(conn: &mut Connection, runs: &BTreeSet<String>, now: Timestamp) -> Result<usize> {
    let (runs, mut count): (Vec<&String>, usize) = (runs.iter().collect(), 0);
    for some in runs.chunks(RUNS_AT_ONCE) {
        let mut steps = Vec::new();
        for run in some {
            let payloads = conn.rows(PAYLOADS, run).await?;
            steps.extend(payloads.iter().map(emptied));
        }
        count += steps.len();
        let redaction = Redaction {
            runs: some.iter().map(|run| (*run).clone()).collect(),
            steps,
            ..Redaction::default()
        };
        redaction.apply(conn, now).await?;
    }
    Ok(count)
}
