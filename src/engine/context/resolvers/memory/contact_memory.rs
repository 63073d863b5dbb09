//! `contact-memory`: entries of memory about the proved sender, the thread and for everybody, as reported speech beside the
//! input.
//!
//! Whole entries only, those that were confirmed last first. Not for senders whom nobody knows: nothing is remembered
//! of them until the owner says so.

use crate::context::resolvers::{
    Contribution, Piece, ResolveError, Resolver, ResolverCall, estimate_tokens,
};
use crate::domain::{MemoryCircle, TextLabel};
use crate::store::MemoryEntry;
use futures_util::future::BoxFuture;

/// Most tokens of one context, whatever the step's budget.
const TOKENS_MAX: usize = 600;

pub struct ContactMemory;

impl Resolver for ContactMemory {
    fn name(&self) -> &'static str {
        "contact-memory"
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
            if entries.is_empty() {
                return Ok(Contribution::nothing(
                    "nothing is remembered of this sender",
                ));
            }
            let entries: Vec<&MemoryEntry> = entries.iter().collect();
            let budget = call.budget_tokens.min(TOKENS_MAX);
            Ok(contribution(
                &entries,
                budget,
                "that were confirmed longer ago",
            ))
        })
    }
}

/// Reads the entries that may be shown to the people around a run; `None`: nobody knows the sender.
pub(super) async fn entries_of(
    call: ResolverCall<'_>,
    resolver: &str,
) -> Result<Option<Vec<MemoryEntry>>, ResolveError> {
    let circle = call.subject.memory_circle();
    let Some(circle) = circle.filter(MemoryCircle::is_known) else {
        return Ok(None);
    };
    let entries = call.reads.memory(&circle).await;
    entries.map(Some).map_err(|error| error.of(resolver, ""))
}

/// Takes entries as long as they fit; the first that does not ends the list. `others` says what the left out ones are.
pub(super) fn contribution(
    entries: &[&MemoryEntry],
    budget_tokens: usize,
    others: &str,
) -> Contribution {
    let (mut text, mut label, mut taken) = (String::new(), TextLabel::default(), 0);
    for entry in entries {
        let line = format!("- {}\n", entry.reported());
        if estimate_tokens(&text) + estimate_tokens(&line) > budget_tokens {
            break;
        }
        text.push_str(&line);
        label = label.and(entry.label());
        taken += 1;
    }
    let left_out = entries.len() - taken;
    let note = (left_out > 0)
        .then(|| format!("{left_out} entries {others} did not fit {budget_tokens} tokens"));
    let shown: Vec<String> = entries[..taken]
        .iter()
        .map(|entry| entry.shown_id())
        .collect();
    if taken == 0 {
        return Contribution::nothing(note.unwrap_or_default());
    }
    let source = format!("memory {}", shown.join(" "));
    let entries = entries[..taken].iter().map(|entry| entry.id.clone());
    let piece = Piece::Remembered {
        text,
        label,
        entries: entries.collect(),
    };
    Contribution::one(source, piece).noted(note)
}
