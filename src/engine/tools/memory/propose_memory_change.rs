//! `propose_memory_change`: proposes to put entries of memory in one, to correct one, or to use one no longer. It changes
//! nothing: what it makes waits for the owner, with the trust of its worst source and readers that may read all of them.

use super::write_rules::checked_text;
use crate::domain::{MemoryProposal, MemoryStatus, Readers, Trust};
use crate::store::{MemoryEntry, MemorySource, MemoryWrite, NewMemory, ProposalState, WholeMemory};
use crate::text::likeness::{marked_words_missing, words_found};
use crate::tools::contract::*;
use std::collections::BTreeSet;

/// Most proposals of one run, and most entries of one proposal.
const PROPOSALS_OF_RUN_MAX: u32 = 20;
const ENTRIES_MAX: usize = 10;
/// Lowest share of the words of a new text that stand in its entries or in what they rest on.
const OWN_WORDS_MIN: f64 = 0.7;

/// Proposes a change of your memory to your owner: `merge` puts entries of one person or thread in one, `correct` says
/// an entry better, `expire` takes one out of use. Nothing changes before your owner says yes. A new text says only
/// what its entries say, in their words.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposeMemoryChange {
    /// Change to propose.
    action: ProposedAction,
    /// Ids of the entries, as `list_memory` has them: two to ten for `merge`, else one.
    entries: Vec<String>,
    /// The whole new entry for `merge` and `correct`: one sentence of at most 400 characters.
    text: Option<String>,
    /// Why, for your owner: one short sentence.
    why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ProposedAction {
    Merge,
    Correct,
    Expire,
}

impl From<ProposedAction> for MemoryProposal {
    fn from(action: ProposedAction) -> Self {
        match action {
            ProposedAction::Merge => Self::Merge,
            ProposedAction::Correct => Self::Correct,
            ProposedAction::Expire => Self::Expire,
        }
    }
}

/// Entries with what each rests on.
type SourcedEntries = Vec<(MemoryEntry, Vec<MemorySource>)>;

impl TypedTool for ProposeMemoryChange {
    const NAME: &str = "propose_memory_change";
    const CLASS: ToolClass = ToolClass::Transactional;
    const EFFECTS: Effects = Effects::GATED_CHANGE;
    const RESULT_WORDS: ResultWords = ResultWords::Engine;
    const USES: ToolCapabilities = uses!(whole_memory);

    async fn call(self, call: &ToolCall<'_>) -> Result<ToolOutcome, ToolError> {
        let memory = call.env.whole_memory()?;
        if memory.written_by(call.run).await? >= PROPOSALS_OF_RUN_MAX {
            return refuse(
                "enough_proposed",
                format!(
                    "this run has made {PROPOSALS_OF_RUN_MAX} proposals, and no run makes more; leave the rest for the next"
                ),
            );
        }
        let proposal = MemoryProposal::from(self.action);
        let found = named(&memory, proposal, &self.entries).await?;
        let why = checked_text(&self.why)?;
        let text = match (proposal, self.text.as_deref()) {
            (MemoryProposal::Expire, None) => why.clone(),
            (MemoryProposal::Expire, Some(_)) => {
                return refuse("needless_text", "`expire` takes no `text`; leave it out");
            }
            (_, text) => own_text(text.unwrap_or_default(), &found)?,
        };
        let new = merged(call, proposal, text, found);
        Ok(ToolOutcome::writing(
            json!({ "proposed": true, "note": "it waits for your owner; nothing has changed" }),
            MemoryWrite::Propose {
                new: Box::new(new),
                why,
            },
        ))
    }
}

