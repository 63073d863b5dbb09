//! Complaints (ARF, RFC 5965), requests to be left alone, and disposition notifications (RFC 8098).

use super::fields::{Group, address, groups};
use super::{Mention, Read, ReportLetter};
use crate::domain::{ReportAction, ReportKind};
use crate::mime::structure;
use crate::mime::structure::Part;

pub(super) fn complaint(letter: &ReportLetter<'_>) -> Option<Read> {
    let Some(part) = letter.part(&["message/feedback-report"]) else {
        return unsubscription(letter);
    };
    let all = group_of(part);
    let get = |name: &str| {
        all.iter()
            .find_map(|group| group.get(name).map(str::to_owned))
    };
    let complained = all
        .iter()
        .flat_map(|group| group.all("original-rcpt-to"))
        .filter_map(address);
    let mut people: Vec<String> = complained.collect();
    if people.is_empty() {
        people.clone_from(&letter.returned.to);
    }
    Some(Read {
        kind: ReportKind::Feedback,
        is_standard: true,
        reporter: get("reporting-mta").or_else(|| get("user-agent")),
        detail: get("feedback-type").map(|kind| kind.to_ascii_lowercase()),
        message_id: None,
        recipients: people
            .into_iter()
            .map(|address| mention(address, letter))
            .collect(),
    })
}

/// Reads a request of Apple Mail to take its user off a list; the mail has a field of its own.
fn unsubscription(letter: &ReportLetter<'_>) -> Option<Read> {
    let asks = letter
        .header()
        .token("x-apple-unsubscribe")
        .is_some_and(|value| value == "true");
    let who = letter
        .header()
        .mailboxes("from")
        .into_iter()
        .next()
        .filter(|_| asks)?;
    Some(Read {
        kind: ReportKind::Feedback,
        is_standard: false,
        reporter: None,
        detail: Some("opt-out".to_owned()),
        message_id: None,
        recipients: vec![mention(who.spec, letter)],
    })
}

pub(super) fn disposition(letter: &ReportLetter<'_>) -> Option<Read> {
    let part = letter.part(&[
        "message/disposition-notification",
        "message/global-disposition-notification",
    ])?;
    let all = group_of(part);
    let group = all.first()?;
    let original = group.address("original-recipient");
    let who = group
        .address("final-recipient")
        .or_else(|| original.clone())?;
    // `manual-action/MDN-sent-manually; displayed/error`
    let kind = group
        .typed("disposition")
        .and_then(|kind| kind.split(['/', ' ']).next());
    Some(Read {
        kind: ReportKind::Disposition,
        is_standard: true,
        reporter: group.get("reporting-ua").map(str::to_owned),
        detail: kind.map(str::to_ascii_lowercase),
        message_id: group.message_id("original-message-id"),
        recipients: vec![Mention {
            original,
            ..mention(who, letter)
        }],
    })
}

fn group_of(part: &Part<'_>) -> Vec<Group> {
    groups(&structure::text(part))
}

fn mention(address: String, letter: &ReportLetter<'_>) -> Mention {
    Mention {
        address,
        original: None,
        action: ReportAction::None,
        status: None,
        comment: String::new(),
        diagnostic: letter.explanation.clone(),
    }
}
