//! Recipients as a model wrote them -> strict addresses, and how far each is from the run. Whether the run may write to
//! them is the policy's to say, which has the whole draft.

use super::OneOrMany;
use crate::domain::{Address, is_listed};
use crate::tools::contract::*;
use std::collections::BTreeSet;

/// Most recipients of one mail; more is a mailing, which a persona does not do.
const RECIPIENTS_MAX: usize = 50;

#[derive(Debug, PartialEq, Eq)]
pub(in crate::tools) struct Recipients {
    pub to: Vec<Address>,
    pub cc: Vec<Address>,
    pub bcc: Vec<Address>,
}

impl Recipients {
    /// Returns the reader as which files of the workspace are attached: the owner's run, in a mail to
    /// owners alone.
    pub fn readers_of_files(&self, reader: Reader, owners: &[Address]) -> Reader {
        let is_owner = |to: &Address| owners.iter().any(|owner| owner.key() == to.key());
        let mut all = self.to.iter().chain(&self.cc).chain(&self.bcc);
        match reader == Reader::Owner && all.all(is_owner) {
            true => Reader::Owner,
            false => Reader::Correspondent,
        }
    }
}

/// Parses all recipients. A duplicate address is kept at its first place: to, cc, bcc.
pub(in crate::tools) fn read_recipients(
    to: &OneOrMany,
    cc: Option<&OneOrMany>,
    bcc: Option<&OneOrMany>,
    mail: &MailPolicy,
) -> Result<Recipients, ToolError> {
    let mut seen = BTreeSet::new();
    let mut read = |field: &str, typed: Option<&OneOrMany>| -> Result<Vec<Address>, ToolError> {
        let mut list = Vec::new();
        for address in typed.map_or(Ok(Vec::new()), |typed| addresses(field, typed))? {
            if is_own(&address, mail) {
                return refuse(
                    "recipient_is_self",
                    format!("`{address}` is your own address"),
                );
            }
            if seen.insert(address.key()) {
                list.push(address);
            }
        }
        Ok(list)
    };
    let recipients = Recipients {
        to: read("to", Some(to))?,
        cc: read("cc", cc)?,
        bcc: read("bcc", bcc)?,
    };
    if recipients.to.is_empty() {
        return refuse("recipient_missing", "field `to` names nobody");
    }
    if seen.len() > RECIPIENTS_MAX {
        return refuse(
            "too_many_recipients",
            format!(
                "{} recipients, and at most {RECIPIENTS_MAX} are allowed",
                seen.len()
            ),
        );
    }
    Ok(recipients)
}

/// Parses addresses separated by `,` or `;`. Neither is legal inside a strict address, and nothing
/// else is split: a display name, a comment or a line end makes the text no address.
fn addresses(field: &str, typed: &OneOrMany) -> Result<Vec<Address>, ToolError> {
    let pieces = typed.texts().iter().flat_map(|text| text.split([',', ';']));
    let pieces = pieces
        .map(|piece| piece.trim_matches([' ', '\t']))
        .filter(|piece| !piece.is_empty());
    let parsed = pieces.map(|piece| {
        let address = Address::parse(piece).map_err(|bad| {
            ToolError::mendable(
                "bad_address",
                format!("field `{field}`: {bad}, without a name or brackets around it"),
            )
        })?;
        // RFC 2606: the sender of a question by another agent has such an address.
        if address.domain().ends_with(".invalid") {
            return refuse(
                "bad_address",
                format!("no mail reaches `{address}`; what you answer last reaches whoever asked"),
            );
        }
        Ok(address)
    });
    parsed.collect()
}

/// Returns the error for a recipient whom the run may not write to.
///
/// Owners and the allow-list are not named: the model may be working for a sender who must not learn them.
pub fn recipient_not_allowed(address: &Address, mail: &MailPolicy) -> ToolError {
    let people = listed_people(mail);
    let further = match mail.closed {
        None => "to your owner and to addresses that the configuration allows".to_owned(),
        Some(why) => format!("and to your owner; further addresses are closed to this run: {why}"),
    };
    ToolError::mendable(
        "recipient_not_allowed",
        format!(
            "`{address}` is not somebody you may write to; you may write to the people of this thread ({people}), {further}"
        ),
    )
}

/// Returns the error for a recipient who may not read what the run has read.
pub fn recipient_no_reader(address: &Address, mail: &MailPolicy) -> ToolError {
    let people = listed_people(mail);
    ToolError::mendable(
        "recipient_not_allowed",
        format!(
            "`{address}` may not read all that this run has read (mail of others, or files for your owner alone); you may \
         write to your owner, and to the people of this thread ({people}) if they may read it"
        ),
    )
}

/// Returns the participants of the thread but the persona.
fn listed_people(mail: &MailPolicy) -> String {
    let mut people: Vec<String> = mail
        .participants
        .iter()
        .filter(|p| !is_own(p, mail))
        .map(ToString::to_string)
        .collect();
    people.sort();
    people.dedup();
    match people.is_empty() {
        true => "nobody".to_owned(),
        false => people.join(", "),
    }
}

fn is_own(address: &Address, mail: &MailPolicy) -> bool {
    let own = &mail.persona_address;
    own.domain() == address.domain() && own.base_local() == address.base_local()
}

/// Place of a recipient, from the nearest to the farthest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecipientPlace {
    Owner,
    /// A participant of the run's thread.
    InThread,
    /// An address of `send_allow`.
    Allowed,
    Outside,
}

impl RecipientPlace {
    /// Returns the place of an address for a run with this policy.
    pub fn of(address: &Address, mail: &MailPolicy) -> Self {
        let sender = mail
            .answers
            .as_ref()
            .and_then(|answered| answered.sender.as_ref());
        let is = |person: &Address| person.key() == address.key();
        if mail.owners.iter().any(is) {
            Self::Owner
        } else if mail.participants.iter().chain(sender).any(is) {
            Self::InThread
        } else if is_listed(&mail.allow, address) {
            Self::Allowed
        } else {
            Self::Outside
        }
    }

    /// Returns the word that rules use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owners",
            Self::InThread => "in_thread",
            Self::Allowed => "allowed",
            Self::Outside => "outside",
        }
    }
}
