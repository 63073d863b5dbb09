//! `remember`: proposes an entry of memory. The run loop stores it with the call's result.

use super::write_rules;
use crate::domain::{MemoryKind, MemoryScope, MemoryStatus};
use crate::store::{MemoryWrite, NewMemory};
use crate::text::likeness::is_near;
use crate::tools::contract::*;

/// Remembers one thing about the sender for their later letters, in one sentence that stands alone: only what will
/// still matter then, no instructions, nothing that you know already.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remember {
    /// At most 400 characters.
    text: String,
    kind: RememberedKind,
    /// The words of this letter that say so, word for word.
    source_quote: String,
    /// Last day, YYYY-MM-DD.
    valid_to: Option<String>,
    /// `thread`: for whoever writes in this thread. Default: `contact`.
    scope: Option<RememberedScope>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RememberedKind {
    Fact,
    Preference,
    Commitment,
    Event,
    Procedure,
}

impl From<RememberedKind> for MemoryKind {
    fn from(kind: RememberedKind) -> Self {
        match kind {
            RememberedKind::Fact => Self::Fact,
            RememberedKind::Preference => Self::Preference,
            RememberedKind::Commitment => Self::Commitment,
            RememberedKind::Event => Self::Event,
            RememberedKind::Procedure => Self::Procedure,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum RememberedScope {
    Contact,
    Thread,
}

impl TypedTool for Remember {
    const NAME: &str = "remember";
    const CLASS: ToolClass = ToolClass::Transactional;
    const EFFECTS: Effects = Effects::GATED_CHANGE;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(memory);

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let memory = write_rules::open(call).await?;
        let text = write_rules::checked_text(&self.text)?;
        let source = write_rules::checked_quote(memory.new_text, &self.source_quote)?;
        let valid_to = write_rules::checked_end(self.valid_to.as_deref(), call.clock.now())?;
        let scope = match (&memory.reachable.contact, self.scope) {
            (Some(contact), None | Some(RememberedScope::Contact)) => contact.clone(),
            _ => MemoryScope::Thread(memory.access.place.circle.thread.clone()),
        };
        if let Some(known) = memory.reachable.like(&text, None) {
            return Ok(ToolOutcome::writing(
                json!({
                    "remembered": false,
                    "known_as": known.shown_id(),
                    "note": "an entry says this already, and counts as confirmed; if something of it has changed, `correct` it",
                }),
                MemoryWrite::Confirm {
                    id: known.id.clone(),
                },
            ));
        }
        if memory.access.entries.was_rejected(&scope, &text).await? {
            return refuse(
                "owner_rejected",
                "your owner has rejected this entry before; leave it",
            );
        }
        if memory.reachable.is_proposed(&scope, &text) {
            return Ok(
                json!({ "remembered": false, "note": "it waits for your owner already" }).into(),
            );
        }
        write_rules::require_room(&memory, &scope)?;
        let mut of_scope = memory.reachable.shown.iter();
        let near = of_scope.find(|entry| entry.scope == scope && is_near(&entry.text, &text));
        let near = near.map(|entry| (entry.shown_id(), entry.text.clone()));
        let filled = memory.reachable.filled(&scope) + 1;
        let entries_max = scope.entries_max();
        let new = NewMemory {
            valid_to,
            ..write_rules::stamped(call, &memory, scope, self.kind.into(), text, source)
        };
        let note = match new.status {
            MemoryStatus::Active => "it is in your notes from the next letter on",
            _ => "it waits for your owner, and is not used until they approve it",
        };
        let mut result = json!({ "remembered": true, "note": note, "entries": filled, "entries_max": entries_max });
        if let Some((id, text)) = near {
            result["near"] = json!({
                "id": id, "text": text,
                "note": "this entry is about the same; if it no longer holds, `forget` it",
            });
        }
        Ok(ToolOutcome::writing(
            result,
            MemoryWrite::Add(Box::new(new)),
        ))
    }
}
