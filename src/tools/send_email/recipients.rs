//! Recipients as a model wrote them -> strict addresses that this run's policy permits.

use super::OneOrMany;
use crate::domain::Address;
use crate::tools::{MailPolicy, ToolError};
use std::collections::BTreeSet;

/// Most recipients of one mail; more is a mailing, which a persona does not do.
const RECIPIENTS_MAX: usize = 50;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Recipients {
    pub to: Vec<Address>,
    pub cc: Vec<Address>,
    pub bcc: Vec<Address>,
}

/// Parses and checks all recipients. A duplicate address is kept at its first place: to, cc, bcc.
pub(super) fn read_recipients(
    to: &OneOrMany,
    cc: Option<&OneOrMany>,
    bcc: Option<&OneOrMany>,
    mail: &MailPolicy,
) -> Result<Recipients, ToolError> {
    let mut seen = BTreeSet::new();
    let mut read = |field: &str, typed: Option<&OneOrMany>| -> Result<Vec<Address>, ToolError> {
        let mut list = Vec::new();
        for address in typed.map_or(Ok(Vec::new()), |typed| addresses(field, typed))? {
            require_allowed(&address, mail)?;
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
        return Err(ToolError::mendable(
            "recipient_missing",
            "field `to` names nobody",
        ));
    }
    if seen.len() > RECIPIENTS_MAX {
        let hint = format!(
            "{} recipients, and at most {RECIPIENTS_MAX} are allowed",
            seen.len()
        );
        return Err(ToolError::mendable("too_many_recipients", hint));
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
        Address::parse(piece).map_err(|bad| {
            let hint = format!("field `{field}`: {bad}, without a name or brackets around it");
            ToolError::mendable("bad_address", hint)
        })
    });
    parsed.collect()
}

fn require_allowed(address: &Address, mail: &MailPolicy) -> Result<(), ToolError> {
    if is_own(address, mail) {
        return Err(ToolError::mendable(
            "recipient_is_self",
            format!("`{address}` is your own address"),
        ));
    }
    if is_allowed(address, mail) {
        return Ok(());
    }
    // Owners and the allow-list are not named: the model may be working for a sender who must not
    // learn them.
    let mut people: Vec<String> = mail
        .participants
        .iter()
        .filter(|p| !is_own(p, mail))
        .map(ToString::to_string)
        .collect();
    people.sort();
    people.dedup();
    let people = if people.is_empty() {
        "nobody".to_owned()
    } else {
        people.join(", ")
    };
    let further = match mail.closed {
        None => "to your owner and to addresses that the configuration allows".to_owned(),
        Some(why) => format!("and to your owner; further addresses are closed to this run: {why}"),
    };
    let hint = format!(
        "`{address}` is not somebody you may write to; you may write to the people of this thread ({people}), {further}"
    );
    Err(ToolError::mendable("recipient_not_allowed", hint))
}

fn is_own(address: &Address, mail: &MailPolicy) -> bool {
    let own = &mail.persona_address;
    own.domain() == address.domain() && own.base_local() == address.base_local()
}

fn is_allowed(address: &Address, mail: &MailPolicy) -> bool {
    let sender = mail
        .answers
        .as_ref()
        .and_then(|answered| answered.sender.as_ref());
    let people = mail.participants.iter().chain(&mail.owners).chain(sender);
    people
        .into_iter()
        .any(|person| person.key() == address.key())
        || is_listed(&mail.allow, address)
}

/// Reports whether a pattern of `send_allow` in `configs/security.json` matches the address.
pub fn is_listed(patterns: &[String], address: &Address) -> bool {
    patterns.iter().any(|pattern| matches(pattern, address))
}

/// Reports whether a pattern matches: `*@domain` is every address in exactly that domain; any other
/// pattern is one address. Letter case does not matter.
fn matches(pattern: &str, address: &Address) -> bool {
    match pattern.strip_prefix("*@") {
        Some(domain) => domain.eq_ignore_ascii_case(address.domain()),
        None => pattern.eq_ignore_ascii_case(&address.key()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_one_address_or_one_whole_domain() {
        let address = |text| Address::parse(text).map_err(|e| e.to_string());
        let cases = [
            ("*@partner.test", "carol@partner.test", true),
            ("*@Partner.TEST", "carol@partner.test", true),
            ("*@partner.test", "carol@sub.partner.test", false),
            ("*@partner.test", "carol@evilpartner.test", false),
            ("carol@partner.test", "Carol@PARTNER.test", true),
            ("carol@partner.test", "carol+x@partner.test", false),
            ("*", "carol@partner.test", false),
            ("*@", "carol@partner.test", false),
        ];
        for (pattern, text, wanted) in cases {
            assert_eq!(
                address(text).map(|a| matches(pattern, &a)),
                Ok(wanted),
                "{pattern} {text}"
            );
        }
    }
}
