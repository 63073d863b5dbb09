//! Body of a call of Gemini's `streamGenerateContent`. Pure.

use crate::config::Think;
use crate::providers::api::gemini::contents::contents;
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    OutputSchema, Parameter, ProviderError, Request, ToolChoice, ToolSchema,
};
use crate::providers::transport::classify::Family;
use serde::Serialize;
use serde_json::{Value, json};

/// Prefixes of models that take a call without the signature of its thoughts, which all later ones
/// refuse (ai.google.dev/gemini-api/docs/thought-signatures), and that refuse tools and a schema in
/// one request.
const OLDER_MODELS: &[&str] = &["gemini-1.", "gemini-2."];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    contents: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[GeminiTools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    generation_config: GenerationConfig,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiTools<'a> {
    function_declarations: Vec<FunctionDeclaration<'a>>,
}

/// A tool. `parametersJsonSchema` takes JSON Schema as it is; `parameters` would refuse `additionalProperties` and others.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionDeclaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a ToolSchema,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Value>,
}

/// Encodes the body of one request. Errors: class `BadRequest`.
pub fn body(request: &Request, think: Option<Think>) -> Result<String, ProviderError> {
    let request = normalise::request(request, Family::Gemini.as_str())?;
    let keeps = |parameter: Parameter| !request.without.contains(&parameter);
    let model = request.model.rsplit('/').next().unwrap_or_default();
    let newer = !OLDER_MODELS.iter().any(|start| model.starts_with(start));
    let mode = match request.tool_choice {
        ToolChoice::Auto => "AUTO",
        ToolChoice::None => "NONE",
    };
    let has_tools = !request.tools.is_empty();
    let declarations = request.tools.iter().map(|tool| FunctionDeclaration {
        name: &tool.name,
        description: &tool.description,
        parameters_json_schema: &tool.input_schema,
    });
    let declared = GeminiTools {
        function_declarations: declarations.collect(),
    };
    // The older models refuse a schema together with tools.
    let may_bind = keeps(Parameter::OutputSchema) && (newer || !has_tools);
    let bound = request.output.as_ref().filter(|_| may_bind);
    let spoken = request
        .output
        .as_ref()
        .filter(|_| !may_bind)
        .map(OutputSchema::in_words);
    let part = |text: String| json!({"text": text});
    let system: Vec<Value> = request
        .system
        .iter()
        .cloned()
        .chain(spoken)
        .map(part)
        .collect();
    let body = GeminiRequest {
        system_instruction: (!system.is_empty()).then(|| json!({"parts": system})),
        contents: contents(&request.messages, newer),
        tools: has_tools.then_some([declared]),
        tool_config: has_tools.then(|| json!({"functionCallingConfig": {"mode": mode}})),
        generation_config: GenerationConfig {
            max_output_tokens: request.max_output_tokens,
            temperature: request
                .temperature
                .filter(|_| keeps(Parameter::Temperature)),
            response_mime_type: bound.map(|_| "application/json"),
            response_json_schema: bound.map(|output| output.schema.clone()),
            thinking_config: think.filter(|_| keeps(Parameter::Reasoning)).map(thinking),
        },
    };
    normalise::encode(&body)
}

/// Encodes the thinking effort: models of generation 2.5 take a budget, later ones a level.
fn thinking(think: Think) -> Value {
    match (think, think.level()) {
        (_, Some(level)) => json!({"includeThoughts": true, "thinkingLevel": level}),
        (Think::Off, None) => json!({"thinkingBudget": 0}),
        (_, None) => json!({"includeThoughts": true}),
    }
}
