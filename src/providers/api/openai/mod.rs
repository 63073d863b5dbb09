//! OpenAI's chat completions, and what all servers of that API have in common.
//!
//! A vendor of this dialect is a [`Dialect`] value beside its `ADAPTER`; `grok.rs` is one to copy.
//! A difference between servers of one vendor is a switch in its block of the configuration.
//! Reasoning that servers send beside the answer is kept apart from the text. With a call it is
//! sent back to the model that made it, in the member that it came in: DeepSeek and Moonshot refuse
//! the call without it. Without a call it is not, because DeepSeek's older model refuses that.
//! Absent on purpose: the responses API, images by URL.

mod calls;
mod content;
pub mod decoder;
pub(in crate::providers) mod dialect;
pub(in crate::providers) mod request;
mod usage;

pub(in crate::providers) use dialect::Dialect;

use crate::config::{ChatSwitches, ProviderSettings, StructuredOutput};
use crate::domain::ErrorClass;
use crate::providers::Adapter;
use crate::providers::api::openai::decoder::{ChunkDecoder, is_unread_call};
use crate::providers::api::openai::dialect::{effort, no_members};
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{
    CallContext, Capabilities, ContentKinds, Event, FinishReason, Phase, Provider, ProviderCheck,
    ProviderError, Request, RequestEncoder, Response, Structured, TokenUsage,
};
use crate::providers::transport::classify::Family;
use crate::providers::transport::http::{self, Endpoint, EndpointSpec};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use reqwest::header::AUTHORIZATION;
use serde_json::json;

pub const ADAPTER: Adapter = Adapter {
    id: "openai",
    key_variable: Some("OPENAI_API_KEY"),
    settings: &[http::SETTINGS, SETTINGS],
    bounds: None,
    build,
};

/// Settings of every block of this dialect, in addition to those of every endpoint.
pub const SETTINGS: &[&str] = &[
    "legacy_max_tokens",
    "no_stream_usage",
    "no_temperature",
    "no_store",
    "developer_role",
    "named_tool_results",
    "assistant_after_tools",
    "empty_tools",
    "strict_schemas",
    "reasoning_effort",
    "structured_output",
];

/// Images that OpenAI takes (its guide on images and vision); a GIF must not be animated.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/gif"];

const OPENAI: Dialect = Dialect {
    adapter: &ADAPTER,
    family: Family::OpenAi,
    base_url: Some("https://api.openai.com/v1"),
    title: None,
    key_path: None,
    legacy_max_tokens: false,
    content: ContentKinds::images(IMAGES),
    effort,
    routing: no_members,
};

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    provider(settings, &OPENAI)
}

struct ChatCompletions {
    name: String,
    endpoint: Endpoint,
    models_path: String,
    key_path: Option<String>,
    dialect: &'static Dialect,
    switches: ChatSwitches,
}

/// Builds a provider of this dialect. Errors: phase `Config`.
pub fn provider(
    settings: &ProviderSettings,
    dialect: &'static Dialect,
) -> Result<Box<dyn Provider>, ProviderError> {
    let name = if settings.name.is_empty() {
        dialect.adapter.id
    } else {
        settings.name.as_str()
    };
    let nowhere = || {
        let message = format!("`{name}`: no `base_url`");
        ProviderError::new(ErrorClass::Config, Phase::Config, message)
    };
    let base_url = settings
        .base_url
        .as_deref()
        .or(dialect.base_url)
        .ok_or_else(nowhere)?;
    let origin = settings
        .chat
        .attribution_url
        .as_deref()
        .map(|url| ("http-referer", url));
    let title = dialect.title.map(|title| ("x-title", title));
    // Servers of this dialect are below `/v1`; for a URL without any path we add it.
    let version = if has_path(base_url) { "" } else { "v1/" };
    let endpoint = Endpoint::new(&EndpointSpec {
        adapter: dialect.adapter,
        name,
        family: dialect.family,
        base_url,
        plain_http: settings.plain_http,
        path: &format!("{version}chat/completions"),
        key: settings.api_key.as_ref(),
        key_header: (AUTHORIZATION, "Bearer "),
        extra_headers: &title.into_iter().chain(origin).collect::<Vec<_>>(),
    })?;
    Ok(Box::new(ChatCompletions {
        name: name.to_owned(),
        endpoint,
        models_path: format!("{version}models"),
        key_path: dialect.key_path.map(|path| format!("{version}{path}")),
        dialect,
        switches: settings.chat.clone(),
    }))
}

fn has_path(base_url: &str) -> bool {
    let after_scheme = base_url
        .split_once("://")
        .map_or(base_url, |(_, rest)| rest);
    after_scheme
        .split_once('/')
        .is_some_and(|(_, path)| !path.trim_matches('/').is_empty())
}

impl RequestEncoder for ChatCompletions {
    fn id(&self) -> &str {
        &self.name
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        let structured = match self.switches.structured_output {
            StructuredOutput::JsonSchema => Structured::Native,
            StructuredOutput::JsonObject | StructuredOutput::None => Structured::Prompted,
        };
        let reports_cost = self.dialect.family == Family::OpenRouter;
        Capabilities {
            structured,
            content: self.dialect.content,
            reports_cost,
            ..Capabilities::MODEL
        }
    }

    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        request::body(request, self.dialect, &self.switches)
    }
}

impl Provider for ChatCompletions {
    fn endpoint(&self) -> Option<String> {
        Some(self.endpoint.base_url())
    }

    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<ProviderCheck, ProviderError>> {
        Box::pin(async move {
            if let Some(path) = &self.key_path {
                self.endpoint.get(path, &context).await?;
            }
            self.endpoint.check(&self.models_path, &context).await
        })
    }

    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        // Within a string the quotation marks would be escaped, so this is the member itself.
        let usage_expected = encoded.contains(&format!(
            "\"stream_options\":{}",
            json!({"include_usage": true})
        ));
        let (family, adapter, model) = (
            self.dialect.family,
            self.dialect.adapter.id,
            context.model.clone(),
        );
        let decoder =
            move |request_id| -> Box<dyn crate::providers::transport::decode::Decoder + 'a> {
                let decoder = ChunkDecoder::new(
                    request_id,
                    family,
                    usage_expected,
                    estimate::request(encoded),
                );
                Box::new(decoder.returning_reasoning_by(adapter))
            };
        let events = self.endpoint.call(encoded, context, Box::new(decoder));
        let unread = move |event: Result<Event, ProviderError>| match event {
            Err(error) if is_unread_call(&error) => {
                stream::iter(unread_call(&model, encoded)).left_stream()
            }
            other => stream::iter([other]).right_stream(),
        };
        events.flat_map(unread).boxed()
    }
}

/// Returns the answer of a vendor that refuses its own model's output before the stream: an answer
/// with a call that cannot be parsed. It was paid for, and its usage is not reported.
fn unread_call(model: &str, encoded: &str) -> Vec<Result<Event, ProviderError>> {
    let usage = TokenUsage {
        input_tokens: estimate::request(encoded),
        estimated: true,
        ..TokenUsage::default()
    };
    let response = Response {
        blocks: Vec::new(),
        stop: FinishReason::MalformedCall,
        usage,
        model_served: model.to_owned(),
        provider_request_id: None,
        breakdown: Vec::new(),
        session_usage: None,
    };
    let started = Event::Started {
        provider_request_id: None,
        model: model.to_owned(),
    };
    vec![Ok(started), Ok(Event::Finished(response))]
}
