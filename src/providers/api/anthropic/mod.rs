//! Anthropic's messages API: the endpoint and the check. The body is in `request.rs`, the decoder in
//! `decoder.rs`.
//!
//! Absent on purpose: server-side tools, citations, files.

pub(in crate::providers) mod request;
pub mod decoder;

use crate::config::ProviderSettings;
use crate::providers::Adapter;
use crate::providers::api::anthropic::decoder::AnthropicDecoder;
use crate::providers::contract::traits::{
    CallContext, Capabilities, ContentKinds, Event, Provider, ProviderCheck, ProviderError,
    Request, RequestEncoder,
};
use crate::providers::transport::classify::Family;
use crate::providers::transport::http::{self, Endpoint, EndpointSpec};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use reqwest::header::HeaderName;

pub const ADAPTER: Adapter = Adapter {
    id: "anthropic",
    key_variable: Some("ANTHROPIC_API_KEY"),
    settings: &[http::SETTINGS, http::API_SETTINGS],
    bounds: None,
    build,
};

const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";
/// Images that the API takes (docs.anthropic.com, vision).
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];
const API_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

struct Anthropic {
    name: String,
    endpoint: Endpoint,
    models_path: String,
}

fn build(settings: &ProviderSettings) -> Result<Box<dyn Provider>, ProviderError> {
    let base_url = settings.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
    // The vendor's own libraries take the host; other servers have URLs that end with the version.
    let version = if base_url.trim_end_matches('/').ends_with("/v1") {
        ""
    } else {
        "v1/"
    };
    let endpoint = Endpoint::new(&EndpointSpec {
        adapter: &ADAPTER,
        settings,
        name: settings.name_or(ADAPTER.id),
        family: Family::Anthropic,
        base_url,
        plain_http: settings.plain_http,
        path: &format!("{version}messages"),
        key: settings.api_key.as_ref(),
        key_header: (HeaderName::from_static("x-api-key"), ""),
        extra_headers: &[API_VERSION],
    })?;
    // The largest page that the API allows.
    Ok(Box::new(Anthropic {
        name: settings.name_or(ADAPTER.id).to_owned(),
        endpoint,
        models_path: format!("{version}models?limit=1000"),
    }))
}

impl RequestEncoder for Anthropic {
    fn id(&self) -> &str {
        &self.name
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            content: ContentKinds::images(IMAGES).and_pdf(),
            ..Capabilities::MODEL
        }
    }

    fn encode(&self, request: &Request) -> Result<String, ProviderError> {
        request::body(request)
    }
}

impl Provider for Anthropic {
    fn endpoint(&self) -> Option<String> {
        Some(self.endpoint.base_url())
    }

    fn check(&self, context: CallContext) -> BoxFuture<'_, Result<ProviderCheck, ProviderError>> {
        Box::pin(async move { self.endpoint.check(&self.models_path, &context).await })
    }

    fn stream<'a>(
        &'a self,
        encoded: &'a str,
        context: CallContext,
    ) -> BoxStream<'a, Result<Event, ProviderError>> {
        self.endpoint.call(
            encoded,
            context,
            Box::new(|request_id| Box::new(AnthropicDecoder::new(request_id))),
        )
    }
}
