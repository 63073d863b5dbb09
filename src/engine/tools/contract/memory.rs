//! Memory as a call may use it: that of the people around its run, and the new text that an entry may quote.

use crate::domain::{MemoryCircle, MessageId, Timestamp};
use crate::store::AudienceMemory;

/// New text of a run: of the letter that it answers without quoted history, or what the owner asks at the machine. What
/// the run was shown besides, or found by tools, is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotableText {
    pub message: MessageId,
    pub text: String,
    /// `fresh` or `body`: which text of the message it is.
    pub part: &'static str,
    /// Address of whoever wrote it.
    pub said_by: String,
    pub said_at: Timestamp,
}

/// People around a run and its new text, by which its memory is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlace {
    pub circle: MemoryCircle,
    /// `None`: nothing of this run may be written down, such as a scheduled prompt.
    pub new_text: Option<QuotableText>,
}

/// Memory of one call.
#[derive(Clone)]
pub struct MemoryAccess<'a> {
    pub entries: AudienceMemory,
    pub place: &'a MemoryPlace,
}
