//! The worker that makes vectors of letters: the newest first, in steps, beside all other work.
//!
//! It finds its work in committed rows: a letter without a vector of the model is work, whoever stored it. A failure waits as
//! the contract's retry rules say, and costs nobody a letter or a search.

use super::calls::Embedder;
use super::failure::EmbeddingFailure;
use crate::domain::{ErrorClass, PersonaId, stable_seed};
use crate::providers::embeddings::TEXTS_MAX;
use crate::providers::{
    PriorAttempts, ProviderError, RetryDecision, RetryLimits, Size, retry_decision,
};
use crate::store::{LetterSpan, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval between two looks for new letters: a vector is never urgent.
const LOOK: Duration = Duration::from_secs(2);
/// Interval between two looks at all letters: an import gives old letters low numbers, and a letter that changed has lost its
/// vector.
const LOOK_AT_ALL: Duration = Duration::from_secs(60 * 60);
/// Wait where only an operator, or another day, can help.
const LONG_WAIT: Duration = Duration::from_secs(10 * 60);
/// Single texts refused in a row after which no more are tried.
const REFUSALS_MAX: usize = 3;
/// Wait after a failure of the database.
const STORE_WAIT: Duration = Duration::from_secs(30);

/// Worker of all personas.
pub struct EmbeddingWorker {
    embedder: Arc<Embedder>,
    progress: Vec<PersonaProgress>,
    /// Texts of the next call; fewer after one that was too large.
    texts_max: usize,
    /// Letters whose text the provider refuses.
    refused: BTreeSet<i64>,
    /// Refused single texts in a row.
    refusals: usize,
    /// Failures in a row.
    failures: u32,
}

/// What has been looked at for one persona.
struct PersonaProgress {
    persona: PersonaId,
    /// Number of the newest message that is in a span, or was; `None`: none was looked at.
    newest: Option<i64>,
    /// Last time that all letters were to be looked at, on the monotonic clock.
    looked_at_all: Duration,
    /// Spans that are still to be looked at, the newest last.
    spans: Vec<LetterSpan>,
}

/// What follows from a failure.
#[derive(Debug, PartialEq, Eq)]
enum AfterFailure {
    Again,
    Wait(Duration),
    Stop,
}

impl EmbeddingWorker {
    pub fn new(embedder: Arc<Embedder>) -> Self {
        let personas = embedder.config.personas.iter();
        let progress = personas.map(|persona| PersonaProgress {
            persona: persona.id.clone(),
            newest: None,
            looked_at_all: Duration::ZERO,
            spans: Vec::new(),
        });
        Self {
            progress: progress.collect(),
            embedder,
            texts_max: TEXTS_MAX,
            refused: BTreeSet::new(),
            refusals: 0,
            failures: 0,
        }
    }

    /// Works until `stop`, and until all calls are settled.
    pub async fn run(mut self, stop: CancellationToken) {
        self.work(&stop).await;
        self.embedder.ended().await;
    }

    async fn work(&mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let wait = match self.round(stop).await {
                Ok(true) => continue,
                Ok(false) => LOOK,
                Err(failure) => match self.after(failure) {
                    AfterFailure::Again => continue,
                    AfterFailure::Wait(wait) => wait,
                    AfterFailure::Stop => return,
                },
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Makes every vector that is due now; gives up at a failure that would have to wait.
    pub async fn drain(mut self) {
        let stop = CancellationToken::new();
        loop {
            match self.round(&stop).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(failure) => match self.after(failure) {
                    AfterFailure::Again => {}
                    AfterFailure::Wait(_) | AfterFailure::Stop => return,
                },
            }
        }
    }

    /// Takes one step for each persona; `false`: nothing is left to do.
    async fn round(&mut self, stop: &CancellationToken) -> Result<bool, EmbeddingFailure> {
        let (mut is_more, mut unpaid) = (false, None);
        for index in 0..self.progress.len() {
            match self.step(index, stop).await {
                Ok(more) => is_more |= more,
                // What one persona cannot pay keeps no other waiting.
                Err(failure @ EmbeddingFailure::Budget(_)) => unpaid = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        match unpaid {
            Some(failure) if !is_more => return Err(failure),
            None if is_more => self.failures = 0,
            _ => {}
        }
        Ok(is_more)
    }

    async fn step(
        &mut self,
        index: usize,
        stop: &CancellationToken,
    ) -> Result<bool, EmbeddingFailure> {
        let progress = &mut self.progress[index];
        let rows = self.embedder.store.persona(&progress.persona);
        let newest = self.embedder.store.newest_message().await?;
        let now = self.embedder.store.clock().monotonic();
        let is_old = now.saturating_sub(progress.looked_at_all) >= LOOK_AT_ALL;
        match progress.newest {
            Some(before) if before < newest => {
                progress.spans.push(LetterSpan::Between(before, newest + 1));
            }
            Some(_) if !is_old || !progress.spans.is_empty() => {}
            _ => {
                progress.looked_at_all = now;
                progress.spans.push(LetterSpan::all());
            }
        }
        progress.newest = Some(newest);
        let Some(span) = progress.spans.last() else {
            return Ok(false);
        };
        let model = self.embedder.settings.vector_model();
        let found = rows.letters_without_vector(&model, span, self.texts_max);
        let (mut letters, next) = found.await?;
        letters.retain(|letter| !self.refused.contains(&letter.seq));
        if !letters.is_empty() {
            let persona = &progress.persona;
            let made = self
                .embedder
                .letters(persona, letters.clone(), stop.clone());
            if let Err(failure) = made.await {
                if self.texts_max == 1 && is_refused(&failure) {
                    self.refused.extend(letters.iter().map(|letter| letter.seq));
                }
                return Err(failure);
            }
            (self.texts_max, self.refusals) = (TEXTS_MAX, 0);
        }
        match (next, progress.spans.last_mut()) {
            (Some(rest), Some(span)) => *span = rest,
            _ => {
                progress.spans.pop();
            }
        }
        Ok(true)
    }

    fn after(&mut self, failure: EmbeddingFailure) -> AfterFailure {
        self.failures = self.failures.saturating_add(1);
        let is_smaller = self.texts_max > 1;
        let after = match &failure {
            EmbeddingFailure::Provider { source, .. } if is_refused(&failure) => {
                tracing::debug!(error = %source, texts = self.texts_max, "a call for vectors was refused");
                self.refusals += usize::from(!is_smaller);
                self.texts_max = if is_smaller {
                    self.texts_max / 2
                } else {
                    TEXTS_MAX
                };
                match self.refusals < REFUSALS_MAX {
                    true => return AfterFailure::Again,
                    // It is the request that is wrong, and not the letters.
                    false => self.refused.clear(),
                }
                AfterFailure::Wait(LONG_WAIT)
            }
            EmbeddingFailure::Budget(_) if is_smaller => {
                self.texts_max /= 2;
                return AfterFailure::Again;
            }
            EmbeddingFailure::Provider { source, .. } => self.after_provider(source),
            EmbeddingFailure::Store(StoreError::Closed) => return AfterFailure::Stop,
            EmbeddingFailure::Store(_) | EmbeddingFailure::GivenUp => {
                AfterFailure::Wait(STORE_WAIT)
            }
            EmbeddingFailure::Budget(_)
            | EmbeddingFailure::Unpriced { .. }
            | EmbeddingFailure::NoPersona(_) => AfterFailure::Wait(LONG_WAIT),
        };
        let error = format!("{:#}", anyhow::Error::new(failure));
        match self.failures {
            1 => tracing::warn!(error, "no vectors of letters are made; trying again"),
            _ => tracing::debug!(error, "still no vectors of letters"),
        }
        after
    }

    fn after_provider(&self, error: &ProviderError) -> AfterFailure {
        let inference = &self.embedder.config.inference;
        let seed = format!("{}{}", self.embedder.settings.provider, self.failures);
        let limits = RetryLimits {
            attempts_max: inference.call_attempts_max,
            inline_wait_max: inference.inline_wait_max,
            left: Duration::MAX,
            fallback_on_refusal: false,
            jitter_seed: stable_seed(&seed),
        };
        let tried = PriorAttempts {
            calls: self.failures,
            trimmed: true,
            ..PriorAttempts::default()
        };
        match retry_decision(error, tried, limits, Size::default()) {
            RetryDecision::RetryNow(wait) | RetryDecision::Reschedule(wait) => {
                AfterFailure::Wait(wait)
            }
            _ if error.class == ErrorClass::Cancelled => AfterFailure::Wait(Duration::ZERO),
            _ => AfterFailure::Wait(LONG_WAIT),
        }
    }
}

/// Reports whether the provider refuses the texts of a call, so that fewer of them may pass.
fn is_refused(failure: &EmbeddingFailure) -> bool {
    let EmbeddingFailure::Provider { source, .. } = failure else {
        return false;
    };
    matches!(
        source.class,
        ErrorClass::BadRequest
            | ErrorClass::ContextOverflow
            | ErrorClass::RequestTooLarge
            | ErrorClass::ContentFilter
    )
}
