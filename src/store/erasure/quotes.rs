//! Records and letters beyond a person's own that quote them, found by reading every one of all personas.

use super::scope::{ErasureScope, QuotingMessage};
use crate::domain::{PersonaId, RunId};
use crate::mime::{self, ParseLimits};
use crate::store::db;
use crate::store::packing;
use crate::store::sql::persona_id;
use crate::store::{Result, Store};
use std::collections::BTreeSet;

const ALL_RUNS: &str = "SELECT id, persona_id FROM runs ORDER BY seq";
const PAYLOADS_OF_RUN: &str =
    "SELECT payload_json FROM thread_tool_events WHERE run_id = $1 ORDER BY step_index";
const RECORD_OF_RUN: &str = "
    SELECT context_report_json, coalesce(error_message, '') AS words FROM runs WHERE id = $1";
const MESSAGE_PAGE: &str = "
    SELECT seq, id, persona_id, thread_id, message_id,
      subject || '\n' || text_body || '\n' || coalesce(html_body, '') AS words
    FROM messages WHERE seq > $1 ORDER BY seq LIMIT 200";
const CONTENT_PAGE: &str =
    "SELECT sha256, bytes FROM contents WHERE sha256 > $1 ORDER BY sha256 LIMIT 100";
/// The held letter that follows `$1`; one may be large.
const NEXT_HELD_LETTER: &str = "
    SELECT id, persona_id, envelope_json, bytes FROM held_letters WHERE id > $1 ORDER BY id LIMIT 1";
/// Runs that name one of the texts `$1`, or were packed with it.
const RUNS_OF_CONTENTS: &str = "
    SELECT run_id FROM turn_texts WHERE sha256 IN (SELECT value FROM jsonb_each($1))
    UNION SELECT run_id FROM run_turns WHERE packed_with IN (SELECT value FROM jsonb_each($1))";
pub const VERSIONS_OF_FILES: &str =
    "SELECT CAST(seq AS TEXT) AS key, text AS words FROM persona_file_versions ORDER BY seq";
pub const ANSWERS_OF_THE_API: &str = "
    SELECT '[' || json_quote(caller) || ',' || json_quote(key) || ']' AS key, answer AS words FROM api_calls WHERE answer IS NOT NULL";
pub const REPORTS_TO_OWNERS: &str =
    "SELECT message_id AS key, report AS words FROM approval_answers WHERE report <> ''";

impl Store {
    /// Finds everything that an erasure takes. With `with_quotes` letters and mails of others that quote the person lose their
    /// words, too.
    pub async fn erasure_scope(
        &self,
        addresses: BTreeSet<String>,
        with_quotes: bool,
    ) -> Result<ErasureScope> {
        let mut scope = self.own_scope(addresses).await?;
        self.find_quoting_messages(with_quotes, &mut scope).await?;
        self.find_quoting_held(&mut scope).await?;
        let texts = self.quoting_contents(&scope).await?;
        let named: Vec<String> = self
            .all(RUNS_OF_CONTENTS, super::scope::list(&texts))
            .await?;
        scope.runs.extend(named);
        let runs = self.rows(ALL_RUNS, ()).await?;
        for row in &runs {
            let (persona, run) = (persona_id(row)?, row.get::<String>("id"));
            if !scope.runs.contains(&run) && self.is_in_record(&persona, &run, &scope).await? {
                scope.runs.insert(run);
            }
        }
        self.add_notice_mails(&mut scope).await?;
        scope.open = self.open_of(&scope).await?;
        self.leave_out_erased(&mut scope).await?;
        Ok(scope)
    }

