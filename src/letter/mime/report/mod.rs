//! Letters that report on other letters: delivery status notifications (RFC 3464), complaints (RFC
//! 5965), disposition notifications (RFC 8098), and the many bounces that are in no standard form.
//!
//! Facts only: the trust in a report, and its effect, are decided elsewhere. Everything is bounded:
//! the structure by the limits of the walk, recipients and texts by the constants here.

mod codes;
mod dsn;
mod feedback;
mod fields;
mod phrases;
mod prose;
mod reason;

use super::body;
use super::headers::fields::Fields;
use super::limits::ParseLimits;
use super::structure::{self, Kind, Part};
use crate::domain::{DIAGNOSTIC_CHARS_MAX, Report, ReportAction, ReportKind, ReportedRecipient};
use crate::text::truncated;
use codes::{Status, find_code, find_status};
use reason::Evidence;

/// Most recipients of one report that are read.
const RECIPIENTS_MAX: usize = 100;
/// Most characters of a reporter's name, and of the kind of complaint.
const WORDS_CHARS_MAX: usize = 200;
/// Most bytes of explanation that are read; the returned message is not part of it.
const EXPLANATION_BYTES_MAX: usize = 32 * 1024;

/// Reads a letter as a report on another letter; `None` when it is not a report.
pub fn read_report(bytes: &[u8], limits: &ParseLimits) -> Option<Report> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let parts = structure::walk(bytes, limits).ok()?;
    let letter = ReportLetter::new(&parts, limits)?;
    let read = feedback::complaint(&letter).or_else(|| feedback::disposition(&letter));
    let read = read
        .or_else(|| dsn::read(&letter))
        .or_else(|| prose::read(&letter))?;
    let report = letter.report(read);
    (report.kind == ReportKind::Feedback || !report.recipients.is_empty()).then_some(report)
}

/// The parts of a letter that a report is read from.
struct ReportLetter<'a> {
    /// Parts of the letter itself, without those of the returned message. The first part has the
    /// letter's header.
    own: Vec<&'a Part<'a>>,
    /// Text of the reporter for a person, without the returned message.
    explanation: String,
    returned: Returned,
}

/// The message that was returned with the report.
#[derive(Debug, Default)]
struct Returned {
    message_id: Option<String>,
    to: Vec<String>,
}

/// Content of a report of one kind, before it is classified.
struct Read {
    kind: ReportKind,
    is_standard: bool,
    reporter: Option<String>,
    detail: Option<String>,
    message_id: Option<String>,
    recipients: Vec<Mention>,
}

/// Status of one recipient in the words of the report.
struct Mention {
    address: String,
    original: Option<String>,
    action: ReportAction,
    /// The `Status` field, and the comment after it.
    status: Option<Status>,
    comment: String,
    diagnostic: String,
}

