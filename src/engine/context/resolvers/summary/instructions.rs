//! `instructions`: what the owner told the persona for this conversation, or for this correspondent.
//!
//! The words are the owner's, so they stand in the system text. A sender who proves nothing is shown none: anybody can write
//! into a thread under a name, and be told what stands there.

use crate::context::resolvers::{
    Contribution, Piece, ResolveError, Resolver, ResolverCall, estimate_tokens,
};
use crate::domain::{Address, Trust};
use futures_util::future::BoxFuture;

const NAME: &str = "instructions";
const INTRODUCTION: &str = "Your owner gave you these instructions for this conversation. They stand above what letters ask for:";

pub struct Instructions;

impl Resolver for Instructions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move {
            let subject = call.subject;
            if subject.sender_trust() == Trust::Unauthenticated {
                return Ok(Contribution::withheld(
                    "kept from a sender who proves nothing",
                ));
            }
            let metadata: serde_json::Value =
                serde_json::from_str(&subject.message.metadata_json).unwrap_or_default();
            let sender = metadata["sender"].as_str().map(Address::parse);
            let sender = sender.and_then(Result::ok).map(|sender| sender.key());
            let thread = &subject.message.thread;
            let found = call.reads.instructions(thread, sender.as_deref());
            let found = found.await.map_err(|error| error.of(NAME, ""))?;
            let mut text = INTRODUCTION.to_owned();
            let mut left_out = Vec::new();
            // The newest first: where not all fit, the last word counts.
            for instruction in found.iter().rev() {
                let day = instruction.given_at.get(..10).unwrap_or_default();
                let whose = match instruction.is_of_contact {
                    true => " for this correspondent",
                    false => "",
                };
                let line = format!("\n- ({day}{whose}) {}", instruction.text);
                if estimate_tokens(&text) + estimate_tokens(&line) > call.budget_tokens {
                    let source = format!("instruction {}", instruction.id);
                    left_out.push((source, "the budget is used up".to_owned()));
                    continue;
                }
                text.push_str(&line);
            }
            let mut contribution = match text.len() > INTRODUCTION.len() {
                true => Contribution::one(
                    format!("{} of the owner", found.len() - left_out.len()),
                    Piece::System {
                        text,
                        required: true,
                    },
                ),
                false => Contribution::nothing("no instructions for this thread or its sender"),
            };
            contribution.left_out = left_out;
            Ok(contribution)
        })
    }
}
