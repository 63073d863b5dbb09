//! `knowledge`: the pieces of the persona's `knowledge/` that match the input, each with its file
//! and heading, and the names of the files there that cannot be read.
//!
//! The resolver only searches the index. The environment that assembles contexts owns a
//! [`KnowledgeSync`] and calls its `refresh` before, so that an edited file counts from the next
//! run on.

mod chunk;
mod documents;
mod sync;
mod terms;

pub use chunk::{CHUNK_CHARS_MAX, KnowledgeFormat, chunks};
pub use documents::DocumentReader;
pub use sync::{
    KnowledgeSurvey, KnowledgeSync, KnowledgeSyncReport, Surveyed, SyncError, SyncLimits, survey,
    sync_knowledge,
};
pub use terms::query_terms;

use super::{Contribution, Piece, ResolveError, Resolver, ResolverCall, estimate_tokens};
use crate::store::KnowledgeHit;
use chunk::TRAIL_SEPARATOR;
use futures_util::future::BoxFuture;

/// Most pieces of one context.
const PIECES_MAX: u32 = 8;
/// Most tokens of one context, whatever the step's budget.
const TOKENS_MAX: usize = 3000;
/// Most files that a report names as left out.
const LEFT_OUT_MAX: usize = 20;
/// Lowest rank, as a share of the best one; a piece below it matches by accident.
const RANK_SHARE_MIN: f64 = 0.2;

pub struct Knowledge;

impl Resolver for Knowledge {
    fn name(&self) -> &'static str {
        "knowledge"
    }

    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move {
            let left_out = named(call.reads.knowledge_left_out());
            let subject = &call.subject.message.subject;
            let terms = query_terms(subject, call.subject.fresh_text());
            if terms.is_empty() {
                let nothing = Contribution::nothing("the input has no words to search for");
                return Ok(Contribution {
                    left_out,
                    ..nothing
                });
            }
            let hits = call.reads.knowledge(&terms, PIECES_MAX).await;
            let hits = hits.map_err(|error| error.of("knowledge", ""))?;
            let found = match hits.is_empty() {
                true => Contribution::nothing("nothing in `knowledge` matches the input"),
                false => contribution(&hits, call.budget_tokens.min(TOKENS_MAX)),
            };
            Ok(Contribution { left_out, ..found })
        })
    }
}

/// Keeps the first files by name, and the rest as a number.
fn named(mut files: Vec<(String, String)>) -> Vec<(String, String)> {
    let unnamed = files.len().saturating_sub(LEFT_OUT_MAX);
    files.truncate(LEFT_OUT_MAX);
    if unnamed > 0 {
        files.push((
            "knowledge".to_owned(),
            format!("{unnamed} more files; `attache persona show` names them"),
        ));
    }
    files
}

/// Selects the hits to quote, best first, as far as they fit; a hit that does not fit is skipped
/// for a shorter one.
fn contribution(hits: &[KnowledgeHit], budget_tokens: usize) -> Contribution {
    // bm25 is negative, and the best rank is the lowest.
    let best = hits.first().map_or(0.0, |hit| hit.rank);
    let mut contribution = Contribution::default();
    let (mut tokens_left, mut left_out) = (budget_tokens, 0);
    for hit in hits.iter().filter(|hit| hit.rank <= best * RANK_SHARE_MIN) {
        let source = citation(hit);
        let text = format!("From your knowledge, `{source}`:\n\n{}", hit.body);
        match tokens_left.checked_sub(estimate_tokens(&text)) {
            Some(left) => {
                tokens_left = left;
                contribution.pieces.push((
                    source,
                    Piece::System {
                        text,
                        required: false,
                    },
                ));
            }
            None => left_out += 1,
        }
    }
    contribution.note =
        (left_out > 0).then(|| format!("{left_out} more pieces did not fit the step's budget"));
    contribution
}

/// Formats `knowledge/rooms.md#Breakfast`: the file, and the innermost heading above the piece.
fn citation(hit: &KnowledgeHit) -> String {
    match hit.heading.rsplit(TRAIL_SEPARATOR).next() {
        Some(heading) if !heading.is_empty() => format!("{}#{heading}", hit.path),
        _ => hit.path.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(path: &str, heading: &str, body: &str, rank: f64) -> KnowledgeHit {
        KnowledgeHit {
            path: path.into(),
            heading: heading.into(),
            body: body.into(),
            rank,
        }
    }

    #[test]
    fn pieces_are_cited_and_kept_within_the_budget() {
        let hits = [
            hit("knowledge/rooms.md", "Rooms > Breakfast", "From 7.", -5.0),
            hit("knowledge/long.md", "", &"long ".repeat(200), -4.0),
            hit("knowledge/notes.md", "", "Short.", -3.0),
            hit("knowledge/far.md", "", "By accident.", -0.5),
        ];
        let text = |source: &str, body: &str| Piece::System {
            text: format!("From your knowledge, `{source}`:\n\n{body}"),
            required: false,
        };
        let (rooms, notes) = ("knowledge/rooms.md#Breakfast", "knowledge/notes.md");
        let wanted = Contribution {
            pieces: vec![
                (rooms.into(), text(rooms, "From 7.")),
                (notes.into(), text(notes, "Short.")),
            ],
            note: Some("1 more pieces did not fit the step's budget".into()),
            ..Contribution::default()
        };
        assert_eq!(contribution(&hits, 100), wanted);
        assert_eq!(contribution(&hits, 3000).pieces.len(), 3);
        assert!(contribution(&hits, 3).pieces.is_empty());
    }
}
