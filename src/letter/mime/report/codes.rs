//! SMTP reply codes and enhanced status codes, found in running text.

use std::fmt;

/// An enhanced status code (RFC 3463): class 2, 4 or 5, subject and detail of one to three digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) class: u16,
    pub(super) subject: u16,
    pub(super) detail: u16,
}

impl Status {
    /// Parses a code that stands alone, such as `5.1.1`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<u16> = text.split('.').map(number).collect::<Option<_>>()?;
        match numbers.as_slice() {
            &[class @ (2 | 4 | 5), subject, detail] => Some(Self {
                class,
                subject,
                detail,
            }),
            _ => None,
        }
    }
    /// Reports whether the code says more than its class, unlike `x.0.0`.
    pub(super) fn is_specific(self) -> bool {
        (self.subject, self.detail) != (0, 0)
    }
    pub(super) fn is_temporary(self) -> bool {
        self.class == 4
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

fn number(digits: &str) -> Option<u16> {
    let is_number = (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns the first failing status in a text, preferably a specific one. `2.x.x` is no reason for
/// a report.
pub(super) fn find_status(text: &str) -> Option<Status> {
    let found = words(text).filter_map(|word| {
        // `550-5.1.1`: a line of a longer reply.
        let word = word
            .split_once('-')
            .filter(|(code, _)| reply_code(code).is_some())
            .map_or(word, |(_, w)| w);
        let end = word
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(word.len());
        let ends_word = !word[end..].starts_with(|c: char| c.is_alphanumeric());
        Status::parse(word[..end].trim_end_matches('.'))
            .filter(|status| ends_word && status.class != 2)
    });
    let found: Vec<Status> = found.collect();
    found
        .iter()
        .find(|status| status.is_specific())
        .or(found.first())
        .copied()
}

/// Returns the first reply code from 400 to 599 in a text.
pub(super) fn find_code(text: &str) -> Option<u16> {
    words(text).find_map(|word| {
        let end = word
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(word.len());
        let follows = word[end..].chars().next();
        let ends_word = follows
            .is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '/' | '%'))
            || word[end..].starts_with(". ")
            || &word[end..] == ".";
        reply_code(&word[..end]).filter(|_| ends_word)
    })
}

/// Parses a reply code; by RFC 5321 section 4.2 the second digit is 0 to 5.
fn reply_code(text: &str) -> Option<u16> {
    let code = number(text).filter(|_| text.len() == 3)?;
    (matches!(code, 400..=599) && code / 10 % 10 <= 5).then_some(code)
}

/// Returns the words without brackets and signs before them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
        .map(|word| word.trim_start_matches(|c: char| !c.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_where_systems_write_them() {
        let rows = [
            (
                "550 5.1.1 <a@b.test>... User Unknown",
                Some(550),
                Some("5.1.1"),
            ),
            (
                "sorry, no mailbox here by that name (#5.1.1 - chkusr)",
                None,
                Some("5.1.1"),
            ),
            ("550-5.7.26 unauthenticated", Some(550), Some("5.7.26")),
            (
                "host mx.b.test[192.0.2.1] said: 452 4.2.2 full",
                Some(452),
                Some("4.2.2"),
            ),
            ("501 refused: 5.7.1 this system", Some(501), Some("5.7.1")),
            ("220-mx.b.test 421 4.2.1 later", Some(421), Some("4.2.1")),
            ("ERROR_CODE :421, later", Some(421), None),
            (
                "554 5.0.0 Service unavailable 5.4.6 hops",
                Some(554),
                Some("5.4.6"),
            ),
            (
                "returned '550 5.4.316 Message expired'",
                Some(550),
                Some("5.4.316"),
            ),
            ("250 2.1.5 Ok", None, None),
            (
                "[192.30.252.153: socket error] 4.80 599999 570 490",
                None,
                None,
            ),
            ("smtp 5.1.1beta 500px 450/day 4.2.1.7", None, None),
        ];
        for (text, code, status) in rows {
            assert_eq!(find_code(text), code, "{text}");
            assert_eq!(
                find_status(text).map(|s| s.to_string()).as_deref(),
                status,
                "{text}"
            );
        }
    }
}
