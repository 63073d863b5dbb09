//! Ollama's own `/api/chat`: the endpoint and the check. The body is in `request.rs`, the decoder in
//! `decoder.rs`.
//!
//! Not its `/v1`, which has no `num_ctx`: without it the server takes a small default and silently
//! drops the beginning of a longer input. So `num_ctx` is always sent, and a longer input is
//! refused before it is sent. Absent on purpose: pulling models.

pub mod request;
pub mod decoder;

use crate::config::ProviderSettings;
use crate::domain::ErrorClass;
use crate::providers::Adapter;
use crate::providers::api::ollama::decoder::OllamaDecoder;
use crate::providers::api::ollama::request::RequestSettings;
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{
    CallContext, Capabilities, ContentKinds, Event, Provider, ProviderCheck, ProviderError,
    Request, RequestEncoder, Structured,
};
use crate::providers::transport::classify::Family;
use crate::providers::transport::decode::Decoder;
use crate::providers::transport::http::{self, Endpoint, EndpointSpec};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use reqwest::header::AUTHORIZATION;
use serde_json::{Value, json};

/// Adapter without a key: one is sent if the configuration names it (a proxy in front of the
/// server).
pub const ADAPTER: Adapter = Adapter {
    id: "ollama",
    key_variable: None,
    settings: &[http::SETTINGS, http::API_SETTINGS, &["keep_alive", "think"]],
    bounds: None,
    build,
};

pub(in crate::providers) const DEFAULT_BASE_URL: &str = "http://127.0.0.1:11434";
/// Images that every release with vision models decodes (its `docs/api.md`).
const IMAGES: &[&str] = &["image/png", "image/jpeg"];
/// Default window in tokens: enough for a conversation by mail, and for a machine with 16 GB.
const CONTEXT_TOKENS: u32 = 16_384;

struct Ollama {
    endpoint: Endpoint,
    settings: RequestSettings,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    let endpoint = Endpoint::new(&EndpointSpec {
        adapter: &ADAPTER,
        settings,
        name: settings.name_or(ADAPTER.id),
        family: Family::Ollama,
        base_url: settings.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL),
        plain_http: settings.plain_http,
        path: "api/chat",
        key: settings.api_key.as_ref(),
        key_header: (AUTHORIZATION, "Bearer "),
        extra_headers: &[],
    })?;
    // The server reads a number as seconds and refuses a text without a unit.
    let keep_alive = |text: &String| {
        text.parse::<i64>()
            .map_or_else(|_| json!(text), |number| json!(number))
    };
    Ok(Box::new(Ollama {
        endpoint,
        settings: RequestSettings {
            name: settings.name_or(ADAPTER.id).to_owned(),
            context_tokens: settings.context_tokens.unwrap_or(CONTEXT_TOKENS),
            keep_alive: settings.keep_alive.as_ref().map(keep_alive),
            think: settings.think,
        },
    }))
}

impl RequestEncoder for Ollama {
    fn id(&self) -> &str {
        &self.settings.name
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        let window_tokens = Some(u64::from(self.settings.context_tokens));
        Capabilities {
            structured: Structured::Native,
            content: ContentKinds::images(IMAGES),
            window_tokens,
            ..Capabilities::MODEL
        }
    }

    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        self.settings.encode(request)
    }
}

impl Provider for Ollama {
    fn endpoint(&self) -> Option<String> {
        Some(self.endpoint.base_url())
    }

    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<ProviderCheck, ProviderError>> {
        Box::pin(async move {
            let version = self.endpoint.get("api/version", &context).await?;
            let tags = self.endpoint.get("api/tags", &context).await?;
            let text = |value: &Value, key: &str| {
                value.get(key).and_then(Value::as_str).map(str::to_owned)
            };
            let models = tags
                .get("models")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let models: Vec<String> = models.filter_map(|model| text(model, "name")).collect();
            let none = "the server has no model: `ollama pull MODEL` fetches one";
            Ok(ProviderCheck {
                endpoint: self.endpoint(),
                version: text(&version, "version"),
                note: models.is_empty().then(|| none.to_owned()),
                models,
            })
        })
    }

    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let model = context.model.clone();
        let window = u64::from(self.settings.context_tokens);
        let decoder = move |request_id| -> Box<dyn Decoder + 'a> {
            Box::new(OllamaDecoder::new(
                request_id,
                estimate::request(encoded),
                window,
            ))
        };
        let events = self.endpoint.call(encoded, context, Box::new(decoder));
        events
            .map(move |event| event.map_err(|error| with_hint(error, &model)))
            .boxed()
    }
}

fn with_hint(error: ProviderError, model: &str) -> ProviderError {
    match error.class {
        ErrorClass::ModelNotFound => {
            let message = format!("{}; `ollama pull {model}` fetches it", error.message);
            ProviderError { message, ..error }
        }
        _ => error,
    }
}
