//! Recipients of a run's final text: the sender of the letter, with copies by `reply_to`, or the
//! addresses of the responsibility or of the rule for the letter; and the reasons to withhold it.

use super::send_limits;
use crate::domain::mail::robots::is_robot;
use crate::domain::{
    Address, AnswerTo, DeliverTo, Mailbox, ReplyMode, Trigger, Trust, Withheld, is_listed,
};
use crate::runs::error::RunError;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::store::StoredMessage;
use crate::tools::Answered;
use std::collections::BTreeSet;

/// Most people who get a copy of an answer. A letter to more is an announcement, and only its sender is answered.
const COPIES_MAX: usize = 20;

/// Destination of a final text.
pub struct ReplyDestination {
    pub to: Vec<Address>,
    /// People of the letter who get a copy.
    pub cc: Vec<Address>,
    /// Address in the `Reply-To` of the letter, if its sender gets the answer instead.
    pub unused_reply_to: Option<String>,
    /// Letter that it answers.
    pub letter: Option<Answered>,
    /// Consecutive mails written by personas, including this one.
    pub hops: u32,
    /// Reason why it is not sent.
    pub withheld: Option<Withheld>,
}

/// Returns the destination of the final text, by the rules that are known before the mail is made.
pub async fn destination(
    ctx: &ToolCallContext<'_>,
    wanted: &DeliverTo,
) -> Result<ReplyDestination, RunError> {
    let config = &ctx.deps.config;
    let new_mail = |to: Vec<Address>| ReplyDestination {
        to,
        cc: Vec::new(),
        unused_reply_to: None,
        letter: None,
        hops: send_limits::hops(ctx),
        withheld: None,
    };
    let mut goal = match (answered(ctx), wanted) {
        (_, DeliverTo::Store) => ReplyDestination {
            withheld: Some(Withheld::StoreOnly),
            ..new_mail(Vec::new())
        },
        (Some(letter), DeliverTo::Sender) => {
            // The run of a sender who is no contact sends its answer to that sender only.
            let send_allow = match ctx.label.follows_send_allow() {
                true => config.security.send_allow.as_slice(),
                false => &[],
            };
            let to = Vec::from_iter(writer(&letter, send_allow));
            ReplyDestination {
                cc: copies(ctx, &to, &letter).await?,
                unused_reply_to: unused_reply_to(&ctx.subject.message, &to),
                letter: Some(letter),
                ..new_mail(to)
            }
        }
        (_, DeliverTo::Owners) | (None, DeliverTo::Sender) => {
            new_mail(config.gateway.owners.clone())
        }
        (_, DeliverTo::People(people)) => {
            let forbidden = people.iter().any(|address| !is_allowed(ctx, address));
            ReplyDestination {
                withheld: forbidden.then_some(Withheld::NotAllowed),
                ..new_mail(people.clone())
            }
        }
        (_, DeliverTo::Thread(_)) => into_thread(ctx).await?,
    };
    let is_elsewhere = is_elsewhere(ctx, wanted);
    goal.withheld = goal.withheld.or_else(|| withheld(ctx, &goal, is_elsewhere));
    Ok(goal)
}

/// Reports whether the answer to a letter goes to others than its sender.
pub fn is_elsewhere(ctx: &ToolCallContext<'_>, wanted: &DeliverTo) -> bool {
    ctx.run.trigger == Trigger::Email && matches!(wanted, DeliverTo::Owners | DeliverTo::People(_))
}

fn withheld(
    ctx: &ToolCallContext<'_>,
    goal: &ReplyDestination,
    is_elsewhere: bool,
) -> Option<Withheld> {
    if ctx.replied && !is_elsewhere {
        Some(Withheld::AlreadyReplied)
    } else if ctx.persona.reply_under(ctx.options) == ReplyMode::ToolOnly {
        Some(Withheld::ToolOnly)
    } else if ctx.deps.config.gateway.outbound.is_none() {
        Some(Withheld::OutboundNotConfigured)
    } else if goal.to.is_empty() {
        Some(Withheld::NoRecipient)
    } else if send_limits::is_over(ctx, goal.hops) {
        Some(Withheld::HopLimit)
    } else {
        None
    }
}

/// Addresses the readers of the run's thread, as an answer to their newest letter where there is
/// one. The run's thread is the one that the responsibility named, or the one it was folded into.
async fn into_thread(ctx: &ToolCallContext<'_>) -> Result<ReplyDestination, RunError> {
    let letter = ctx.deps.env.newest_letter(ctx.run, ctx.subject).await?;
    let hops = letter.as_ref().map_or_else(
        || send_limits::hops(ctx),
        |letter| letter.hops.saturating_add(1),
    );
    let to = people_of(ctx).await?;
    Ok(ReplyDestination {
        to,
        cc: Vec::new(),
        unused_reply_to: None,
        letter: letter.as_ref().map(as_answered),
        hops,
        withheld: None,
    })
}

