//! Changes of our own tools in a persona's folder while an agent works there, from the records that
//! were made before the tools began.

use super::entry::FileEntry;
use crate::domain::Timestamp;
use crate::store::{PersonaStore, Result};
use std::collections::BTreeSet;
use std::time::Duration;

/// Longest time between the record of a call and its effect.
const BEGUN_BEFORE: Duration = Duration::from_secs(10 * 60);

/// Expected effects of our own tools, from the records that were made before the tools began. The
/// conditions are those of the index `thread_tool_events_of_files`.
const EXPECTED: &str = "
    SELECT run_id, tool_name, payload_json ->> '$.begun.foreseen.after' AS after FROM thread_tool_events
    WHERE persona_id = $1 AND created_at >= $2
      AND event_type = 'tool_call' AND tool_name IN ('update_memory', 'schedule_create')";

/// Changes that our own tools have made, or will make, since an agent began.
#[derive(Debug, Clone, Default)]
pub struct ExpectedEffects {
    /// Digests of `active.md`.
    memory: BTreeSet<String>,
    /// Digests of proposed responsibilities.
    proposals: BTreeSet<String>,
    /// Runs that changed the memory.
    runs: BTreeSet<String>,
}

impl PersonaStore {
    /// Returns the changes of our tools in the persona's folder since that instant.
    pub async fn expected_files(&self, since: Timestamp) -> Result<ExpectedEffects> {
        let since = since.minus(BEGUN_BEFORE).to_string();
        let rows = self.rows(EXPECTED, (&self.persona, since)).await?;
        let mut expected = ExpectedEffects::default();
        for row in rows {
            let after: Option<String> = row.get("after");
            match row.get("tool_name") {
                "update_memory" => {
                    expected.memory.extend(after);
                    expected.runs.insert(row.get("run_id"));
                }
                _ => expected.proposals.extend(after),
            }
        }
        Ok(expected)
    }
}

impl ExpectedEffects {
    /// Reports whether our own tools explain a changed path.
    pub(super) fn explains(
        &self,
        path: &str,
        was: Option<&FileEntry>,
        is: Option<&FileEntry>,
        memory_before: &[&str],
    ) -> bool {
        let digest = is.and_then(FileEntry::digest);
        let is_folder = matches!(is, Some(FileEntry::Folder { .. }));
        let (is_plain, has_memory) = (is.is_none() || digest.is_some(), !self.runs.is_empty());
        // Two runs that append at the same time leave a memory that neither could expect.
        let is_memory = |digest: &str| self.memory.contains(digest) || self.runs.len() > 1;
        match path.split_once('/') {
            None if path == "active.md" => digest.is_some_and(is_memory),
            None if path == ".memory" => was.is_none() && is_folder && has_memory,
            None if path == "responsibilities" => {
                was.is_none() && is_folder && !self.proposals.is_empty()
            }
            Some((".memory", "lock" | "active.tmp")) => has_memory && is_plain,
            // The oldest versions are deleted for the newest.
            Some((".memory", _)) => {
                let is_version = |digest| is_memory(digest) || memory_before.contains(&digest);
                has_memory && (is.is_none() || (was.is_none() && digest.is_some_and(is_version)))
            }
            Some(("responsibilities", ".proposals.lock" | ".proposal.tmp")) => {
                !self.proposals.is_empty() && is_plain
            }
            Some(("responsibilities", _)) => {
                was.is_none() && digest.is_some_and(|digest| self.proposals.contains(digest))
            }
            _ => false,
        }
    }
}
