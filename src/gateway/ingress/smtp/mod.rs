//! The SMTP server: RFC 5321 with PIPELINING, SIZE, 8BITMIME, SMTPUTF8 and ENHANCEDSTATUSCODES.
//!
//! `listener` accepts connections, `session` is the dialogue, `wire` reads lines and batches replies, `command`
//! and `data` are the two grammars, `reply` is everything that a peer can ever read.
//!
//! Absent on purpose: STARTTLS, AUTH and CHUNKING are not offered (502), and no `Received` header is written in
//! front of a letter: its bytes are stored exactly as they came, the envelope stands beside them.

mod command;
mod data;
mod listener;
mod reply;
mod session;
mod wire;

pub use data::LetterMemory;
pub use listener::serve;
pub use session::{House, converse};

use crate::config::{Gateway, Limits};

/// What a listener is told.
#[derive(Debug, Clone)]
pub struct SmtpSettings {
    /// Our name in the greeting and in the answer to EHLO.
    pub host_name: String,
    /// Where `RCPT TO:<postmaster>`, the one address without a domain, is at home (RFC 5321 section 4.1.1.3).
    pub mail_domain: String,
    pub limits: Limits,
    /// Bytes of unfinished letters that all connections together may hold; beyond it, 452.
    pub letters_in_memory_bytes_max: usize,
}

impl SmtpSettings {
    pub fn new(gateway: &Gateway, limits: &Limits) -> Self {
        /// A handful of letters of the largest kind, or many thousands of ordinary ones.
        const LARGEST_LETTERS_AT_ONCE: usize = 3;
        Self {
            host_name: gateway.host_name.clone(),
            mail_domain: gateway.mail_domain.clone(),
            limits: limits.clone(),
            letters_in_memory_bytes_max: limits.letter_bytes_max.saturating_mul(LARGEST_LETTERS_AT_ONCE),
        }
    }
}