/// Returns the people of a letter who get a copy of its answer: those in the fields that its sender is known to have written,
/// who are still in its thread and may read all that the run has read. No persona of ours, no machine, nobody twice.
async fn copies(
    ctx: &ToolCallContext<'_>,
    to: &[Address],
    letter: &Answered,
) -> Result<Vec<Address>, RunError> {
    // A stranger could have us write to anybody.
    let is_known = ctx.label.follows_send_allow();
    if ctx.persona.mail.reply_to == AnswerTo::Sender || !is_known {
        return Ok(Vec::new());
    }
    let config = &ctx.deps.config;
    let readers = people_of(ctx).await?;
    let mut seen: BTreeSet<String> = to.iter().chain(&letter.sender).map(Address::key).collect();
    let mut people = proven_recipients(&ctx.subject.message);
    people.retain(|address| {
        seen.insert(address.key())
            && config.personas.by_address(address).is_none()
            && !is_robot(address.local())
            && !config.security.access.denies(address)
            && readers.iter().any(|reader| reader.key() == address.key())
            && (ctx.label.readers.permit(address) || is_owner(ctx, address))
    });
    match people.len() > COPIES_MAX {
        true => Ok(Vec::new()),
        false => Ok(people),
    }
}

/// Returns the first address in the `Reply-To` of a letter, unless a mailbox that it names gets the answer.
fn unused_reply_to(message: &StoredMessage, to: &[Address]) -> Option<String> {
    let recipients: serde_json::Value =
        serde_json::from_str(&message.recipients_json).unwrap_or_default();
    let named = recipients["reply_to"].as_array().into_iter().flatten();
    let named: Vec<Address> = named
        .filter_map(|one| Mailbox::address_in(one.as_str()?))
        .collect();
    let is_used = |named: &Address| to.iter().any(|to| to.counted_key() == named.counted_key());
    match named.iter().any(is_used) {
        true => None,
        false => named.first().map(Address::to_string),
    }
}

/// Returns everybody in the `To` and `Cc` of a letter, as far as its sender is known to have written these fields.
fn proven_recipients(message: &StoredMessage) -> Vec<Address> {
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    let (metadata, recipients) = (json(&message.metadata_json), json(&message.recipients_json));
    let covered = metadata["identity"]["covers"].as_array();
    let is_covered =
        |field: &str| covered.is_some_and(|fields| fields.iter().any(|covered| covered == field));
    let mut people = Vec::new();
    for field in ["to", "cc"] {
        let named = recipients[field].as_array().filter(|_| is_covered(field));
        let named = named.into_iter().flatten().filter_map(|one| one.as_str());
        people.extend(named.filter_map(Mailbox::address_in));
    }
    people
}

/// Returns every address in the run's thread that mail can be sent to, except the persona's own.
/// Readers who may not read what the run is about, because they joined later or because it was not
/// sent to them, are left out. Another persona is a reader like any other; the hop limit ends what
/// mail between personas may start.
pub async fn people_of(ctx: &ToolCallContext<'_>) -> Result<Vec<Address>, RunError> {
    let personas = &ctx.deps.config.personas;
    let people = ctx
        .deps
        .env
        .readers_of(ctx.run, &ctx.subject.message)
        .await?;
    let is_self = |address: &Address| {
        personas
            .by_address(address)
            .is_some_and(|p| p.id == ctx.persona.id)
    };
    Ok(people
        .iter()
        .filter_map(|text| Address::parse(text).ok())
        .filter(|a| !is_self(a))
        .collect())
}

/// Checked when the file is read and again here: owners and `send_allow` may have changed since.
fn is_allowed(ctx: &ToolCallContext<'_>, address: &Address) -> bool {
    is_owner(ctx, address) || is_listed(&ctx.deps.config.security.send_allow, address)
}

fn is_owner(ctx: &ToolCallContext<'_>, address: &Address) -> bool {
    let owners = &ctx.deps.config.gateway.owners;
    owners.iter().any(|owner| owner.key() == address.key())
}

/// Returns the letter that this run is for, as far as an answer needs it; or the question of an agent, which is answered
/// to that agent alone.
pub fn answered(ctx: &ToolCallContext<'_>) -> Option<Answered> {
    let answered = || as_answered(&ctx.subject.message);
    match ctx.run.trigger {
        Trigger::Email => Some(answered()),
        Trigger::Chat => Some(answered()).filter(|question| question.sender.is_some()),
        Trigger::Schedule | Trigger::Manual | Trigger::Summary => None,
    }
}

fn as_answered(message: &StoredMessage) -> Answered {
    let metadata: serde_json::Value =
        serde_json::from_str(&message.metadata_json).unwrap_or_default();
    let address = |key: &str| {
        metadata[key]
            .as_str()
            .and_then(|text| Address::parse(text).ok())
    };
    let has_own_id = metadata["generated_message_id"] != true;
    Answered {
        sender: address("sender"),
        sender_trust: Trust::parse_stored(&message.trust),
        reply_to: address("reply_to"),
        subject: message.subject.clone(),
        rfc_message_id: has_own_id.then(|| message.rfc_message_id.clone()),
        // A letter that names only the mail that it answers (RFC 5322 section 3.6.4).
        references: match message.references.as_slice() {
            [] => message.in_reply_to.iter().cloned().collect(),
            named => named.to_vec(),
        },
        received_at: message.received_at,
    }
}

/// Returns the recipient of an answer: `From`, or a `Reply-To` that is that mailbox under another
/// tag or that the configuration allows. Any other `Reply-To` would make us write to any address
/// that the sender likes (RFC 3834 section 4).
fn writer(letter: &Answered, send_allow: &[String]) -> Option<Address> {
    let sender = letter.sender.as_ref()?;
    let is_same_mailbox = |other: &&Address| {
        other.domain() == sender.domain() && other.base_local() == sender.base_local()
    };
    let is_safe = |to: &&Address| is_same_mailbox(to) || is_listed(send_allow, to);
    Some(
        letter
            .reply_to
            .as_ref()
            .filter(is_safe)
            .unwrap_or(sender)
            .clone(),
    )
}
