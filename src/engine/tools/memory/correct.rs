//! `correct`: writes an entry of memory anew; the old one stays for the owner to see.

use super::write_rules;
use crate::domain::{MemoryStatus, Trust};
use crate::store::{MemoryWrite, NewMemory};
use crate::tools::contract::*;

/// Replaces the text of an entry of your memory by what this letter says now.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Correct {
    /// Id of the entry, such as `c3`.
    id: String,
    /// The whole new entry, at most 400 characters.
    text: String,
    /// The words of this letter that say so, word for word.
    source_quote: String,
}

impl TypedTool for Correct {
    const NAME: &str = "correct";
    const CLASS: ToolClass = ToolClass::Transactional;
    const EFFECTS: Effects = Effects::GATED_CHANGE;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(memory);
    const NEEDS: &'static [ToolNeed] = &[ToolNeed::Entry];

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let memory = write_rules::open(call).await?;
        let old = write_rules::own_entry(&memory.reachable, &self.id)?;
        let text = write_rules::checked_text(&self.text)?;
        let source = write_rules::checked_quote(memory.new_text, &self.source_quote)?;
        if text == old.text {
            return refuse("nothing_changes", "the entry says exactly this already");
        }
        if let Some(other) = memory.reachable.like(&text, Some(&old.id)) {
            return refuse(
                "known_already",
                format!(
                    "entry `{}` says this already; `forget` this one if it is wrong",
                    other.shown_id()
                ),
            );
        }
        let new = NewMemory {
            supersedes: Some(old.id.clone()),
            valid_to: old.valid_to,
            ..write_rules::stamped(call, &memory, old.scope.clone(), old.kind, text, source)
        };
        // What somebody of more trust had written down is changed by the owner's yes only.
        let may_change = new.trust.min(Trust::Owner) >= old.trust.min(Trust::Owner);
        let status = match may_change {
            true => new.status,
            false => MemoryStatus::Proposed,
        };
        if status == MemoryStatus::Proposed {
            write_rules::require_room(&memory, &new.scope)?;
        }
        let note = match status {
            MemoryStatus::Active => "the new text is in your notes from the next letter on",
            _ => "the correction waits for your owner; the old entry stays until then",
        };
        Ok(ToolOutcome::writing(
            json!({ "corrected": status == MemoryStatus::Active, "note": note }),
            MemoryWrite::Add(Box::new(NewMemory { status, ..new })),
        ))
    }
}
