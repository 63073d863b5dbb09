//! Command lines (RFC 5321 section 4.1.1 and the parameters of our extensions). Pure.
//!
//! `smtp-proto` is not used here: it parses `<>` and `<postmaster>` as the same empty address, lets
//! an oversized `SIZE` wrap around to a small one, strips the quotes of local parts, and reads
//! `DATA x` as `DATA`.

use super::reply::{self, Reply};
use crate::domain::Address;

/// One well-formed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SmtpCommand {
    Helo(String),
    Ehlo(String),
    /// LMTP's EHLO (RFC 2033 section 4.1).
    Lhlo(String),
    Mail(Mail),
    Rcpt(Recipient),
    Data,
    Rset,
    Noop,
    Help,
    Vrfy,
    Quit,
    StartTls,
    Auth(Auth),
    /// An SMTP command that is not offered.
    NotOffered,
    /// An HTTP request: a browser, or a script in a browser, that uses the wrong port.
    Http,
}

/// `AUTH mechanism [initial response]` (RFC 4954 section 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    pub mechanism: Option<AuthMechanism>,
    /// Base64 as received; `=` stands for an empty response.
    pub initial: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMechanism {
    Plain,
    Login,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// `None` is the null reverse-path `<>`.
    pub from: Option<EnvelopeMailbox>,
    /// `SIZE=`, saturated.
    pub declared_bytes: Option<usize>,
    /// `true`: `AUTH=` was given; its value is not trusted (RFC 4954 section 5).
    pub has_auth: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// `<postmaster>`, the only recipient without a domain.
    Postmaster,
    Mailbox(EnvelopeMailbox),
}

/// A mailbox by RFC 5321 section 4.1.2, which permits more than an [`Address`]: quoted, literal,
/// UTF-8.
///
/// A source route in front of it is dropped (appendix C: servers should ignore it).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvelopeMailbox {
    /// Without quotes and escapes.
    local: String,
    domain: String,
}

impl EnvelopeMailbox {
    /// The address that can be routed and compared, if the mailbox has one.
    pub fn address(&self) -> Option<Address> {
        if self.local.contains(['@', '"']) {
            return None; // quoted; `Address` has no such local part
        }
        Address::parse_lenient(&format!("\"{}\"@{}", self.local, self.domain)).ok()
    }
    pub fn is_ascii(&self) -> bool {
        self.local.is_ascii() && self.domain.is_ascii()
    }
    /// An arbitrary legal address in the same domain, for checking that the domain is ours.
    pub fn neighbour(&self) -> Option<Address> {
        Address::parse(&format!("postmaster@{}", self.domain)).ok()
    }
    /// Reports whether the local part names another host: `user%host`, `host!user`, `"user@host"`,
    /// which are old requests for relaying.
    pub fn asks_for_relay(&self) -> bool {
        self.local.contains(['%', '!', '@', ':'])
    }
}

impl std::fmt::Display for EnvelopeMailbox {
    /// Formats for display: control characters and non-ASCII characters are escaped.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}@{}",
            self.local.escape_default(),
            self.domain.escape_default()
        )
    }
}

/// Maximum bytes of a path with its brackets (RFC 5321 section 4.5.3.1.3).
const PATH_BYTES_MAX: usize = 256;

const HTTP_VERBS: &[&str] = &[
    "GET", "POST", "HEAD", "PUT", "OPTIONS", "DELETE", "CONNECT", "PATCH", "TRACE", "PRI",
];

/// Parses one line, given without its CRLF. The error is the reply to the peer.
pub fn parse(line: &[u8]) -> Result<SmtpCommand, Reply> {
    let text = std::str::from_utf8(line).map_err(|_| reply::BAD_BYTES)?;
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(reply::BAD_BYTES);
    }
    // RFC 5321 section 4.1.1 asks to tolerate trailing white space.
    let text = text.trim_end_matches([' ', '\t']);
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim_start_matches(' ');
    let bare = |command: SmtpCommand| {
        if rest.is_empty() {
            Ok(command)
        } else {
            Err(reply::NO_ARGUMENT)
        }
    };
    match verb.to_ascii_uppercase().as_str() {
        "HELO" => host_name(rest).map(SmtpCommand::Helo),
        "EHLO" => host_name(rest).map(SmtpCommand::Ehlo),
        "LHLO" => host_name(rest).map(SmtpCommand::Lhlo),
        "STARTTLS" => bare(SmtpCommand::StartTls),
        "AUTH" => auth(rest).map(SmtpCommand::Auth),
        "MAIL" => mail(rest).map(SmtpCommand::Mail),
        "RCPT" => rcpt(rest).map(SmtpCommand::Rcpt),
        "DATA" => bare(SmtpCommand::Data),
        "RSET" => bare(SmtpCommand::Rset),
        "QUIT" => bare(SmtpCommand::Quit),
        "NOOP" => Ok(SmtpCommand::Noop),
        "HELP" => Ok(SmtpCommand::Help),
        "VRFY" if rest.is_empty() => Err(reply::NEEDS_ARGUMENT),
        "VRFY" => Ok(SmtpCommand::Vrfy),
        "EXPN" | "ETRN" | "ATRN" | "TURN" | "SEND" | "SOML" | "SAML" | "BDAT" | "BURL"
        | "XCLIENT" | "XFORWARD" => Ok(SmtpCommand::NotOffered),
        verb if HTTP_VERBS.contains(&verb) => Ok(SmtpCommand::Http),
        _ => Err(reply::UNKNOWN_COMMAND),
    }
}

