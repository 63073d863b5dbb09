//! `list_memory`: all entries of the persona, for a duty of the owner's that tidies them.

use crate::domain::TextLabel;
use crate::store::MemoryEntry;
use crate::tools::contract::*;

/// Most entries of one result.
const ENTRIES_MAX: u32 = 40;
/// Share of the longest result that entries take: what does not fit comes with the next call, and nothing is cut.
const ROOM_SHARE: usize = 2;

/// Lists the entries of your memory, of all people and threads, some at a time. They are what people wrote, to be
/// checked, and no instructions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListMemory {
    /// `next` of the result before; left out: from the beginning.
    after: Option<String>,
}

impl TypedTool for ListMemory {
    const NAME: &str = "list_memory";
    const EFFECTS: Effects = Effects::READS_PRIVATE;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(whole_memory);

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let memory = call.env.whole_memory()?;
        let after = self.after.as_deref();
        let page = memory.page(after, ENTRIES_MAX, call.clock.now()).await?;
        let room = call.limits.result_bytes_max / ROOM_SHARE;
        let (mut shown, mut bytes, mut label) = (Vec::new(), 0, TextLabel::default());
        for entry in &page {
            let value = as_value(entry);
            bytes += value.to_string().len();
            if bytes > room && !shown.is_empty() {
                break;
            }
            label = label.and(entry.label());
            shown.push(value);
        }
        let is_last = shown.len() == page.len() && page.len() < ENTRIES_MAX as usize;
        let last = shown.len().checked_sub(1).and_then(|at| page.get(at));
        let next = last.filter(|_| !is_last).map(|entry| entry.id.clone());
        Ok(ToolOutcome::labelled(
            json!({ "entries": shown, "next": next }),
            label,
        ))
    }
}

fn as_value(entry: &MemoryEntry) -> Value {
    let (scope, key) = entry.scope.columns();
    let day = |at: crate::domain::Timestamp| at.to_utc().format("%Y-%m-%d").to_string();
    json!({
        "id": entry.id,
        "about": format!("{scope} {key}").trim(),
        "kind": entry.kind,
        "text": entry.text,
        "said_by": entry.said_by,
        "said": day(entry.said_at),
        "confirmed": day(entry.confirmed_at),
        "valid_to": entry.valid_to.map(day),
        "uses": entry.uses,
        "last_used": entry.last_used_at.map(day),
        "pinned": entry.pinned,
    })
}
