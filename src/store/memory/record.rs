//! Entries of memory, and changes of them by a run, as values.

use crate::domain::{
    MemoryKind, MemoryProposal, MemoryScope, MemoryStatus, MessageId, PersonaId, Readers, RunId,
    TextLabel, Timestamp, Trust,
};
use crate::store::StoreError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An entry, as a run reads it and as its owner does.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MemoryEntry {
    pub id: String,
    pub persona: PersonaId,
    #[serde(flatten)]
    pub scope: MemoryScope,
    /// Number within the scope.
    pub number: u32,
    pub kind: MemoryKind,
    /// Empty once it is erased.
    pub text: String,
    pub text_sha256: String,
    pub status: MemoryStatus,
    /// Lowest trust of what its run had read.
    pub trust: Trust,
    /// Addresses that may read all that its run had read.
    pub readers: Readers,
    /// Addresses that read along when it was said, besides the owners; `None`: everybody may know it.
    pub audience: Option<BTreeSet<String>>,
    /// Address of whoever wrote its source.
    pub said_by: String,
    pub said_at: Timestamp,
    pub valid_to: Option<Timestamp>,
    pub created_at: Timestamp,
    pub created_run: Option<RunId>,
    /// `model` or `owner`.
    pub created_by: String,
    pub confirmed_at: Timestamp,
    /// Number of runs that were told the same again.
    pub confirmations: u32,
    pub supersedes: Option<String>,
    pub superseded_by: Option<String>,
    pub erased_at: Option<Timestamp>,
    /// Number of contexts and searches that were given it.
    pub uses: u32,
    pub last_used_at: Option<Timestamp>,
    /// `true`: it does not expire for want of use.
    pub pinned: bool,
    /// What it would do to other entries; `None`: it is an entry that was remembered.
    pub proposes: Option<MemoryProposal>,
}

/// Place of a quote in the new text of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySource {
    pub message: MessageId,
    /// `fresh`: of the text without quoted history; `body`: of the whole text.
    pub part: String,
    /// In characters.
    pub start: usize,
    pub end: usize,
    /// Empty once the entry is erased.
    pub quote: String,
}

/// An entry that a run writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewMemory {
    pub scope: MemoryScope,
    pub kind: MemoryKind,
    pub text: String,
    pub status: MemoryStatus,
    pub trust: Trust,
    pub readers: Readers,
    pub audience: Option<BTreeSet<String>>,
    pub said_by: String,
    pub said_at: Timestamp,
    pub valid_to: Option<Timestamp>,
    /// Entry that it corrects.
    pub supersedes: Option<String>,
    /// What it would do to the entries in `replaces`; `None`: nothing.
    pub proposes: Option<MemoryProposal>,
    pub replaces: Vec<String>,
    /// `None`: now.
    pub confirmed_at: Option<Timestamp>,
    /// At least one.
    pub sources: Vec<MemorySource>,
}

/// Change of the memory by a call, committed with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum MemoryWrite {
    Add(Box<NewMemory>),
    /// The entry was said again.
    Confirm {
        id: String,
    },
    Forget {
        id: String,
        why: String,
    },
    /// A change of other entries, for the owner to decide on.
    Propose {
        new: Box<NewMemory>,
        why: String,
    },
    /// Entries were found by a search.
    Use {
        ids: Vec<String>,
    },
}

impl MemoryEntry {
    /// Returns the id that a model reads.
    pub fn shown_id(&self) -> String {
        self.scope.shown_id(self.number)
    }

    /// Returns the label of the text; the owner's words limit nothing.
    pub fn label(&self) -> TextLabel {
        TextLabel {
            lowest: (self.trust < Trust::Owner).then_some(self.trust),
            readers: self.readers.clone(),
        }
    }

    /// Renders the entry as reported speech: it is what somebody wrote, and nothing that the persona is told.
    pub fn reported(&self) -> String {
        let day = self.said_at.to_utc().format("%Y-%m-%d");
        let edited = match self.created_by.as_str() {
            "owner" => ", in your owner's words",
            _ => "",
        };
        format!(
            "[{}] {} wrote on {day} ({}{edited}): {}",
            self.shown_id(),
            self.said_by,
            self.kind,
            self.text
        )
    }
}

from_row!(|row| MemoryEntry {
    id,
    persona: "persona_id",
    scope: {
        let scope = MemoryScope::from_columns(row.get("scope"), row.get("scope_key"));
        scope.ok_or(StoreError::Unreadable { what: "memory" })?
    },
    number,
    kind,
    text,
    text_sha256,
    status,
    trust: { Trust::parse_stored(row.get("trust")) },
    readers: { row.json("readers_json", "readers of a memory")? },
    audience: { row.json("audience_json", "audience of a memory")? },
    said_by,
    said_at,
    valid_to,
    created_at,
    created_run,
    created_by,
    confirmed_at,
    confirmations,
    supersedes,
    superseded_by,
    erased_at,
    uses,
    last_used_at,
    pinned,
    proposes: {
        let proposes: Option<&str> = row.get("proposes");
        proposes.and_then(MemoryProposal::parse)
    }
});
