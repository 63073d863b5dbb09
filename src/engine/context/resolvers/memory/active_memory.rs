//! `active-memory`: the persona's short working memory, `active.md` in its folder, as notes beside
//! the input.
//!
//! Not for runs of unauthenticated senders: the notes of other letters would reach any sender who
//! claims a name. Other runs see the lines that all their readers may see and that were written down with no less trust than their
//! own: a line lowers the trust of no run. What is left out is said in the report, and to the owner's runs.

use crate::context::resolvers::reads::BaseFolder;
use crate::context::resolvers::{
    Contribution, Piece, ResolveError, Resolver, ResolverCall, cut_to_tokens,
};
use crate::domain::{Trust, VisibleMemory, visible_to};
use crate::text::plural;
use futures_util::future::BoxFuture;

const FILE_BYTES_MAX: u64 = 64 * 1024;

pub struct ActiveMemory;

impl Resolver for ActiveMemory {
    fn name(&self) -> &'static str {
        "active-memory"
    }

    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move {
            if call.subject.message.trust == Trust::Unauthenticated.as_str() {
                return Ok(Contribution::withheld(
                    "kept from a sender who proves nothing",
                ));
            }
            let source = format!("personas/{}/active.md", call.persona.id);
            let text = call
                .reads
                .text(BaseFolder::Persona, "active.md", FILE_BYTES_MAX)
                .map_err(|error| {
                    error.of(
                        "active-memory",
                        &format!("active.md of `{}`", call.persona.id),
                    )
                })?;
            let visible = visible_to(
                text.as_deref().unwrap_or_default().trim(),
                &call.subject.audience(),
                call.subject.sender_trust(),
            );
            let mut text = visible.shown.trim().to_owned();
            let left_out = left_out(&visible);
            if visible.of_less_trust > 0 && call.subject.sender_trust() >= Trust::Owner {
                let lines = plural(visible.of_less_trust, "line");
                text = format!(
                    "{text}\n({lines} that runs for others wrote down are left out here; read_file shows them in `active.md`.)"
                );
            }
            let text = text.trim();
            if !is_something(text) {
                let why = match &left_out {
                    Some(left_out) => format!("no text in `{source}`: {left_out}"),
                    None => format!("no text in `{source}`"),
                };
                return Ok(Contribution::nothing(why));
            }
            let cut = cut_to_tokens(text, call.budget_tokens);
            let notes = [
                cut.is_some().then(|| "cut at its budget".to_owned()),
                left_out,
            ];
            let notes: Vec<String> = notes.into_iter().flatten().collect();
            let piece = Piece::ActiveMemory {
                text: cut.unwrap_or_else(|| text.to_owned()),
                label: visible.label,
            };
            let note = (!notes.is_empty()).then(|| notes.join("; "));
            Ok(Contribution::one(source, piece).noted(note))
        })
    }
}

/// Reports whether notes say anything: besides headings and the words of a new persona's file.
fn is_something(notes: &str) -> bool {
    let mut lines = notes.lines().map(str::trim);
    lines.any(|line| !line.is_empty() && !line.starts_with('#') && line != "Nothing yet.")
}

/// Says to the operator how many lines a run was not shown, and why.
fn left_out(visible: &VisibleMemory) -> Option<String> {
    let reasons = [
        (visible.of_less_trust, "of less trust than the run's sender"),
        (visible.of_others, "not for everybody who reads along"),
    ];
    let lines: usize = reasons.iter().map(|(count, _)| count).sum();
    let reasons: Vec<String> = reasons
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    (lines > 0).then(|| format!("{} left out: {}", plural(lines, "line"), reasons.join(", ")))
}
