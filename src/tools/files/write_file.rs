//! `write_file`: writes a whole text file in the workspace.

use super::change::{WorkspaceChange, verified};
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
const DESCRIPTION: &str = "Writes a whole text file in `workspace/`. Your owner keeps the version before. To change a part, \
         use edit_file.";

pub struct WriteFile;

/// Arguments, with the descriptions that the model reads.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteFileArgs {
    /// Such as `workspace/notes/rooms.md`.
    path: String,
    content: String,
}

impl WriteFile {
    fn change(call: &ToolCall<'_>) -> Result<WorkspaceChange, ToolError> {
        let args: WriteFileArgs = read_args(call.args)?;
        let content = args.content;
        WorkspaceChange::of(call, &args.path, Box::new(move |_| Ok(content)))
    }
}

impl Tool for WriteFile {
    fn needs(&self) -> &'static [ToolNeed] {
        &[ToolNeed::Orders]
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: "write_file".to_owned(),
            description: DESCRIPTION.to_owned(),
            input_schema: arguments_schema::<WriteFileArgs>(),
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
