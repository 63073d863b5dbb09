//! `knowledge`: what the persona knows. All of it while it is small, in the system text; else a list of its files and the
//! pieces that match the input, each with its file and heading; and the names of the files there that cannot be read.
//!
//! The list is there whatever was found: words of another language match nothing.
//!
//! The resolver only reads the index. The environment that assembles contexts owns a
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

use super::{
    Contribution, Piece, ResolveError, Resolver, ResolverCall, cut_to_tokens, estimate_tokens,
};
use crate::store::{KnowledgeContents, KnowledgeHit};
use crate::text::plural;
use chunk::TRAIL_SEPARATOR;
use futures_util::future::BoxFuture;

/// Most pieces of one context.
const PIECES_MAX: u32 = 8;
/// Most tokens of one context, whatever the step's budget.
const TOKENS_MAX: usize = 3000;
/// Most tokens of the list of files.
const LIST_TOKENS_MAX: usize = 300;
/// Share of the context that all of the knowledge may have: a small model needs its room for the letter.
const WHOLE_SHARE: usize = 4;
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
            let whole_max = TOKENS_MAX
                .min(call.budget_tokens)
                .min(call.room_tokens / WHOLE_SHARE);
            let contents = call.reads.knowledge_contents(whole_max * 7 / 2).await;
            let contents = contents.map_err(|error| error.of("knowledge", ""))?;
            if contents.files.is_empty() {
                let nothing = Contribution::nothing("there is no file in `knowledge`");
                return Ok(Contribution {
                    left_out,
                    ..nothing
                });
            }
            if !contents.pieces.is_empty() {
                return Ok(Contribution {
                    left_out,
                    ..whole(&contents)
                });
            }
            let (list, named) = list(&contents, &call.subject.tools);
            let subject = &call.subject.message.subject;
            let terms = query_terms(subject, call.subject.fresh_text());
            let (hits, why) = match terms.is_empty() {
                true => (Vec::new(), "the input has no words to search for"),
                false => {
                    let hits = call.reads.knowledge(&terms, PIECES_MAX).await;
                    let hits = hits.map_err(|error| error.of("knowledge", ""))?;
                    (hits, "nothing in `knowledge` matches the input")
                }
            };
            let mut left_out = left_out;
            if hits.is_empty() {
                left_out.insert(0, ("sections".to_owned(), why.to_owned()));
            }
            let budget = call.budget_tokens.min(TOKENS_MAX);
            let budget = budget.saturating_sub(list.tokens());
            let mut found = contribution(&hits, budget);
            let source = match contents.files.len() + contents.more_files {
                files if files > named => format!("list of {named} of {files} files"),
                files => format!("list of {files} files"),
            };
            found.pieces.insert(0, (source, list));
            Ok(Contribution { left_out, ..found })
        })
    }
}

/// Returns all of the knowledge as one piece.
fn whole(contents: &KnowledgeContents) -> Contribution {
    let mut text = "This is all that `knowledge/` holds.".to_owned();
    for piece in &contents.pieces {
        text.push_str(&format!("\n\n{}", quoted(piece)));
    }
    let source = format!("all of knowledge, {}", plural(contents.files.len(), "file"));
    Contribution::one(source, Piece::WholeKnowledge(text))
}

/// Lists the files with their headings: what was not found by the words of the input can be asked for. Also returns how many
/// it names.
fn list(contents: &KnowledgeContents, tools: &[String]) -> (Piece, usize) {
    let has = |name: &str| tools.iter().any(|tool| tool == name);
    let how = match (has("grep"), has("read_file")) {
        (true, true) => " Search the rest with `grep`, read a file with `read_file`.",
        (true, false) => " Search the rest with `grep`.",
        (false, true) => " Read a file with `read_file`.",
        (false, false) => "",
    };
    let mut text = format!(
        "These are the files of `knowledge/`; below stands what shares words with the input.{how}"
    );
    let room = LIST_TOKENS_MAX - estimate_tokens("\n- and 999 more files");
    let mut unnamed = contents.more_files;
    // Names are worth more than headings: those of all files come first.
    let with_headings = |count: usize| -> Vec<String> {
        let line = |(path, headings): &(String, Vec<String>)| match &headings
            [..headings.len().min(count)]
        {
            [] => format!("\n- `{path}`"),
            some => format!("\n- `{path}`: {}", some.join(", ")),
        };
        contents.files.iter().map(line).collect()
    };
    let fits = |lines: &[String]| estimate_tokens(&(text.clone() + &lines.concat())) <= room;
    let lines = [8, 4, 2, 0]
        .into_iter()
        .map(with_headings)
        .find(|lines| fits(lines));
    let mut lines = lines.unwrap_or_else(|| with_headings(0));
    while lines.len() > 1 && !fits(&lines) {
        lines.pop();
        unnamed += 1;
    }
    let named = lines.len();
    text.push_str(&lines.concat());
    if unnamed > 0 {
        text.push_str(&format!("\n- and {unnamed} more files"));
    }
    let piece = Piece::System {
        text: cut_to_tokens(&text, LIST_TOKENS_MAX).unwrap_or(text),
        required: false,
    };
    (piece, named)
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
/// for a shorter one. Those of one file stand in its order: a price is read with what is above it.
fn contribution(hits: &[KnowledgeHit], budget_tokens: usize) -> Contribution {
    // bm25 is negative, and the best rank is the lowest.
    let best = hits.first().map_or(0.0, |hit| hit.rank);
    let (mut tokens_left, mut left_out) = (budget_tokens, 0);
    let mut quotes: Vec<(&KnowledgeHit, String)> = Vec::new();
    for hit in hits.iter().filter(|hit| hit.rank <= best * RANK_SHARE_MIN) {
        let text = quoted(hit);
        match tokens_left.checked_sub(estimate_tokens(&text)) {
            Some(left) => {
                tokens_left = left;
                quotes.push((hit, text));
            }
            None => left_out += 1,
        }
    }
    let files: Vec<&str> = quotes.iter().map(|(hit, _)| hit.path.as_str()).collect();
    let place = |path: &str| files.iter().position(|file| *file == path);
    let mut sorted = quotes.clone();
    sorted.sort_by_key(|(hit, _)| (place(&hit.path), hit.position));
    let pieces = sorted.into_iter().map(|(hit, text)| {
        let piece = Piece::System {
            text,
            required: false,
        };
        (citation(hit), piece)
    });
    Contribution {
        pieces: pieces.collect(),
        note: (left_out > 0)
            .then(|| format!("{left_out} more pieces did not fit the step's budget")),
        ..Contribution::default()
    }
}

/// Renders a piece with where it stands.
fn quoted(hit: &KnowledgeHit) -> String {
    format!("From your knowledge, `{}`:\n\n{}", citation(hit), hit.body)
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
            position: 0,
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