/// Returns the entries of a proposal. Errors: `bad_entries`, `no_such_entry`, `other_scope`, `waits_already`, `owner_rejected`.
async fn named(
    memory: &WholeMemory,
    proposal: MemoryProposal,
    ids: &[String],
) -> Result<SourcedEntries, ToolError> {
    let distinct: BTreeSet<&String> = ids.iter().collect();
    let wanted = match proposal {
        MemoryProposal::Merge => 2..=ENTRIES_MAX,
        MemoryProposal::Correct | MemoryProposal::Expire => 1..=1,
    };
    if distinct.len() != ids.len() || !wanted.contains(&ids.len()) {
        return refuse(
            "bad_entries",
            format!(
                "`entries` must name {} to {} entries, each once",
                wanted.start(),
                wanted.end()
            ),
        );
    }
    let found = memory.entries(ids).await?;
    if found.len() != ids.len() {
        return refuse(
            "no_such_entry",
            "one of the entries is not in use; take ids as the last `list_memory` has them",
        );
    }
    if found
        .iter()
        .any(|(entry, _)| entry.scope != found[0].0.scope)
    {
        return refuse(
            "other_scope",
            "the entries are about different people or threads, and stay apart",
        );
    }
    match memory.proposal_state(proposal, ids).await? {
        ProposalState::New => Ok(found),
        ProposalState::Waits => refuse(
            "waits_already",
            "a proposal for one of them waits for your owner already; leave it",
        ),
        ProposalState::Rejected => refuse(
            "owner_rejected",
            "your owner has rejected this proposal before; leave it",
        ),
    }
}

/// Returns the new text, if its words are those of its entries. Errors: those of a text; `not_in_entries`.
fn own_text(text: &str, found: &SourcedEntries) -> Result<String, ToolError> {
    let text = checked_text(text)?;
    let said: Vec<&str> = found
        .iter()
        .flat_map(|(entry, sources)| {
            let quotes = sources.iter().map(|source| source.quote.as_str());
            std::iter::once(entry.text.as_str()).chain(quotes)
        })
        .collect();
    let said = said.join("\n");
    let missing = marked_words_missing(&text, &said);
    if !missing.is_empty() || words_found(&text, &said) < OWN_WORDS_MIN {
        return refuse(
            "not_in_entries",
            format!(
                "the text says what its entries do not say{}; use their words alone",
                match missing.first() {
                    Some(word) => format!(", such as `{word}`"),
                    None => String::new(),
                }
            ),
        );
    }
    if found.len() == 1 && text == found[0].0.text {
        return refuse("nothing_changes", "the entry says exactly this already");
    }
    Ok(text)
}

/// Makes the proposal: the lowest trust, what all readers and all audiences have in common, the sources of all.
fn merged(
    call: &ToolCall<'_>,
    proposal: MemoryProposal,
    text: String,
    found: SourcedEntries,
) -> NewMemory {
    let entries = || found.iter().map(|(entry, _)| entry);
    let first = &found[0].0;
    let readers = |readers: Readers, entry: &MemoryEntry| readers.and(entry.readers.clone());
    let authors: BTreeSet<&str> = entries().map(|entry| entry.said_by.as_str()).collect();
    let trust = entries().map(|entry| entry.trust).min();
    NewMemory {
        scope: first.scope.clone(),
        kind: first.kind,
        text,
        status: MemoryStatus::Proposed,
        trust: trust
            .unwrap_or(Trust::Unauthenticated)
            .min(call.origin.lowest),
        readers: entries().fold(call.origin.readers.clone(), readers),
        audience: entries().fold(None, |common, entry| match (common, &entry.audience) {
            (None, audience) => audience.clone(),
            (common, None) => common,
            (Some(common), Some(audience)) => {
                Some(common.intersection(audience).cloned().collect())
            }
        }),
        said_by: authors.into_iter().collect::<Vec<_>>().join(" and "),
        said_at: entries()
            .map(|entry| entry.said_at)
            .max()
            .unwrap_or(first.said_at),
        valid_to: entries().filter_map(|entry| entry.valid_to).min(),
        supersedes: None,
        proposes: Some(proposal),
        replaces: entries().map(|entry| entry.id.clone()).collect(),
        confirmed_at: entries().map(|entry| entry.confirmed_at).max(),
        sources: distinct(found.iter().flat_map(|(_, sources)| sources)),
    }
}

/// Returns sources without repeated places.
fn distinct<'s>(sources: impl Iterator<Item = &'s MemorySource>) -> Vec<MemorySource> {
    let mut places = BTreeSet::new();
    let is_new = |source: &&MemorySource| places.insert((source.message.to_string(), source.start));
    sources.filter(is_new).cloned().collect()
}
