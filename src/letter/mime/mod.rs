//! Letters to emails, emails to letter bytes.
//!
//! In: [`parse`] walks the MIME structure itself, within limits, and lets mail-parser read fields
//! and charsets. Out: [`compose`] writes the bytes of one mail and [`Signers`] sign them; the same
//! arguments give the same bytes.
//!
//! - `limits`: bounds of parsing; `parse`: the way through all of it
//! - `transfer`, `structure`: bytes to parts
//! - `headers`: fields and what they mean; `text`: charsets, HTML, quotes
//! - `body`, `attachments`: the readable text, and the rest; `stub`: a plain text that says nothing; `enclosed`: containers;
//!   `one_reading`: whether other fields make other words of it
//! - `report`: bounces, complaints, other machine mail
//! - `compose`: the bytes of our mail
//!
//! Absent on purpose: sockets, clocks, configuration files, and every decision about a sender.

mod headers;
mod text;
mod attachments;
mod body;
mod compose;
mod enclosed;
mod limits;
mod one_reading;
mod parse;
mod report;
mod structure;
mod stub;
mod transfer;

pub use compose::{
    Automatic, ComposeError, LOOP_FIELD, Outgoing, OutgoingAttachment, OutgoingCalendar, compose,
};
pub use headers::dkim::{KeyError, KeyRecord, SignError, Signer, Signers};
pub use headers::filename::safe_filename;
pub use headers::header::{Header, from_first_field};
pub use headers::threading::{new_message_id, reply_references, reply_subject};
pub use limits::{ParseError, ParseLimits};
pub use one_reading::{FixedFields, has_one_reading};
pub use parse::{ParsedLetter, parse, parse_letter};
pub use report::read_report;
pub use text::charsets::decoded;
pub use text::dialect::{
    LetterFooter, QuotedOriginal, footed_html, footed_plain, letter_to_html, letter_to_plain,
};
pub use text::hosts::named_hosts;
pub use text::html::html_to_text;
pub use text::quotes::{fresh_text, own_words, split as split_quotes, with_unknown};
pub use text::text_file::{FileText, NotText, file_text};
pub use transfer::decoded_range;
