//! A letter as received and an email as understood.

use super::address::{Address, Mailbox};
use crate::domain::time::Timestamp;
use std::net::IpAddr;
use std::ops::Range;

/// Ingress of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    Smtp,
    Lmtp,
    Http,
    Imap,
    Folder,
    File,
    Import,
}

impl Via {
    pub fn as_str(self) -> &'static str {
        match self {
            Via::Smtp => "smtp",
            Via::Lmtp => "lmtp",
            Via::Http => "http",
            Via::Imap => "imap",
            Via::Folder => "folder",
            Via::File => "file",
            Via::Import => "import",
        }
    }
}

/// The SMTP envelope of a letter (RFC 5321 section 2.3.1), or a substitute for letters that did not
/// come by SMTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// `None` is the null reverse-path `<>`.
    pub mail_from: Option<Address>,
    /// Accepted recipients, in the order given.
    pub rcpt_to: Vec<Address>,
    /// Argument of the client's HELO or EHLO; empty when the letter did not come over a socket.
    pub helo: String,
    /// The client's address.
    pub peer: Option<IpAddr>,
    pub via: Via,
    pub arrival: Arrival,
}

/// Facts about a letter's ingress that its SMTP envelope does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arrival {
    /// The owner's address that belongs to the user who authenticated with AUTH.
    pub submitted_by: Option<Address>,
    /// `true`: the ingress named the recipients explicitly, so that the letter counts as addressed
    /// to them whatever its header says.
    pub names_recipients: bool,
    /// `true`: the letter came through TLS.
    pub encrypted: bool,
    /// `true`: the client spoke ESMTP (EHLO), not the SMTP of 1982.
    pub extended: bool,
    /// Instant at which the letter reached the mailbox that it was fetched from; `None`: just now.
    pub arrived_at: Option<Timestamp>,
    /// Position of the original in an IMAP mailbox; `None` for a letter that was not fetched.
    pub mailbox: Option<MailboxUid>,
    /// The server (RFC 8601 section 2.5) whose `Authentication-Results` are trusted on this
    /// ingress; `None`: no server.
    pub authserv_id: Option<String>,
}

/// Position of a letter in an IMAP mailbox (RFC 9051 section 2.3.1.1): never given to another
/// letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxUid {
    /// The mailbox's name in `configs/gateway.json`.
    pub mailbox: String,
    pub uid_validity: u32,
    pub uid: u32,
}

/// Raw RFC 5322 bytes and their envelope, exactly as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    pub envelope: Envelope,
    pub bytes: Vec<u8>,
}

impl Letter {
    /// Makes a letter of the past, which no connection brought: it is history of the persona at `to`.
    pub fn from_history(
        bytes: Vec<u8>,
        mail_from: Option<Address>,
        to: &Address,
        arrived_at: Option<Timestamp>,
    ) -> Self {
        let envelope = Envelope {
            mail_from,
            rcpt_to: vec![to.clone()],
            helo: String::new(),
            peer: None,
            via: Via::Import,
            arrival: Arrival {
                arrived_at,
                ..Arrival::default()
            },
        };
        Self { envelope, bytes }
    }
}

/// Trust in the sender's identity; fixed at the gateway, never raised by content.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    #[default]
    Unauthenticated,
    Unknown,
    Contact,
    Owner,
    /// The engine's own prompts: schedules, manual runs.
    System,
}

impl Trust {
    pub fn as_str(self) -> &'static str {
        match self {
            Trust::Unauthenticated => "unauthenticated",
            Trust::Unknown => "unknown",
            Trust::Contact => "contact",
            Trust::Owner => "owner",
            Trust::System => "system",
        }
    }

    /// Parses the text of [`Trust::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        let all = [
            Trust::Unauthenticated,
            Trust::Unknown,
            Trust::Contact,
            Trust::Owner,
            Trust::System,
        ];
        all.into_iter().find(|trust| trust.as_str() == text)
    }

    /// Parses stored text; an unknown word is [`Trust::Unauthenticated`].
    pub fn parse_stored(text: &str) -> Self {
        Self::parse(text).unwrap_or(Self::Unauthenticated)
    }
}

/// One attachment of an email, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// A safe file name, unique inside its email; the sender's own name is in `declared_name`.
    pub filename: String,
    /// The sender's own name for it, decoded; empty when there was none.
    pub declared_name: String,
    /// Lower-case media type, for example `text/csv`.
    pub content_type: String,
    /// Content-ID without its angle brackets.
    pub content_id: Option<String>,
    /// Decoded content.
    pub bytes: Vec<u8>,
    /// Where it stands in the letter; `None`: decoding no range of it gives the bytes, as for a file out of a container.
    pub range: Option<LetterRange>,
}

/// A range of a letter's bytes that holds the content of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LetterRange {
    pub start: usize,
    pub len: usize,
    pub encoding: TransferEncoding,
}

