//! How much a run may send: bounds for each correspondent and thread, and how far mail may go from persona to persona.
//!
//! Absent on purpose: the count itself. It is taken in the transaction that queues a mail (`store/correspondence.rs`);
//! what is asked here before is a courtesy, which saves a call to the model or tells it the truth.

use super::desk::RunError;
use super::gate::Gate;
use crate::domain::{Address, LoopToken, Trigger, Trust, Withheld};
use crate::store::{Account, Bounds, Entry, Fate, Reservation, Sent};
use crate::tools::MailDraft;

/// Why the model need not be asked: `sent` so far, the one answer that this run is for could not be sent.
pub fn unasked(gate: &Gate<'_>, sent: Sent) -> Option<Withheld> {
    let answers_stranger = gate.run.trigger == Trigger::Email && !works_for_owner(gate);
    answers_stranger.then(|| Bounds::new(&gate.desk.config.limits).exceeded_by(sent.one_more())).flatten()
}

/// Why a draft must not be sent, as far as can be told before it is queued. Of two runs that race for the last mail
/// one is told when it is queued.
pub async fn forbidden(gate: &Gate<'_>, draft: &MailDraft) -> Result<Option<Withheld>, RunError> {
    if is_over(gate, hops(gate)) {
        return Ok(Some(Withheld::HopLimit));
    }
    let wanted = reservation(gate, draft.to.iter().chain(&draft.cc).chain(&draft.bcc));
    let mut sent =
        gate.desk.ledger.sent_of_late(gate.run, &wanted, &gate.subject.message.thread).await?.one_more();
    // Queued by this run and not yet committed.
    for earlier in gate.pending.iter().filter_map(reserved) {
        if earlier.counterparties.iter().any(|who| wanted.counterparties.contains(who)) {
            sent.in_hour += 1;
            sent.in_day += 1;
        }
        sent.in_thread += i64::from(earlier.counts_in_thread);
    }
    if wanted.counterparties.is_empty() {
        (sent.in_hour, sent.in_day) = (0, 0);
    }
    if !(draft.is_reply && wanted.counts_in_thread) {
        sent.in_thread = 0; // another thread, which nobody has written into yet
    }
    Ok(wanted.bounds.exceeded_by(sent))
}

fn reserved(entry: &Entry) -> Option<&Reservation> {
    match entry {
        Entry::Mail(mail) => match &mail.fate {
            Fate::Send { reservation, .. } => Some(reservation),
            Fate::Withhold(_) => None,
        },
        _ => None,
    }
}

/// What a mail to these people takes from their bounds. Owners do not count in a run that works for an owner; nobody
/// else can make a persona flood them.
pub fn reservation<'a>(gate: &Gate<'_>, recipients: impl Iterator<Item = &'a Address>) -> Reservation {
    let for_owner = works_for_owner(gate);
    let account = Account::of(&gate.subject.message.trust);
    let owners = &gate.desk.config.gateway.owners;
    let is_owner = |address: &Address| owners.iter().any(|owner| owner.key() == address.key());
    let mut counterparties: Vec<String> =
        recipients.filter(|address| !(for_owner && is_owner(address))).map(|to| account.key(to)).collect();
    counterparties.sort();
    counterparties.dedup();
    // A mail in a run for an owner counts in its thread only if somebody else reads it.
    let counts_in_thread = !for_owner || !counterparties.is_empty();
    let bounds = Bounds::new(&gate.desk.config.limits);
    Reservation { account, counterparties, counts_in_thread, bounds, mails_of_run_max: None }
}

/// By a letter that proved to be an owner's, or by the engine's own prompt.
fn works_for_owner(gate: &Gate<'_>) -> bool {
    [Trust::Owner, Trust::System].iter().any(|trust| trust.as_str() == gate.subject.message.trust)
}

/// Mails in a row that personas wrote, with the one that this run writes.
pub fn hops(gate: &Gate<'_>) -> u32 {
    gate.subject.message.hops.saturating_add(1)
}

/// Whether that is one mail in a row too many.
pub fn is_over(gate: &Gate<'_>, hops: u32) -> bool {
    hops as usize > gate.desk.config.limits.persona_hops_max
}

/// The sealed note by which we shall know the mail of that Message-ID again.
pub fn loop_token(gate: &Gate<'_>, message_id: &str, hops: u32) -> String {
    let key = gate.desk.config.loop_key.as_ref().unwrap_or(&gate.desk.loop_key);
    key.seal(&LoopToken { hops, message_id: message_id.to_owned() })
}
