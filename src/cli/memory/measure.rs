//! `attache memory bench`: what the search of a persona finds in its own letters, without a language model; with `embeddings`
//! in the configuration, by words alone and with vectors.
//!
//! A reply asks by its rarest words for the letter that it answers, among all before it; and words of letters that have
//! nothing to do with each other ask for nothing.

use super::super::args::persona_of;
use super::super::{CommandContext, Exit, Failure, refuse};
use crate::clock::Clock;
use crate::domain::Timestamp;
use crate::embeddings::{Embedder, EmbeddingOrder};
use crate::providers::embeddings::TEXTS_MAX;
use crate::store::{
    EmbeddingPurpose, MessageSearch, PersonaStore, QuestionVector, Ranking, ReplyWithParent,
    SHARE_MIN, Store, VectorSwitch,
};
use crate::text::rare_words::WordCounts;
use clap::value_parser;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Number of words that a letter asks by.
const WORDS: usize = 16;
/// Fewest words by which a letter is worth asking for.
const WORDS_MIN: usize = 3;
/// Most letters whose words are counted: the newest.
const LETTERS_MAX: u32 = 20_000;
/// Fewest questions whose shares say anything.
const QUERIES_MIN: usize = 5;

/// Measure what a search finds in a persona's own letters; asks no language model
#[derive(clap::Args)]
#[command(
    after_help = "With `embeddings` in configs/inference.json it asks that model for the vectors of its questions, and measures by words \
                  alone and with vectors."
)]
pub struct MeasureMemory {
    /// Whose letters are searched
    #[arg(long, value_name = "ID")]
    persona: String,
    /// Ask for the parents of so many replies at most, the newest
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = value_parser!(u32).range(5..=100_000))]
    queries: u32,
    /// Let the persona's searches use vectors, if they gain 3 points of recall at 10 in this measurement
    #[arg(long)]
    switch_on: bool,
    /// Let the persona's searches go by words alone; measures nothing
    #[arg(long, conflicts_with_all = ["switch_on", "queries"])]
    switch_off: bool,
}

/// Shares from 0 to 1, and times in milliseconds.
#[derive(Debug, Serialize)]
struct SearchMeasurement {
    letters_counted: usize,
    queries: usize,
    recall_at_1: f64,
    recall_at_5: f64,
    recall_at_10: f64,
    /// The same at 10 where nothing is shown below the threshold, as a search shows it.
    recall_at_10_shown: f64,
    /// Questions of words that have nothing to do with each other, and how many of them were answered by nothing.
    unrelated: usize,
    unrelated_silent: usize,
    p50_ms: f64,
    p99_ms: f64,
    /// `None`: the configuration names no model for vectors.
    vectors: Option<VectorMeasurement>,
}

impl MeasureMemory {
    pub async fn run(self, context: &CommandContext) -> anyhow::Result<Exit> {
        let store = context.shared_store().await?;
        let Some(persona) = persona_of(context, &store, Some(self.persona)).await? else {
            return Ok(Exit::Usage);
        };
        let rows = store.persona(&persona);
        if self.switch_off {
            return switch_off(context, &rows).await;
        }
        let wants_on = self.switch_on;
        let embedder = embedder(context, &store, wants_on)?;
        let clock = store.clock().clone();
        let (mut measured, questions) = measure(&rows, &*clock, self.queries).await?;
        if measured.queries < QUERIES_MIN {
            return refuse(
                Exit::NoInput,
                format!(
                    "{} of `{persona}` answer a letter that is stored, and a measurement needs {QUERIES_MIN}",
                    crate::text::plural(measured.queries, "letter")
                ),
                "`attache import` takes archives of mail; replies among them are enough",
            );
        }
        if let Some(embedder) = &embedder {
            let with = measure_vectors(&rows, embedder, &questions).await?;
            measured.vectors = Some(with);
        }
        let switched = match &mut measured.vectors {
            Some(with) if wants_on => switch_on(&rows, with).await?,
            _ => Ok(()),
        };
        match context.json() {
            true => context.screen.json(&measured)?,
            false => context.screen.fields(&fields(&measured))?,
        }
        switched?;
        Ok(Exit::Ok)
    }
}

fn fields(measured: &SearchMeasurement) -> Vec<(&'static str, String)> {
    let m = measured;
    let silent = match m.unrelated {
        0 => "not measured".to_owned(),
        all => format!(
            "{} of {all} ({:.0} %)",
            m.unrelated_silent,
            100.0 * m.unrelated_silent as f64 / all as f64
        ),
    };
    let mut fields = vec![
        (
            "questions",
            format!("{} replies among {} letters", m.queries, m.letters_counted),
        ),
        (
            "parent found",
            format!(
                "{:.3} as the first, {:.3} among five, {:.3} among ten",
                m.recall_at_1, m.recall_at_5, m.recall_at_10
            ),
        ),
        (
            "and shown",
            format!("{:.3} among ten", m.recall_at_10_shown),
        ),
        ("unrelated words, nothing shown", silent),
        (
            "time",
            format!("{:.2} ms, 99th percentile {:.2} ms", m.p50_ms, m.p99_ms),
        ),
    ];
    fields.extend(m.vectors.iter().flat_map(VectorMeasurement::fields));
    fields
}

