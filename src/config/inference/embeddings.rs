//! `embeddings` in `configs/inference.json`: the model that makes vectors of letters for the search.

use super::instances;
use crate::config::file::Document;
use crate::config::values::check_context::{CheckContext, adapter_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// JSON pointer of the provider.
pub const PROVIDER_POINTER: &str = "/embeddings/provider";

/// A model that makes vectors of letters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedEmbeddings {
    /// Name of the provider: `openai`, `openrouter`, `gemini`, `ollama`, `compat:NAME` or one of their instances. It gets the
    /// beginning of every letter.
    provider: String,
    /// One of its models that make vectors, by the provider's name for it.
    #[schemars(length(min = 1))]
    model: String,
    /// Length of the vectors, for models that can shorten them. Default: the model's own.
    #[schemars(range(min = 1, max = 16_384))]
    dimensions: Option<u32>,
}

/// A model that makes vectors of letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingSettings {
    pub provider: String,
    /// By the provider's name for it.
    pub model: String,
    /// `None`: the model's own.
    pub dimensions: Option<u32>,
}

impl EmbeddingSettings {
    /// Returns the name of the model in the rows of vectors: those of another provider, or of another length, are other ones.
    pub fn vector_model(&self) -> String {
        let Self {
            provider, model, ..
        } = self;
        match self.dimensions {
            None => format!("{provider}/{model}"),
            Some(dimensions) => format!("{provider}/{model}@{dimensions}"),
        }
    }
}

/// Resolves the settings; a provider that does not exist, or makes no vectors, is a problem.
pub fn resolve(
    file: &Document,
    typed: Option<&TypedEmbeddings>,
    ctx: &mut CheckContext<'_>,
) -> Option<EmbeddingSettings> {
    let typed = typed?;
    let provider = &typed.provider;
    let makers = &ctx.names.embedding_providers;
    if !ctx.knows_provider(provider) {
        let problem = file.problem_at(PROVIDER_POINTER, format!("no provider `{provider}`"));
        let problem = instances::explained(problem, provider, ctx);
        ctx.report(problem);
    } else if !makers.contains(&adapter_of(provider)) {
        let message = format!("`{provider}` makes no vectors of texts");
        let hint = format!(
            "these do: {}; a server of your own with OpenAI's `/v1/embeddings` is a `compat:NAME`",
            makers.join(", ")
        );
        ctx.refuse(file, PROVIDER_POINTER, message, hint);
    }
    Some(EmbeddingSettings {
        provider: provider.clone(),
        model: typed.model.clone(),
        dimensions: typed.dimensions,
    })
}

/// JSON for `attache config show`.
pub fn show(settings: &EmbeddingSettings) -> Value {
    json!({
        "provider": settings.provider, "model": settings.model, "dimensions": settings.dimensions,
    })
}
