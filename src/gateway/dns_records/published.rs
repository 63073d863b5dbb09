//! The questions to the resolver. A question without an answer makes a record `unasked`, never good.

use super::judge::{self, Verdict};
use super::wanted::term_of_host;
use super::{CheckedRecord, DomainRecord, Expected, RecordState, SendingServer};
use crate::gateway::identity::dns::{DnsResolver, NoAnswer};
use crate::gateway::identity::records::walk;
use crate::gateway::identity::spf::{self, SpfResult};
use futures_util::future::join_all;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// No name server answered.
struct NoServerAnswers;

/// Published values, and their verdict.
struct JudgedRecord(Vec<String>, Verdict);

/// Asks for every record at once.
pub async fn check(resolver: &DnsResolver, records: &[DomainRecord]) -> Vec<CheckedRecord> {
    join_all(records.iter().map(|record| check_one(resolver, record))).await
}

async fn check_one(resolver: &DnsResolver, record: &DomainRecord) -> CheckedRecord {
    let judged = match &record.expected {
        Expected::AnyExchanger => exchangers(resolver, record, None).await,
        Expected::Exchanger(host) => exchangers(resolver, record, Some(host)).await,
        Expected::Sender(server) => sender(resolver, record, server).await,
        Expected::Key => key(resolver, record).await,
        Expected::Policy => policy(resolver, record).await,
    };
    let mut record = record.clone();
    let (published, state, message) = match judged {
        Ok(JudgedRecord(published, Verdict::Good(message))) => {
            (published, RecordState::Good, message)
        }
        Ok(JudgedRecord(published, Verdict::Missing(message))) => {
            (published, RecordState::Missing, message)
        }
        Ok(JudgedRecord(published, Verdict::Different(message, mended))) => {
            record.value = mended.or(record.value);
            (published, RecordState::Different, message)
        }
        Err(NoServerAnswers) => {
            let message = "no name server answered, so that nothing is known about it";
            (Vec::new(), RecordState::Unasked, message.to_owned())
        }
    };
    CheckedRecord {
        record,
        state,
        published,
        message,
    }
}

async fn exchangers(
    resolver: &DnsResolver,
    record: &DomainRecord,
    wanted: Option<&str>,
) -> Result<JudgedRecord, NoServerAnswers> {
    let published = records(resolver.exchangers(&record.name).await)?;
    let mut verdict = judge::exchangers(&published, wanted);
    if matches!(verdict, Verdict::Good(_)) {
        let named: Vec<&str> = match wanted {
            Some(host) => vec![host],
            None => published.iter().map(String::as_str).collect(),
        };
        let mut addresses = Vec::new();
        for host in &named {
            addresses.extend(all_addresses(resolver, host).await?);
        }
        if addresses.is_empty() {
            let message = format!("{} has no address (A or AAAA record)", named.join(", "));
            verdict = Verdict::Different(message, None);
        }
    }
    Ok(JudgedRecord(published, verdict))
}

async fn sender(
    resolver: &DnsResolver,
    record: &DomainRecord,
    server: &SendingServer,
) -> Result<JudgedRecord, NoServerAnswers> {
    let texts = records(resolver.txt(&record.name).await)?;
    let published = shown(&texts, spf::is_spf);
    let found = match judge::only_spf(&texts) {
        Ok(found) => found,
        Err(verdict) => return Ok(JudgedRecord(published, verdict)),
    };
    let (host, term) = match server {
        SendingServer::Host(host) => (host, term_of_host(host)),
        SendingServer::Provider {
            host,
            include,
            is_own,
        } => {
            if *is_own || judge::includes(&found, include) {
                let verdict = Verdict::Good(format!("published, and permits {include}"));
                return Ok(JudgedRecord(published, verdict));
            }
            (host, format!("include:{include}"))
        }
    };
    let addresses = all_addresses(resolver, host).await?;
    if addresses.is_empty() {
        let message = format!("{host} has no address (A or AAAA record) that it could permit");
        return Ok(JudgedRecord(published, Verdict::Different(message, None)));
    }
    let sender = format!("postmaster@{}", record.name);
    let mut results = Vec::new();
    for address in addresses {
        let result = spf::check(resolver, address, host, &sender).await;
        if result == SpfResult::TempError {
            return Err(NoServerAnswers);
        }
        results.push((address, result));
    }
    let verdict = judge::permission(&found, &term, host, &results);
    Ok(JudgedRecord(published, verdict))
}

async fn key(
    resolver: &DnsResolver,
    record: &DomainRecord,
) -> Result<JudgedRecord, NoServerAnswers> {
    let texts = records(resolver.txt(&record.name).await)?;
    let wanted = record.value.as_deref().unwrap_or_default();
    Ok(JudgedRecord(
        shown(&texts, |_| true),
        judge::key(&texts, wanted),
    ))
}

/// The policy of the domain, or of the nearest name above it that has one (RFC 9989 section 4.10).
async fn policy(
    resolver: &DnsResolver,
    record: &DomainRecord,
) -> Result<JudgedRecord, NoServerAnswers> {
    let domain = record.name.trim_start_matches("_dmarc.");
    for name in walk(domain) {
        let texts = records(resolver.txt(&name).await)?;
        let Some(mut verdict) = judge::policy(&texts) else {
            continue;
        };
        let name = name.trim_end_matches('.');
        if name != record.name {
            verdict = match verdict {
                Verdict::Good(_) => Verdict::Good(format!("published at {name}")),
                // Of a domain that may be somebody else's.
                _ => continue,
            };
        }
        return Ok(JudgedRecord(shown(&texts, |_| true), verdict));
    }
    let message = "no DMARC policy is published: large receivers may refuse mail of the domain";
    Ok(JudgedRecord(
        Vec::new(),
        Verdict::Missing(message.to_owned()),
    ))
}

/// Every address of a host, which may be one itself.
async fn all_addresses(resolver: &DnsResolver, host: &str) -> Result<Vec<IpAddr>, NoServerAnswers> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        return Ok(vec![address]);
    }
    let v4 = resolver.addresses(host, Ipv4Addr::UNSPECIFIED.into()).await;
    let v6 = resolver.addresses(host, Ipv6Addr::UNSPECIFIED.into()).await;
    Ok([records(v4)?, records(v6)?].concat())
}

/// No records are an answer; no answer is none.
fn records<T>(answer: Result<Vec<T>, NoAnswer>) -> Result<Vec<T>, NoServerAnswers> {
    match answer {
        Ok(found) => Ok(found),
        Err(NoAnswer::NoRecords) => Ok(Vec::new()),
        Err(NoAnswer::Temporary) => Err(NoServerAnswers),
    }
}

fn shown(texts: &[Vec<u8>], is_meant: impl Fn(&[u8]) -> bool) -> Vec<String> {
    let meant = texts.iter().filter(|text| is_meant(text));
    meant
        .map(|text| String::from_utf8_lossy(text).into_owned())
        .collect()
}
