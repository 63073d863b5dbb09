//! One call that makes vectors: its reservation commits before it is sent, and its end with what it made.
//!
//! A call goes on when its caller is dropped, so that its row is settled; its time is bounded.

use super::failure::EmbeddingFailure;
use crate::config::{Config, EmbeddingSettings, spending};
use crate::domain::{
    BudgetScope, CostSource, PersonaId, Rates, RunId, ThreadBudget, ThreadId, Timestamp,
    TokenUsage, UsageLine,
};
use crate::providers::embeddings::{
    EmbeddedKind, EmbeddingAnswer, EmbeddingClient, EmbeddingRequest,
};
use crate::providers::{CallContext, ProviderError};
use crate::store::{
    Billing, CallReservation, EmbeddingPurpose, LetterText, NewEmbeddingCall, NewLetterVector,
    Store,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Maker of vectors by the configured model.
pub struct Embedder {
    pub(super) store: Store,
    pub(super) config: Arc<Config>,
    pub(super) settings: EmbeddingSettings,
    client: EmbeddingClient,
    /// Calls, which go on without their callers.
    calls: TaskTracker,
}

/// Texts of which vectors are wanted, and who asks.
#[derive(Debug, Clone)]
pub struct EmbeddingOrder {
    pub persona: PersonaId,
    pub purpose: EmbeddingPurpose,
    /// Run that asks; `None`: the engine itself, or its owner.
    pub run: Option<RunId>,
    /// None of them empty.
    pub texts: Vec<String>,
    /// Time until the call fails.
    pub deadline: Duration,
    /// Ends the call.
    pub cancel: CancellationToken,
}

impl Embedder {
    /// Builds the maker of vectors; `None`: the configuration names no model. Opens no connection. Errors: the reason why the
    /// provider cannot be used.
    pub fn of(store: &Store, config: &Arc<Config>) -> Result<Option<Arc<Self>>, ProviderError> {
        let Some(settings) = config.inference.embeddings.clone() else {
            return Ok(None);
        };
        let block = config.inference.providers.get(&settings.provider);
        let block = block.cloned().unwrap_or_default();
        Ok(Some(Arc::new(Self {
            client: EmbeddingClient::new(&settings.provider, &block)?,
            store: store.clone(),
            config: config.clone(),
            settings,
            calls: TaskTracker::new(),
        })))
    }

    pub fn settings(&self) -> &EmbeddingSettings {
        &self.settings
    }

    /// Returns the time of the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    /// Makes vectors of questions.
    pub async fn questions(
        self: &Arc<Self>,
        order: EmbeddingOrder,
    ) -> Result<Vec<Vec<f32>>, EmbeddingFailure> {
        let embedder = self.clone();
        let call = async move {
            let (id, answer) = embedder.call(&order, EmbeddedKind::Question).await?;
            let line = embedder.priced(answer.usage);
            embedder.store.finish_embedding_call(&id, line).await?;
            Ok(answer.vectors)
        };
        self.settled(call).await
    }

    /// Makes vectors of letters and stores them; those whose text has one already cost nothing.
    pub async fn letters(
        self: &Arc<Self>,
        persona: &PersonaId,
        letters: Vec<LetterText>,
        cancel: CancellationToken,
    ) -> Result<(), EmbeddingFailure> {
        let (rows, model) = (self.store.persona(persona), self.settings.vector_model());
        let known = rows.known_vectors(&model, &letters).await?;
        let (there, wanted): (Vec<LetterText>, Vec<LetterText>) = letters
            .into_iter()
            .partition(|letter| known.contains_key(&letter.sha256));
        if !there.is_empty() {
            rows.store_vectors(&model, rows_of(there, &known)).await?;
        }
        let texts: BTreeMap<String, String> = wanted
            .iter()
            .map(|letter| (letter.sha256.clone(), letter.text.clone()))
            .collect();
        if texts.is_empty() {
            return Ok(());
        }
        let (digests, texts): (Vec<String>, Vec<String>) = texts.into_iter().unzip();
        let order = EmbeddingOrder {
            persona: persona.clone(),
            purpose: EmbeddingPurpose::Letters,
            run: None,
            texts,
            deadline: self.config.inference.call_timeout,
            cancel,
        };
        let embedder = self.clone();
        let call = async move {
            let (id, answer) = embedder.call(&order, EmbeddedKind::Letter).await?;
            let made = digests.into_iter().zip(answer.vectors).collect();
            let (line, vectors) = (embedder.priced(answer.usage), rows_of(wanted, &made));
            rows.finish_letters(&id, line, &model, vectors).await?;
            Ok(())
        };
        self.settled(call).await
    }

    /// Waits until all calls are settled.
    pub async fn ended(&self) {
        self.calls.close();
        self.calls.wait().await;
    }

    /// Waits for a call that goes on without its caller.
    async fn settled<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, EmbeddingFailure>> + Send + 'static,
    ) -> Result<T, EmbeddingFailure> {
        let task = self.calls.spawn(call);
        // A task that panicked has said so by itself.
        task.await.unwrap_or(Err(EmbeddingFailure::GivenUp))
    }

    /// Reserves, and asks. A failed call is settled here, an answered one by the caller, who has the id for it.
    async fn call(
        &self,
        order: &EmbeddingOrder,
        kind: EmbeddedKind,
    ) -> Result<(String, EmbeddingAnswer), EmbeddingFailure> {
        let texts: Vec<&str> = order.texts.iter().map(String::as_str).collect();
        let request = EmbeddingRequest {
            model: &self.settings.model,
            dimensions: self.settings.dimensions,
            kind,
            texts: &texts,
        };
        let encoded = self.client.encode(&request);
        let clock = self.store.clock().clone();
        let id = clock.new_id();
        let call = NewEmbeddingCall {
            id: id.clone(),
            persona: order.persona.clone(),
            purpose: order.purpose,
            run: order.run.clone(),
            provider: self.settings.provider.clone(),
            model: self.settings.model.clone(),
            texts: texts.len(),
            reservation: self.reservation(&order.persona, &encoded)?,
        };
        self.store.open_embedding_call(call).await?;
        let context = CallContext {
            cancel: order.cancel.clone(),
            deadline: order.deadline,
            idle: order.deadline.min(self.config.inference.idle_timeout),
            run_id: order.run.as_ref().map(RunId::to_string).unwrap_or_default(),
            turn_index: 0,
            model: self.settings.model.clone(),
            cache_key: None,
            now: clock.now(),
            capture: None,
        };
        match self.client.embed(&request, &encoded, &context).await {
            Ok(answer) => Ok((id, answer)),
            Err(error) => {
                let billing = match error.may_be_billed() {
                    true => Billing::Unknown,
                    false => Billing::None,
                };
                self.store.lose_embedding_call(&id, billing).await?;
                Err(EmbeddingFailure::Provider {
                    provider: self.settings.provider.clone(),
                    source: Box::new(error),
                })
            }
        }
    }

    /// Returns the most that a call may cost: a token has at least one byte.
    fn reservation(
        &self,
        persona: &PersonaId,
        encoded: &str,
    ) -> Result<CallReservation, EmbeddingFailure> {
        let known = self.config.personas.get(persona);
        let known = known.ok_or_else(|| EmbeddingFailure::NoPersona(persona.clone()))?;
        let (nobody, now) = (ThreadId::new(""), self.store.clock().now());
        let inference = &self.config.inference;
        let bounds = spending(
            (inference, known),
            (&nobody, ThreadBudget::default()),
            None,
            now,
        );
        let mut accounts = bounds.accounts;
        accounts.retain(|account| account.id.scope != BudgetScope::Thread);
        let counts = accounts
            .iter()
            .any(|account| account.cost_micros_max.is_some());
        let tokens = encoded.len() as u64;
        let most = |rates: Rates| {
            let input = rates.dearest_input();
            let used = TokenUsage {
                input_tokens: tokens,
                ..TokenUsage::default()
            };
            Rates { input, ..rates }.cost_micros(used)
        };
        let micros = match self.rates().map(most) {
            Some(micros) => micros,
            None if !counts => 0,
            None => {
                return Err(EmbeddingFailure::Unpriced {
                    provider: self.settings.provider.clone(),
                    model: self.settings.model.clone(),
                });
            }
        };
        Ok(CallReservation {
            micros,
            tokens: i64::try_from(tokens).unwrap_or(i64::MAX),
            accounts,
            left_in_run: 0,
            left_elsewhere: 0,
        })
    }

    fn rates(&self) -> Option<Rates> {
        let zone = &self.config.inference.budgets.zone;
        let day = self.store.clock().now().to_utc().with_timezone(zone);
        let EmbeddingSettings {
            provider, model, ..
        } = &self.settings;
        self.config.prices.find(provider, model, day.date_naive())
    }

    fn priced(&self, usage: TokenUsage) -> UsageLine {
        let cost = self.rates().map(|rates| rates.cost_micros(usage));
        UsageLine {
            model: self.settings.model.clone(),
            usage: TokenUsage {
                cost_micros: cost,
                ..usage
            },
            source: match cost {
                Some(_) => CostSource::PriceTable,
                None => CostSource::Unknown,
            },
            price_version: cost.map(|_| self.config.prices.version.clone()),
        }
    }
}

fn rows_of(letters: Vec<LetterText>, vectors: &HashMap<String, Vec<f32>>) -> Vec<NewLetterVector> {
    let row = |letter: LetterText| {
        Some(NewLetterVector {
            seq: letter.seq,
            vector: vectors.get(&letter.sha256)?.clone(),
            text_sha256: letter.sha256,
        })
    };
    letters.into_iter().filter_map(row).collect()
}
