//! Formats strings, folder names and sets of UIDs for an IMAP server.

use base64::Engine;
use base64::alphabet::IMAP_MUTF7;
use base64::engine::{GeneralPurpose, general_purpose::NO_PAD};

/// Quotes a string (RFC 9051 section 4.3). The caller guarantees that it is one line of ASCII.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A folder's name in the modified UTF-7 of RFC 3501 section 5.1.3, which every server supports,
/// quoted.
pub(super) fn folder(name: &str) -> String {
    let modified_base64 = GeneralPurpose::new(&IMAP_MUTF7, NO_PAD);
    let mut out = String::new();
    let mut foreign: Vec<u8> = Vec::new();
    let flush = |foreign: &mut Vec<u8>, out: &mut String| {
        if !foreign.is_empty() {
            out.push('&');
            out.push_str(&modified_base64.encode(&*foreign));
            out.push('-');
            foreign.clear();
        }
    };
    for c in name.chars() {
        if (' '..='~').contains(&c) {
            flush(&mut foreign, &mut out);
            out.push(c);
            if c == '&' {
                out.push('-');
            }
        } else {
            let mut units = [0; 2];
            foreign.extend(
                c.encode_utf16(&mut units)
                    .iter()
                    .flat_map(|unit| unit.to_be_bytes()),
            );
        }
    }
    flush(&mut foreign, &mut out);
    quoted(&out)
}

/// Formats a set of UIDs such as `3:5,9` (RFC 9051 section 9, `sequence-set`); `uids` ascend.
pub(super) fn uid_set(uids: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &uid in uids {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(uid) => *last = uid,
            _ => ranges.push((uid, uid)),
        }
    }
    let formatted = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}:{last}"),
    });
    formatted.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_names_are_formatted_as_servers_want_them() {
        // The last two are examples of RFC 3501 section 5.1.3 and RFC 2152.
        let cases = [
            ("INBOX", "\"INBOX\""),
            ("a \"b\" \\c", "\"a \\\"b\\\" \\\\c\""),
            ("Q&A", "\"Q&-A\""),
            ("Entwürfe", "\"Entw&APw-rfe\""),
            (
                "~peter/mail/台北/日本語",
                "\"~peter/mail/&U,BTFw-/&ZeVnLIqe-\"",
            ),
            ("😀", "\"&2D3eAA-\""),
        ];
        for (name, formatted) in cases {
            assert_eq!(folder(name), formatted);
        }
    }

    #[test]
    fn neighbours_become_ranges() {
        assert_eq!(
            uid_set(&[1, 2, 3, 5, 9, 10, u32::MAX]),
            "1:3,5,9:10,4294967295"
        );
        assert_eq!(uid_set(&[7]), "7");
    }
}
