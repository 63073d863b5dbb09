//! The grammar of an SPF record (RFC 7208 section 12). Pure; any error makes the whole record an
//! error.

use super::macros::MacroString;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum bytes of a record; RFC 7208 section 3.4 recommends at most 450.
const RECORD_BYTES_MAX: usize = 8192;

#[derive(Debug, PartialEq, Eq)]
pub struct SpfRecord {
    pub directives: Vec<Directive>,
    pub redirect: Option<MacroString>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Directive {
    pub qualifier: Qualifier,
    pub mechanism: Mechanism,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qualifier {
    Pass,
    Fail,
    SoftFail,
    Neutral,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Mechanism {
    All,
    Include(MacroString),
    /// `None` is the current domain.
    A(Option<MacroString>, Prefixes),
    Mx(Option<MacroString>, Prefixes),
    Ptr(Option<MacroString>),
    Ip4(Ipv4Addr, u32),
    Ip6(Ipv6Addr, u32),
    Exists(MacroString),
}

/// Number of leading address bits that must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefixes {
    pub v4: u32,
    pub v6: u32,
}

/// Error of a record that breaks the grammar: `permerror`.
#[derive(Debug, PartialEq, Eq)]
pub struct BadRecord;

/// Reports whether a TXT record is an SPF record (RFC 7208 section 4.5).
pub fn is_spf(text: &[u8]) -> bool {
    const VERSION: &[u8] = b"v=spf1";
    text.get(..VERSION.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(VERSION))
        && matches!(text.get(VERSION.len()), None | Some(b' '))
}

impl SpfRecord {
    /// Parses a record for which [`is_spf`] is true.
    pub fn parse(text: &[u8]) -> Result<Self, BadRecord> {
        if text.len() > RECORD_BYTES_MAX || !text.iter().all(|byte| (0x20..0x7f).contains(byte)) {
            return Err(BadRecord);
        }
        let text = std::str::from_utf8(text).map_err(|_| BadRecord)?;
        let mut record = Self {
            directives: Vec::new(),
            redirect: None,
        };
        let mut has_explanation = false;
        for term in text.split(' ').skip(1).filter(|term| !term.is_empty()) {
            let Some((name, value)) = modifier(term) else {
                record.directives.push(Directive::parse(term)?);
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "redirect" if record.redirect.is_none() => {
                    record.redirect = Some(MacroString::domain(value).ok_or(BadRecord)?);
                }
                "exp" if !has_explanation => {
                    MacroString::domain(value).ok_or(BadRecord)?;
                    has_explanation = true;
                }
                "redirect" | "exp" => return Err(BadRecord),
                _ => _ = MacroString::parse(value).ok_or(BadRecord)?,
            }
        }
        Ok(record)
    }
}

/// Splits `name=value`, if the equals sign comes before any character of a directive.
fn modifier(term: &str) -> Option<(&str, &str)> {
    let at = term.find([':', '/', '='])?;
    let (name, value) = (&term[..at], term[at..].strip_prefix('=')?);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(legal))
        .then_some((name, value))
}

impl Directive {
    fn parse(term: &str) -> Result<Self, BadRecord> {
        let (qualifier, rest) = match term.as_bytes().first() {
            Some(b'+') => (Qualifier::Pass, &term[1..]),
            Some(b'-') => (Qualifier::Fail, &term[1..]),
            Some(b'~') => (Qualifier::SoftFail, &term[1..]),
            Some(b'?') => (Qualifier::Neutral, &term[1..]),
            _ => (Qualifier::Pass, term),
        };
        let end = rest.find([':', '/']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let mechanism = Mechanism::parse(&name.to_ascii_lowercase(), rest).ok_or(BadRecord)?;
        Ok(Self {
            qualifier,
            mechanism,
        })
    }
}

impl Mechanism {
    /// Parses a mechanism; `rest` is empty or begins with `:` or `/`.
    fn parse(name: &str, rest: &str) -> Option<Self> {
        let target = rest.strip_prefix(':');
        Some(match name {
            "all" if rest.is_empty() => Self::All,
            "include" => Self::Include(MacroString::domain(target?)?),
            "exists" => Self::Exists(MacroString::domain(target?)?),
            "ptr" if rest.is_empty() => Self::Ptr(None),
            "ptr" => Self::Ptr(Some(MacroString::domain(target?)?)),
            "a" | "mx" => {
                let (target, prefixes) = with_prefixes(rest)?;
                if name == "a" {
                    Self::A(target, prefixes)
                } else {
                    Self::Mx(target, prefixes)
                }
            }
            "ip4" => {
                let (address, bits) = network(target?, 32)?;
                Self::Ip4(address.parse().ok()?, bits)
            }
            "ip6" => {
                let (address, bits) = network(target?, 128)?;
                Self::Ip6(address.parse().ok()?, bits)
            }
            _ => return None,
        })
    }
}

/// Parses `[":" domain-spec] [dual-cidr-length]`.
fn with_prefixes(rest: &str) -> Option<(Option<MacroString>, Prefixes)> {
    // A slash may occur inside a macro; the lengths are the digits and slashes at the end.
    let tail = rest
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '/')
        .len();
    let cut = rest[tail..].find('/').map_or(rest.len(), |at| tail + at);
    let (target, lengths) = rest.split_at(cut);
    let target = match target {
        "" => None,
        named => Some(MacroString::domain(named.strip_prefix(':')?)?),
    };
    let (v4, v6) = match lengths.split_once("//") {
        Some((v4, v6)) => (v4, Some(v6)),
        None => (lengths, None),
    };
    let v4 = match v4 {
        "" => 32,
        slashed => length(slashed.strip_prefix('/')?, 32)?,
    };
    Some((
        target,
        Prefixes {
            v4,
            v6: v6.map_or(Some(128), |v6| length(v6, 128))?,
        },
    ))
}

fn network(text: &str, width: u32) -> Option<(&str, u32)> {
    match text.split_once('/') {
        None => Some((text, width)),
        Some((address, bits)) => Some((address, length(bits, width)?)),
    }
}

/// Parses a decimal without leading zeros (RFC 7208 section 12, `ip4-cidr-length`).
fn length(digits: &str, max: u32) -> Option<u32> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let has_zero = digits.len() > 1 && digits.starts_with('0');
    (is_plain && !has_zero)
        .then(|| digits.parse().ok())
        .flatten()
        .filter(|bits| *bits <= max)
}
