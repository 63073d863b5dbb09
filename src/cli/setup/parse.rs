//! Answers as they are typed. Pure; each error says what would be right.

use super::asker::NONE;
use super::flags::NAMED_SERVER;
use crate::cli::{Exit, Failure, name_catalog};
use crate::config::{address_hint, domain_hint, nearest_name, zone_hint};
use crate::domain::Address;
use std::net::{IpAddr, SocketAddr};

/// Adapter of servers that exist by their names alone.
const COMPAT: &str = "compat";

fn wrong(message: String) -> Failure {
    Failure::new(Exit::BadData, message)
}

/// Addresses with commas between them.
pub fn addresses(text: &str) -> Result<Vec<Address>, Failure> {
    let parts = text.split(',').map(str::trim);
    let one = |part: &str| {
        Address::parse(part).map_err(|error| wrong(error.to_string()).hint(address_hint(part)))
    };
    parts.map(one).collect()
}

/// A mail domain, in lower case.
pub fn mail_domain(text: &str) -> Result<String, Failure> {
    let whole = Address::parse(&format!("postmaster@{text}"));
    whole
        .map(|address| address.domain().to_owned())
        .map_err(|_| wrong(format!("`{text}` is not a domain name")).hint(domain_hint(text)))
}

/// One of some words.
pub fn word(words: &'static [&'static str]) -> impl Fn(&str) -> Result<&'static str, Failure> {
    move |text| {
        let typed = text.to_ascii_lowercase();
        let found = words.iter().find(|word| **word == typed);
        found.copied().ok_or_else(|| {
            let message = match text {
                "" => "nothing was answered".to_owned(),
                text => format!("`{text}` is none of the possible answers"),
            };
            wrong(message).hint(format!("write one of: {}", words.join(", ")))
        })
    }
}

/// A text that is not empty, on one line.
pub fn some(text: &str) -> Result<String, Failure> {
    if text.is_empty() || text.contains(char::is_control) {
        return Err(wrong("nothing was answered".to_owned()).hint("write one line of text"));
    }
    Ok(text.to_owned())
}

/// A text, or `-` for none.
pub fn some_or_none(text: &str) -> Result<Option<String>, Failure> {
    match text {
        NONE => Ok(None),
        text => some(text).map(Some),
    }
}

/// A host's name or its address.
pub fn host(text: &str) -> Result<String, Failure> {
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    let hint = match text.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => {
            format!("write the host alone: `{name}`; its port has an answer of its own")
        }
        _ => domain_hint(text),
    };
    let as_typed = if text == "localhost" {
        "localhost.test"
    } else {
        text
    };
    mail_domain(as_typed).map_err(|_| wrong(format!("`{text}` is not a host name")).hint(hint))?;
    Ok(text.to_owned())
}

/// A time zone, by its name in the IANA's database.
pub fn zone(text: &str) -> Result<String, Failure> {
    match text.parse::<chrono_tz::Tz>() {
        Ok(zone) => Ok(zone.name().to_owned()),
        Err(_) => Err(wrong(format!("no time zone `{text}`")).hint(zone_hint(text))),
    }
}

/// A provider of models that this program has, or one with a name of its owner's.
pub fn provider(text: &str) -> Result<String, Failure> {
    let known = name_catalog().providers;
    let has_name = |(adapter, name): (&str, &str)| {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        known.contains(&adapter) && !name.is_empty() && name.chars().all(is_name)
    };
    let is_known = text != COMPAT && known.contains(&text);
    if is_known || text.split_once(':').is_some_and(has_name) {
        return Ok(text.to_owned());
    }
    let listed = known.iter().filter(|name| **name != COMPAT);
    let listed: Vec<&str> = listed.copied().chain([NAMED_SERVER]).collect();
    let hint = match nearest_name(text, &listed) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("write one of: {}", listed.join(", ")),
    };
    Err(wrong(format!("no provider `{text}`")).hint(hint))
}

/// A port, or `-` for the usual one.
pub fn port(text: &str) -> Result<Option<u16>, Failure> {
    let parsed = some_or_none(text)?.map(|text| text.parse::<u16>());
    match parsed {
        None => Ok(None),
        Some(Ok(port)) if port > 0 => Ok(Some(port)),
        Some(_) => Err(wrong(format!("`{text}` is not a port"))
            .hint("write a number from 1 to 65535, or `-` for the usual one")),
    }
}

/// An address to listen on.
pub fn listen(text: &str) -> Result<String, Failure> {
    let is_socket = text
        .strip_prefix("unix:")
        .is_some_and(|path| !path.is_empty());
    if is_socket || text.parse::<SocketAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    Err(wrong(format!("`{text}` is not an address to listen on"))
        .hint("write an IP address and a port, such as `127.0.0.1:2525`, or `unix:PATH`"))
}
