//! An incoming letter as a value: the content of the commit that stores it for one persona.

use crate::domain::{MailboxUid, MessageId, PersonaId, Quotation, RawLetterId, RunId, Timestamp};
use crate::store::approvals::record::NewApprovalAnswer;
use crate::store::calendar::record::NewCalendarPart;
use crate::store::commands::record::NewMailCommand;
use crate::store::mail::messages::{Content, NewAttachment};
use crate::store::mail::reports::NewReport;
use crate::store::packing::PackedLetter;
use crate::store::runs::queue::NewRun;
use crate::store::sql::json_list;
use crate::store::threads::place::Place;
use crate::store::threads::reply_limits::ReplyLimits;

/// Content of the commit that stores a letter for one persona.
#[derive(Debug, Clone)]
pub struct NewInbound {
    pub persona: PersonaId,
    pub id: MessageId,
    pub raw_id: RawLetterId,
    pub sha256: String,
    pub envelope_json: String,
    /// Our `Received` field, as it would stand before the bytes; it ends with CRLF.
    pub trace: String,
    pub bytes: PackedLetter,
    pub place: Place,
    /// Addresses that may read the letter, in [`crate::domain::Address::key`] form: its
    /// authenticated sender and recipients. `None`: every participant of its thread.
    pub readers: Option<Vec<String>>,
    pub content: Content,
    /// What the fresh text leaves out; lines that the letter's thread does not hold are put back.
    pub quotations: Vec<Quotation>,
    pub attachments: Vec<NewAttachment>,
    /// Its calendar part, with who sent it.
    pub calendar: Option<NewCalendarPart>,
    /// Key that is equal for two arrivals of the same letter.
    pub dedup_key: String,
    /// Further keys under which the same letter may be stored already.
    pub also_known_as: Vec<String>,
    /// `true`: the letter bears a Message-ID, and a second arrival is a duplicate for the whole
    /// window. A letter without one may be sent twice on purpose once its sender has seen the first
    /// acknowledgement.
    pub has_own_id: bool,
    /// Start of the window: earlier arrivals are other letters.
    pub duplicates_since: Timestamp,
    /// Instant of arrival at the engine, or at the mailbox that it was fetched from.
    pub received_at: Timestamp,
    /// Position in the mailbox that it was fetched from: its outcome there is recorded in the same
    /// commit.
    pub fetched_from: Option<MailboxUid>,
    /// `true`: the peer is known to have seen our acknowledgement (see
    /// [`crate::gateway::intake_contract::LetterIntake::confirm`]).
    pub ack_confirmed: bool,
    /// Report on a mail of ours; such a letter never has a run.
    pub report: Option<NewReport>,
    /// Answer to a question of ours; such a letter never has a run.
    pub answer: Option<NewApprovalAnswer>,
    /// The queued run; `None` for filed mail.
    pub run: Option<NewRun>,
    /// Most letters that the run may answer together.
    pub letters_max: usize,
    /// `run` or `filed:<rule>`.
    pub disposition: String,
    /// Further policy decisions for `audit_log`, `verb:rule` each.
    pub decisions: Vec<String>,
    /// Number of consecutive mails that personas wrote, this one included.
    pub hops: u32,
    /// `true`: the sender is authenticated as an owner, and the thread's alternations count from
    /// here.
    pub from_owner: bool,
    /// Command of an owner that the letter brings; such a letter never has a run.
    pub command: Option<NewMailCommand>,
    /// Limits beyond which the letter is filed without a run; `None` is no limit.
    pub reply_limits: Option<ReplyLimits>,
}

impl NewInbound {
    /// Returns every key of the letter.
    pub(in crate::store) fn keys(&self) -> impl Iterator<Item = &str> {
        self.also_known_as
            .iter()
            .chain([&self.dedup_key])
            .map(String::as_str)
    }

    /// Returns every key of the letter, as a JSON array.
    pub(in crate::store) fn known_as(&self) -> String {
        json_list(self.keys())
    }

    /// Returns the approximate number of stored bytes.
    pub(in crate::store) fn size(&self) -> usize {
        self.bytes.bytes.len()
            + self
                .attachments
                .iter()
                .filter(|attachment| attachment.range.is_none())
                .map(|attachment| attachment.bytes.len())
                .sum::<usize>()
    }
}

/// Outcome of storing one copy of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredInbound {
    New {
        message: MessageId,
        run: Option<RunId>,
        /// `run` or `filed:<rule>`.
        disposition: String,
    },
    /// The letter is a duplicate of this message.
    Duplicate { message: MessageId },
}
