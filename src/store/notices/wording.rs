//! Wording of notices for the owner: pure functions over the facts of an event.

use crate::text::{one_line, shortened};

/// Most characters of foreign text that [`quoted`] keeps.
const QUOTE_CHARS_MAX: usize = 120;

/// Quotes foreign text for a notice: one line, bounded, and in backticks, between which neither
/// Markdown nor a terminal finds anything to interpret.
pub fn quoted(words: &str) -> String {
    let clean = words.replace('`', "'");
    format!("`{}`", shortened(&one_line(&clean), QUOTE_CHARS_MAX))
}

/// Most recipients that a notice names; the others are counted.
const RECIPIENTS_NAMED: usize = 5;

/// Returns the first few recipients in the format of `spell`, and the number of the others.
pub fn first_few<T>(recipients: &[T], spell: impl Fn(&T) -> String) -> String {
    let mut list = recipients
        .iter()
        .take(RECIPIENTS_NAMED)
        .map(spell)
        .collect::<Vec<_>>()
        .join(", ");
    if recipients.len() > RECIPIENTS_NAMED {
        list.push_str(&format!(
            " and {} more",
            recipients.len() - RECIPIENTS_NAMED
        ));
    }
    list
}
