//! `active-memory`: the persona's short working memory, `active.md` in its folder, as notes beside
//! the input.
//!
//! Not for runs of unauthenticated senders: the notes of other letters would reach any sender who
//! claims a name. Other runs see the lines that all their readers may see.

use crate::context::resolvers::reads::BaseFolder;
use crate::context::resolvers::{
    Contribution, Piece, ResolveError, Resolver, ResolverCall, cut_to_tokens,
};
use crate::domain::{Trust, visible_to};
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
            );
            let text = visible.shown.trim();
            if text.is_empty() {
                return Ok(Contribution::nothing(format!("no text in `{source}`")));
            }
            let cut = cut_to_tokens(text, call.budget_tokens);
            let note = cut.is_some().then(|| "cut at its budget".to_owned());
            let piece = Piece::ActiveMemory {
                text: cut.unwrap_or_else(|| text.to_owned()),
                label: visible.label,
            };
            Ok(Contribution::one(source, piece).noted(note))
        })
    }
}
