//! `forget`: takes an entry about the sender out of use. Its text stays for the owner, who alone erases.

use super::write_rules;
use crate::domain::Trust;
use crate::store::MemoryWrite;
use crate::text::{one_line, truncated};
use crate::tools::contract::*;

/// Most characters of a reason that are kept.
const WHY_CHARS_MAX: usize = 200;

/// Takes an entry about the sender out of your memory, because it is over or wrong, or because they ask for it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forget {
    /// Id of the entry, such as `c3`.
    id: String,
    why: String,
}

impl TypedTool for Forget {
    const NAME: &str = "forget";
    const CLASS: ToolClass = ToolClass::Transactional;
    const EFFECTS: Effects = Effects::GATED_CHANGE;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(memory);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Entry];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let access = call.env.memory()?;
        let reachable = access.entries.reachable(call.clock.now()).await?;
        let entry = write_rules::own_entry(&reachable, &self.id)?;
        let is_own = reachable.contact.as_ref() == Some(&entry.scope);
        let may = call.origin.lowest.min(Trust::Owner) >= entry.trust.min(Trust::Owner);
        if !is_own || !may {
            return refuse(
                "not_yours",
                "only entries about the sender of this letter can be forgotten; tell your owner about others",
            );
        }
        Ok(ToolOutcome::writing(
            json!({ "forgotten": entry.shown_id(), "note": "it is not used any more; your owner can erase its text" }),
            MemoryWrite::Forget {
                id: entry.id.clone(),
                why: truncated(&one_line(&self.why), WHY_CHARS_MAX),
            },
        ))
    }
}
