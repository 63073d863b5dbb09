//! Bounces in prose: qmail, Exim, older Exchange and Domino, appliances, home-made ones.
//!
//! A letter is taken for a bounce when its sender or its subject looks like a bounce, and its text
//! says so too. Recipients are the addresses where all these programs put them: at the front of a
//! line, or after a word such as `to`; the text about a recipient follows the address.

use super::codes::{find_code, find_status};
use super::{Mention, RECIPIENTS_MAX, Read, ReportLetter, one_line};
use crate::domain::{Address, ReportAction, ReportKind};
use crate::text::truncated;

/// Most characters after an address that are taken for the text about it.
const BLOCK_CHARS_MAX: usize = 4_000;

/// Lines between an explanation and the returned message, without their dashes.
const RETURNED_BELOW: [&str; 15] = [
    "this is a copy of the message", // Exim
    "this is a copy of your message",
    "a copy of the message",
    "below this line is a copy of the message", // qmail
    "enclosed is a copy of the message",
    "below is a copy of the original message", // OpenSMTPD
    "original message follows",
    "original message headers", // Exchange
    "original message",         // Gmail
    "unsent message follows",   // Sendmail 5
    "message headers follow",   // DragonFly
    "the header of the original message",
    "header of the original message",
    "undelivered message follows",
    "returned message follows",
];

/// Fields with which a returned message begins when no line announces it.
const FIRST_FIELDS: [&str; 8] = [
    "received:",
    "return-path:",
    "dkim-signature:",
    "arc-seal:",
    "x-received:",
    "x-google-smtp-source:",
    "x-google-dkim-signature:",
    "delivered-to:",
];

const SUBJECTS: [&str; 22] = [
    "undeliver",
    "delivery status",
    "delivery failure",
    "delivery failed",
    "delivery has failed",
    "delivery notification",
    "delivery report",
    "delivery error",
    "delivery problem",
    "failure notice",
    "failed mail",
    "mail failure",
    "mail delivery failed",
    "mail delivery system",
    "returned mail",
    "returned to sender",
    "could not be delivered",
    "non-delivery",
    "nondelivery",
    "non remis",    // French Exchange
    "unzustellbar", // German Exchange
    "delayed mail",
];

const SENTENCES: [&str; 26] = [
    "could not be delivered",
    "couldn't be delivered",
    "cannot be delivered",
    "can not be delivered",
    "was not delivered",
    "wasn't delivered",
    "not able to deliver",
    "wasn't able to deliver",
    "unable to deliver",
    "did not reach",
    "has not reached",
    "delivery failed",
    "delivery has failed",
    "delivery to the following",
    "error delivering your mail",
    "failed permanently",
    "had delivery errors",
    "had delivery problems",
    "permanent fatal errors",
    "has been delayed",
    "is delayed",
    "may not exist",
    "does not exist",
    "user unknown",
    "undeliverable",
    "transcript of session follows",
];

const DELAYS: [&str; 10] = [
    "warning only",
    "delayed mail",
    "has been delayed",
    "is delayed",
    "delivery delayed",
    "(delay)",
    "will be retried",
    "still being retried",
    "will continue trying",
    "temporary failure report",
];

/// Returns the end of the explanation, in bytes, and the text after it.
pub(super) fn before_returned(text: &str) -> (usize, &str) {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bare = line
            .trim_start_matches(|c: char| !c.is_alphanumeric())
            .to_lowercase();
        // Fields of a message stand at the front of the line; quoted in a sentence they do not.
        let lower = line.to_lowercase();
        if RETURNED_BELOW.iter().any(|words| bare.starts_with(words)) {
            return (start, &text[start + line.len()..]);
        }
        if FIRST_FIELDS.iter().any(|name| lower.starts_with(name)) {
            return (start, &text[start..]);
        }
        start += line.len();
    }
    (text.len(), "")
}

