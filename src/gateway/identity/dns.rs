//! Questions to name servers, each bounded in time, answers cached as long as they live.
//!
//! One answer is told from another only as far as verification must: there are records, there are none, or nobody
//! could say.

use crate::config::ResolverSettings;
use mail_auth::MessageAuthenticator;
use mail_auth::hickory_resolver::config::{
    NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts, ServerOrderingStrategy,
};
use mail_auth::hickory_resolver::net::{DnsError, NetError};
use mail_auth::hickory_resolver::proto::rr::{Name, RData, RecordType};
use mail_auth::hickory_resolver::system_conf::read_system_conf;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Answers that are kept; each is a few hundred bytes.
const CACHE_ENTRIES: u64 = 8192;
/// Questions under way to one server. Every letter in work may have one.
const QUESTIONS_AT_ONCE_MAX: usize = 2048;

/// Why a question was not answered with records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// No such name, or no record of that type (RFC 2308).
    NoRecords,
    /// No server answered, or one said that it cannot.
    Temporary,
}

/// A stub resolver and the checks that the library makes with it.
#[derive(Clone)]
pub struct Resolver {
    pub(super) authenticator: MessageAuthenticator,
}

/// No resolver can be made of these settings.
#[derive(Debug, thiserror::Error)]
#[error("the name resolver cannot be set up")]
pub struct ResolverError(#[source] NetError);

impl Resolver {
    pub fn new(settings: &ResolverSettings) -> Result<Self, ResolverError> {
        let (config, mut options) = match settings.servers.as_slice() {
            [] => system(),
            servers => (of_servers(servers), ResolverOpts::default()),
        };
        options.timeout = settings.timeout;
        options.attempts = 1;
        options.cache_size = CACHE_ENTRIES;
        options.max_active_requests = QUESTIONS_AT_ONCE_MAX;
        // What `/etc/hosts` says of a name is no evidence about mail.
        options.use_hosts_file = ResolveHosts::Never;
        if !settings.servers.is_empty() {
            options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
        }
        let authenticator = MessageAuthenticator::new(config, options).map_err(ResolverError)?;
        Ok(Self { authenticator })
    }

    /// Each record with its character strings joined (RFC 7208 section 3.3).
    pub async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, NoAnswer> {
        let text = |data: &RData| match data {
            RData::TXT(txt) => Some(txt.txt_data.iter().flat_map(|part| part.iter().copied()).collect()),
            _ => None,
        };
        self.ask(name, RecordType::TXT, text).await
    }

    /// Addresses of the same family as `like`.
    pub async fn addresses(&self, name: &str, like: IpAddr) -> Result<Vec<IpAddr>, NoAnswer> {
        let kind = if like.is_ipv4() { RecordType::A } else { RecordType::AAAA };
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

    /// Names that an address claims to have, in lower case.
    pub async fn pointers(&self, address: IpAddr) -> Result<Vec<String>, NoAnswer> {
        let host = |data: &RData| match data {
            RData::PTR(name) => bare(name),
            _ => None,
        };
        self.ask_name(Name::from(address), RecordType::PTR, host).await
    }

    async fn ask<T>(
        &self,
        name: &str,
        kind: RecordType,
        read: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, NoAnswer> {
        // Labels as octets: a macro of SPF may put anything into a name. What cannot be asked for does not exist.
        let labels = name.strip_suffix('.').unwrap_or(name).split('.').map(str::as_bytes);
        let name = Name::from_labels(labels).map_err(|_| NoAnswer::NoRecords)?;
        self.ask_name(name, kind, read).await
    }

    async fn ask_name<T>(
        &self,
        mut name: Name,
        kind: RecordType,
        read: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, NoAnswer> {
        // Never relative: a search list would ask about names of the operator's own domain.
        name.set_fqdn(true);
        match self.authenticator.resolver().lookup(name, kind).await {
            Ok(lookup) => {
                let found: Vec<T> = lookup.answers().iter().filter_map(|record| read(&record.data)).collect();
                if found.is_empty() { Err(NoAnswer::NoRecords) } else { Ok(found) }
            }
            Err(NetError::Dns(DnsError::NoRecordsFound(_))) => Err(NoAnswer::NoRecords),
            Err(_) => Err(NoAnswer::Temporary),
        }
    }
}

/// A host name as text, in lower case, without its final dot; `None` when a label could not be told from two, or from
/// another. Octets stand for themselves: SPF allows any visible character (RFC 7208 section 7.1).
fn bare(name: &Name) -> Option<String> {
    let label = |label: &[u8]| {
        std::str::from_utf8(label).ok().filter(|text| !text.contains('.')).map(str::to_ascii_lowercase)
    };
    let labels: Option<Vec<String>> = name.iter().map(label).collect();
    labels.map(|labels| labels.join("."))
}

fn of_servers(servers: &[SocketAddr]) -> ResolverConfig {
    let servers = servers.iter().map(|server| {
        let mut config = NameServerConfig::udp_and_tcp(server.ip());
        for connection in &mut config.connections {
            connection.port = server.port();
        }
        config
    });
    ResolverConfig::from_parts(None, Vec::new(), servers.collect())
}

/// The system's servers; without a readable list the one on this machine, as `resolv.conf(5)` has it.
fn system() -> (ResolverConfig, ResolverOpts) {
    match read_system_conf() {
        Ok((config, options)) => {
            let servers = config.name_servers().to_vec();
            (ResolverConfig::from_parts(None, Vec::new(), servers), options)
        }
        Err(error) => {
            tracing::warn!(%error, "the system names no name server; the one on this machine is asked");
            (of_servers(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 53))]), ResolverOpts::default())
        }
    }
}
