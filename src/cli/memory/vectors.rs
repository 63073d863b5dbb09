//! Vectors in `attache memory bench`: the same questions once more with the order of vectors, and the switch for a persona's
//! searches, which only a measured gain turns on.

use crate::cli::{CommandContext, Exit, Failure};
use crate::domain::Timestamp;
use crate::embeddings::{Embedder, EmbeddingOrder};
use crate::providers::embeddings::TEXTS_MAX;
use crate::store::{
    EmbeddingPurpose, MessageSearch, PersonaStore, QuestionVector, Store, VectorSwitch,
};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Points of recall at 10 that vectors must gain to be switched on.
const GAIN_MIN: usize = 3;
/// Longest time of one call.
const CALL_WAIT: Duration = Duration::from_secs(60);

/// A question that was measured by words.
pub(super) struct MeasuredQuestion {
    pub search: MessageSearch,
    /// Letter that is looked for.
    pub parent: i64,
    /// Letters in the order of the words.
    pub by_words: Vec<i64>,
    /// `true`: the words found enough to show something.
    pub passes: bool,
}

/// The same questions with vectors. Shares from 0 to 1.
#[derive(Debug, Serialize)]
pub(super) struct VectorMeasurement {
    provider: String,
    model: String,
    letters: i64,
    letters_with_vector: i64,
    recall_at_1: f64,
    recall_at_5: f64,
    recall_at_10: f64,
    recall_at_10_shown: f64,
    /// Points of a hundred of recall at 10, as a search shows it, beyond that of words alone.
    gain_points: f64,
    /// `true`: the persona's searches use vectors of this model.
    switched_on: bool,
    #[serde(skip)]
    is_gain_enough: bool,
    #[serde(skip)]
    at: Timestamp,
}

impl VectorMeasurement {
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let found = format!(
            "{:.3} as the first, {:.3} among five, {:.3} among ten",
            self.recall_at_1, self.recall_at_5, self.recall_at_10
        );
        let switch = if self.switched_on { "on" } else { "off" };
        vec![
            ("vectors of", self.model.clone()),
            (
                "letters with a vector",
                format!("{} of {}", self.letters_with_vector, self.letters),
            ),
            ("parent found with vectors", found),
            (
                "shown with vectors",
                format!("{:.3} among ten", self.recall_at_10_shown),
            ),
            ("gain", format!("{:+.1} points", self.gain_points)),
            ("searches use vectors", switch.to_owned()),
        ]
    }
}

/// Builds the maker of vectors that the configuration names. `is_needed`: an error where it names none.
pub(super) fn embedder(
    context: &CommandContext,
    store: &Store,
    is_needed: bool,
) -> anyhow::Result<Option<Arc<Embedder>>> {
    let config = match context.config() {
        Ok(config) => config,
        Err(errors) if is_needed => return Err(errors.into()),
        // A search by words can be measured whatever the files say.
        Err(_) => return Ok(None),
    };
    let embedder = Embedder::of(store, &Arc::new(config))?;
    if embedder.is_none() && is_needed {
        let failure = Failure::new(Exit::BadData, "no model makes vectors of letters");
        let hint = "name one in `embeddings` of configs/inference.json, and let an engine make the vectors";
        return Err(failure.hint(hint).into());
    }
    Ok(embedder)
}

/// Switches vectors off for a persona.
pub(super) async fn switch_off(
    context: &CommandContext,
    persona: &PersonaStore,
) -> anyhow::Result<Exit> {
    persona.set_vector_switch(None).await?;
    #[derive(Serialize)]
    struct SwitchedOff {
        switched_on: bool,
    }
    match context.json() {
        true => context.screen.json(&SwitchedOff { switched_on: false })?,
        false => context.screen.line(format!(
            "searches of `{}` go by words alone",
            persona.persona_id()
        ))?,
    }
    Ok(Exit::Ok)
}

