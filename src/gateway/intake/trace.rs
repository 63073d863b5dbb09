//! The `Received` field of a letter (RFC 5321 section 4.4). It is stored separately, not in front
//! of the bytes.

use crate::domain::{Envelope, MessageId, Timestamp, Via};
use std::fmt::Write;

/// Formats the field, folded, with its last CRLF.
pub(super) fn received(
    envelope: &Envelope,
    host_name: &str,
    message: &MessageId,
    now: Timestamp,
) -> String {
    let mut field = String::with_capacity(320);
    let date = now.to_utc().format("%a, %d %b %Y %H:%M:%S +0000");
    // Writing into a string cannot fail.
    let _ = match protocol(envelope) {
        Some(protocol) => {
            let from = client(envelope);
            write!(
                field,
                "Received: from {from}\r\n by {host_name} (Attache) with {protocol} id {message}"
            )
        }
        None => {
            let via = envelope.via.as_str();
            write!(
                field,
                "Received: by {host_name} (Attache, from: {via}) id {message}"
            )
        }
    };
    // With several recipients it would disclose the others to each of them (RFC 5321 section 7.2).
    let _ = match envelope.rcpt_to.as_slice() {
        [only] => write!(field, "\r\n for <{only}>; {date}\r\n"),
        _ => write!(field, ";\r\n {date}\r\n"),
    };
    field
}

/// The keyword of RFC 3848; `None` for sources without a dialogue.
fn protocol(envelope: &Envelope) -> Option<&'static str> {
    let arrival = &envelope.arrival;
    Some(
        match (
            envelope.via,
            arrival.extended,
            arrival.encrypted,
            arrival.submitted_by.is_some(),
        ) {
            (Via::Lmtp, _, false, _) => "LMTP",
            (Via::Lmtp, _, true, _) => "LMTPS",
            (Via::Smtp, false, _, _) => "SMTP",
            (Via::Smtp, true, false, _) => "ESMTP",
            (Via::Smtp, true, true, false) => "ESMTPS",
            (Via::Smtp, true, true, true) => "ESMTPSA",
            (Via::Http | Via::Imap | Via::Folder | Via::File | Via::Import, ..) => return None,
        },
    )
}

/// Formats the client's HELO name and its address. The name is untrusted, so only characters of
/// names and addresses are kept: it can neither end a comment nor begin one.
fn client(envelope: &Envelope) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    let mut name: String = envelope
        .helo
        .chars()
        .map(|c| if harmless(c) { c } else { '?' })
        .collect();
    if name.is_empty() {
        name.push_str("unknown");
    }
    match envelope.peer {
        None => name,
        Some(std::net::IpAddr::V4(v4)) => format!("{name} ([{v4}])"),
        Some(std::net::IpAddr::V6(v6)) => format!("{name} ([IPv6:{v6}])"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Address, Arrival};

    fn field(change: impl FnOnce(&mut Envelope)) -> String {
        let address = |text: &str| Address::parse(text).unwrap();
        let mut envelope = Envelope {
            mail_from: Some(address("bob@guest.example")),
            rcpt_to: vec![address("ada@engine.test")],
            helo: "mx.guest.example".to_owned(),
            peer: Some("192.0.2.7".parse().unwrap()),
            via: Via::Smtp,
            arrival: Arrival {
                extended: true,
                ..Arrival::default()
            },
        };
        change(&mut envelope);
        let now = Timestamp::parse("2026-11-20T09:00:00.123Z").unwrap();
        received(&envelope, "mail.engine.test", &MessageId::new("0199"), now)
    }

    #[test]
    fn the_field_says_who_handed_the_letter_to_whom_how_and_when() {
        assert_eq!(
            field(|_| ()),
            "Received: from mx.guest.example ([192.0.2.7])\r\n by mail.engine.test (Attache) with ESMTP id 0199\r\n \
             for <ada@engine.test>; Fri, 20 Nov 2026 09:00:00 +0000\r\n"
        );
        let owner = Address::parse("olga@home.test").unwrap();
        let changed = field(|envelope| {
            envelope.rcpt_to.push(owner.clone());
            envelope.peer = Some("2001:db8::7".parse().unwrap());
            envelope.arrival.encrypted = true;
            envelope.arrival.submitted_by = Some(owner.clone());
        });
        assert_eq!(
            changed,
            "Received: from mx.guest.example ([IPv6:2001:db8::7])\r\n by mail.engine.test (Attache) with ESMTPSA id \
             0199;\r\n Fri, 20 Nov 2026 09:00:00 +0000\r\n"
        );
        let by_folder = field(|envelope| envelope.via = Via::Folder);
        assert!(by_folder.starts_with(
            "Received: by mail.engine.test (Attache, from: folder) id 0199\r\n for <"
        ));
    }

    #[test]
    fn every_way_has_its_keyword() {
        let with = |via, extended, encrypted| {
            let field = field(|envelope| {
                envelope.via = via;
                envelope.arrival = Arrival {
                    extended,
                    encrypted,
                    ..Arrival::default()
                };
            });
            field
                .split("with ")
                .nth(1)
                .and_then(|rest| rest.split(' ').next())
                .unwrap()
                .to_owned()
        };
        assert_eq!(with(Via::Smtp, false, false), "SMTP");
        assert_eq!(with(Via::Smtp, true, true), "ESMTPS");
        assert_eq!(with(Via::Lmtp, true, false), "LMTP");
        assert_eq!(with(Via::Lmtp, true, true), "LMTPS");
    }

    #[test]
    fn a_client_cannot_write_into_the_field_by_its_name() {
        for helo in ["x)\u{e4}; (by evil", "a b", "<a>\"b\\", ""] {
            let field = field(|envelope| envelope.helo = helo.to_owned());
            let (from, rest) = field.split_once(" ([192.0.2.7])\r\n by ").unwrap();
            let name = from.strip_prefix("Received: from ").unwrap();
            assert!(
                !name.is_empty() && !name.contains([' ', '(', ')', ';', '"', '\\', '<']),
                "{name}"
            );
            assert_eq!(rest.matches("\r\n").count(), 2);
            assert!(field.is_ascii());
        }
    }
}
