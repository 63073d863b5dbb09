//! Masks what a file for a maintainer must not hold: secrets always, names and addresses on
//! request. Pure.
//!
//! Encoded text needs care: the bytes of a letter hold the words in base64 and quoted-printable,
//! too. So bytes whose readable form was changed are left out whole, and with new names all bytes
//! are.

use super::BundleError;
use crate::providers::scrub;
use crate::store::BundleRow;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Placeholder for bytes that were left out.
const LEFT_OUT: &[u8] = b"[left out]\r\n";
/// Table whose bytes are plain text.
const TEXTS: &str = "contents";
/// Shortest name in characters; shorter ones are ordinary words.
const NAME_CHARS_MIN: usize = 3;
/// Columns with people by table, as `Name <address>` or the address alone.
const PEOPLE: &[(&str, &str)] = &[("messages", "sender"), ("messages", "recipients_json")];

/// Removes every secret from all cells; returns the number of cells that had one.
pub(super) fn secrets(
    rows: &mut [BundleRow],
    secrets: &[SecretString],
) -> Result<u32, BundleError> {
    let (mut masked, mut touched) = (0, BTreeSet::new());
    for row in rows.iter_mut() {
        let ids: Vec<String> = names_of_row(row);
        for (column, cell) in row.cells.iter_mut() {
            let of = BundleError::in_pieces(&row.table, column);
            let clean = match &*cell {
                Value::String(text) => {
                    let clean = scrub(text.as_bytes(), secrets).map_err(of)?;
                    (clean != text.as_bytes()).then(|| json!(String::from_utf8_lossy(&clean)))
                }
                Value::Object(_) => {
                    let bytes = bytes_of(cell);
                    let clean = scrub(&bytes, secrets).map_err(of)?;
                    let is_text = row.table == TEXTS;
                    (clean != bytes).then(|| bytes_cell(if is_text { &clean } else { LEFT_OUT }))
                }
                _ => None,
            };
            if let Some(clean) = clean {
                (*cell, masked) = (clean, masked + 1);
                touched.extend(ids.iter().cloned());
            }
        }
    }
    for row in rows
        .iter_mut()
        .filter(|row| names_of_row(row).iter().any(|id| touched.contains(id)))
    {
        masked += leave_out_bytes(row);
    }
    Ok(masked)
}

/// Returns the ids of the message, letter or delivery that a row belongs to: the other rows of an
/// id repeat its texts in another encoding.
fn names_of_row(row: &BundleRow) -> Vec<String> {
    let columns: &[&str] = match row.table.as_str() {
        "messages" => &["id", "raw_id"],
        "raw_letters" => &["id"],
        "attachments" | "deliveries" => &["message_id"],
        _ => &[],
    };
    columns
        .iter()
        .filter_map(|column| row.cells.get(*column)?.as_str().map(str::to_owned))
        .collect()
}

fn leave_out_bytes(row: &mut BundleRow) -> u32 {
    let mut left_out = 0;
    for cell in row.cells.values_mut().filter(|cell| cell.is_object()) {
        left_out += u32::from(bytes_of(cell) != LEFT_OUT);
        *cell = bytes_cell(LEFT_OUT);
    }
    left_out
}

fn bytes_of(cell: &Value) -> Vec<u8> {
    STANDARD
        .decode(cell["base64"].as_str().unwrap_or_default())
        .unwrap_or_default()
}

fn bytes_cell(bytes: &[u8]) -> Value {
    json!({ "base64": STANDARD.encode(bytes) })
}

/// Consistent replacements for every name and address.
pub struct MaskedNames {
    /// Replacements, longest first, so that no name is replaced inside another.
    replaced: Vec<(String, String)>,
}

