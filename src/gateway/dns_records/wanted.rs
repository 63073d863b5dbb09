//! The records that the configuration asks for. Pure.

use super::smarthosts::{include, is_below};
use super::{DomainRecord, Expected, RecordPurpose, SendingServer};
use crate::config::{Config, ListenerKind, SmtpListener, TransportSettings, is_loopback_host};
use crate::domain::is_mail_provider;
use crate::mime::Signer;

/// Records of every domain of a persona, domain by domain.
pub fn wanted(config: &Config) -> Vec<DomainRecord> {
    let mut domains: Vec<&str> = Vec::new();
    for persona in config.personas.iter() {
        let domain = persona.address.domain();
        if !domains.contains(&domain) {
            domains.push(domain);
        }
    }
    domains
        .into_iter()
        .flat_map(|domain| domain_records(config, domain))
        .collect()
}

fn domain_records(config: &Config, domain: &str) -> Vec<DomainRecord> {
    if is_of_a_provider(config, domain) {
        return Vec::new();
    }
    let signers = config.gateway.signers.iter();
    let keys = signers.filter(|signer| signer.domain() == domain).map(key);
    let mut records: Vec<DomainRecord> = exchanger(config, domain).into_iter().collect();
    let Some(TransportSettings::Smarthost(smarthost)) = &config.gateway.outbound else {
        // A folder sends nothing; whoever sends its mails can still verify our signatures.
        records.extend(keys);
        return records;
    };
    let has_keys = config.gateway.signers.covers(domain);
    records.push(sender(config, domain, &smarthost.host));
    records.extend(keys);
    records.push(policy(domain, has_keys));
    records
}

/// Reports whether a domain belongs to whoever runs the mailbox, who publishes its records: mail comes by mailboxes
/// alone, no key of ours signs, and the domain is a provider's for everybody, or the servers' own.
fn is_of_a_provider(config: &Config, domain: &str) -> bool {
    let gateway = &config.gateway;
    let is_fetched = gateway.listeners.is_empty() && !gateway.mailboxes.is_empty();
    let is_server = |host: &str| {
        let host = host.to_ascii_lowercase();
        host == domain || is_below(&host, domain)
    };
    let is_mailbox = gateway
        .mailboxes
        .iter()
        .any(|mailbox| is_server(&mailbox.host));
    is_fetched && !gateway.signers.covers(domain) && (is_mailbox || is_mail_provider(domain))
}

/// The record of the host that receives; `None` where no mail comes in.
fn exchanger(config: &Config, domain: &str) -> Option<DomainRecord> {
    let gateway = &config.gateway;
    let host = &gateway.host_name;
    let is_first = gateway.listeners.iter().any(is_reached_from_outside)
        && config.security.authentication.trusted_relays.is_empty();
    let is_near = !gateway.listeners.is_empty();
    let (value, why, expected) = if is_first {
        let why = format!("letters to {domain} come to this engine, which calls itself {host}");
        (
            Some(format!("10 {host}.")),
            why,
            Expected::Exchanger(host.clone()),
        )
    } else if is_near {
        let why = format!(
            "letters to {domain} come to the mail server that hands them to this engine; here it is taken to be {host}"
        );
        (Some(format!("10 {host}.")), why, Expected::AnyExchanger)
    } else if !gateway.mailboxes.is_empty() {
        let why = format!(
            "letters to {domain} come to the mailbox's provider, which names its mail servers"
        );
        (None, why, Expected::AnyExchanger)
    } else {
        return None;
    };
    Some(record(
        RecordPurpose::Mx,
        domain.to_owned(),
        value,
        why,
        expected,
    ))
}

/// Reports whether other machines may bring mail to a listener.
fn is_reached_from_outside(listener: &SmtpListener) -> bool {
    listener.kind == ListenerKind::Smtp && !listener.address.is_of_this_machine()
}

fn sender(config: &Config, domain: &str, smarthost: &str) -> DomainRecord {
    let host_name = &config.gateway.host_name;
    let (server, term, why) = match include(smarthost) {
        Some(include) => {
            let server = SendingServer::Provider {
                host: smarthost.to_owned(),
                include,
                is_own: is_below(&smarthost.to_ascii_lowercase(), domain),
            };
            let why = format!("`{smarthost}` passes mail on by servers that `{include}` lists");
            (server, format!("include:{include}"), why)
        }
        None if is_loopback_host(smarthost) => {
            let why = format!("the mail server on this machine sends, as {host_name}");
            let server = SendingServer::Host(host_name.clone());
            (server, format!("a:{host_name}"), why)
        }
        None => {
            let why = format!(
                "`{smarthost}` sends; where its provider names an SPF record to include, take that one"
            );
            let server = SendingServer::Host(smarthost.to_owned());
            (server, term_of_host(smarthost), why)
        }
    };
    record(
        RecordPurpose::Spf,
        domain.to_owned(),
        Some(format!("v=spf1 {term} ~all")),
        why,
        Expected::Sender(server),
    )
}

/// The term that permits a host by its name or its address.
pub(super) fn term_of_host(host: &str) -> String {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse() {
        Ok(std::net::IpAddr::V4(address)) => format!("ip4:{address}"),
        Ok(std::net::IpAddr::V6(address)) => format!("ip6:{address}"),
        Err(_) => format!("a:{host}"),
    }
}

fn key(signer: &Signer) -> DomainRecord {
    let published = signer.record();
    let why = format!(
        "receivers verify signatures with the key `{}` of {}",
        signer.selector(),
        signer.domain()
    );
    record(
        RecordPurpose::Dkim,
        published.name,
        Some(published.text),
        why,
        Expected::Key,
    )
}

/// `none` asks receivers for nothing, which is all that is safe while mail may be unsigned.
fn policy(domain: &str, has_keys: bool) -> DomainRecord {
    let asked = if has_keys { "quarantine" } else { "none" };
    let why = format!(
        "large receivers want every domain that sends to have a policy; {}",
        match has_keys {
            true => "mail in its name without a signature is set apart",
            false => "`p=none` asks for nothing yet",
        }
    );
    record(
        RecordPurpose::Dmarc,
        format!("_dmarc.{domain}"),
        Some(format!("v=DMARC1; p={asked}")),
        why,
        Expected::Policy,
    )
}

fn record(
    purpose: RecordPurpose,
    name: String,
    value: Option<String>,
    why: String,
    expected: Expected,
) -> DomainRecord {
    DomainRecord {
        purpose,
        name,
        kind: purpose.kind(),
        value,
        why,
        expected,
    }
}
