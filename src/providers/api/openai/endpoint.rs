//! Server of one of OpenAI's APIs, as a block of the configuration names it.

use crate::config::{ChatApi, ChatSwitches, ProviderSettings, StructuredOutput};
use crate::domain::ErrorClass;
use crate::providers::api::openai::dialect::{CacheKey, Dialect};
use crate::providers::contract::traits::{
    CallContext, Capabilities, ContentKinds, Phase, ProviderCheck, ProviderError, Structured,
};
use crate::providers::transport::classify::Family;
use crate::providers::transport::http::{Endpoint, EndpointSpec};
use reqwest::header::AUTHORIZATION;

/// Images that every server with a vision model takes.
const IMAGES: &[&str] = &["image/png", "image/jpeg"];

/// A server, and how it differs from OpenAI's.
pub struct DialectServer {
    pub name: String,
    pub endpoint: Endpoint,
    models_path: String,
    key_path: Option<String>,
    pub dialect: &'static Dialect,
    pub switches: ChatSwitches,
}

impl DialectServer {
    /// Reads the settings. `path`: of the API, below the version. Errors: phase `Config`.
    pub fn new(
        settings: &ProviderSettings,
        dialect: &'static Dialect,
        path: &str,
    ) -> Result<Self, ProviderError> {
        let name = settings.name_or(dialect.adapter.id);
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
            settings,
            name,
            family: dialect.family,
            base_url,
            plain_http: settings.plain_http,
            path: &format!("{version}{path}"),
            key: settings.api_key.as_ref(),
            key_header: (AUTHORIZATION, "Bearer "),
            extra_headers: &title.into_iter().chain(origin).collect::<Vec<_>>(),
        })?;
        let endpoint = match (dialect.cache_key, settings.chat.api) {
            (CacheKey::Header(header), ChatApi::Chat) => endpoint.with_cache_header(header),
            _ => endpoint,
        };
        Ok(Self {
            name: name.to_owned(),
            endpoint,
            models_path: format!("{version}models"),
            key_path: dialect.key_path.map(|path| format!("{version}{path}")),
            dialect,
            switches: settings.chat.clone(),
        })
    }

    /// Returns the capabilities of its models.
    pub fn capabilities(&self) -> Capabilities {
        let structured = match self.switches.structured_output {
            StructuredOutput::JsonSchema => Structured::Native,
            StructuredOutput::JsonObject | StructuredOutput::None => Structured::Prompted,
        };
        Capabilities {
            structured,
            content: match self.switches.images {
                true => ContentKinds::images(IMAGES),
                false => self.dialect.content,
            },
            reports_cost: self.dialect.family == Family::OpenRouter,
            ..Capabilities::MODEL
        }
    }

    /// Asks for the list of models. Errors: those of a call.
    pub async fn check(&self, context: &CallContext) -> Result<ProviderCheck, ProviderError> {
        if let Some(path) = &self.key_path {
            self.endpoint.get(path, context).await?;
        }
        self.endpoint.check(&self.models_path, context).await
    }
}

fn has_path(base_url: &str) -> bool {
    let after_scheme = base_url
        .split_once("://")
        .map_or(base_url, |(_, rest)| rest);
    after_scheme
        .split_once('/')
        .is_some_and(|(_, path)| !path.trim_matches('/').is_empty())
}
