//! OpenAI's `POST /embeddings`, which Voyage, Mistral, Ollama, vLLM, llama.cpp and many more speak.

use super::vectors::numbers;
use super::{EmbeddingForm, EmbeddingRequest};
use crate::config::ProviderSettings;
use crate::providers::api::ollama;
use crate::providers::api::openai::Dialect;
use crate::providers::api::openai::endpoint::DialectServer;
use crate::providers::contract::accumulate::broken;
use crate::providers::contract::traits::ProviderError;
use crate::providers::transport::classify::Family;
use crate::providers::transport::http::{Endpoint, EndpointSpec};
use reqwest::header::AUTHORIZATION;
use serde_json::{Value, json};

pub(super) struct OpenAiForm {
    /// `None`: Ollama, whose own API is another, and which has this one below `/v1`.
    dialect: Option<&'static Dialect>,
}

impl OpenAiForm {
    pub const OLLAMA: Self = Self { dialect: None };

    pub const fn for_dialect(dialect: &'static Dialect) -> Self {
        Self {
            dialect: Some(dialect),
        }
    }
}

impl EmbeddingForm for OpenAiForm {
    fn endpoint(&self, settings: &ProviderSettings) -> Result<Endpoint, ProviderError> {
        if let Some(dialect) = self.dialect {
            return Ok(DialectServer::new(settings, dialect, "embeddings")?.endpoint);
        }
        let base_url = settings.base_url.as_deref();
        Endpoint::new(&EndpointSpec {
            adapter: &ollama::ADAPTER,
            settings,
            name: settings.name_or(ollama::ADAPTER.id),
            family: Family::Ollama,
            base_url: base_url.unwrap_or(ollama::DEFAULT_BASE_URL),
            plain_http: settings.plain_http,
            path: "v1/embeddings",
            key: settings.api_key.as_ref(),
            key_header: (AUTHORIZATION, "Bearer "),
            extra_headers: &[],
        })
    }

    fn path(&self, _model: &str) -> Result<Option<String>, ProviderError> {
        Ok(None)
    }

    fn body(&self, request: &EmbeddingRequest<'_>) -> Value {
        let mut body = json!({
            "model": request.model, "input": request.texts, "encoding_format": "float",
        });
        if let Some(dimensions) = request.dimensions {
            body["dimensions"] = json!(dimensions);
        }
        body
    }

    fn read(
        &self,
        answer: &Value,
        texts: usize,
    ) -> Result<(Vec<Vec<f32>>, Option<u64>), ProviderError> {
        let data = answer.get("data").and_then(Value::as_array);
        let data = data.ok_or_else(|| broken("the answer has no `data`"))?;
        if data.len() != texts {
            let found = data.len();
            return Err(broken(format!(
                "the answer has {found} vectors for {texts} texts"
            )));
        }
        let mut vectors = vec![None; texts];
        for item in data {
            let index = item.get("index").and_then(Value::as_u64);
            let index = index.and_then(|index| usize::try_from(index).ok());
            let place = index.and_then(|index| vectors.get_mut(index));
            let place = place.ok_or_else(|| broken("a vector has no `index` of a text"))?;
            if place.is_some() {
                return Err(broken("two vectors have the same `index`"));
            }
            *place = Some(numbers(item.get("embedding"))?);
        }
        let usage = answer.get("usage");
        let tokens = ["prompt_tokens", "total_tokens"]
            .iter()
            .find_map(|member| usage?.get(member)?.as_u64());
        // Some servers write zeros where they count nothing.
        let tokens = tokens.filter(|tokens| *tokens > 0);
        Ok((vectors.into_iter().flatten().collect(), tokens))
    }
}