/// How the content of a part is written in its letter (RFC 2045 section 6). Names are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferEncoding {
    Identity,
    Base64,
    QuotedPrintable,
}

impl TransferEncoding {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Base64 => "base64",
            Self::QuotedPrintable => "quoted_printable",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Identity, Self::Base64, Self::QuotedPrintable]
            .into_iter()
            .find(|encoding| encoding.as_str() == name)
    }
}

/// The header facts by which automatic mail is recognised (RFC 3834 section 2, `mail.md` section
/// 5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AutomaticSigns {
    /// The token of `Auto-Submitted` before any `;`, lower case; empty when the field has none. Of
    /// several fields the first that is not `no`.
    pub auto_submitted: Option<String>,
    /// `Precedence` or the fields that some programs write instead, lower case. Of several fields
    /// the first that says the letter is bulk or automatic.
    pub precedence: Option<String>,
    /// Some `List-*` header, or an older list manager's, is present.
    pub has_list_header: bool,
    /// `X-Auto-Response-Suppress`, lower case.
    pub auto_response_suppress: Option<String>,
    /// A field by which an autoresponder or a loop is known (`X-Autoreply`, `X-Loop`) is present.
    pub has_autoreply_header: bool,
    /// `multipart/report`, `message/delivery-status` or `message/disposition-notification` at the
    /// top.
    pub is_report: bool,
    /// A thumb or another sign, as Gmail sends them beside a text.
    pub is_reaction: bool,
    /// Number of `Received` headers.
    pub received_count: usize,
    /// Two `Delivered-To` fields name the same address.
    pub delivered_twice: bool,
    /// Content of `Attache-Loop`, the field of our own mail.
    pub loop_token: Option<String>,
}

impl AutomaticSigns {
    /// Reports whether a value of `Precedence` marks bulk mail or the answer of a program.
    pub fn is_bulk(word: &str) -> bool {
        [
            "list",
            "bulk",
            "junk",
            "auto_reply",
            "auto-reply",
            "autoreply",
        ]
        .contains(&word)
    }
}

/// Lines that were cut from a text because somebody else wrote them before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotation {
    /// Line of the fresh text before which they stood.
    pub at: usize,
    /// Which lines of the text they are.
    pub lines: Range<usize>,
    /// How many of the first lines are the attribution (`On … wrote:`).
    pub attribution: usize,
}

/// A parsed letter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Email {
    /// RFC 5322 Message-ID without angle brackets, case kept; `None` when absent or empty.
    pub message_id: Option<String>,
    /// Ids of `In-Reply-To`, without brackets.
    pub in_reply_to: Vec<String>,
    /// Ids of `References`, oldest first, without brackets.
    pub references: Vec<String>,
    /// All mailboxes of all `From` headers. An identity only if there is exactly one header with
    /// one address.
    pub from: Vec<Mailbox>,
    /// Number of `From` header fields.
    pub from_header_count: usize,
    pub reply_to: Vec<Mailbox>,
    pub to: Vec<Mailbox>,
    pub cc: Vec<Mailbox>,
    /// Recipients that the letter was sent on to: `Resent-To` and `Resent-Cc` (RFC 5322 section
    /// 3.6.6).
    pub resent: Vec<Mailbox>,
    /// Decoded, unfolded; empty when absent.
    pub subject: String,
    pub date: Option<Timestamp>,
    /// The readable body: text/plain, or HTML rendered to text. Line ends are `\n`.
    pub text: String,
    /// `text` without quoted history and reply headers; equal to `text` when nothing is quoted.
    pub fresh_text: String,
    /// What `fresh_text` leaves out.
    pub quotations: Vec<Quotation>,
    /// The original HTML body, when there was one.
    pub html: Option<String>,
    pub attachments: Vec<Attachment>,
    /// `List-Id` between its angle brackets, lower case.
    pub list_id: Option<String>,
    /// Pages of `List-Unsubscribe` (RFC 2369 section 3.2).
    pub unsubscribe: Vec<String>,
    pub automatic: AutomaticSigns,
    /// Defects of the letter that were tolerated, one short sentence each.
    pub defects: Vec<String>,
}

impl Email {
    /// Returns the sender's address: exactly one `From` header that names exactly one, else `None`. That it may be answered
    /// proves nothing: `gateway::identity` reads the field by stricter rules.
    pub fn sender(&self) -> Option<Address> {
        match (self.from_header_count, self.from.as_slice()) {
            (1, [only]) => only.address(),
            _ => None,
        }
    }
    /// Returns every Message-ID this email mentions besides its own, oldest first, without repeats.
    pub fn mentioned_ids(&self) -> Vec<&str> {
        let mut seen = Vec::new();
        for id in self.references.iter().chain(&self.in_reply_to) {
            if !seen.contains(&id.as_str()) {
                seen.push(id.as_str());
            }
        }
        seen
    }
}
