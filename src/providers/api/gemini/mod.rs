//! Gemini's `streamGenerateContent`: the URL and the check. The body is in `request.rs`, its history
//! in `contents.rs`, the decoder in `decoder.rs`.
//!
//! The model is in the URL and not in the body, so a call needs `CallContext::model`. Absent on
//! purpose: the interactions API, which keeps conversations at the vendor, files, and tools that
//! run there.

pub(in crate::providers) mod contents;
pub(in crate::providers) mod request;
pub mod decoder;

use crate::config::{ProviderSettings, Think};
use crate::domain::ErrorClass;
use crate::providers::Adapter;
use crate::providers::api::gemini::decoder::GeminiDecoder;
use crate::providers::contract::accumulate::broken;
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{
    CallContext, Capabilities, ContentKinds, Event, Phase, Provider, ProviderCheck, ProviderError,
    Request, RequestEncoder, Structured,
};
use crate::providers::transport::classify::Family;
use crate::providers::transport::decode::Decoder;
use crate::providers::transport::http::{self, Endpoint, EndpointSpec};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use reqwest::Url;
use reqwest::header::HeaderName;
use serde_json::Value;

pub const ADAPTER: Adapter = Adapter {
    id: "gemini",
    key_variable: Some("GEMINI_API_KEY"),
    settings: &[http::SETTINGS, http::API_SETTINGS, &["think"]],
    bounds: None,
    build,
};

const DEFAULT_BASE_URL: &str = "https://generativelanguage.googleapis.com";
/// Images that Gemini takes (ai.google.dev/gemini-api/docs/image-understanding).
const IMAGES: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
];
const API_VERSION: &str = "v1beta";
/// Page size above the number of the vendor's models, so that one page holds them.
const MODELS_PATH: &str = "models?pageSize=1000";
struct Gemini {
    name: String,
    endpoint: Endpoint,
    think: Option<Think>,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    Ok(Box::new(Gemini {
        name: settings.name_or(ADAPTER.id).to_owned(),
        endpoint: endpoint(settings)?,
        think: settings.think,
    }))
}

/// Reads the settings of the server. Errors: phase `Config`.
pub(in crate::providers) fn endpoint(
    settings: &ProviderSettings,
) -> Result<Endpoint, ProviderError> {
    let base_url = settings.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
    // A URL without a path gets the version from us.
    let bare = Url::parse(base_url).is_ok_and(|url| url.path() == "/");
    let versioned = format!("{}/{API_VERSION}", base_url.trim_end_matches('/'));
    Endpoint::new(&EndpointSpec {
        adapter: &ADAPTER,
        settings,
        name: settings.name_or(ADAPTER.id),
        family: Family::Gemini,
        base_url: if bare { &versioned } else { base_url },
        plain_http: settings.plain_http,
        path: "models",
        key: settings.api_key.as_ref(),
        // Never `?key=`: URLs are logged everywhere.
        key_header: (HeaderName::from_static("x-goog-api-key"), ""),
        extra_headers: &[],
    })
}

impl RequestEncoder for Gemini {
    fn id(&self) -> &str {
        &self.name
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            structured: Structured::Native,
            content: ContentKinds::images(IMAGES).and_pdf(),
            ..Capabilities::MODEL
        }
    }

    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        model_path(&request.model)?;
        request::body(request, self.think)
    }
}

impl Provider for Gemini {
    fn endpoint(&self) -> Option<String> {
        Some(self.endpoint.base_url())
    }

    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<ProviderCheck, ProviderError>> {
        Box::pin(async move {
            let list = self.endpoint.get(MODELS_PATH, &context).await?;
            let models = list.get("models").and_then(Value::as_array);
            let models = models.ok_or_else(|| broken("the list of models has no `models`"))?;
            let name = |model: &Value| model.get("name").and_then(Value::as_str).map(str::to_owned);
            let models = models.iter().filter_map(name);
            let models = models
                .map(|name| name.trim_start_matches("models/").to_owned())
                .collect();
            Ok(ProviderCheck {
                endpoint: self.endpoint(),
                models,
                ..ProviderCheck::default()
            })
        })
    }

    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        let decoder = |request_id| -> Box<dyn Decoder + 'a> {
            Box::new(GeminiDecoder::new(request_id, estimate::request(encoded)))
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
pub(in crate::providers) fn model_path(model: &str) -> Result<String, ProviderError> {
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
