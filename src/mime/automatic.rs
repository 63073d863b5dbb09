//! The header facts by which automatic mail is recognised (RFC 3834 section 2). Facts only: who may be answered is
//! judged elsewhere.

use super::compose::LOOP_FIELD;
use super::fields::{Fields, unstructured};
use super::structure::Part;
use crate::domain::AutomaticSigns;
use std::collections::HashSet;

/// Fields of one name that are looked at; a letter with more is nobody's ordinary letter.
const FIELDS_MAX: usize = 100;

/// Reads the signs of automatic mail off the letter's own header.
pub(super) fn signs(letter: &Part<'_>) -> AutomaticSigns {
    const REPORTS: [&str; 4] = [
        "multipart/report",
        "message/delivery-status",
        "message/disposition-notification",
        "message/feedback-report",
    ];
    const AUTOREPLY: [&str; 5] =
        ["x-autoreply", "x-autoreply-from", "x-autorespond", "x-autoresponder", "x-loop"];
    let fields = &letter.fields;
    let submitted = tokens(fields, "auto-submitted");
    let precedence = tokens(fields, "precedence");
    let suppress: Vec<String> = texts(fields, "x-auto-response-suppress").collect();
    AutomaticSigns {
        // A field that says anything but `no` outweighs one that says `no`. One without a token says something else.
        auto_submitted: submitted.iter().find(|token| *token != "no").or(submitted.first()).cloned(),
        precedence: precedence
            .iter()
            .find(|word| AutomaticSigns::is_bulk(word))
            .or(precedence.first())
            .cloned(),
        has_list_header: fields.names().any(|n| n.starts_with("list-")),
        auto_response_suppress: Some(suppress.join(",")).filter(|text| !text.is_empty()),
        has_autoreply_header: AUTOREPLY.iter().any(|name| fields.has(name)),
        is_report: REPORTS.contains(&letter.media.as_str()),
        received_count: fields.count("received"),
        delivered_twice: delivered_twice(fields),
        loop_token: fields.text(&LOOP_FIELD.to_ascii_lowercase()),
    }
}

/// Values of all fields of that name, decoded, lower case.
fn texts<'a>(fields: &'a Fields<'_>, name: &'a str) -> impl Iterator<Item = String> + 'a {
    fields.values(name).take(FIELDS_MAX).map(|value| unstructured(value).to_ascii_lowercase())
}

/// What stands before the parameters in every field of that name, lower case, without comments; may be empty.
fn tokens(fields: &Fields<'_>, name: &str) -> Vec<String> {
    let token = |text: String| {
        let said = without_comments(&text);
        said.split(';').next().unwrap_or_default().trim().to_owned()
    };
    texts(fields, name).map(token).collect()
}

/// Comments nest, and a backslash takes the next character along (RFC 5322 section 3.2.2). One that never ends takes
/// all the rest. A quoted string is left alone.
fn without_comments(text: &str) -> String {
    let (mut depth, mut quoted, mut said) = (0_usize, false, String::new());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let next = chars.next();
                if depth == 0 {
                    said.push(c);
                    said.extend(next);
                }
            }
            '"' if depth == 0 => {
                quoted = !quoted;
                said.push(c);
            }
            '(' if !quoted => depth += 1,
            ')' if !quoted && depth > 0 => {
                depth -= 1;
                said.push(' ');
            }
            _ if depth == 0 => said.push(c),
            _ => {}
        }
    }
    said
}

/// Whether some mailbox has had this letter before: every delivery writes the address down, and a forward that comes
/// back to it is going round.
fn delivered_twice(fields: &Fields<'_>) -> bool {
    let mut seen = HashSet::new();
    texts(fields, "delivered-to").any(|address| !seen.insert(address))
}

/// `List-Id` between its angle brackets, lower case (RFC 2919 section 2).
pub(super) fn list_id(letter: &Part<'_>) -> Option<String> {
    let text = letter.fields.text("list-id")?;
    let bracketed = text.rsplit_once('<').and_then(|(_, rest)| rest.split('>').next());
    let id = bracketed.unwrap_or(&text).trim().to_ascii_lowercase();
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_taken_out_wherever_they_stand() {
        for (text, said) in [
            ("no", "no"),
            ("(a (nested) one) no", "  no"),
            ("no (said \\) the host)", "no  "),
            ("auto-replied (never closed; no", "auto-replied "),
            ("x; y=\"(no comment)\"", "x; y=\"(no comment)\""),
        ] {
            assert_eq!(without_comments(text).trim(), said.trim(), "{text}");
        }
    }
}