impl<'a> ReportLetter<'a> {
    fn new(parts: &'a [Part<'a>], limits: &ParseLimits) -> Option<Self> {
        let letter = parts.first().filter(|letter| !letter.fields.is_empty())?;
        let mut own = Vec::new();
        let mut pending = vec![letter];
        while let Some(part) = pending.pop() {
            own.push(part);
            if part.kind != Kind::Message {
                pending.extend(
                    part.children
                        .iter()
                        .rev()
                        .filter_map(|child| parts.get(*child)),
                );
            }
        }
        let mut text = body::read(parts, limits, 0).own;
        let (explanation_bytes, tail) = prose::before_returned(&text);
        let returned = Returned::find(parts, &own).unwrap_or_else(|| Returned::in_text(tail));
        text.truncate(text.floor_char_boundary(explanation_bytes.min(EXPLANATION_BYTES_MAX)));
        Some(Self {
            own,
            explanation: text,
            returned,
        })
    }

    fn header(&self) -> &Fields<'a> {
        // `new` puts the letter itself first.
        &self.own[0].fields
    }

    /// Returns the first own part with one of these media types.
    fn part(&self, media: &[&str]) -> Option<&'a Part<'a>> {
        self.own
            .iter()
            .copied()
            .find(|part| media.contains(&part.media.as_str()))
    }

    fn report(&self, read: Read) -> Report {
        let mut recipients: Vec<ReportedRecipient> = Vec::new();
        let is_only = read.recipients.len() == 1;
        for mut mention in read.recipients.into_iter().take(RECIPIENTS_MAX) {
            let Some(address) = fields::address(&mention.address) else {
                continue;
            };
            mention.address = address;
            let is_known = recipients
                .iter()
                .any(|known| known.address.eq_ignore_ascii_case(&mention.address));
            if !is_known {
                recipients.push(self.judged(mention, is_only));
            }
        }
        Report {
            kind: read.kind,
            is_standard: read.is_standard,
            recipients,
            original_message_id: read.message_id.or_else(|| self.returned.message_id.clone()),
            reporter: read.reporter.map(|text| truncated(&text, WORDS_CHARS_MAX)),
            detail: read.detail.map(|text| truncated(&text, WORDS_CHARS_MAX)),
        }
    }

    fn judged(&self, mention: Mention, is_only: bool) -> ReportedRecipient {
        let found = find_status(&mention.diagnostic).filter(|status| status.is_specific());
        let field = mention.status;
        let status = field
            .filter(|status| status.detail != 0)
            .or(found)
            .or(field);
        let code = find_code(&mention.diagnostic);
        // A text for a person describes all recipients together.
        let is_shared = !is_only && !mention.diagnostic.is_empty();
        let explanation = if is_shared {
            ""
        } else {
            self.explanation.as_str()
        };
        let context = one_line(&format!("{} {explanation}", mention.comment)).to_lowercase();
        let diagnostic = one_line(&mention.diagnostic);
        let reason = reason::classify(&Evidence {
            action: mention.action,
            status,
            code,
            diagnostic: &diagnostic.to_lowercase(),
            context: &context,
        });
        let is_final =
            mention.action == ReportAction::Failed && !status.is_some_and(Status::is_temporary);
        ReportedRecipient {
            address: mention.address,
            original: mention.original,
            action: mention.action,
            status: status.map(|status| status.to_string()),
            code,
            diagnostic: truncated(&diagnostic, DIAGNOSTIC_CHARS_MAX),
            reason,
            is_hard: is_final && reason.is_about_the_address(),
        }
    }
}

impl Returned {
    /// Finds the returned message, or its header, in a part of its own.
    fn find(parts: &[Part<'_>], own: &[&Part<'_>]) -> Option<Self> {
        const HEADERS: [&str; 3] = [
            "text/rfc822-headers",
            "message/rfc822-headers",
            "text/rfc822",
        ];
        own.iter().skip(1).find_map(|part| match part.kind {
            Kind::Message => part
                .children
                .first()
                .and_then(|child| parts.get(*child))
                .map(|p| Self::from_fields(&p.fields)),
            _ if HEADERS.contains(&part.media.as_str()) => {
                Some(Self::from_fields(&Fields::cut(&structure::content(part)).0))
            }
            // Some reporters put the header of the returned message in place of the part's own.
            _ if part.fields.has("received") && part.fields.has("message-id") => {
                Some(Self::from_fields(&part.fields))
            }
            _ => None,
        })
    }

    /// Reads the returned message below an explanation.
    fn in_text(tail: &str) -> Self {
        let start = tail
            .lines()
            .take(20)
            .position(|line| fields::named(line).is_some());
        let lines: Vec<&str> = tail.lines().skip(start.unwrap_or(0)).take(500).collect();
        Self::from_fields(&Fields::cut(lines.join("\n").trim_start().as_bytes()).0)
    }

    fn from_fields(fields: &Fields<'_>) -> Self {
        Self {
            message_id: fields.ids("message-id").into_iter().next(),
            to: fields
                .recipients("to")
                .into_iter()
                .map(|to| to.spec)
                .take(RECIPIENTS_MAX)
                .collect(),
        }
    }
}

/// Replaces folds and runs of blanks by one blank.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
