//! Tools of this engine: the struct of a tool's arguments is the tool.

use super::arguments::read_args;
use super::schema::{arguments_schema, description};
use super::*;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::time::Duration;

/// A tool whose arguments are its fields.
///
/// The doc comment of the struct is the description that the model reads, and those of its fields describe the arguments.
/// The constants are explained at [`ToolDeclaration`] and [`Tool`]; `list_files` is the smallest example.
pub trait TypedTool: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const CLASS: ToolClass = ToolClass::Repeatable;
    const EFFECTS: Effects = Effects::NONE;
    const RESULT_WORDS: ResultWords = ResultWords::Unknown;
    const USES: ToolCapabilities = ToolCapabilities::NONE;
    const NEEDS: &'static [ToolNeed] = &[];

    /// Returns the time of its calls where nothing else is configured: [`Tool::timeout`].
    fn timeout() -> Option<Duration> {
        None
    }

    /// Executes a call: [`Tool::call`].
    fn call(
        self,
        call: &ToolCall<'_>,
    ) -> impl Future<Output = Result<ToolOutcome, ToolError>> + Send;

    /// Returns what a call will do: [`Tool::expected_effects`].
    fn expected_effects(
        self,
        _call: &ToolCall<'_>,
    ) -> impl Future<Output = Result<Value, ToolError>> + Send {
        async { Ok(Value::Null) }
    }

    /// Returns the outcome of an interrupted call: [`Tool::verify`].
    fn verify(
        _call: &ToolCall<'_>,
        _expected: &Value,
    ) -> impl Future<Output = Result<CallTrace, ToolError>> + Send {
        async { Ok(CallTrace::Neither) }
    }
}

/// Returns a tool of this engine as a registry holds it.
pub fn tool<T: TypedTool>() -> Box<dyn Tool> {
    Box::new(EngineTool(PhantomData::<fn() -> T>))
}

struct EngineTool<T>(PhantomData<fn() -> T>);

impl<T: TypedTool> Tool for EngineTool<T> {
    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: T::NAME.to_owned(),
            description: description::<T>(),
            input_schema: arguments_schema::<T>().into(),
            class: T::CLASS,
            effects: T::EFFECTS,
            result_words: T::RESULT_WORDS,
            capabilities: T::USES,
        }
    }

    fn timeout(&self) -> Option<Duration> {
        T::timeout()
    }

    fn needs(&self) -> &'static [ToolNeed] {
        T::NEEDS
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<ToolOutcome, ToolError>> {
        Box::pin(async move { read_args::<T>(call.args)?.call(&call).await })
    }

    fn expected_effects<'a>(
        &'a self,
        call: ToolCall<'a>,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move { read_args::<T>(call.args)?.expected_effects(&call).await })
    }

    fn verify<'a>(
        &'a self,
        call: ToolCall<'a>,
        expected: &'a Value,
    ) -> BoxFuture<'a, Result<CallTrace, ToolError>> {
        Box::pin(async move { T::verify(&call, expected).await })
    }
}
