//! `forget`: takes an entry about the sender out of use. Its text stays for the owner, who alone erases.

use super::write_rules;
use crate::domain::Trust;
use crate::store::MemoryWrite;
use crate::text::{one_line, truncated};
use crate::tools::contract::arguments::read_args;
use crate::tools::{Tool, ToolCall, ToolDeclaration, ToolError, ToolNeed, ToolOutcome};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Most characters of a reason that are kept.
const WHY_CHARS_MAX: usize = 200;

/// Text that the model reads.
const DESCRIPTION: &str = "Takes an entry about the sender out of your memory, because it is over or wrong, or because they \
         ask for it.";

pub struct Forget;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForgetArgs {
    /// Id of the entry, such as `c3`.
    id: String,
    why: String,
}

impl Tool for Forget {
    fn needs(&self) -> &'static [ToolNeed] {
        &[ToolNeed::Entry]
    }

    fn declaration(&self) -> ToolDeclaration {
        write_rules::declaration::<ForgetArgs>("forget", DESCRIPTION)
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            let args: ForgetArgs = read_args(call.args)?;
            let access = call.env.memory()?;
            let reachable = access.entries.reachable(call.clock.now()).await?;
            let entry = write_rules::own_entry(&reachable, &args.id)?;
            let is_own = reachable.contact.as_ref() == Some(&entry.scope);
            let may = call.origin.lowest.min(Trust::Owner) >= entry.trust.min(Trust::Owner);
            if !is_own || !may {
                let hint = "only entries about the sender of this letter can be forgotten; tell your owner about others";
                return Err(ToolError::mendable("not_yours", hint));
            }
            Ok(ToolOutcome {
                result: json!({ "forgotten": entry.shown_id(), "note": "it is not used any more; your owner can erase its text" }),
                memory: Some(Box::new(MemoryWrite::Forget {
                    id: entry.id.clone(),
                    why: truncated(&one_line(&args.why), WHY_CHARS_MAX),
                })),
                ..ToolOutcome::default()
            })
        })
    }
}
