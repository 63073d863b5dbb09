//! DNS queries, each with a timeout; answers are cached for their TTL.
//!
//! Answers are told apart only as far as verification needs it: there are records, there are none,
//! or the query failed.

use crate::config::ResolverSettings;
use mail_auth::MessageAuthenticator;
use mail_auth::hickory_resolver::config::{
    NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts, ServerOrderingStrategy,
};
use mail_auth::hickory_resolver::net::{DnsError, NetError};
use mail_auth::hickory_resolver::proto::rr::{Name, RData, RecordType};
use mail_auth::hickory_resolver::system_conf::read_system_conf;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Maximum cached answers; each has a few hundred bytes.
const CACHE_ENTRIES: u64 = 8192;
/// Maximum concurrent queries to one server. Every letter in work may have one.
const QUESTIONS_AT_ONCE_MAX: usize = 2048;

/// Error of a query without records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// No such name, or no record of that type (RFC 2308).
    NoRecords,
    /// Timeout of all servers, or a server reported a failure.
    Temporary,
}

/// A stub resolver, and the library's checks that use it.
#[derive(Clone)]
pub struct DnsResolver {
    pub(super) authenticator: MessageAuthenticator,
}

/// Error of settings from which no resolver can be built.
#[derive(Debug, thiserror::Error)]
#[error("the name resolver cannot be set up")]
pub struct ResolverError(#[source] NetError);

impl DnsResolver {
    pub fn new(settings: &ResolverSettings) -> Result<Self, ResolverError> {
        let (config, mut options) = match settings.servers.as_slice() {
            [] => system(),
            servers => (resolver_config(servers), ResolverOpts::default()),
        };
        options.timeout = settings.timeout;
        options.attempts = 1;
        options.cache_size = CACHE_ENTRIES;
        options.max_active_requests = QUESTIONS_AT_ONCE_MAX;
        // An entry in `/etc/hosts` is no evidence about mail.
        options.use_hosts_file = ResolveHosts::Never;
        if !settings.servers.is_empty() {
            options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        }
        let authenticator = MessageAuthenticator::new(config, options).map_err(ResolverError)?;
        Ok(Self { authenticator })
    }

    /// TXT records, each with its character strings joined (RFC 7208 section 3.3).
    pub async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, NoAnswer> {
        let text = |data: &RData| match data {
            RData::TXT(txt) => Some(
                txt.txt_data
                    .iter()
                    .flat_map(|part| part.iter().copied())
                    .collect(),
            ),
            _ => None,
        };
        self.ask(name, RecordType::TXT, text).await
    }

    /// Addresses of the same family as `like`.
    pub async fn addresses(&self, name: &str, like: IpAddr) -> Result<Vec<IpAddr>, NoAnswer> {
        let kind = if like.is_ipv4() {
            RecordType::A
        } else {
            RecordType::AAAA
        };
        let address = |data: &RData| match data {
            RData::A(a) => Some(IpAddr::V4(a.0)),
            RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
            _ => None,
        };
        self.ask(name, kind, address).await
    }

    /// Hosts of the mail exchangers, in no particular order.
    pub async fn exchangers(&self, name: &str) -> Result<Vec<String>, NoAnswer> {
        let host = |data: &RData| match data {
            RData::MX(mx) => bare(&mx.exchange),
            _ => None,
        };
        self.ask(name, RecordType::MX, host).await
    }

    /// Names in the PTR records of an address, in lower case.
    pub async fn pointers(&self, address: IpAddr) -> Result<Vec<String>, NoAnswer> {
        let host = |data: &RData| match data {
            RData::PTR(name) => bare(name),
            _ => None,
        };
        self.ask_name(Name::from(address), RecordType::PTR, host)
            .await
    }

    async fn ask<T>(
        &self,
        name: &str,
        kind: RecordType,
        read: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, NoAnswer> {
        // Labels as octets: a macro of SPF may put any octet into a name. A name that cannot be
        // queried does not exist.
        let labels = name
            .strip_suffix('.')
            .unwrap_or(name)
            .split('.')
            .map(str::as_bytes);
        let name = Name::from_labels(labels).map_err(|_| NoAnswer::NoRecords)?;
        self.ask_name(name, kind, read).await
    }

    async fn ask_name<T>(
        &self,
        mut name: Name,
        kind: RecordType,
        read: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, NoAnswer> {
        // Never relative: a search list would query names in the operator's own domain.
        name.set_fqdn(true);
        match self.authenticator.resolver().lookup(name, kind).await {
            Ok(lookup) => {
                let found: Vec<T> = lookup
                    .answers()
                    .iter()
                    .filter_map(|record| read(&record.data))
                    .collect();
                if found.is_empty() {
                    Err(NoAnswer::NoRecords)
                } else {
                    Ok(found)
                }
            }
            Err(NetError::Dns(DnsError::NoRecordsFound(_))) => Err(NoAnswer::NoRecords),
            Err(_) => Err(NoAnswer::Temporary),
        }
    }
}

/// A host name as text, in lower case, without its final dot; `None` for a label with a dot or
/// without UTF-8, which would be ambiguous as text. Octets stand for themselves: SPF permits any
/// visible character (RFC 7208 section 7.1).
fn bare(name: &Name) -> Option<String> {
    let label = |label: &[u8]| {
        std::str::from_utf8(label)
            .ok()
            .filter(|text| !text.contains('.'))
            .map(str::to_ascii_lowercase)
    };
    let labels: Option<Vec<String>> = name.iter().map(label).collect();
    labels.map(|labels| labels.join("."))
}

fn resolver_config(servers: &[SocketAddr]) -> ResolverConfig {
    let servers = servers.iter().map(|server| {
        let mut config = NameServerConfig::udp_and_tcp(server.ip());
        for connection in &mut config.connections {
            connection.port = server.port();
        }
        config
    });
    ResolverConfig::from_parts(None, Vec::new(), servers.collect())
}

/// The system's name servers; without a readable list, the server on this machine
/// (`resolv.conf(5)`).
fn system() -> (ResolverConfig, ResolverOpts) {
    match read_system_conf() {
        Ok((config, options)) => {
            let servers = config.name_servers().to_vec();
            (
                ResolverConfig::from_parts(None, Vec::new(), servers),
                options,
            )
        }
        Err(error) => {
            tracing::warn!(%error, "the system names no name server; the one on this machine is asked");
            (
                resolver_config(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 53))]),
                ResolverOpts::default(),
            )
        }
    }
}
