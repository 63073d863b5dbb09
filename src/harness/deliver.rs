//! Where the final text of a run goes: back to whoever wrote, or where the responsibility wants it; and what speaks
//! against that.

use super::desk::RunError;
use super::gate::Gate;
use super::quota;
use crate::config::ReplyMode;
use crate::domain::{Address, DeliverTo, Trigger, Trust, Withheld};
use crate::store::StoredMessage;
use crate::tools::{self, Answered};

/// Where a final text goes.
pub struct Goal {
    pub to: Vec<Address>,
    /// The letter that it answers.
    pub letter: Option<Answered>,
    /// Mails in a row that personas wrote, with this one.
    pub hops: u32,
    /// It is not sent.
    pub withheld: Option<Withheld>,
}

/// Where the final text of this run goes, by the rules that are known before the mail is made.
pub async fn goal(gate: &Gate<'_>, wanted: &DeliverTo) -> Result<Goal, RunError> {
    let config = &gate.desk.config;
    let new_mail = |to: Vec<Address>| Goal { to, letter: None, hops: quota::hops(gate), withheld: None };
    let mut goal = match (answered(gate), wanted) {
        (Some(letter), _) => {
            // Whoever is no contact sends no answer anywhere but back.
            let send_allow = match gate.label.follows_send_allow() {
                true => config.security.send_allow.as_slice(),
                false => &[],
            };
            let to = writer(&letter, send_allow).into_iter().collect();
            Goal { letter: Some(letter), ..new_mail(to) }
        }
        (None, DeliverTo::Owners) => new_mail(config.gateway.owners.clone()),
        (None, DeliverTo::People(people)) => {
            let forbidden = people.iter().any(|address| !is_allowed(gate, address));
            Goal { withheld: forbidden.then_some(Withheld::NotAllowed), ..new_mail(people.clone()) }
        }
        (None, DeliverTo::Thread(_)) => into_thread(gate).await?,
        (None, DeliverTo::Store) => Goal { withheld: Some(Withheld::StoreOnly), ..new_mail(Vec::new()) },
    };
    goal.withheld = goal.withheld.or_else(|| withheld(gate, &goal));
    Ok(goal)
}

fn withheld(gate: &Gate<'_>, goal: &Goal) -> Option<Withheld> {
    if gate.replied {
        Some(Withheld::AlreadyReplied)
    } else if gate.persona.reply == ReplyMode::ToolOnly {
        Some(Withheld::ToolOnly)
    } else if gate.desk.config.gateway.outbound.is_none() {
        Some(Withheld::OutboundNotConfigured)
    } else if goal.to.is_empty() {
        Some(Withheld::NoRecipient)
    } else if quota::is_over(gate, goal.hops) {
        Some(Withheld::HopLimit)
    } else {
        None
    }
}

/// To the people of the run's thread, as an answer to their newest letter where there is one. The run stands in the thread
/// that was wanted, or in what became of it: threads are folded into others.
async fn into_thread(gate: &Gate<'_>) -> Result<Goal, RunError> {
    let letter = gate.desk.ledger.newest_letter(gate.run, gate.subject).await?;
    let hops = letter.as_ref().map_or_else(|| quota::hops(gate), |letter| letter.hops.saturating_add(1));
    let to = people_of(gate).await?;
    Ok(Goal { to, letter: letter.as_ref().map(as_answered), hops, withheld: None })
}

/// Everybody in the run's thread that mail can be written to, but for the persona. Whoever may not read what the run is
/// about, because they joined later or because it was not written to them, is not among them. Another persona is somebody like anybody else; the limit of hops ends what they
/// may start.
pub async fn people_of(gate: &Gate<'_>) -> Result<Vec<Address>, RunError> {
    let personas = &gate.desk.config.personas;
    let people = gate.desk.ledger.readers_of(gate.run, &gate.subject.message).await?;
    let is_self = |address: &Address| personas.by_address(address).is_some_and(|p| p.id == gate.persona.id);
    Ok(people.iter().filter_map(|text| Address::parse(text).ok()).filter(|a| !is_self(a)).collect())
}

/// Said in the file and once more here: owners and `send_allow` may have changed since it was read.
fn is_allowed(gate: &Gate<'_>, address: &Address) -> bool {
    let config = &gate.desk.config;
    let is_owner = config.gateway.owners.iter().any(|owner| owner.key() == address.key());
    is_owner || tools::is_listed(&config.security.send_allow, address)
}

/// The letter that this run is for, as far as an answer needs it.
pub fn answered(gate: &Gate<'_>) -> Option<Answered> {
    (gate.run.trigger == Trigger::Email).then(|| as_answered(&gate.subject.message))
}

fn as_answered(message: &StoredMessage) -> Answered {
    let metadata: serde_json::Value = serde_json::from_str(&message.metadata_json).unwrap_or_default();
    let address = |key: &str| metadata[key].as_str().and_then(|text| Address::parse(text).ok());
    let has_own_id = metadata["generated_message_id"] != true;
    Answered {
        sender: address("sender"),
        sender_trust: Trust::of_stored(&message.trust),
        reply_to: address("reply_to"),
        subject: message.subject.clone(),
        rfc_message_id: has_own_id.then(|| message.rfc_message_id.clone()),
        references: message.references.clone(),
        received_at: message.received_at,
    }
}

/// To whom an answer goes: `From`, or a `Reply-To` that is the same mailbox under another tag or that the configuration
/// allows. Any other `Reply-To` would make us write to whomever the sender likes (RFC 3834 section 4).
fn writer(letter: &Answered, send_allow: &[String]) -> Option<Address> {
    let sender = letter.sender.as_ref()?;
    let is_same_mailbox =
        |other: &&Address| other.domain() == sender.domain() && other.base_local() == sender.base_local();
    let is_safe = |to: &&Address| is_same_mailbox(to) || tools::is_listed(send_allow, to);
    Some(letter.reply_to.as_ref().filter(is_safe).unwrap_or(sender).clone())
}
