//! Gemini's `streamGenerateContent`: the URL, the body and the check. History is in
//! `gemini_contents.rs`, the decoder in `gemini_parts.rs`.
//!
//! The model is in the URL and not in the body, so a call needs `CallContext::model`. Absent on
//! purpose: the interactions API, which keeps conversations at the vendor, files, and tools that
//! run there.

use crate::config::{ProviderSettings, Think};
use crate::domain::ErrorClass;
use crate::providers::Adapter;
use crate::providers::api::gemini_contents::contents;
use crate::providers::api::gemini_parts::PartsDecoder;
use crate::providers::contract::accumulate::broken;
use crate::providers::contract::estimate;
use crate::providers::contract::normalise;
use crate::providers::contract::traits::{
    CallContext, Capabilities, Event, Health, OutputSchema, Parameter, Phase, Provider,
    ProviderError, Request, RequestEncoder, Structured, ToolChoice, ToolSpec,
};
use crate::providers::transport::classify::Family;
use crate::providers::transport::decode::Decoder;
use crate::providers::transport::http::{self, Endpoint, EndpointSpec};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use reqwest::Url;
use reqwest::header::HeaderName;
use serde::Serialize;
use serde_json::{Value, json};

pub const ADAPTER: Adapter = Adapter {
    id: "gemini",
    key_variable: Some("GEMINI_API_KEY"),
    settings: &[http::SETTINGS, &["think"]],
    build,
};

const DEFAULT_BASE_URL: &str = "https://generativelanguage.googleapis.com";
const API_VERSION: &str = "v1beta";
/// Page size above the number of the vendor's models, so that one page holds them.
const MODELS_PATH: &str = "models?pageSize=1000";
/// Prefixes of models that take a call without the signature of its thoughts, which all later ones
/// refuse (ai.google.dev/gemini-api/docs/thought-signatures), and that refuse tools and a schema in
/// one request.
const OLDER_MODELS: &[&str] = &["gemini-1.", "gemini-2."];

struct Gemini {
    endpoint: Endpoint,
    think: Option<Think>,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    let base_url = settings.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
    // A URL without a path gets the version from us.
    let bare = Url::parse(base_url).is_ok_and(|url| url.path() == "/");
    let versioned = format!("{}/{API_VERSION}", base_url.trim_end_matches('/'));
    let endpoint = Endpoint::new(&EndpointSpec {
        adapter: &ADAPTER,
        name: ADAPTER.id,
        family: Family::Gemini,
        base_url: if bare { &versioned } else { base_url },
        plain_http: settings.plain_http,
        path: "models",
        key: settings.api_key.as_ref(),
        // Never `?key=`: URLs are logged everywhere.
        key_header: (HeaderName::from_static("x-goog-api-key"), ""),
        extra_headers: &[],
    })?;
    Ok(Box::new(Gemini {
        endpoint,
        think: settings.think,
    }))
}

impl RequestEncoder for Gemini {
    fn id(&self) -> &str {
        ADAPTER.id
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            structured: Structured::Native,
            ..Capabilities::MODEL
        }
    }

    fn encode_request(&self, request: &Request) -> Result<String, ProviderError> {
        model_path(&request.model)?;
        body(request, self.think)
    }
}

impl Provider for Gemini {
    fn endpoint(&self) -> Option<String> {
        Some(self.endpoint.base_url())
    }

    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<Health, ProviderError>> {
        Box::pin(async move {
            let list = self.endpoint.get(MODELS_PATH, &context).await?;
            let models = list.get("models").and_then(Value::as_array);
            let models = models.ok_or_else(|| broken("the list of models has no `models`"))?;
            let name = |model: &Value| model.get("name").and_then(Value::as_str).map(str::to_owned);
            let models = models.iter().filter_map(name);
            let models = models
                .map(|name| name.trim_start_matches("models/").to_owned())
                .collect();
            Ok(Health {
                endpoint: self.endpoint(),
                models,
                ..Health::default()
            })
        })
    }

    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let decoder = |request_id| -> Box<dyn Decoder + 'a> {
            Box::new(PartsDecoder::new(request_id, estimate::tokens(encoded)))
        };
        match model_path(&context.model) {
            Ok(model) => {
                let path = format!("{model}:streamGenerateContent?alt=sse");
                self.endpoint
                    .call_at(&path, encoded, context, Box::new(decoder))
            }
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        }
    }
}

/// Returns `models/NAME`, for a name that cannot change the URL. Errors: class `BadRequest`.
fn model_path(model: &str) -> Result<String, ProviderError> {
    let (kind, name) = match model.split_once('/') {
        Some((kind @ ("models" | "tunedModels"), name)) => (kind, name),
        _ => ("models", model),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.contains("..") || !name.chars().all(legal) {
        let message = format!("model name `{model}` is not of A-Z a-z 0-9 `-` `_` `.`");
        return Err(ProviderError::new(
            ErrorClass::BadRequest,
            Phase::BeforeSend,
            message,
        ));
    }
    Ok(format!("{kind}/{name}"))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    contents: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    generation_config: Generation,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation {
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

/// Encodes the body of one request. Pure.
fn body(request: &Request, think: Option<Think>) -> Result<String, ProviderError> {
    let request = normalise::request(request, ADAPTER.id)?;
    let keeps = |parameter: Parameter| !request.without.contains(&parameter);
    let model = request.model.rsplit('/').next().unwrap_or_default();
    let newer = !OLDER_MODELS.iter().any(|start| model.starts_with(start));
    let mode = match request.tool_choice {
        ToolChoice::Auto => "AUTO",
        ToolChoice::None => "NONE",
    };
    let has_tools = !request.tools.is_empty();
    let declarations: Vec<Value> = request.tools.iter().map(declaration).collect();
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
    let body = Body {
        system_instruction: (!system.is_empty()).then(|| json!({"parts": system})),
        contents: contents(&request.messages, newer),
        tools: has_tools.then(|| json!([{"functionDeclarations": declarations}])),
        tool_config: has_tools.then(|| json!({"functionCallingConfig": {"mode": mode}})),
        generation_config: Generation {
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

/// Declares a tool. `parametersJsonSchema` takes JSON Schema as it is; `parameters` would refuse
/// `additionalProperties` and others.
fn declaration(tool: &ToolSpec) -> Value {
    json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.input_schema})
}

/// Encodes the thinking effort: models of generation 2.5 take a budget, later ones a level.
fn thinking(think: Think) -> Value {
    match (think, think.level()) {
        (_, Some(level)) => json!({"includeThoughts": true, "thinkingLevel": level}),
        (Think::Off, None) => json!({"thinkingBudget": 0}),
        (_, None) => json!({"includeThoughts": true}),
    }
}
