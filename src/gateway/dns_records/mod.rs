//! DNS records that the domains of personas should publish for this engine, and a check of those that
//! are published.
//!
//! - `wanted`: the records, from the configuration alone; `smarthosts`: providers that send, and their
//!   SPF names
//! - `published`: the questions to the resolver
//! - `judge`: published records against wanted ones
//!
//! Absent on purpose: a change of any zone. Records of other purposes are never looked at.

mod smarthosts;
mod wanted;
mod judge;
mod published;

use serde::Serialize;

pub use published::check;
pub use wanted::wanted;

/// Longest character string of a TXT record (RFC 1035 section 3.3.14).
const TXT_STRING_BYTES_MAX: usize = 255;

/// Purpose of a record of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordPurpose {
    /// The host that takes mail for the domain.
    Mx,
    /// The servers that may send for the domain.
    Spf,
    /// A key with which mail is signed.
    Dkim,
    /// What receivers do with mail that is neither permitted nor signed.
    Dmarc,
}

impl RecordPurpose {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mx => "MX",
            Self::Spf => "SPF",
            Self::Dkim => "DKIM",
            Self::Dmarc => "DMARC",
        }
    }
    /// Type of the record.
    fn kind(self) -> &'static str {
        match self {
            Self::Mx => "MX",
            Self::Spf | Self::Dkim | Self::Dmarc => "TXT",
        }
    }
}

/// A record that a domain should publish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DomainRecord {
    pub purpose: RecordPurpose,
    /// DNS name without the final dot.
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Value to publish; `None` where the provider of the mailbox names it.
    pub value: Option<String>,
    pub why: String,
    #[serde(skip)]
    expected: Expected,
}

/// What makes a published record a good one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    /// Mail servers with addresses, whichever.
    AnyExchanger,
    /// This host is among the mail servers.
    Exchanger(String),
    /// Exactly one SPF record, which permits the server.
    Sender(SendingServer),
    /// The key of the value.
    Key,
    /// Exactly one DMARC policy, of the domain or of one above it.
    Policy,
}

/// The server whose address receivers see.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SendingServer {
    /// A host by its own addresses.
    Host(String),
    /// Servers of a provider, which an SPF name permits. `is_own`: the domain is the provider's.
    Provider {
        host: String,
        include: &'static str,
        is_own: bool,
    },
}

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordState {
    Good,
    Missing,
    Different,
    /// No name server answered: nothing is known.
    Unasked,
}

/// A record and what the domain publishes instead of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedRecord {
    /// With the value that should be published, what is there taken into account.
    #[serde(flatten)]
    pub record: DomainRecord,
    pub state: RecordState,
    /// Values that are published.
    pub published: Vec<String>,
    /// One sentence about the state.
    pub message: String,
}

impl CheckedRecord {
    pub fn is_good(&self) -> bool {
        self.state == RecordState::Good
    }
}

impl DomainRecord {
    /// Formats the record as a line of a zone file; `None` without a value.
    pub fn zone_line(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        let data = match self.purpose {
            RecordPurpose::Mx => value.clone(),
            RecordPurpose::Spf | RecordPurpose::Dkim | RecordPurpose::Dmarc => {
                // Values are ASCII, so that every cut is between characters.
                let strings = value.as_bytes().chunks(TXT_STRING_BYTES_MAX);
                let quoted =
                    strings.map(|string| format!("\"{}\"", String::from_utf8_lossy(string)));
                quoted.collect::<Vec<_>>().join(" ")
            }
        };
        Some(format!("{}. IN {} {data}", self.name, self.kind))
    }
}
