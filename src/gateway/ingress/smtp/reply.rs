//! Every code and sentence that a peer can receive.
//!
//! The texts are `&'static str`, so that no value of ours can leak into one. The only values that a
//! peer receives are our own host name and the SIZE limit, in the greeting and in the reply to
//! EHLO.

use crate::config::ListenerKind;

/// One reply line: RFC 5321 code, RFC 3463 status, sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub code: u16,
    /// Empty for 334 and 354, which have none (RFC 2034 section 4: only classes 2, 4 and 5).
    pub status: &'static str,
    pub text: &'static str,
}

impl Reply {
    const fn new(code: u16, status: &'static str, text: &'static str) -> Self {
        Self { code, status, text }
    }
    /// Reports whether this is a 5yz reply: an error of the peer, which counts towards the error
    /// limit of its session.
    pub fn is_permanent_failure(self) -> bool {
        self.code >= 500
    }
    /// Appends the line including its CRLF.
    pub fn write_to(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.code.to_string().as_bytes());
        out.push(b' ');
        if !self.status.is_empty() {
            out.extend_from_slice(self.status.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(self.text.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes the greeting; it has no status code (RFC 2034 section 4).
pub fn write_greeting(host_name: &str, kind: ListenerKind, out: &mut Vec<u8>) {
    let protocol = match kind {
        ListenerKind::Smtp => "ESMTP",
        ListenerKind::Lmtp => "LMTP",
    };
    out.extend_from_slice(format!("220 {host_name} {protocol}\r\n").as_bytes());
}

/// Writes the reply to HELO.
pub fn write_helo(host_name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("250 {host_name}\r\n").as_bytes());
}

/// Extensions in the reply to EHLO or LHLO that depend on the listener.
#[derive(Debug, Clone, Copy)]
pub struct Extensions {
    /// The largest letter in bytes (RFC 1870).
    pub letter_bytes_max: usize,
    pub starttls: bool,
    pub auth: bool,
}

/// Writes the reply to EHLO or LHLO. CHUNKING is missing: a letter has one way to end. So is
/// SMTPUTF8, because no address beyond ASCII is served (decision D-06); a client then reports it to
/// its sender at once (RFC 6531 section 3.5).
pub fn write_ehlo(host_name: &str, extensions: Extensions, out: &mut Vec<u8>) {
    let lines = format!(
        "250-{host_name}\r\n250-PIPELINING\r\n250-SIZE {}\r\n250-8BITMIME\r\n{}{}\
         250 ENHANCEDSTATUSCODES\r\n",
        extensions.letter_bytes_max,
        if extensions.starttls {
            "250-STARTTLS\r\n"
        } else {
            ""
        },
        if extensions.auth {
            "250-AUTH PLAIN LOGIN\r\n"
        } else {
            ""
        },
    );
    out.extend_from_slice(lines.as_bytes());
}

macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident = $code:literal $status:literal $text:literal;)+) => {
        $($(#[$doc])* pub const $name: Reply = Reply::new($code, $status, $text);)+
        /// Every reply, for the test below.
        #[cfg(test)]
        const ALL: &[Reply] = &[$($name),+];
    };
}

replies! {
    HELP = 214 "2.0.0" "see RFC 5321";
    READY_FOR_TLS = 220 "2.0.0" "go ahead";
    LOGGED_IN = 235 "2.7.0" "welcome";
    BYE = 221 "2.0.0" "bye";
    OK = 250 "2.0.0" "ok";
    SENDER_OK = 250 "2.1.0" "sender ok";
    RECIPIENT_OK = 250 "2.1.5" "recipient ok";
    /// Sent after the commit, never before. Also for a letter that was stored before: the peer may
    /// forget it.
    STORED = 250 "2.0.0" "stored";
    /// RFC 5321 section 3.5.3: neither confirm nor deny.
    CANNOT_VERIFY = 252 "2.5.0" "cannot verify, send and see";
    /// Base64 of `Username:` and `Password:`, as every client of LOGIN expects it; PLAIN has no
    /// prompt.
    ASK_PLAIN = 334 "" "";
    ASK_USER = 334 "" "VXNlcm5hbWU6";
    ASK_PASSWORD = 334 "" "UGFzc3dvcmQ6";
    SEND_LETTER = 354 "" "end the letter with <CRLF>.<CRLF>";

    SHUTTING_DOWN = 421 "4.3.2" "shutting down, try again later";
    TOO_SLOW = 421 "4.4.2" "the letter comes too slowly";
    IDLE_TOO_LONG = 421 "4.4.2" "idle for too long";
    SESSION_TOO_LONG = 421 "4.4.2" "connected for too long";
    TOO_MANY_CONNECTIONS = 421 "4.7.0" "too many connections, try again later";
    TOO_MANY_ERRORS = 421 "4.7.0" "too many errors";
    NOT_HTTP = 421 "4.7.0" "this is a mail server";
    TOO_MANY_LOGINS = 421 "4.7.0" "too many failed logins";
    LOCKED_OUT = 454 "4.7.0" "too many failed logins, try again later";
    OUT_OF_SERVICE = 450 "4.2.1" "the mailbox is out of service, try again later";
    NOT_STORED = 451 "4.3.0" "could not be stored, try again later";
    CANNOT_VERIFY_NOW = 451 "4.7.0" "the sender cannot be verified now, try again later";
    NO_ROOM = 452 "4.3.1" "no room for letters, try again later";
    TOO_MANY_RECIPIENTS = 452 "4.5.3" "too many recipients, send the rest in another transaction";

    AUTH_LINE_TOO_LONG = 500 "5.5.6" "authentication line too long";
    LHLO_ONLY = 500 "5.5.1" "this is LMTP, say LHLO";
    UNKNOWN_COMMAND = 500 "5.5.2" "unknown command";
    BAD_BYTES = 500 "5.5.2" "a command is printable text";
    LINE_TOO_LONG = 500 "5.5.2" "line too long";
    BARE_NEWLINE_IN_COMMAND = 500 "5.5.2" "lines end with <CRLF> only, closing";
    NEEDS_NAME = 501 "5.5.4" "give your host name";
    NEEDS_ARGUMENT = 501 "5.5.4" "argument missing";
    NO_ARGUMENT = 501 "5.5.4" "this command takes no argument";
    BAD_PARAMETER = 501 "5.5.4" "bad parameter";
    BAD_SENDER_SYNTAX = 501 "5.1.7" "syntax: MAIL FROM:<address>";
    BAD_RECIPIENT_SYNTAX = 501 "5.1.3" "syntax: RCPT TO:<address>";
    AUTH_CANCELLED = 501 "5.7.0" "authentication cancelled";
    BAD_AUTH_SYNTAX = 501 "5.5.2" "cannot decode that";
    NOT_OFFERED = 502 "5.5.1" "command not offered";
    HELLO_FIRST = 503 "5.5.1" "say EHLO first";
    LHLO_FIRST = 503 "5.5.1" "say LHLO first";
    EHLO_FIRST = 503 "5.5.1" "say EHLO first, not HELO";
    TLS_ALREADY = 503 "5.5.1" "this is TLS already";
    LOGGED_IN_ALREADY = 503 "5.5.1" "you have logged in already";
    NOT_IN_TRANSACTION = 503 "5.5.1" "not inside a transaction";
    MAIL_FIRST = 503 "5.5.1" "say MAIL first";
    MAIL_AGAIN = 503 "5.5.1" "a transaction is open already";
    NO_RECIPIENT = 503 "5.5.1" "no recipient was accepted";
    UNKNOWN_MECHANISM = 504 "5.5.4" "unknown authentication mechanism";
    WRONG_LOGIN = 535 "5.7.8" "wrong user or password";
    TLS_FIRST = 538 "5.7.11" "say STARTTLS first";
    NOBODY_HERE = 550 "5.1.1" "no such recipient here";
    NO_RELAY = 550 "5.7.1" "we relay for nobody";
    SENDER_DENIED = 550 "5.7.1" "not accepted";
    TOO_LARGE = 552 "5.3.4" "letter too large";
    SENDER_NOT_USABLE = 553 "5.1.7" "cannot answer to this kind of sender address";
    NOT_ASCII = 553 "5.6.7" "only ASCII addresses are served here";
    SPOKE_FIRST = 554 "5.5.1" "you spoke before I did";
    HOSTILE = 554 "5.6.0" "letter not acceptable";
    LETTER_LINE_TOO_LONG = 554 "5.6.0" "the letter has a line that is too long";
    NUL_IN_LETTER = 554 "5.6.0" "the letter has a NUL byte, closing";
    /// Postfix and chasquid use this status too; the connection ends, so that no following byte is
    /// read as a command.
    BARE_NEWLINE = 554 "5.5.2" "the letter has a bare <CR> or <LF>, closing";
    UNKNOWN_PARAMETER = 555 "5.5.4" "parameter not recognised";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_is_a_short_ascii_line_with_the_class_of_its_code() {
        for (i, reply) in ALL.iter().enumerate() {
            let mut line = Vec::new();
            reply.write_to(&mut line);
            assert!(line.len() <= 512, "{reply:?}: RFC 5321 section 4.5.3.1.5");
            let (text, end) = line.split_at(line.len() - 2);
            assert_eq!(end, b"\r\n");
            assert!(text.iter().all(|b| (b' '..=b'~').contains(b)), "{reply:?}");
            assert!((200..=599).contains(&reply.code));
            if reply.status.is_empty() {
                assert!([334, 354].contains(&reply.code));
            } else {
                assert_eq!(
                    reply.status.as_bytes()[0],
                    b'0' + u8::try_from(reply.code / 100).unwrap()
                );
                assert_eq!(reply.status.split('.').count(), 3);
            }
            assert!(!ALL[..i].contains(reply), "{reply:?} is listed twice");
        }
    }
}
