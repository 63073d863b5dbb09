//! Recipients of a run's final text: the sender of the letter, or the addresses of the
//! responsibility or of the rule for the letter; and the reasons to withhold it.

use super::send_limits;
use crate::domain::{Address, DeliverTo, ReplyMode, Trigger, Trust, Withheld, is_listed};
use crate::runs::error::RunError;
use crate::runs::tool_calls::context::ToolCallContext;
use crate::store::StoredMessage;
use crate::tools::Answered;

/// Destination of a final text.
pub struct ReplyDestination {
    pub to: Vec<Address>,
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
            let to = writer(&letter, send_allow).into_iter().collect();
            ReplyDestination {
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
    } else if ctx.reply == ReplyMode::ToolOnly {
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
        letter: letter.as_ref().map(as_answered),
        hops,
        withheld: None,
    })
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
    let config = &ctx.deps.config;
    let is_owner = config
        .gateway
        .owners
        .iter()
        .any(|owner| owner.key() == address.key());
    is_owner || is_listed(&config.security.send_allow, address)
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
        sender_trust: Trust::of_stored(&message.trust),
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
