//! Published records against wanted ones. Pure.

use crate::gateway::identity::records::{is_policy, is_valid_policy};
use crate::gateway::identity::spf::{SpfResult, is_spf, is_valid};
use crate::gateway::identity::tags::Tags;
use std::net::IpAddr;

/// What is known about a published record.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Good(String),
    Missing(String),
    /// What is wrong, and the value that mends it, where it follows from what is there.
    Different(String, Option<String>),
}

/// Judges the mail servers of a domain by their names; `wanted` is the one that should be there.
pub fn exchangers(published: &[String], wanted: Option<&str>) -> Verdict {
    let is_wanted = |host: &String| wanted.is_none_or(|wanted| host.eq_ignore_ascii_case(wanted));
    if published.is_empty() {
        Verdict::Missing("no mail server is published: letters cannot arrive".to_owned())
    } else if published.iter().all(String::is_empty) {
        let message = "the domain says that it takes no mail (null MX, RFC 7505)";
        Verdict::Different(message.to_owned(), None)
    } else if published.iter().any(is_wanted) {
        Verdict::Good("published".to_owned())
    } else {
        let message = format!(
            "letters go to {}, not to {}",
            published.join(", "),
            wanted.unwrap_or_default()
        );
        Verdict::Different(message, None)
    }
}

/// The only SPF record among texts of a domain, if it can be read.
pub fn only_spf(texts: &[Vec<u8>]) -> Result<String, Verdict> {
    let records: Vec<&Vec<u8>> = texts.iter().filter(|text| is_spf(text)).collect();
    match records.as_slice() {
        [] => Err(Verdict::Missing(
            "no SPF record is published: receivers may take mail of the domain for forged"
                .to_owned(),
        )),
        [only] if is_valid(only) => Ok(String::from_utf8_lossy(only).into_owned()),
        [_] => Err(Verdict::Different(
            "receivers cannot read the SPF record (permerror)".to_owned(),
            None,
        )),
        several => Err(Verdict::Different(
            format!(
                "there are {} SPF records, so that none counts (permerror)",
                several.len()
            ),
            None,
        )),
    }
}

/// Reports whether a record includes that name, or continues there.
pub fn includes(record: &str, name: &str) -> bool {
    let record = record.to_ascii_lowercase();
    let terms = record.split_ascii_whitespace();
    let is_name = |target: &str| target.trim_end_matches('.') == name;
    terms.map(|term| term.trim_start_matches('+')).any(|term| {
        term.strip_prefix("include:").is_some_and(is_name)
            || term.strip_prefix("redirect=").is_some_and(is_name)
    })
}

/// Judges what the record says about each address of the sending server.
pub fn permission(
    record: &str,
    term: &str,
    server: &str,
    results: &[(IpAddr, SpfResult)],
) -> Verdict {
    let Some((address, result)) = results
        .iter()
        .find(|(_, result)| *result != SpfResult::Pass)
    else {
        return Verdict::Good(format!("published, and permits {server}"));
    };
    if *result == SpfResult::PermError {
        let message = "receivers cannot evaluate the SPF record (permerror): a name in it has none, or it asks more than ten questions";
        return Verdict::Different(message.to_owned(), None);
    }
    let message = format!(
        "it does not permit {server} ({address}): {}",
        result.as_str()
    );
    Verdict::Different(message, Some(with_term(record, term)))
}

/// The record with one more term, in front of all others.
pub fn with_term(record: &str, term: &str) -> String {
    let (version, rest) = record.split_once(' ').unwrap_or((record, "~all"));
    format!("{version} {term} {}", rest.trim_start())
}

/// Judges the texts at the name of a key; `wanted` is the record with the key that signs.
pub fn key(texts: &[Vec<u8>], wanted: &str) -> Verdict {
    let public = |text: &[u8]| {
        let tags = Tags::parse(text).filter(Tags::is_mail_key)?;
        let key = tags.get("p")?.split_ascii_whitespace().collect::<String>();
        Some((tags.get("k").unwrap_or("rsa").to_owned(), key))
    };
    match texts {
        [] => {
            Verdict::Missing("receivers find no key, so that signatures prove nothing".to_owned())
        }
        [only] if public(only).is_some_and(|found| Some(found) == public(wanted.as_bytes())) => {
            Verdict::Good("published, and it is the key that signs".to_owned())
        }
        [only] => {
            let message = match public(only) {
                Some((_, key)) if key.is_empty() => "the key is revoked (`p=` is empty)",
                Some(_) => "another key than the one that signs",
                None => "receivers cannot read the key",
            };
            Verdict::Different(message.to_owned(), None)
        }
        several => Verdict::Different(
            format!(
                "there are {} records, and receivers may take any of them",
                several.len()
            ),
            None,
        ),
    }
}

/// Judges the texts at the name of a policy; `None`: nothing there is one.
pub fn policy(texts: &[Vec<u8>]) -> Option<Verdict> {
    let policies: Vec<&Vec<u8>> = texts.iter().filter(|text| is_policy(text)).collect();
    Some(match policies.as_slice() {
        [] => return None,
        [only] if is_valid_policy(only) => Verdict::Good("published".to_owned()),
        [_] => Verdict::Different("receivers cannot read the policy".to_owned(), None),
        several => Verdict::Different(
            format!("there are {} policies, so that none counts", several.len()),
            None,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_added_in_front_so_that_no_all_hides_it() {
        assert_eq!(
            with_term("v=spf1 mx -all", "include:spf.test"),
            "v=spf1 include:spf.test mx -all"
        );
        assert_eq!(with_term("v=spf1", "a:h.test"), "v=spf1 a:h.test ~all");
        assert!(includes("v=spf1 +Include:Spf.Test. -all", "spf.test"));
        assert!(includes("v=spf1 redirect=spf.test", "spf.test"));
        assert!(!includes(
            "v=spf1 -include:spf.test include:x.spf.test",
            "spf.test"
        ));
    }
}
