//! `correct`: writes an entry of memory anew; the old one stays for the owner to see.

use super::write_rules;
use crate::domain::{MemoryStatus, Trust};
use crate::store::{MemoryWrite, NewMemory};
use crate::tools::contract::arguments::read_args;
use crate::tools::{Tool, ToolCall, ToolDeclaration, ToolError, ToolNeed, ToolOutcome};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Text that the model reads.
const DESCRIPTION: &str =
    "Replaces the text of an entry of your memory by what this letter says now.";

pub struct Correct;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CorrectArgs {
    /// Id of the entry, such as `c3`.
    id: String,
    /// The whole new entry, at most 400 characters.
    text: String,
    /// The words of this letter that say so, word for word.
    source_quote: String,
}

impl Tool for Correct {
    fn needs(&self) -> &'static [ToolNeed] {
        &[ToolNeed::Entry]
    }

    fn declaration(&self) -> ToolDeclaration {
        write_rules::declaration::<CorrectArgs>("correct", DESCRIPTION)
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let args: CorrectArgs = read_args(call.args)?;
            let memory = write_rules::open(&call).await?;
            let old = write_rules::own_entry(&memory.reachable, &args.id)?;
            let text = write_rules::checked_text(&args.text)?;
            let source = write_rules::checked_quote(memory.new_text, &args.source_quote)?;
            if text == old.text {
                let hint = "the entry says exactly this already";
                return Err(ToolError::mendable("nothing_changes", hint));
            }
            if let Some(other) = memory.reachable.like(&text, Some(&old.id)) {
                let hint = format!(
                    "entry `{}` says this already; `forget` this one if it is wrong",
                    other.shown_id()
                );
                return Err(ToolError::mendable("known_already", hint));
            }
            let what = (old.scope.clone(), old.kind, text);
            let new = NewMemory {
                supersedes: Some(old.id.clone()),
                valid_to: old.valid_to,
                ..write_rules::stamped(&call, &memory, what, source)
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
            Ok(ToolOutcome {
                result: json!({ "corrected": status == MemoryStatus::Active, "note": note }),
                memory: Some(Box::new(MemoryWrite::Add(Box::new(NewMemory {
                    status,
                    ..new
                })))),
                ..ToolOutcome::default()
            })
        })
    }
}
