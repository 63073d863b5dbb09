//! OpenAI's chat completions, and what all servers of that API have in common.
//!
//! A vendor of this dialect is a [`Dialect`] value beside its `ADAPTER`; `grok.rs` is one to copy.
//! A difference between servers of one vendor is a switch in its block of the configuration.
//! Reasoning that servers send beside the answer is kept apart from the text. With a call it is
//! sent back to the model that made it, in the member that it came in: DeepSeek and Moonshot refuse
//! the call without it. Without a call it is not, because DeepSeek's older model refuses that.
//! The Responses API of the same vendors is `responses`; `api` in the block chooses it.
//! Absent on purpose: images by URL.

mod calls;
mod content;
pub mod decoder;
pub(in crate::providers) mod dialect;
pub(in crate::providers) mod endpoint;
pub(in crate::providers) mod request;
pub mod responses;
mod usage;

pub(in crate::providers) use dialect::Dialect;

use crate::config::{ChatApi, ProviderSettings};
use crate::providers::Adapter;
use crate::providers::api::openai::decoder::{ChunkDecoder, is_unread_call};
use crate::providers::api::openai::dialect::{CacheKey, effort, no_members};
use crate::providers::api::openai::endpoint::DialectServer;
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{
    CallContext, Capabilities, ContentKinds, Event, FinishReason, Provider, ProviderCheck,
    ProviderError, Request, RequestEncoder, Response, TokenUsage,
};
use crate::providers::transport::classify::Family;
use crate::providers::transport::http;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use serde_json::json;

pub const ADAPTER: Adapter = Adapter {
    id: "openai",
    key_variable: Some("OPENAI_API_KEY"),
    settings: &[http::SETTINGS, http::API_SETTINGS, SETTINGS, API],
    bounds: None,
    build,
};

/// Setting of the vendors that have the Responses API, too.
pub const API: &[&str] = &["api"];

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

pub(in crate::providers) const OPENAI: Dialect = Dialect {
    adapter: &ADAPTER,
    family: Family::OpenAi,
    base_url: Some("https://api.openai.com/v1"),
    title: None,
    key_path: None,
    legacy_max_tokens: false,
    // Its guide on file inputs.
    content: ContentKinds::images(IMAGES).and_pdf(),
    // OpenAI's guide on prompt caching.
    cache_key: CacheKey::Member,
    effort,
    routing: no_members,
};

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    provider(settings, &OPENAI)
}

struct ChatCompletions(DialectServer);

/// Builds a provider of this dialect. Errors: phase `Config`.
pub fn provider(
    settings: &ProviderSettings,
    dialect: &'static Dialect,
) -> Result<Box<dyn Provider>, ProviderError> {
    Ok(match settings.chat.api {
        ChatApi::Chat => {
            let server = DialectServer::new(settings, dialect, "chat/completions")?;
            Box::new(ChatCompletions(server))
        }
        ChatApi::Responses => {
            let server = DialectServer::new(settings, dialect, "responses")?;
            Box::new(responses::Responses::for_server(server))
        }
    })
}

impl RequestEncoder for ChatCompletions {
    fn id(&self) -> &str {
        &self.0.name
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        self.0.capabilities()
    }

    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        request::body(request, self.0.dialect, &self.0.switches)
    }
}

impl Provider for ChatCompletions {
    fn endpoint(&self) -> Option<String> {
        Some(self.0.endpoint.base_url())
    }

    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<ProviderCheck, ProviderError>> {
        Box::pin(async move { self.0.check(&context).await })
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
        let dialect = self.0.dialect;
        let (family, adapter, model) = (dialect.family, dialect.adapter.id, context.model.clone());
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
        let events = self.0.endpoint.call(encoded, context, Box::new(decoder));
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
