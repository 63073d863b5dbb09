//! `embeddings` in `configs/inference.json`: the model that makes vectors of letters for the search.

use super::instances::is_provider;
use crate::config::values::section::*;

/// A model that makes vectors of letters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingSettings {
    /// Name of the provider: `openai`, `openrouter`, `gemini`, `ollama`, `compat:NAME` or one of their instances. It gets the
    /// beginning of every letter.
    pub provider: String,
    /// One of its models that make vectors, by the provider's name for it.
    #[schemars(length(min = 1))]
    pub model: String,
    /// Length of the vectors, for models that can shorten them. Default: the model's own.
    #[schemars(range(min = 1, max = 16_384))]
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

/// Checks the settings; a provider that does not exist, or makes no vectors, is a problem.
pub fn check(settings: &EmbeddingSettings, place: &mut CheckPlace<'_, '_>) {
    let provider = &settings.provider;
    let names = place.ctx.names;
    let makers = &names.embedding_providers;
    if is_provider(provider, "provider", place) && !makers.contains(&adapter_of(provider)) {
        let message = format!("`{provider}` makes no vectors of texts");
        let hint = format!(
            "these do: {}; a server of your own with OpenAI's `/v1/embeddings` is a `compat:NAME`",
            makers.join(", ")
        );
        place.refuse("provider", message, hint);
    }
}