/// Reads a bounce by its prose; `None` when it does not look like a bounce or names no recipient.
pub(super) fn read(letter: &ReportLetter<'_>) -> Option<Read> {
    let failed = failed_recipients(letter);
    if failed.is_empty() && !looks_like_one(letter) {
        return None;
    }
    let found = places(letter);
    let mut people: Vec<String> = failed;
    if people.is_empty() {
        people = found.iter().map(|place| place.address.clone()).collect();
    }
    if people.is_empty() {
        people.clone_from(&letter.returned.to);
    }
    let action = if is_delay(letter) {
        ReportAction::Delayed
    } else {
        ReportAction::Failed
    };
    let mut recipients: Vec<Mention> = Vec::new();
    for address in people.into_iter().take(RECIPIENTS_MAX) {
        if !recipients
            .iter()
            .any(|known| known.address.eq_ignore_ascii_case(&address))
        {
            let diagnostic = said_of(letter, &found, &address);
            let status = find_status(&diagnostic);
            let (original, comment) = (None, String::new());
            recipients.push(Mention {
                address,
                original,
                action,
                status,
                comment,
                diagnostic,
            });
        }
    }
    (!recipients.is_empty()).then_some(Read {
        kind: ReportKind::DeliveryStatus,
        is_standard: false,
        reporter: None,
        detail: None,
        message_id: None,
        recipients,
    })
}

/// Returns the explanation's text about the one recipient of a notification, if it quotes a
/// refusal.
pub(super) fn refusal_of(letter: &ReportLetter<'_>, address: &str) -> Option<String> {
    let found = places(letter);
    let is_stated = found
        .iter()
        .any(|place| place.address.eq_ignore_ascii_case(address));
    Some(said_of(letter, &found, address)).filter(|said| is_stated && find_code(said).is_some())
}

/// Returns the recipients that Exim and Gmail name in `X-Failed-Recipients`.
fn failed_recipients(letter: &ReportLetter<'_>) -> Vec<String> {
    let people = letter.header().recipients("x-failed-recipients");
    people
        .into_iter()
        .map(|person| person.spec)
        .filter(|spec| spec.contains('@'))
        .collect()
}

fn looks_like_one(letter: &ReportLetter<'_>) -> bool {
    let header = letter.header();
    let subject = header.text("subject").unwrap_or_default().to_lowercase();
    let robots = [
        "mailer-daemon",
        "mail-daemon",
        "postmaster",
        "no-reply",
        "noreply",
        "maildelivery",
        "mmdf",
    ];
    let from = header.mailboxes("from");
    let is_robot = from.iter().any(|sender| {
        let local = sender
            .spec
            .split('@')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        robots.iter().any(|robot| local.starts_with(robot))
    });
    let calls_itself = SUBJECTS.iter().any(|words| subject.contains(words));
    let is_shaped = letter.own[0].media == "multipart/report";
    let text = one_line(&letter.explanation).to_lowercase();
    let says_so = SENTENCES.iter().any(|words| text.contains(words)) || find_code(&text).is_some();
    is_shaped
        || (says_so
            && (is_robot || calls_itself || from.iter().all(|sender| sender.spec.is_empty())))
}

fn is_delay(letter: &ReportLetter<'_>) -> bool {
    let subject = letter.header().text("subject").unwrap_or_default();
    let text = one_line(&format!("{subject} {}", letter.explanation)).to_lowercase();
    DELAYS.iter().any(|words| text.contains(words))
}

/// An address in the explanation, and the position of the text about it.
struct AddressMention {
    address: String,
    /// Byte offset of its line.
    line: usize,
    /// Byte offset of its end.
    end: usize,
}

