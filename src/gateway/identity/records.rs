//! Keys and policies that the library is going to query, fetched beforehand and parsed strictly:
//! the library takes the first record that it can parse, even where only one is permitted or where
//! the record has another purpose.

use super::dns::{DnsResolver, NoAnswer};
use super::tags::Tags;
use futures_util::future::join_all;
use mail_auth::common::parse::TxtRecordParser;
use mail_auth::common::verify::DomainKey;
use mail_auth::dmarc::Dmarc;
use mail_auth::{DnsError, Error, ResolverCache, Txt};
use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

/// Maximum labels of a name whose policy is queried in one walk (RFC 9989 section 4.10): above it,
/// the walk continues with seven labels.
const WALK_LABELS_MAX: usize = 8;

/// Records by name, in lower case and with a final dot.
pub struct DnsRecords(HashMap<Box<str>, Txt>);

impl DnsRecords {
    /// Keys by the names at which signatures refer to them.
    pub async fn keys(resolver: &DnsResolver, names: impl Iterator<Item = String>) -> Self {
        Self::look_up(resolver, names, key).await
    }

    /// DMARC policies of domains and of their parent names, as far as they can belong to the
    /// organisation of `from_domain`.
    pub async fn policies<'d>(
        resolver: &DnsResolver,
        from_domain: &'d str,
        others: impl Iterator<Item = &'d str>,
    ) -> Self {
        let related = others.filter(|domain| is_related(domain, from_domain));
        let domains = std::iter::once(from_domain).chain(related);
        let names = domains.flat_map(|domain| walk(&domain.to_ascii_lowercase()));
        Self::look_up(resolver, names, policy).await
    }

    async fn look_up(
        resolver: &DnsResolver,
        names: impl Iterator<Item = String>,
        read: fn(&[Vec<u8>]) -> Txt,
    ) -> Self {
        let names: BTreeSet<String> = names.map(|name| name.to_lowercase()).collect();
        let looking = names.into_iter().map(async |name| {
            let record = match resolver.txt(&name).await {
                Ok(records) => read(&records),
                Err(NoAnswer::NoRecords) => none(),
                Err(NoAnswer::Temporary) => {
                    Txt::Error(Error::Dns(DnsError::Resolver(String::new())))
                }
            };
            (name.into_boxed_str(), record)
        });
        Self(join_all(looking).await.into_iter().collect())
    }

    /// The key of that name, if it exists and is usable.
    pub fn key(&self, name: &str) -> Option<Arc<DomainKey>> {
        match self.0.get(name.to_lowercase().as_str()) {
            Some(Txt::DomainKey(key)) => Some(key.clone()),
            _ => None,
        }
    }
}

/// Names at which the policy of a domain may be published.
pub fn walk(domain: &str) -> Vec<String> {
    let labels: Vec<&str> = domain
        .split('.')
        .filter(|label| !label.is_empty())
        .collect();
    let above = labels.len().saturating_sub(WALK_LABELS_MAX - 1).max(1);
    let starts = std::iter::once(0).chain(above..labels.len());
    starts
        .map(|start| format!("_dmarc.{}.", labels[start..].join(".")))
        .collect()
}

/// Value for a missing or unsuitable record.
fn none() -> Txt {
    Txt::Error(Error::Dns(DnsError::InvalidRecordType))
}

fn key(records: &[Vec<u8>]) -> Txt {
    let is_usable = |record: &&Vec<u8>| Tags::parse(record).is_some_and(|tags| tags.is_mail_key());
    let found = records
        .iter()
        .find(is_usable)
        .map(|record| DomainKey::parse(record));
    match found {
        Some(Ok(key)) => Txt::DomainKey(Arc::new(key)),
        Some(Err(error)) => Txt::Error(error),
        None => none(),
    }
}

/// Parses a policy. Two policies under one name count as none (RFC 9989 section 4.10, RFC 7489
/// section 6.6.3), because the intended one is unknown.
fn policy(records: &[Vec<u8>]) -> Txt {
    let read = records.iter().map(|record| Dmarc::parse(record));
    let mut policies =
        read.filter(|read| !matches!(read, Err(Error::Dns(DnsError::InvalidRecordType))));
    match (policies.next(), policies.next()) {
        (Some(Ok(policy)), None) => Txt::Dmarc(Arc::new(policy)),
        (Some(Err(error)), None) => Txt::Error(error),
        _ => none(),
    }
}

/// Reports whether a text is meant as a policy, readable or not.
pub fn is_policy(text: &[u8]) -> bool {
    !matches!(
        Dmarc::parse(text),
        Err(Error::Dns(DnsError::InvalidRecordType))
    )
}

/// Reports whether a text is a policy that receivers can read.
pub fn is_valid_policy(text: &[u8]) -> bool {
    Dmarc::parse(text).is_ok()
}

impl ResolverCache<Box<str>, Txt> for DnsRecords {
    fn get<Q: Hash + Eq + ?Sized>(&self, name: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
    {
        self.0.get(name).cloned()
    }
    fn remove<Q: Hash + Eq + ?Sized>(&self, _: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
    {
        None
    }
    fn insert(&self, _: Box<str>, _: Txt, _: Instant) {}
}

/// Reports whether two domains may belong to one organisation, without a query.
pub fn is_related(signer: &str, from_domain: &str) -> bool {
    let last_two = |domain: &str| {
        let mut labels = domain.rsplit('.');
        (
            labels.next().map(str::to_ascii_lowercase),
            labels.next().map(str::to_ascii_lowercase),
        )
    };
    last_two(signer).1.is_some() && last_two(signer) == last_two(from_domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_up_to_the_top_and_asks_eight_questions_at_most() {
        assert_eq!(
            walk("a.b.test"),
            ["_dmarc.a.b.test.", "_dmarc.b.test.", "_dmarc.test."]
        );
        let long = walk("1.2.3.4.5.6.7.8.9.test");
        assert_eq!(
            (long.len(), long[0].as_str(), long[1].as_str()),
            (
                8,
                "_dmarc.1.2.3.4.5.6.7.8.9.test.",
                "_dmarc.4.5.6.7.8.9.test."
            )
        );
    }
}