/// Name in HELO or EHLO. Any printable word is accepted, because real clients send arbitrary names;
/// only the first word is kept.
fn host_name(rest: &str) -> Result<String, Reply> {
    match rest.split(' ').next() {
        Some(name) if !name.is_empty() && name.len() <= 255 => Ok(name.to_owned()),
        _ => Err(reply::NEEDS_NAME),
    }
}

fn auth(rest: &str) -> Result<Auth, Reply> {
    let mut words = rest.split(' ').filter(|word| !word.is_empty());
    let mechanism = words.next().ok_or(reply::NEEDS_ARGUMENT)?;
    let initial = words.next().map(str::to_owned);
    if words.next().is_some() {
        return Err(reply::BAD_PARAMETER);
    }
    let known = [
        ("PLAIN", AuthMechanism::Plain),
        ("LOGIN", AuthMechanism::Login),
    ];
    let known = known
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(mechanism));
    Ok(Auth {
        mechanism: known.map(|(_, mechanism)| mechanism),
        initial,
    })
}

fn mail(rest: &str) -> Result<Mail, Reply> {
    let (path, parameters) = path_after("FROM:", rest).ok_or(reply::BAD_SENDER_SYNTAX)?;
    let from = match path {
        "" => None,
        path => Some(mailbox(path).ok_or(reply::BAD_SENDER_SYNTAX)?),
    };
    let mut mail = Mail {
        from,
        declared_bytes: None,
        has_auth: false,
    };
    let mut seen: Vec<String> = Vec::new();
    for parameter in parameters.split(' ').filter(|p| !p.is_empty()) {
        let (key, value) = match parameter.split_once('=') {
            Some((key, value)) => (key.to_ascii_uppercase(), Some(value)),
            None => (parameter.to_ascii_uppercase(), None),
        };
        if seen.contains(&key) {
            return Err(reply::BAD_PARAMETER);
        }
        match (key.as_str(), value) {
            ("SIZE", Some(digits)) => mail.declared_bytes = Some(size(digits)?),
            // RFC 6152; a 7BIT letter with 8-bit bytes is stored unchanged, as everywhere else.
            ("BODY", Some(body))
                if ["7BIT", "8BITMIME"]
                    .iter()
                    .any(|b| body.eq_ignore_ascii_case(b)) => {}
            ("AUTH", Some(value)) if is_xtext(value) => mail.has_auth = true,
            ("SIZE" | "BODY" | "AUTH", _) => return Err(reply::BAD_PARAMETER),
            _ => return Err(reply::UNKNOWN_PARAMETER),
        }
        seen.push(key);
    }
    if mail.from.as_ref().is_some_and(|from| !from.is_ascii()) {
        return Err(reply::NOT_ASCII);
    }
    Ok(mail)
}

/// Reports whether a text is xtext (RFC 3461 section 4): printable ASCII, where `+` begins two
/// upper-case hexadecimal digits.
fn is_xtext(text: &str) -> bool {
    let is_hex =
        |digit: Option<u8>| digit.is_some_and(|d| d.is_ascii_digit() || (b'A'..=b'F').contains(&d));
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let is_good = match byte {
            b'+' => is_hex(bytes.next()) && is_hex(bytes.next()),
            byte => byte.is_ascii_graphic() && byte != b'=',
        };
        if !is_good {
            return false;
        }
    }
    !text.is_empty()
}

/// Parses `SIZE`. RFC 1870 permits 20 digits, which may exceed 64 bits; a larger number is too
/// large in any case.
fn size(digits: &str) -> Result<usize, Reply> {
    if digits.is_empty() || digits.len() > 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(reply::BAD_PARAMETER);
    }
    Ok(digits.parse().unwrap_or(usize::MAX))
}

fn rcpt(rest: &str) -> Result<Recipient, Reply> {
    let (path, parameters) = path_after("TO:", rest).ok_or(reply::BAD_RECIPIENT_SYNTAX)?;
    let recipient = if path.eq_ignore_ascii_case("postmaster") {
        Recipient::Postmaster
    } else {
        Recipient::Mailbox(mailbox(path).ok_or(reply::BAD_RECIPIENT_SYNTAX)?)
    };
    // The parameters of RCPT belong to DSN, which is not offered.
    if parameters.is_empty() {
        Ok(recipient)
    } else {
        Err(reply::UNKNOWN_PARAMETER)
    }
}

