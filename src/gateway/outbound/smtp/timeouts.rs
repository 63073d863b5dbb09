//! Timeouts of each phase of RFC 5321.

use std::time::Duration;

/// Timeouts. The defaults are those of RFC 5321 section 4.5.3.2, with which slow but correct
/// servers cause no false alarms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmtpTimeouts {
    /// Name lookup and TCP connect; not in the RFC, Postfix's default.
    pub connect: Duration,
    /// Greeting and EHLO together (lettre offers them as one step), and the TLS handshake.
    pub greeting: Duration,
    /// STARTTLS, AUTH, MAIL, RCPT, RSET.
    pub command: Duration,
    /// DATA until 354.
    pub data: Duration,
    /// Each block of the mail.
    pub data_block: Duration,
    /// Final dot until the reply. A shorter timeout causes duplicates (RFC 1047).
    pub data_done: Duration,
    /// QUIT; its reply does not matter.
    pub quit: Duration,
}

impl Default for SmtpTimeouts {
    fn default() -> Self {
        let minutes = |n: u64| Duration::from_secs(n * 60);
        Self {
            connect: Duration::from_secs(30),
            greeting: minutes(5),
            command: minutes(5),
            data: minutes(2),
            data_block: minutes(3),
            data_done: minutes(10),
            quit: Duration::from_secs(2),
        }
    }
}
