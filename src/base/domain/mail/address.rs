//! Email addresses: the strict ASCII form that decisions are made on, and the display form as
//! typed.

use std::fmt;

/// An addr-spec that may be routed and compared.
///
/// Invariant: dot-atom local part of at most 64 octets and an LDH domain of at most 253 (RFC 5321
/// section 4.1.2), domain in lower case, no comments, no source route, no control characters. A local part that is no
/// dot-atom, such as `yuki.`, stands in quotation marks, and no other does, so that one mailbox has one spelling. The local
/// part keeps its case for sending; comparisons use [`Address::key`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    local: String,
    domain: String,
}

/// Error of [`Address::parse`], with the text that is not an address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a mail address: expected name@domain in plain ASCII")]
pub struct BadAddress(pub String);

impl Address {
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress(text.chars().filter(|c| !c.is_control()).take(120).collect());
        let (local, domain) = text.rsplit_once('@').ok_or_else(bad)?;
        let is_legal = is_dot_atom(local) || quoted(local).is_some_and(needs_quotes);
        if is_legal && local.len() <= LOCAL_BYTES_MAX && is_domain(domain) {
            Ok(Self {
                local: local.to_owned(),
                domain: domain.to_ascii_lowercase(),
            })
        } else {
            Err(bad())
        }
    }
    /// Parses an address as some people have it against the rules: dots where none may stand (`yu..ki`, `yuki.`), or a local
    /// part that is quoted without need. The result has the one spelling that may be written.
    pub fn parse_lenient(text: &str) -> Result<Self, BadAddress> {
        let (local, domain) = text.rsplit_once('@').unwrap_or((text, ""));
        let plain = quoted(local).unwrap_or(local);
        // A blank or a comma outside of quotation marks ends an address.
        let is_bare = plain.len() < local.len() || plain.chars().all(|c| is_atext(c) || c == '.');
        match is_bare && needs_quotes(plain) {
            true => Self::parse(&format!("\"{plain}\"@{domain}")),
            false => Self::parse(&format!("{plain}@{domain}")),
        }
    }
    /// Parses an address, or a local part alone, to which `domain` belongs.
    pub fn parse_in(text: &str, domain: &str) -> Result<Self, BadAddress> {
        match text.contains('@') {
            true => Self::parse(text),
            false => Self::parse(&format!("{text}@{domain}")),
        }
    }
    pub fn local(&self) -> &str {
        &self.local
    }
    pub fn domain(&self) -> &str {
        &self.domain
    }
    /// Returns the domain of its organisation by the public suffix list of the day of the build: `guest.example` for
    /// `mail.guest.example`.
    pub fn organisation(&self) -> &str {
        let is_literal = self.domain.starts_with('[');
        let found = psl::domain_str(&self.domain).filter(|_| !is_literal);
        found.unwrap_or(&self.domain)
    }
    /// Returns the local part before its first `+`, in lower case: the key by which personas and
    /// aliases are looked up.
    pub fn base_local(&self) -> String {
        // A quoted local part has no tag: its end is a quotation mark.
        let base = match self.local.starts_with('"') {
            true => self.local.as_str(),
            false => self.local.split('+').next().unwrap_or_default(),
        };
        base.to_ascii_lowercase()
    }
    /// Returns [`Address::key`] without a `+` tag: the key by which a sender is counted. A
    /// correspondent, such as a ticket system that answers each mail from a fresh `support+1234`,
    /// stays one correspondent under every tag.
    pub fn counted_key(&self) -> String {
        let base = self.base_local();
        // The local part begins with `+`: nothing is left without the tag.
        if base.is_empty() {
            self.key()
        } else {
            format!("{base}@{}", self.domain)
        }
    }
    /// Returns the address in lower case; two addresses name one mailbox when their keys are equal.
    pub fn key(&self) -> String {
        format!("{}@{}", self.local.to_ascii_lowercase(), self.domain)
    }
}

const LOCAL_BYTES_MAX: usize = 64;

fn is_atext(c: char) -> bool {
    const SPECIALS: &str = "!#$%&'*+-/=?^_`{|}~";
    c.is_ascii_alphanumeric() || SPECIALS.contains(c)
}

fn is_dot_atom(local: &str) -> bool {
    !local.is_empty()
        && local
            .split('.')
            .all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
}

/// The text between quotation marks.
fn quoted(local: &str) -> Option<&str> {
    local.strip_prefix('"')?.strip_suffix('"')
}

/// Reports whether a local part may only be written in quotation marks, and needs no backslash there.
fn needs_quotes(plain: &str) -> bool {
    let is_plain = |c: char| is_atext(c) || matches!(c, '.' | ' ' | ',');
    !plain.is_empty() && plain.chars().all(is_plain) && !is_dot_atom(plain)
}

fn is_domain(domain: &str) -> bool {
    let label_ok = |l: &str| {
        (1..=63).contains(&l.len())
            && l.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    domain.len() <= 253 && domain.split('.').all(label_ok)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.local, self.domain)
    }
}

impl serde::Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// One mailbox of a header as its writer typed it; display only. Decisions use
/// [`Mailbox::address`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mailbox {
    /// Display name, decoded; empty when there was none.
    pub name: String,
    /// The addr-spec as typed, which may not be a legal [`Address`].
    pub spec: String,
}

impl Mailbox {
    /// Returns the strict address in a text that [`Mailbox`] was formatted as.
    pub fn address_in(text: &str) -> Option<Address> {
        let spec = match text.strip_suffix('>') {
            Some(named) => named.rsplit_once('<')?.1,
            None => text,
        };
        Address::parse(spec).ok()
    }

    /// Returns the strict address, when `spec` is a legal one.
    pub fn address(&self) -> Option<Address> {
        Address::parse(&self.spec).ok()
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            write!(f, "{}", self.spec)
        } else {
            write!(f, "{} <{}>", self.name, self.spec)
        }
    }
}

/// Reports whether one of these patterns, as `send_allow` of `configs/security.json` has them, matches the address.
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
    fn legal_addresses_compare_by_key_and_lose_their_tag() {
        let a = Address::parse("Ada+Lists@Engine.TEST")
            .map(|a| (a.key(), a.base_local(), a.to_string()));
        assert_eq!(
            a,
            Ok((
                "ada+lists@engine.test".into(),
                "ada".into(),
                "Ada+Lists@engine.test".into()
            ))
        );
        let counted = [
            "Ada+Lists@engine.test",
            "ADA@engine.test",
            "+ada@engine.test",
        ];
        let counted = counted.map(|text| Address::parse(text).map(|a| a.counted_key()));
        let ada = || Ok("ada@engine.test".to_owned());
        assert_eq!(counted, [ada(), ada(), Ok("+ada@engine.test".to_owned())]);
    }

    #[test]
    fn evasions_are_not_addresses() {
        let evasions = [
            "",
            "a",
            "@b.test",
            "a@",
            "a b@c.test",
            "a@b..test",
            ".a@b.test",
            "a..b@c.test",
            "\"a\"@b.test",
            "<a@b.test>",
            "@x.test:a@b.test",
            "a@b.test\r\nBcc: c@d.test",
            "a\0@b.test",
            "a@b.test.",
            "ä@b.test",
            "=?utf-8?q?o=40evil.test=3e?=@b@c",
            "a@[127.0.0.1]",
            "a@-b.test",
            "a(comment)@b.test",
        ];
        for text in evasions {
            assert!(Address::parse(text).is_err(), "{text:?} was taken");
        }
    }

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
