//! The header facts by which automatic mail is recognised (RFC 3834 section 2). Facts only: who may be answered is
//! judged elsewhere.

use super::structure::Part;
use crate::domain::AutomaticSigns;

/// Reads the signs of automatic mail off the letter's own header.
pub(super) fn signs(letter: &Part<'_>) -> AutomaticSigns {
    const REPORTS: [&str; 4] = [
        "multipart/report",
        "message/delivery-status",
        "message/disposition-notification",
        "message/feedback-report",
    ];
    const AUTOREPLY: [&str; 4] = ["x-autoreply", "x-autorespond", "x-autoresponder", "x-loop"];
    let fields = &letter.fields;
    AutomaticSigns {
        // Empty when there is a field but no token in front of its comment: not `no`, in any case.
        auto_submitted: fields
            .has("auto-submitted")
            .then(|| fields.token("auto-submitted").unwrap_or_default()),
        precedence: fields.token("precedence"),
        has_list_header: fields.names().any(|n| n.starts_with("list-")),
        auto_response_suppress: fields
            .text("x-auto-response-suppress")
            .map(|t| t.to_ascii_lowercase())
            .filter(|t| !t.is_empty()),
        has_autoreply_header: AUTOREPLY.iter().any(|name| fields.has(name)),
        is_report: REPORTS.contains(&letter.media.as_str()),
        received_count: fields.count("received"),
    }
}

/// `List-Id` between its angle brackets, lower case (RFC 2919 section 2).
pub(super) fn list_id(letter: &Part<'_>) -> Option<String> {
    let text = letter.fields.text("list-id")?;
    let bracketed = text.rsplit_once('<').and_then(|(_, rest)| rest.split('>').next());
    let id = bracketed.unwrap_or(&text).trim().to_ascii_lowercase();
    (!id.is_empty()).then_some(id)
}