    async fn find_quoting_messages(
        &self,
        with_quotes: bool,
        scope: &mut ErasureScope,
    ) -> Result<()> {
        let mut after: i64 = 0;
        loop {
            let page = db::query(MESSAGE_PAGE).bind(after);
            let mut page = page.rows(self.readers()).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.get("seq");
            page.retain(|row| {
                let is_own = scope.messages.contains(row.get::<&str>("id"));
                !is_own && scope.quotations.are_in(row.get("words"))
            });
            if with_quotes {
                self.add_messages(scope, &page).await?;
                continue;
            }
            for row in &page {
                scope.quoting.insert(QuotingMessage {
                    id: row.get("id"),
                    persona: row.get("persona_id"),
                });
            }
        }
    }

    /// Finds the held letters of others that quote or name the person. They stay, whatever else is taken: no run has read them,
    /// and their senders wait for an answer.
    async fn find_quoting_held(&self, scope: &mut ErasureScope) -> Result<()> {
        let mut after = String::new();
        loop {
            let Some(held) = self.maybe_row(NEXT_HELD_LETTER, &after).await? else {
                return Ok(());
            };
            after = held.get("id");
            if scope.held.contains(&after) {
                continue;
            }
            let bytes: &[u8] = held.get("bytes");
            let read = mime::parse(bytes, &ParseLimits::default()).ok();
            let read = read.map(|letter| [letter.subject, letter.text].join("\n"));
            let whole = String::from_utf8_lossy(bytes);
            let texts = [held.get("envelope_json"), whole.as_ref()];
            let mut texts = texts.into_iter().chain(read.as_deref());
            if texts.any(|text| scope.is_in(text) || scope.is_addressed_in(text)) {
                scope.quoting_held.insert(QuotingMessage {
                    id: after.clone(),
                    persona: held.get("persona_id"),
                });
            }
        }
    }

    /// Finds the stored texts that quote the person: parts of requests, each stored once for many runs.
    async fn quoting_contents(&self, scope: &ErasureScope) -> Result<BTreeSet<String>> {
        let (mut found, mut after) = (BTreeSet::new(), String::new());
        loop {
            let page = self.rows(CONTENT_PAGE, &after).await?;
            let Some(last) = page.last() else {
                return Ok(found);
            };
            after = last.get("sha256");
            for row in &page {
                let text = String::from_utf8_lossy(row.get("bytes"));
                if scope.quotations.are_in(&text) {
                    found.insert(row.get("sha256"));
                }
            }
        }
    }

    async fn is_in_record(
        &self,
        persona: &PersonaId,
        run: &str,
        scope: &ErasureScope,
    ) -> Result<bool> {
        let steps: Vec<String> = self.all(PAYLOADS_OF_RUN, run).await?;
        let record = self.row(RECORD_OF_RUN, run).await?;
        // What cannot be read holds no text that anybody could find, and goes with its run.
        let Ok(report) = packing::text_of(&record, "context_report_json") else {
            return Ok(true);
        };
        let words = [record.get("words"), report.as_deref().unwrap_or_default()];
        let mut words = words.into_iter().chain(steps.iter().map(String::as_str));
        if words.any(|words| scope.is_in(words)) {
            return Ok(true);
        }
        let turns = match self.persona(persona).turns_of_run(&RunId::new(run)).await {
            // What cannot be read holds no text that anybody could find, and goes with its run.
            Err(error) if error.is_of_one_row() => return Ok(true),
            turns => turns?,
        };
        Ok(turns.iter().any(|turn| {
            let bodies = [
                Some(&turn.request_json),
                turn.context_json.as_ref(),
                turn.response_json.as_ref(),
            ];
            bodies.into_iter().flatten().any(|body| scope.is_in(body))
        }))
    }

    /// Finds the rows that quote the person and that nothing but their words ties to them, by the keys of a statement with
    /// `key` and `words`.
    pub(super) async fn quoting_rows(
        &self,
        sql: &'static str,
        scope: &ErasureScope,
    ) -> Result<BTreeSet<String>> {
        let rows = self.rows(sql, ()).await?;
        let quoting = rows.iter().filter(|row| scope.is_in(row.get("words")));
        Ok(quoting.map(|row| row.get("key")).collect())
    }
}