/// Splits `FROM:<path> parameters` into the path, without its brackets, and the parameters.
///
/// White space after the colon is not in the grammar, but many clients send it and it is
/// unambiguous.
fn path_after<'a>(keyword: &str, rest: &'a str) -> Option<(&'a str, &'a str)> {
    let head = rest.get(..keyword.len())?;
    let rest = rest[keyword.len()..].trim_start_matches(' ');
    let inner = rest
        .strip_prefix('<')
        .filter(|_| head.eq_ignore_ascii_case(keyword))?;
    let end = find_outside_quotes(inner, '>')?;
    let (path, behind) = (&inner[..end], &inner[end + 1..]);
    let separated = behind.is_empty() || behind.starts_with(' ');
    (separated && path.len() + 2 <= PATH_BYTES_MAX).then(|| (path, behind.trim_start_matches(' ')))
}

fn mailbox(path: &str) -> Option<EnvelopeMailbox> {
    let path = match path.strip_prefix('@') {
        None => path,
        Some(route) => route.split_once(':')?.1,
    };
    let at = match path.starts_with('"') {
        true => find_outside_quotes(path, '@')?,
        false => path.rfind('@')?,
    };
    let (local, domain) = (&path[..at], &path[at + 1..]);
    let local = match local.strip_prefix('"') {
        Some(quoted) => unquote(quoted.strip_suffix('"')?),
        None if local.contains(|c: char| "\"\\()<>,;:[]".contains(c) || c.is_whitespace()) => {
            return None;
        }
        None => local.to_owned(),
    };
    let literal = domain.starts_with('[') && domain.ends_with(']');
    let name = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || c == '-' || c == '.';
    let legal_domain =
        literal || (!domain.is_empty() && domain.chars().all(name) && !domain.contains(".."));
    (!local.is_empty() && legal_domain).then(|| EnvelopeMailbox {
        local,
        domain: domain.to_owned(),
    })
}

/// Offset of the first `wanted` outside of a quoted string (RFC 5321 section 4.1.2, Quoted-string).
fn find_outside_quotes(text: &str, wanted: char) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == wanted && !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

fn unquote(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(line: &str) -> Result<Option<String>, Reply> {
        match parse(line.as_bytes())? {
            SmtpCommand::Mail(mail) => Ok(mail.from.map(|m| format!("{}|{}", m.local, m.domain))),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn paths_are_read_by_the_grammar_and_nothing_is_guessed() {
        for (path, local_domain) in [
            ("<a@b.test>", "a|b.test"),
            (" <a@b.test>", "a|b.test"),
            ("<@x.test,@y.test:a@b.test>", "a|b.test"),
            (r#"<"a"@b.test>"#, "a|b.test"),
            (r#"<"a@evil.test"@b.test>"#, "a@evil.test|b.test"),
            (r#"<"a>b\"c"@b.test>"#, r#"a>b"c|b.test"#),
            ("<a@[127.0.0.1]>", "a|[127.0.0.1]"),
            ("<a%c@b.test>", "a%c|b.test"),
        ] {
            assert_eq!(
                sender(&format!("mail from:{path}")),
                Ok(Some(local_domain.into())),
                "{path}"
            );
        }
        assert_eq!(sender("MAIL FROM:<>"), Ok(None));
        for path in [
            "",
            "<",
            ">",
            "a@b.test",
            "<a@b.test",
            "<a@b.test>>",
            "<a@b.test>x",
            "<a>",
            "<@>",
            "<a@>",
            "<@b.test>",
            "<@x.test:a@>",
            "<a b@c.test>",
            "<a@b c>",
            "<\"a@b.test>",
            "<a@b..test>",
            "<<a@b.test>>",
            "<postmaster>",
            "<a@b.test\u{0}>",
            "<a@b@c.test >",
        ] {
            assert!(sender(&format!("MAIL FROM:{path}")).is_err(), "{path:?}");
        }
        let long = format!("MAIL FROM:<{}@b.test>", "a".repeat(250));
        assert_eq!(sender(&long), Err(reply::BAD_SENDER_SYNTAX));
    }

    #[test]
    fn a_size_never_wraps_around() {
        let size = |text: &str| match parse(format!("MAIL FROM:<> SIZE={text}").as_bytes()) {
            Ok(SmtpCommand::Mail(mail)) => Ok(mail.declared_bytes),
            Ok(other) => panic!("{other:?}"),
            Err(reply) => Err(reply),
        };
        assert_eq!(size("0"), Ok(Some(0)));
        assert_eq!(size("500000"), Ok(Some(500_000)));
        assert_eq!(size("18446744073709551616"), Ok(Some(usize::MAX)));
        assert_eq!(size("99999999999999999999"), Ok(Some(usize::MAX)));
        for bad in ["", "-1", "+1", "1k", "0x10", "184467440737095516160"] {
            assert_eq!(size(bad), Err(reply::BAD_PARAMETER), "{bad}");
        }
    }
}
