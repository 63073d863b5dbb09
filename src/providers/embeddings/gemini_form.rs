//! Gemini's `batchEmbedContents` (ai.google.dev/api/embeddings): the model in the URL, and what the texts are for.

use super::vectors::numbers;
use super::{EmbeddedKind, EmbeddingForm, EmbeddingRequest};
use crate::config::ProviderSettings;
use crate::providers::api::gemini;
use crate::providers::contract::accumulate::broken;
use crate::providers::contract::traits::ProviderError;
use crate::providers::transport::http::Endpoint;
use serde_json::{Value, json};

pub(super) struct GeminiForm;

impl EmbeddingForm for GeminiForm {
    fn endpoint(&self, settings: &ProviderSettings) -> Result<Endpoint, ProviderError> {
        gemini::endpoint(settings)
    }

    fn path(&self, model: &str) -> Result<Option<String>, ProviderError> {
        let model = gemini::model_path(model)?;
        Ok(Some(format!("{model}:batchEmbedContents")))
    }

    fn body(&self, request: &EmbeddingRequest<'_>) -> Value {
        // A name that is none was refused by `path`.
        let model = gemini::model_path(request.model).unwrap_or_default();
        let task = match request.kind {
            EmbeddedKind::Letter => "RETRIEVAL_DOCUMENT",
            EmbeddedKind::Question => "RETRIEVAL_QUERY",
        };
        let one = |text: &&str| {
            let content = json!({"parts": [{"text": text}]});
            let mut one = json!({"model": model, "content": content, "taskType": task});
            if let Some(dimensions) = request.dimensions {
                one["outputDimensionality"] = json!(dimensions);
            }
            one
        };
        json!({"requests": request.texts.iter().map(one).collect::<Vec<_>>()})
    }

    fn read(
        &self,
        answer: &Value,
        texts: usize,
    ) -> Result<(Vec<Vec<f32>>, Option<u64>), ProviderError> {
        let list = answer.get("embeddings").and_then(Value::as_array);
        let list = list.ok_or_else(|| broken("the answer has no `embeddings`"))?;
        if list.len() != texts {
            let found = list.len();
            return Err(broken(format!(
                "the answer has {found} vectors for {texts} texts"
            )));
        }
        let vectors = list.iter().map(|item| numbers(item.get("values")));
        let usage = answer.get("usageMetadata");
        let tokens = usage.and_then(|usage| usage.get("promptTokenCount")?.as_u64());
        Ok((vectors.collect::<Result<_, _>>()?, tokens))
    }
}
