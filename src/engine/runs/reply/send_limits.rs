//! Limits on a run's mail: for each correspondent and thread, and for hops from persona to persona.
//!
//! Absent on purpose: the count itself. It is taken in the transaction that queues a mail
//! (`store/threads/correspondence.rs`); the checks here come earlier, to save a call to the model or to
//! give it the reason.

use crate::domain::{Address, LoopToken, Trigger, Trust, Withheld};
use crate::runs::error::RunError;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::store::{Account, JournalEntry, MailBounds, MailReservation, MessageOutcome, Sent};
use crate::tools::MailDraft;

/// Returns the reason not to ask the model: after the mails in `sent`, the only answer of this run
/// could not be sent.
pub fn unasked(ctx: &ToolCallContext<'_>, sent: Sent) -> Option<Withheld> {
    let answers_stranger = ctx.run.trigger == Trigger::Email && !works_for_owner(ctx);
    answers_stranger
        .then(|| MailBounds::new(&ctx.deps.config).exceeded_by(sent.one_more()))
        .flatten()
}

/// Returns the reason why a draft must not be sent, as far as it is known before it is queued. Of
/// two runs that race for the last mail, one is refused when its mail is queued.
pub async fn forbidden(
    ctx: &ToolCallContext<'_>,
    draft: &MailDraft,
) -> Result<Option<Withheld>, RunError> {
    if is_over(ctx, hops(ctx)) {
        return Ok(Some(Withheld::HopLimit));
    }
    let wanted = reservation(ctx, draft.to.iter().chain(&draft.cc).chain(&draft.bcc));
    let mut sent = ctx
        .deps
        .env
        .sent_of_late(ctx.run, &wanted, &ctx.subject.message.thread)
        .await?
        .one_more();
    // Queued by this run and not yet committed.
    for earlier in ctx.pending.iter().filter_map(reserved) {
        if earlier
            .counterparties
            .iter()
            .any(|who| wanted.counterparties.contains(who))
        {
            sent.in_hour += 1;
            sent.in_day += 1;
        }
        sent.in_thread += i64::from(earlier.counts_in_thread);
    }
    if wanted.counterparties.is_empty() {
        (sent.in_hour, sent.in_day) = (0, 0);
    }
    if !(draft.is_reply && wanted.counts_in_thread) {
        sent.in_thread = 0; // a new thread, without mail so far
    }
    Ok(wanted.bounds.exceeded_by(sent))
}

fn reserved(entry: &JournalEntry) -> Option<&MailReservation> {
    match entry {
        JournalEntry::Mail(mail) => match &mail.outcome {
            MessageOutcome::Send { reservation, .. } => Some(reservation),
            MessageOutcome::Withhold(_) => None,
        },
        _ => None,
    }
}

/// Returns what a mail to these recipients takes from their limits. Owners do not count in a run
/// that works for an owner; no other sender can make a persona flood them.
pub fn reservation<'a>(
    ctx: &ToolCallContext<'_>,
    recipients: impl Iterator<Item = &'a Address>,
) -> MailReservation {
    let for_owner = works_for_owner(ctx);
    let account = Account::of(&ctx.subject.message.trust);
    let owners = &ctx.deps.config.gateway.owners;
    let is_owner = |address: &Address| owners.iter().any(|owner| owner.key() == address.key());
    let mut counterparties: Vec<String> = recipients
        .filter(|address| !(for_owner && is_owner(address)))
        .map(|to| account.key(to))
        .collect();
    counterparties.sort();
    counterparties.dedup();
    // A mail in a run for an owner counts in its thread only if it has other readers.
    let counts_in_thread = !for_owner || !counterparties.is_empty();
    let bounds = MailBounds::new(&ctx.deps.config);
    MailReservation {
        account,
        counterparties,
        counts_in_thread,
        bounds,
        mails_of_run_max: None,
    }
}

/// Reports whether the run was triggered by an authenticated owner's letter, or by the engine's own
/// prompt.
fn works_for_owner(ctx: &ToolCallContext<'_>) -> bool {
    [Trust::Owner, Trust::System]
        .iter()
        .any(|trust| trust.as_str() == ctx.subject.message.trust)
}

/// Returns the number of consecutive mails written by personas, including the one that this run
/// writes.
pub fn hops(ctx: &ToolCallContext<'_>) -> u32 {
    ctx.subject.message.hops.saturating_add(1)
}

/// Reports whether that number of hops exceeds the limit.
pub fn is_over(ctx: &ToolCallContext<'_>, hops: u32) -> bool {
    hops as usize > ctx.deps.config.limits.persona_hops_max
}

/// Returns the authenticated token by which mail of that Message-ID is recognised again.
pub fn loop_token(ctx: &ToolCallContext<'_>, message_id: &str, hops: u32) -> String {
    let key = ctx
        .deps
        .config
        .loop_key
        .as_ref()
        .unwrap_or(&ctx.deps.loop_key);
    key.seal(&LoopToken {
        hops,
        message_id: message_id.to_owned(),
    })
}
