//! Vectors of questions of runs, for a persona whose owner has switched them on for this model.

use super::calls::{Embedder, EmbeddingOrder};
use super::failure::EmbeddingFailure;
use crate::domain::{PersonaId, RunId, sha256_hex};
use crate::store::{EmbeddingPurpose, PersonaStore, QuestionVector};
use crate::tools::QuestionVectors;
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longest time that a search waits for a vector; then it goes by words.
const QUESTION_WAIT: Duration = Duration::from_secs(5);
/// Longest text of a question that is sent, in bytes, as of a letter.
const QUESTION_BYTES_MAX: usize = 2_000;
/// Most vectors of questions that are kept; then all are forgotten.
const KEPT_MAX: usize = 256;

/// Maker of vectors of questions, which keeps those that it made.
pub struct QuestionEmbedder {
    embedder: Arc<Embedder>,
    kept: Mutex<HashMap<(PersonaId, String), Vec<f32>>>,
    has_failed: AtomicBool,
}

impl QuestionEmbedder {
    pub fn new(embedder: Arc<Embedder>) -> Self {
        Self {
            embedder,
            kept: Mutex::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    async fn make(
        &self,
        persona: &PersonaStore,
        run: &RunId,
        question: &str,
    ) -> Result<Option<QuestionVector>, EmbeddingFailure> {
        let settings = self.embedder.settings();
        let model = settings.vector_model();
        let switch = persona.vector_switch().await?;
        let is_on = switch.is_some_and(|on| on.model == model && on.provider == settings.provider);
        let question = question.trim();
        if !is_on || question.is_empty() {
            return Ok(None);
        }
        let text = &question[..question.floor_char_boundary(QUESTION_BYTES_MAX)];
        let key = (persona.persona_id().clone(), sha256_hex(&[text.as_bytes()]));
        let kept = self.kept().get(&key).cloned();
        let vector = match kept {
            Some(vector) => vector,
            None => {
                let order = EmbeddingOrder {
                    persona: persona.persona_id().clone(),
                    purpose: EmbeddingPurpose::Question,
                    run: Some(run.clone()),
                    texts: vec![text.to_owned()],
                    deadline: QUESTION_WAIT,
                    cancel: CancellationToken::new(),
                };
                let made = self.embedder.questions(order).await?;
                let made = made.into_iter().next().unwrap_or_default();
                let mut kept = self.kept();
                if kept.len() >= KEPT_MAX {
                    kept.clear();
                }
                kept.insert(key, made.clone());
                made
            }
        };
        Ok(Some(QuestionVector { model, vector }))
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashMap<(PersonaId, String), Vec<f32>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuestionVectors for QuestionEmbedder {
    fn vector<'a>(
        &'a self,
        persona: &'a PersonaStore,
        run: &'a RunId,
        question: &'a str,
    ) -> BoxFuture<'a, Option<QuestionVector>> {
        Box::pin(async move {
            match self.make(persona, run, question).await {
                Ok(vector) => {
                    if vector.is_some() {
                        self.has_failed.store(false, Ordering::Relaxed);
                    }
                    vector
                }
                Err(error) => {
                    if !self.has_failed.swap(true, Ordering::Relaxed) {
                        let error = format!("{:#}", anyhow::Error::new(error));
                        tracing::warn!(persona = %persona.persona_id(), error, "no vector of a question; searches go by words until there is one");
                    }
                    None
                }
            }
        })
    }
}
