//! Kinds and states of questions to the owner, and the addresses that owners answer to.

use super::mail::address::Address;
use super::run::word_enum;

word_enum!(
    /// Subject of a question.
    ApprovalKind {
        /// A call of a tool.
        Call = "call",
        /// The final text of a run, as a mail.
        Reply = "reply",
        /// A question of the model, whose answer is text.
        Question = "question",
        /// The calls that a run is going to make.
        Plan = "plan",
        /// A mail that waits while its run does not.
        Draft = "draft",
    }
);

word_enum!(
    /// State of a question.
    ApprovalState {
        Open = "open",
        Approved = "approved",
        Rejected = "rejected",
        /// Rejected with an instruction for another proposal.
        Edited = "edited",
        Answered = "answered",
        /// Nobody decided in time.
        Expired = "expired",
        /// The same call was asked about anew.
        Superseded = "superseded",
        /// Its run was cancelled, or the database was restored from a backup.
        Cancelled = "cancelled",
    }
);

word_enum!(
    /// Whether a run shows its owner a plan before it acts.
    #[derive(Default)]
    PlanMode {
        /// It acts, and is asked about single calls.
        #[default]
        None = "none",
        /// It proposes a plan first.
        Ask = "ask",
    }
);

word_enum!(
    /// Handling of what a persona writes.
    #[derive(Default)]
    ReplyMode {
        /// The final text is mailed, unless the run has replied already.
        #[default]
        Final = "final",
        /// Only tools send mail.
        ToolOnly = "tool_only",
        /// Every mail to others waits as a draft until an owner sends it.
        Draft = "draft",
    }
);

word_enum!(
    /// Who gets the answer to a letter.
    #[derive(Default)]
    AnswerTo {
        /// Its sender.
        #[default]
        Sender = "sender",
        /// Its sender, and those in its `To` and `Cc` as copies, as far as the sender is known to have written these.
        All = "all",
    }
);

word_enum!(
    /// What stands below the answer to a letter.
    #[derive(Default)]
    QuoteMode {
        /// Nothing of the letter.
        #[default]
        None = "none",
        /// What the letter itself said, without what it quotes.
        Last = "last",
    }
);

/// Separator between a persona's local part and the token of a question.
const TAG: &str = "+a.";

/// Returns the address to which an owner answers a question. `None`: the local part has no room for the token (RFC 5321
/// section 4.5.3.1.1: 64 octets), so the question cannot be answered by mail.
pub fn approval_address(persona: &Address, token: &str) -> Option<Address> {
    let base = persona.local().split('+').next().unwrap_or_default();
    Address::parse(&format!("{base}{TAG}{token}@{}", persona.domain())).ok()
}

/// Returns the token of an address that [`approval_address`] made, in lower case. An address of the same shape gives one
/// too.
pub fn approval_token(address: &Address) -> Option<String> {
    let at = address.local().find('+')?;
    let tag = address.local()[at..].to_ascii_lowercase();
    tag.strip_prefix(TAG).map(str::to_owned)
}