/// Switches vectors on for a persona, if the measurement says so. The inner error is the refusal.
pub(super) async fn switch_on(
    persona: &PersonaStore,
    measured: &mut VectorMeasurement,
) -> anyhow::Result<Result<(), Failure>> {
    if !measured.is_gain_enough {
        let what = format!(
            "vectors gain {:+.1} points of recall at 10, and {GAIN_MIN} are asked for; nothing was switched on",
            measured.gain_points
        );
        let hint = match measured.letters_with_vector < measured.letters {
            true => "letters without a vector cannot be found by it: let an engine make the others",
            false => {
                "another model may gain more; `--switch-off` turns off what an earlier measurement has switched on"
            }
        };
        return Ok(Err(Failure::new(Exit::Failed, what).hint(hint)));
    }
    let switch = VectorSwitch {
        provider: measured.provider.clone(),
        model: measured.model.clone(),
        gain_points: measured.gain_points,
        letters: measured.letters_with_vector,
        measured_at: measured.at,
    };
    persona.set_vector_switch(Some(switch)).await?;
    measured.switched_on = true;
    Ok(Ok(()))
}

/// Asks the same questions with vectors.
pub(super) async fn measure(
    persona: &PersonaStore,
    embedder: &Arc<Embedder>,
    questions: &[MeasuredQuestion],
) -> anyhow::Result<VectorMeasurement> {
    let settings = embedder.settings();
    let model = settings.vector_model();
    let (mut found, mut shown, mut shown_by_words) = ([0usize; 3], 0, 0);
    for some in questions.chunks(TEXTS_MAX) {
        let vectors = vectors_of(persona, embedder, some).await?;
        for (question, vector) in some.iter().zip(vectors) {
            let by_vectors = QuestionVector {
                model: model.clone(),
                vector,
            };
            let order = persona
                .fused(&question.search, &question.by_words, &by_vectors)
                .await?;
            let place = |order: &[i64]| order.iter().position(|seq| *seq == question.parent);
            let is_among = |order: &[i64], cut| place(order).is_some_and(|place| place < cut);
            for (sum, cut) in found.iter_mut().zip([1, 5, 10]) {
                *sum += usize::from(is_among(&order, cut));
            }
            shown += usize::from(question.passes && is_among(&order, 10));
            shown_by_words += usize::from(question.passes && is_among(&question.by_words, 10));
        }
    }
    let count = persona.count_vectors(&model).await?;
    let switch = persona.vector_switch().await?;
    let all = questions.len();
    let share = |count: usize| count as f64 / all.max(1) as f64;
    Ok(VectorMeasurement {
        provider: settings.provider.clone(),
        letters: count.letters,
        letters_with_vector: count.vectors,
        recall_at_1: share(found[0]),
        recall_at_5: share(found[1]),
        recall_at_10: share(found[2]),
        recall_at_10_shown: share(shown),
        gain_points: 100.0 * (share(shown) - share(shown_by_words)),
        switched_on: switch.is_some_and(|on| on.model == model),
        is_gain_enough: 100 * shown >= 100 * shown_by_words + GAIN_MIN * all,
        at: embedder.now(),
        model,
    })
}

async fn vectors_of(
    persona: &PersonaStore,
    embedder: &Arc<Embedder>,
    questions: &[MeasuredQuestion],
) -> anyhow::Result<Vec<Vec<f32>>> {
    let texts = questions.iter().filter_map(|of| of.search.query.clone());
    let order = EmbeddingOrder {
        persona: persona.persona_id().clone(),
        purpose: EmbeddingPurpose::Measurement,
        run: None,
        texts: texts.collect(),
        deadline: CALL_WAIT,
        cancel: CancellationToken::new(),
    };
    embedder.questions(order).await.map_err(|error| {
        let failure = Failure::new(Exit::Unavailable, "no vectors of the questions");
        failure.because(error).into()
    })
}
