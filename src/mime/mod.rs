//! Letters to emails, emails to letter bytes.
//!
//! In: [`parse`] walks the MIME structure itself, within limits, and lets mail-parser read fields
//! and charsets. Out: [`compose`] writes the bytes of one mail and [`Signers`] sign them; the same
//! arguments give the same bytes.
//!
//! Absent on purpose: sockets, clocks, configuration files, and every decision about a sender.

mod attachments;
mod automatic;
mod body;
mod charsets;
mod compose;
mod dkim;
mod encoded_words;
mod entities;
mod fields;
mod filename;
mod header;
mod html;
mod limits;
mod links;
mod markdown;
mod parse;
mod quotes;
mod report;
mod structure;
mod tags;
mod text_file;
mod threading;
mod transfer;
mod wire;

pub use compose::{Automatic, ComposeError, LOOP_FIELD, Outgoing, OutgoingAttachment, compose};
pub use dkim::{KeyError, KeyRecord, SignError, Signer, Signers};
pub use filename::safe_filename;
pub use header::{Header, from_first_field};
pub use html::html_to_text;
pub use limits::{ParseError, ParseLimits};
pub use parse::{ParsedLetter, parse, parse_letter};
pub use quotes::fresh_text;
pub use report::read_report;
pub use text_file::{FileText, NotText, file_text};
pub use threading::{new_message_id, reply_references, reply_subject};