/// Returns the addresses at the positions of recipients, in order, without the letter's own sender
/// and receivers.
fn places(letter: &ReportLetter<'_>) -> Vec<AddressMention> {
    let header = letter.header();
    let involved = ["from", "to", "cc", "delivered-to"]
        .into_iter()
        .flat_map(|name| header.mailboxes(name));
    let involved: Vec<String> = involved
        .filter_map(|m| m.address())
        .map(|a| a.key())
        .collect();
    let mut found = Vec::new();
    let mut line_start = 0;
    for line in letter.explanation.split_inclusive('\n') {
        if let Some((address, end)) = recipient_in(line) {
            let is_robot = ["postmaster", "mailer-daemon"].contains(&address.base_local().as_str());
            if !is_robot && !involved.contains(&address.key()) {
                found.push(AddressMention {
                    address: address.to_string(),
                    line: line_start,
                    end: line_start + end,
                });
            }
        }
        line_start += line.len();
        if found.len() >= RECIPIENTS_MAX * 2 {
            break;
        }
    }
    found
}

/// Returns the recipient that a line names, with the offset of its end.
fn recipient_in(line: &str) -> Option<(Address, usize)> {
    const NOT_ABOUT_RECIPIENTS: [&str; 6] = [
        "from",
        "(",
        "message-id",
        "reply-to",
        "sender",
        "return-path",
    ];
    const INTRODUCTIONS: [&str; 7] = [
        "to",
        "recipient",
        "recipients",
        "address",
        "mailbox",
        "user",
        "for",
    ];
    let bare = line
        .trim_start_matches(|c: char| c.is_whitespace() || "*->•·#".contains(c))
        .to_lowercase();
    if NOT_ABOUT_RECIPIENTS
        .iter()
        .any(|word| bare.starts_with(word))
    {
        return None;
    }
    let mut before: Option<String> = None;
    for (offset, word) in words(line) {
        let naked = word
            .trim_matches(|c: char| !c.is_ascii_alphanumeric())
            .to_ascii_lowercase();
        if naked.is_empty() {
            continue; // `>>>`
        }
        let is_introduced = before.as_deref().is_none_or(|before| {
            INTRODUCTIONS.contains(&before)
                || (before.len() == 3 && before.bytes().all(|b| b.is_ascii_digit()))
        });
        if let Some((address, length)) = address_in(word, is_introduced) {
            return Some((address, offset + length));
        }
        before = Some(naked);
    }
    None
}

/// Returns the words of a line with their byte offsets.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut offset = 0;
    line.split_inclusive(char::is_whitespace)
        .filter_map(move |word| {
            let start = offset;
            offset += word.len();
            let word = word.trim_end();
            (!word.is_empty()).then_some((start, word))
        })
}

/// Returns the address that a word is, in whatever brackets, with the length up to its end.
/// `TO:<a@b.test>` needs no introduction.
fn address_in(word: &str, is_introduced: bool) -> Option<(Address, usize)> {
    let commanded = word
        .get(..4)
        .is_some_and(|start| start.eq_ignore_ascii_case("to:<"));
    let start = if commanded {
        4
    } else {
        word.len() - word.trim_start_matches(['<', '"', '\'', '(', '[']).len()
    };
    let rest = &word[start..];
    let end = rest
        .find(['>', ':', ',', ';', ')', ']', '"', '\''])
        .unwrap_or(rest.len());
    let address = Address::parse(rest[..end].trim_end_matches('.'))
        .ok()
        .filter(|_| is_introduced || commanded)?;
    Some((address, start + end))
}

/// Returns the explanation's text about one recipient: from the end of the address to the next
/// other address; all of it when the address is absent or last.
fn said_of(letter: &ReportLetter<'_>, places: &[AddressMention], address: &str) -> String {
    let text = letter.explanation.as_str();
    let is_same = |place: &&AddressMention| place.address.eq_ignore_ascii_case(address);
    let Some(first) = places.iter().find(is_same) else {
        return truncated(text, BLOCK_CHARS_MAX);
    };
    let next = places
        .iter()
        .find(|place| place.line > first.line && !is_same(place));
    let end = next.map_or(text.len(), |place| place.line);
    let said = text[first.end..end].trim_start_matches(['>', ':', ',', '.', ')', ']', ' ', '\n']);
    if one_line(said).is_empty() {
        truncated(text, BLOCK_CHARS_MAX)
    } else {
        truncated(said, BLOCK_CHARS_MAX)
    }
}
