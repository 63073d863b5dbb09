//! `edit_file`: replaces one passage of a text file in the workspace, named by its exact old text.

use super::change::{WorkspaceChange, verified};
use super::folder::shown;
use crate::domain::sha256_hex;
use crate::tools::contract::arguments::read_args;
use crate::tools::{
    CallTrace, Effects, ResultWords, Tool, ToolCall, ToolCapabilities, ToolClass, ToolDeclaration,
    ToolError, ToolNeed, ToolOutcome, arguments_schema,
};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Text that the model reads.
const DESCRIPTION: &str = "Replaces one passage of a text file in `workspace/`. Read the file first. Give the passage \
         exactly as it is, with enough around it that it occurs once.";

pub struct EditFile;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditFileArgs {
    path: String,
    /// As read_file, write_file or edit_file showed it.
    sha256: String,
    old: String,
    /// Empty to remove the passage.
    new: String,
}

impl EditFile {
    fn change(call: &ToolCall<'_>) -> Result<WorkspaceChange, ToolError> {
        let args: EditFileArgs = read_args(call.args)?;
        let path = args.path.clone();
        WorkspaceChange::of(call, &path, Box::new(move |before| edited(&args, before)))
    }
}

fn edited(args: &EditFileArgs, before: Option<&str>) -> Result<String, ToolError> {
    let path = shown(&args.path);
    let Some(before) = before else {
        let hint = format!("there is no `{path}`; write_file makes it");
        return Err(ToolError::mendable("file_not_found", hint));
    };
    let sha256 = sha256_hex(&[before.as_bytes()]);
    if !args.sha256.trim().eq_ignore_ascii_case(&sha256) {
        let hint = format!(
            "`{path}` has changed since you read it: its sha256 is {sha256}; read it again, then edit what it says now"
        );
        return Err(ToolError::mendable("stale_file", hint));
    }
    let count = match args.old.is_empty() {
        true => 0,
        false => before.matches(args.old.as_str()).count(),
    };
    match count {
        1 => Ok(before.replacen(args.old.as_str(), &args.new, 1)),
        0 => {
            let hint = format!(
                "`old` does not occur in `{path}`; copy the passage exactly, with its spaces"
            );
            Err(ToolError::mendable("old_not_found", hint))
        }
        count => {
            let hint = format!(
                "`old` occurs {count} times in `{path}`; give more of what stands around it"
            );
            Err(ToolError::mendable("old_not_unique", hint))
        }
    }
}

impl Tool for EditFile {
    fn needs(&self) -> &'static [ToolNeed] {
        &[ToolNeed::Orders]
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: "edit_file".to_owned(),
            description: DESCRIPTION.to_owned(),
            input_schema: arguments_schema::<EditFileArgs>(),
            class: ToolClass::Verifiable,
            effects: Effects {
                changes_state: true,
                is_gated: true,
                ..Effects::NONE
            },
            result_words: ResultWords::Engine,
            capabilities: ToolCapabilities {
                workspace: true,
                ..ToolCapabilities::NONE
            },
        }
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move { Self::change(&call)?.make(&call).await })
    }

    fn expected_effects<'a>(
        &'a self,
        call: ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move { Self::change(&call)?.expected(&call).await })
    }

    fn verify<'a>(
        &'a self,
        call: ToolCall<'a>,
        expected: &'a Value,
    ) -> BoxFuture<'a, Result<CallTrace, ToolError>> {
        Box::pin(async move { verified(&call, expected).await })
    }
}
