//! Delivery status notifications (RFC 3464), also with their fields in the wrong part.

use super::codes::Status;
use super::fields::{Group, groups};
use super::{Mention, Read, ReportLetter, prose};
use crate::domain::{ReportAction, ReportKind};
use crate::mime::structure;

const STATUS_MEDIA: [&str; 2] = ["message/delivery-status", "message/global-delivery-status"];

/// Reads the status fields; `None` when no recipient has any.
pub(super) fn read(letter: &ReportLetter<'_>) -> Option<Read> {
    let part = letter.part(&STATUS_MEDIA).map(structure::text);
    let found = part
        .map(|text| groups(&text))
        .filter(|groups| groups.iter().any(is_recipient));
    // Some reporters write the fields into the text, or lose the boundaries around them.
    let all = found.unwrap_or_else(|| groups(&letter.explanation));
    let recipients: Vec<&Group> = all.iter().filter(|group| is_recipient(group)).collect();
    let mut mentions: Vec<Mention> = recipients
        .iter()
        .filter_map(|group| mention(group))
        .collect();
    if mentions.is_empty() {
        return None;
    }
    // `Diagnostic-Code` is optional; a refusal that is quoted in the text is as good.
    if let [only] = mentions.as_mut_slice()
        && only.diagnostic.is_empty()
        && let Some(refusal) = prose::refusal_of(letter, &only.address)
    {
        only.diagnostic = refusal;
    }
    let get = |name: &str| {
        all.iter()
            .find_map(|group| group.typed(name).map(str::to_owned))
    };
    Some(Read {
        kind: ReportKind::DeliveryStatus,
        is_standard: true,
        reporter: get("reporting-mta"),
        detail: None,
        message_id: all
            .iter()
            .find_map(|group| group.message_id("x-original-message-id")),
        recipients: mentions,
    })
}

fn is_recipient(group: &Group) -> bool {
    let names = group
        .get("final-recipient")
        .or(group.get("original-recipient"));
    names.is_some() && (group.get("action").is_some() || group.get("status").is_some())
}

fn mention(group: &Group) -> Option<Mention> {
    let original = group.address("original-recipient");
    let address = group
        .address("final-recipient")
        .or_else(|| original.clone())?;
    let (code, comment) = match group
        .get("status")
        .unwrap_or_default()
        .split_once([' ', '('])
    {
        Some((code, comment)) => (code, comment),
        None => (group.get("status").unwrap_or_default(), ""),
    };
    let status = Status::parse(code.trim());
    // The field is required; without it the class of the status says the same.
    let action = group.get("action").and_then(|action| {
        ReportAction::parse(&action.split([' ', '(']).next()?.to_ascii_lowercase())
    });
    let by_class = || {
        if status.is_some_and(Status::is_temporary) {
            ReportAction::Delayed
        } else {
            ReportAction::Failed
        }
    };
    Some(Mention {
        address,
        original,
        action: action.unwrap_or_else(by_class),
        status,
        comment: comment.trim_matches(['(', ')', ' ']).to_owned(),
        diagnostic: group
            .typed("diagnostic-code")
            .unwrap_or_default()
            .to_owned(),
    })
}