impl MaskedNames {
    /// Collects the names in the rows: every address and Message-ID, and the names before
    /// addresses.
    pub fn of(rows: &[BundleRow]) -> Self {
        let (mut addresses, mut people, mut domains) =
            (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for row in rows {
            for (column, cell) in &row.cells {
                let Some(text) = cell.as_str() else { continue };
                for address in addresses_in(text) {
                    let number = addresses.len() + 1;
                    let new = || format!("address-{number}@renamed.example");
                    addresses.entry(address.to_owned()).or_insert_with(new);
                    domains.extend(address.split_once('@').map(|(_, domain)| domain.to_owned()));
                }
                if PEOPLE.contains(&(row.table.as_str(), column.as_str())) {
                    for name in names_in(text) {
                        let number = people.len() + 1;
                        people
                            .entry(name)
                            .or_insert_with(|| format!("Person {number}"));
                    }
                }
            }
        }
        let domains = domains.into_iter().enumerate();
        let domains =
            domains.map(|(at, domain)| (domain, format!("host-{}.renamed.example", at + 1)));
        let mut replaced: Vec<(String, String)> =
            addresses.into_iter().chain(people).chain(domains).collect();
        replaced.sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
        Self { replaced }
    }

    /// Replaces the names in all rows, and leaves out all bytes.
    pub fn rename(&self, rows: &mut [BundleRow]) {
        for row in rows.iter_mut() {
            if row.table != TEXTS {
                leave_out_bytes(row);
            }
            for cell in row.cells.values_mut() {
                match cell {
                    Value::String(text) => *text = self.renamed(text),
                    Value::Object(_) if row.table == TEXTS => {
                        let text = self.renamed(&String::from_utf8_lossy(&bytes_of(cell)));
                        *cell = bytes_cell(text.as_bytes());
                    }
                    _ => {}
                }
            }
        }
    }

    fn renamed(&self, text: &str) -> String {
        let found = |text: &String, (old, new): &(String, String)| match text.contains(old.as_str())
        {
            true => replaced_words(text, old, new),
            false => text.clone(),
        };
        self.replaced
            .iter()
            .fold(text.to_owned(), |text, pair| found(&text, pair))
    }
}

/// Replaces `old` by `new`, where it is no part of a longer word.
fn replaced_words(text: &str, old: &str, new: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(old) {
        let (before, found) = rest.split_at(at);
        let after = &found[old.len()..];
        let last = before
            .chars()
            .next_back()
            .or_else(|| out.chars().next_back());
        // The `n` of an escaped `\n` before a name in JSON is no letter.
        let escaped = before.len() >= 2 && before.as_bytes()[before.len() - 2] == b'\\';
        let is_part = last.is_some_and(char::is_alphanumeric) && !escaped
            || after.chars().next().is_some_and(char::is_alphanumeric);
        out.push_str(before);
        out.push_str(if is_part { old } else { new });
        rest = after;
    }
    out + rest
}

/// Returns everything of the form `local@domain`.
fn addresses_in(text: &str) -> impl Iterator<Item = &str> {
    let is_of = |c: char| c.is_alphanumeric() || "._%+-=@".contains(c);
    text.split(move |c| !is_of(c))
        .map(|word| word.trim_matches(['.', '-', '=']))
        .filter(|word| {
            word.split_once('@').is_some_and(|(local, domain)| {
                !local.is_empty() && domain.contains('.') && !domain.contains('@')
            })
        })
}

/// Returns the names before addresses in angle brackets.
fn names_in(text: &str) -> Vec<String> {
    let before = text.split('<').map(|piece| {
        piece
            .rsplit(['>', ',', '[', '"', '\\'])
            .find(|p| !p.trim().is_empty())
    });
    let names = before.flatten().map(|name| {
        name.trim_matches([' ', '"', '\'', ':', '{', '}', ']'])
            .to_owned()
    });
    names
        .filter(|name| name.chars().count() >= NAME_CHARS_MIN && !name.contains('@'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_have_other_names_and_the_same_ones_everywhere() {
        let row = |table: &str, cells: Value| BundleRow {
            table: table.into(),
            cells: cells.as_object().cloned().unwrap_or_default(),
        };
        let mut rows = vec![
            row(
                "messages",
                json!({ "sender": "Bob Roe <bob@guest.example>", "recipients_json": "{\"to\":[\"Ada <ada@engine.test>\"]}",
                "text_body": "Bob Roe here.\nWrite to bob@guest.example, not to bob@guest.example.org! Adagio." }),
            ),
            row(
                "run_turns",
                json!({ "request_json": "{\"t\":\"from:\\nBob Roe <bob@guest.example>\"}", "n": 1 }),
            ),
            row("raw_letters", json!({ "bytes": { "base64": "Ym9i" } })),
        ];
        MaskedNames::of(&rows).rename(&mut rows);
        let text = format!("{rows:?}");
        assert!(
            !text.contains("bob@") && !text.contains("Bob") && !text.contains("Ym9i"),
            "{text}"
        );
        assert!(text.contains("Adagio"), "part of a word is no name: {text}");
        let sender = rows[0].cells["sender"].as_str().unwrap_or_default();
        assert!(
            rows[1].cells["request_json"]
                .as_str()
                .unwrap_or_default()
                .contains(sender),
            "{text}"
        );
    }
}
