//! `recall`: entries of memory that the letter is about, of those that `contact-memory` had no room for, as reported speech
//! beside the input.
//!
//! Nothing below the threshold of the search: most of what is recalled unasked is noise. Not older letters: a run looks for
//! those with `search_email`, and then carries their label.

use super::contact_memory::{contribution, entries_of};
use crate::context::resolvers::{Contribution, ResolveError, Resolver, ResolverCall};
use crate::store::{MemoryEntry, entries_about};
use futures_util::future::BoxFuture;

/// Most tokens of one context, whatever the step's budget.
const TOKENS_MAX: usize = 400;
/// Most entries of one context.
const ENTRIES_MAX: usize = 8;

pub struct RecalledMemory;

impl Resolver for RecalledMemory {
    fn name(&self) -> &'static str {
        "recall"
    }

    fn resolve<'a>(
        &'a self,
        call: ResolverCall<'a>,
    ) -> BoxFuture<'a, Result<Contribution, ResolveError>> {
        Box::pin(async move {
            let Some(entries) = entries_of(call, self.name()).await? else {
                return Ok(Contribution::withheld(
                    "kept from a sender whom nobody knows",
                ));
            };
            let is_left = |entry: &&MemoryEntry| !call.remembered.contains(&entry.id);
            let left: Vec<&MemoryEntry> = entries.iter().filter(is_left).collect();
            if left.is_empty() {
                return Ok(Contribution::nothing("there is nothing more in memory"));
            }
            let about = entries_about(&left, &call.subject.new_text(), ENTRIES_MAX);
            if about.is_empty() {
                return Ok(Contribution::nothing("nothing relevant"));
            }
            let budget = call.budget_tokens.min(TOKENS_MAX);
            Ok(contribution(&about, budget, "that are less about it"))
        })
    }
}
