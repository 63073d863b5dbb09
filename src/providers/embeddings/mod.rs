//! Vectors of texts, by the two formats that servers have for them.
//!
//! - `openai_form`: `POST /embeddings`, of OpenAI and of most others
//! - `gemini_form`: Gemini's `batchEmbedContents`
//! - `vectors`: what is read of an answer, and what is refused. Pure.
//!
//! Not a part of [`crate::providers::Provider`]: nothing streams, and no turn of a run asks. A client translates; it never
//! retries, never stores, never decides.

mod openai_form;
mod gemini_form;
mod vectors;

use crate::config::ProviderSettings;
use crate::domain::ErrorClass;
use crate::providers::api::{compat, openai, openrouter};
use crate::providers::contract::estimate;
use crate::providers::contract::traits::{CallContext, Phase, ProviderError, TokenUsage};
use crate::providers::transport::http::Endpoint;
use gemini_form::GeminiForm;
use openai_form::OpenAiForm;
use serde_json::Value;

/// Adapters whose servers make vectors, and the form that they are asked in.
const ADAPTERS: &[(&str, &dyn EmbeddingForm)] = &[
    ("openai", &OpenAiForm::for_dialect(&openai::OPENAI)),
    (
        "openrouter",
        &OpenAiForm::for_dialect(&openrouter::OPENROUTER),
    ),
    ("compat", &OpenAiForm::for_dialect(&compat::COMPAT)),
    ("ollama", &OpenAiForm::OLLAMA),
    ("gemini", &GeminiForm),
];

/// Longest list of texts of one call; Gemini takes a hundred.
pub const TEXTS_MAX: usize = 64;

/// Returns the adapters whose servers make vectors.
pub fn adapters() -> impl Iterator<Item = &'static str> {
    ADAPTERS.iter().map(|(name, _)| *name)
}

/// What the texts are: some models make other vectors of questions than of what may answer them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddedKind {
    Letter,
    Question,
}

/// Texts of which vectors are wanted.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddingRequest<'a> {
    pub model: &'a str,
    /// Length of the vectors; `None`: the model's own.
    pub dimensions: Option<u32>,
    pub kind: EmbeddedKind,
    /// At most [`TEXTS_MAX`], none of them empty.
    pub texts: &'a [&'a str],
}

/// Vectors of the texts of a request, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingAnswer {
    /// Each of length 1.
    pub vectors: Vec<Vec<f32>>,
    pub usage: TokenUsage,
}

/// A format of servers that make vectors.
trait EmbeddingForm: Send + Sync {
    /// Opens the endpoint of a block of the configuration. Errors: phase `Config`.
    fn endpoint(&self, settings: &ProviderSettings) -> Result<Endpoint, ProviderError>;
    /// Returns the path of a call, where it differs from the endpoint's. Errors: class `BadRequest`.
    fn path(&self, model: &str) -> Result<Option<String>, ProviderError>;
    fn body(&self, request: &EmbeddingRequest<'_>) -> Value;
    /// Reads the vectors in their order, and the tokens, where the server tells. Errors: class `Protocol`.
    fn read(
        &self,
        answer: &Value,
        texts: usize,
    ) -> Result<(Vec<Vec<f32>>, Option<u64>), ProviderError>;
}

/// Client of one server that makes vectors.
pub struct EmbeddingClient {
    form: &'static dyn EmbeddingForm,
    endpoint: Endpoint,
}

impl EmbeddingClient {
    /// Builds the client of a provider of the configuration; opens no connection. Errors: phase `Config`.
    pub fn new(provider: &str, settings: &ProviderSettings) -> Result<Self, ProviderError> {
        let adapter = provider.split_once(':').map_or(provider, |(name, _)| name);
        let known = ADAPTERS.iter().find(|(name, _)| *name == adapter);
        let Some((_, form)) = known else {
            let known: Vec<&str> = adapters().collect();
            let message = format!(
                "`{provider}` makes no vectors of texts; these do: {}",
                known.join(", ")
            );
            let class = ErrorClass::Unsupported;
            return Err(ProviderError::new(class, Phase::Config, message));
        };
        Ok(Self {
            form: *form,
            endpoint: form.endpoint(settings)?,
        })
    }

    /// Returns the URL of the server, without secrets.
    pub fn base_url(&self) -> String {
        self.endpoint.base_url()
    }

    /// Returns the exact body of a call.
    pub fn encode(&self, request: &EmbeddingRequest<'_>) -> String {
        self.form.body(request).to_string()
    }

    /// Sends a body that [`Self::encode`] made of the request. Errors: those of a call; class `Protocol` for an answer with
    /// other vectors than were asked for.
    pub async fn embed(
        &self,
        request: &EmbeddingRequest<'_>,
        encoded: &str,
        context: &CallContext,
    ) -> Result<EmbeddingAnswer, ProviderError> {
        let path = self.form.path(request.model)?;
        let answer = self.endpoint.ask(path.as_deref(), encoded, context).await?;
        let (vectors, tokens) = self.form.read(&answer, request.texts.len())?;
        let estimated = || {
            request
                .texts
                .iter()
                .map(|text| estimate::tokens(text))
                .sum()
        };
        Ok(EmbeddingAnswer {
            vectors: vectors::checked(vectors, request.dimensions)?,
            usage: TokenUsage {
                input_tokens: tokens.unwrap_or_else(estimated),
                estimated: tokens.is_none(),
                ..TokenUsage::default()
            },
        })
    }
}
