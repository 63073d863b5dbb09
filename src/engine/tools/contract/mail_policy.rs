//! Recipients that a run may write to, and the letter that it answers.

use crate::domain::{Address, Timestamp, Trust};

/// Recipients that this run may write to, and its sender.
#[derive(Debug, Clone)]
pub struct MailPolicy {
    /// `true`: a transport is configured; without one, sending is a terminal failure.
    pub outbound_configured: bool,
    /// The persona's own address.
    pub persona_address: Address,
    /// Participants of this thread.
    pub participants: Vec<Address>,
    pub owners: Vec<Address>,
    /// Configured further recipients: exact addresses or `*@domain`.
    pub allow: Vec<String>,
    /// Most mails of one run.
    pub mails_per_run_max: usize,
    /// Number of mails that this run has sent so far.
    pub mails_sent: usize,
    /// Letter that this run answers; `None` for schedules.
    pub answers: Option<Answered>,
    /// Reason why the configured further recipients are closed to this run; `None`: they are not.
    pub closed: Option<&'static str>,
}

/// Letter that a run answers, as far as a reply needs it.
#[derive(Debug, Clone)]
pub struct Answered {
    pub sender: Option<Address>,
    pub sender_trust: Trust,
    /// Address in `Reply-To`, when there is exactly one.
    pub reply_to: Option<Address>,
    pub subject: String,
    /// RFC Message-ID; `None` when the letter had none of its own.
    pub rfc_message_id: Option<String>,
    /// Its References, oldest first.
    pub references: Vec<String>,
    pub received_at: Timestamp,
}