async fn measure(
    persona: &PersonaStore,
    clock: &dyn Clock,
    limit: u32,
) -> anyhow::Result<(SearchMeasurement, Vec<MeasuredQuestion>)> {
    let (mut counts, texts) = (WordCounts::default(), persona.new_texts(LETTERS_MAX).await?);
    texts.iter().for_each(|text| counts.add(text));
    let replies = persona.answered_letters(limit).await?;
    let asked = replies.iter().filter_map(|reply| {
        let words = counts.rarest(&reply.new_text, WORDS);
        (words.len() >= WORDS_MIN).then_some((reply, words))
    });
    let asked: Vec<(&ReplyWithParent, Vec<String>)> = asked.collect();
    let (mut found, mut shown, mut times) = ([0usize; 3], 0, Vec::new());
    let mut questions = Vec::new();
    for (reply, words) in &asked {
        let began = clock.monotonic();
        let ranking = ranked(persona, words, Some(reply.received_at)).await?;
        times.push((clock.monotonic() - began).as_secs_f64() * 1000.0);
        let place = ranking
            .hits
            .iter()
            .position(|(seq, _)| *seq == reply.parent);
        for (sum, cut) in found.iter_mut().zip([1, 5, 10]) {
            *sum += usize::from(place.is_some_and(|place| place < cut));
        }
        let is_shown = ranking.share >= SHARE_MIN && place.is_some_and(|place| place < 10);
        shown += usize::from(is_shown);
        questions.push(MeasuredQuestion {
            search: searched(words, Some(reply.received_at)),
            parent: reply.parent,
            by_words: ranking.hits.iter().map(|(seq, _)| *seq).collect(),
            passes: ranking.share >= SHARE_MIN,
        });
    }
    let words: Vec<&[String]> = asked.iter().map(|(_, words)| &words[..]).collect();
    let (unrelated, unrelated_silent) = silences(persona, &words).await?;
    times.sort_by(f64::total_cmp);
    let share = |count: usize| count as f64 / asked.len().max(1) as f64;
    let time =
        |percent: usize| times.get((times.len() * percent / 100).min(times.len().max(1) - 1));
    let measured = SearchMeasurement {
        letters_counted: texts.len(),
        queries: asked.len(),
        recall_at_1: share(found[0]),
        recall_at_5: share(found[1]),
        recall_at_10: share(found[2]),
        recall_at_10_shown: share(shown),
        unrelated,
        unrelated_silent,
        p50_ms: time(50).copied().unwrap_or_default(),
        p99_ms: time(99).copied().unwrap_or_default(),
        vectors: None,
    };
    Ok((measured, questions))
}

/// Asks by words each of which is another letter's; returns how many such questions there were, and how many found nothing.
async fn silences(persona: &PersonaStore, words: &[&[String]]) -> anyhow::Result<(usize, usize)> {
    // With fewer letters, a question would have two words of one.
    if words.len() < WORDS {
        return Ok((0, 0));
    }
    let step = words.len() / WORDS;
    let mut silent = 0;
    for start in 0..words.len() {
        let mixed = (0..WORDS).filter_map(|place| {
            let of = words[(start + place * step) % words.len()];
            of.get(place % of.len())
        });
        let mixed: Vec<String> = mixed.cloned().collect();
        let ranking = ranked(persona, &mixed, None).await?;
        silent += usize::from(ranking.share < SHARE_MIN);
    }
    Ok((words.len(), silent))
}

async fn ranked(
    persona: &PersonaStore,
    words: &[String],
    before: Option<Timestamp>,
) -> anyhow::Result<Ranking> {
    Ok(persona.rank_messages(&searched(words, before)).await?)
}

fn searched(words: &[String], before: Option<Timestamp>) -> MessageSearch {
    MessageSearch {
        query: Some(words.join(" ")),
        before,
        ..MessageSearch::default()
    }
}

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
fn embedder(
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
        return refuse(
            Exit::BadData,
            "no model makes vectors of letters",
            "name one in `embeddings` of configs/inference.json, and let an engine make the vectors",
        );
    }
    Ok(embedder)
}

/// Switches vectors off for a persona.
async fn switch_off(context: &CommandContext, persona: &PersonaStore) -> anyhow::Result<Exit> {
    persona.set_vector_switch(None).await?;
    context.report(&json!({ "switched_on": false }), |screen| {
        Ok(screen.line(format!(
            "searches of `{}` go by words alone",
            persona.persona_id()
        ))?)
    })
}

/// Switches vectors on for a persona, if the measurement says so. The inner error is the refusal.
async fn switch_on(
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
        return Ok(refuse(Exit::Failed, what, hint));
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
async fn measure_vectors(
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
