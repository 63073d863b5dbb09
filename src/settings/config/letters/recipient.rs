//! Keys of a persona's rules for letters: a tag, an address, or an address with a tag.

use crate::domain::Address;

/// First letters of the tags of the engine's own addresses: `+a.TOKEN` takes answers to questions, `+b.TOKEN` bounces.
const RESERVED: &[&str] = &["a.", "b."];

/// Address that a rule is for, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecipientKey {
    /// `+quotes`: any address of the persona with this tag.
    Tag(String),
    /// `sales@house.test`: this address, with any tag.
    Base(String),
    /// `sales+quotes@house.test`: this address with this tag.
    Whole(String),
}

/// Closeness with which a key names an address: the closest of several decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closeness {
    Base,
    Tag,
    Whole,
}

impl RecipientKey {
    /// Parses a key; `own` are the persona's addresses, `mail_domain` completes a local part. Errors: a message.
    pub fn parse(typed: &str, own: &[&Address], mail_domain: &str) -> Result<Self, String> {
        let whole = match (typed.starts_with('+'), typed.contains('@')) {
            (true, false) => format!("x{typed}@{mail_domain}"),
            (_, true) => typed.to_owned(),
            (false, false) => format!("{typed}@{mail_domain}"),
        };
        let address = Address::parse(&whole).map_err(|error| error.to_string())?;
        let tag = tag_of(&address);
        if let Some(tag) = &tag {
            if tag.is_empty() {
                return Err(format!("`{typed}` has no tag behind its `+`"));
            }
            if let Some(reserved) = RESERVED.iter().find(|reserved| tag.starts_with(*reserved)) {
                return Err(format!(
                    "tags that begin with `{reserved}` belong to the engine: answers and bounces come to them"
                ));
            }
        }
        if let (true, Some(tag)) = (typed.starts_with('+') && !typed.contains('@'), &tag) {
            return Ok(Self::Tag(tag.clone()));
        }
        let base = base_of(&address);
        if own.iter().any(|own| own.key() == address.key()) {
            return Ok(Self::Base(address.key()));
        }
        if !own.iter().any(|own| own.key() == base) {
            return Err(format!("`{whole}` is no address of this persona"));
        }
        Ok(match tag {
            Some(_) => Self::Whole(address.key()),
            None => Self::Base(base),
        })
    }

    /// Returns how closely the key names an address of its persona; `None`: it does not.
    pub fn closeness(&self, address: &Address) -> Option<Closeness> {
        let (names_it, closeness) = match self {
            Self::Tag(tag) => (tag_of(address).as_deref() == Some(tag), Closeness::Tag),
            Self::Base(base) => (
                *base == address.key() || *base == base_of(address),
                Closeness::Base,
            ),
            Self::Whole(whole) => (*whole == address.key(), Closeness::Whole),
        };
        names_it.then_some(closeness)
    }
}

/// Returns everything behind the first `+` of the local part, in lower case.
fn tag_of(address: &Address) -> Option<String> {
    let (_, tag) = address.local().split_once('+')?;
    Some(tag.to_ascii_lowercase())
}

fn base_of(address: &Address) -> String {
    format!("{}@{}", address.base_local(), address.domain())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).expect("an address")
    }

    #[test]
    fn the_closest_key_names_an_address_however_it_is_written() {
        let (ada, sales) = (address("ada@house.test"), address("Sales@house.test"));
        let own = [&ada, &sales];
        let key = |typed: &str| RecipientKey::parse(typed, &own, "house.test").expect(typed);
        let of = |typed: &str, to: &str| key(typed).closeness(&address(to));
        assert_eq!(of("+Quotes", "ADA+quotes@house.test"), Some(Closeness::Tag));
        assert_eq!(of("sales", "sales+x@HOUSE.test"), Some(Closeness::Base));
        let whole = "sales+quotes@house.test";
        assert_eq!(of(whole, "Sales+Quotes@house.test"), Some(Closeness::Whole));
        for (typed, to) in [
            ("+quotes", "ada@house.test"),
            ("+quotes", "ada+quotes+x@house.test"),
            ("+quotes", "ada+quotesx@house.test"),
            ("sales", "ada+sales@house.test"),
            (whole, "ada+quotes@house.test"),
        ] {
            assert_eq!(of(typed, to), None, "{typed} {to}");
        }
    }

    #[test]
    fn keys_of_others_and_of_the_engine_are_refused() {
        let ada = address("ada@house.test");
        for typed in [
            "+",
            "",
            "+a.x",
            "+B.0f",
            "bob",
            "bob@house.test",
            "ada+b.1@house.test",
            "+a b",
            "ada@other.test",
        ] {
            assert!(
                RecipientKey::parse(typed, &[&ada], "house.test").is_err(),
                "{typed}"
            );
        }
    }
}
