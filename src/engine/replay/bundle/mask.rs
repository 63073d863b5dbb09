//! Masks what a file for a maintainer must not hold: secrets always, names and addresses on
//! request. Pure.
//!
//! Encoded text needs care: the bytes of a letter hold the words in base64 and quoted-printable,
//! too. So bytes whose readable form was changed are left out whole, and with new names all bytes
//! are.

use super::BundleError;
use crate::providers::scrub;
use crate::store::BundleThing;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Placeholder for bytes that were left out.
const LEFT_OUT: &[u8] = b"[left out]\r\n";
/// Kind whose bytes are plain text.
const TEXTS: &str = "text";
/// Shortest name in characters; shorter ones are ordinary words.
const NAME_CHARS_MIN: usize = 3;
/// Fields with people by kind, as `Name <address>` or the address alone.
const PEOPLE: &[(&str, &str)] = &[("message", "sender"), ("message", "recipients")];

/// Removes every secret from all cells; returns the number of cells that had one.
pub(super) fn secrets(
    things: &mut [BundleThing],
    secrets: &[SecretString],
) -> Result<u32, BundleError> {
    let (mut masked, mut touched) = (0, BTreeSet::new());
    for thing in things.iter_mut() {
        let ids: Vec<String> = names_of_thing(thing);
        for (field, cell) in thing.fields.iter_mut() {
            let of = BundleError::in_pieces(&thing.kind, field);
            let clean = match &*cell {
                Value::String(text) => {
                    let clean = scrub(text.as_bytes(), secrets).map_err(of)?;
                    (clean != text.as_bytes()).then(|| json!(String::from_utf8_lossy(&clean)))
                }
                Value::Object(_) => {
                    let bytes = bytes_of(cell);
                    let clean = scrub(&bytes, secrets).map_err(of)?;
                    let is_text = thing.kind == TEXTS;
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
    for thing in things
        .iter_mut()
        .filter(|thing| names_of_thing(thing).iter().any(|id| touched.contains(id)))
    {
        masked += leave_out_bytes(thing);
    }
    Ok(masked)
}

/// Returns the ids of the message, letter or delivery that a thing belongs to: the other things of an
/// id repeat its texts in another encoding.
fn names_of_thing(thing: &BundleThing) -> Vec<String> {
    let columns: &[&str] = match thing.kind.as_str() {
        "message" => &["id", "letter"],
        "letter" => &["id"],
        "attachment" | "mail" => &["message"],
        _ => &[],
    };
    columns
        .iter()
        .filter_map(|column| thing.fields.get(*column)?.as_str().map(str::to_owned))
        .collect()
}

fn leave_out_bytes(thing: &mut BundleThing) -> u32 {
    let mut left_out = 0;
    for cell in thing.fields.values_mut().filter(|cell| cell.is_object()) {
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
    /// Collects the names in the things: every address and Message-ID, and the names before
    /// addresses.
    pub fn of(things: &[BundleThing]) -> Self {
        let (mut addresses, mut people, mut domains) =
            (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for thing in things {
            for (field, cell) in &thing.fields {
                let Some(text) = cell.as_str() else { continue };
                for address in addresses_in(text) {
                    let number = addresses.len() + 1;
                    let new = || format!("address-{number}@renamed.example");
                    addresses.entry(address.to_owned()).or_insert_with(new);
                    domains.extend(address.split_once('@').map(|(_, domain)| domain.to_owned()));
                }
                if PEOPLE.contains(&(thing.kind.as_str(), field.as_str())) {
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

    /// Replaces the names in all things, and leaves out all bytes.
    pub fn rename(&self, things: &mut [BundleThing]) {
        for thing in things.iter_mut() {
            if thing.kind != TEXTS {
                leave_out_bytes(thing);
            }
            for cell in thing.fields.values_mut() {
                match cell {
                    Value::String(text) => *text = self.renamed(text),
                    Value::Object(_) if thing.kind == TEXTS => {
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
        let thing = |kind: &str, fields: Value| BundleThing {
            kind: kind.into(),
            fields: fields.as_object().cloned().unwrap_or_default(),
        };
        let mut things = vec![
            thing(
                "message",
                json!({ "sender": "Bob Roe <bob@guest.example>", "recipients": "{\"to\":[\"Ada <ada@engine.test>\"]}",
                "text": "Bob Roe here.\nWrite to bob@guest.example, not to bob@guest.example.org! Adagio." }),
            ),
            thing(
                "turn",
                json!({ "request": "{\"t\":\"from:\\nBob Roe <bob@guest.example>\"}", "n": 1 }),
            ),
            thing("letter", json!({ "bytes": { "base64": "Ym9i" } })),
        ];
        MaskedNames::of(&things).rename(&mut things);
        let text = format!("{things:?}");
        assert!(
            !text.contains("bob@") && !text.contains("Bob") && !text.contains("Ym9i"),
            "{text}"
        );
        assert!(text.contains("Adagio"), "part of a word is no name: {text}");
        let sender = things[0].fields["sender"].as_str().unwrap_or_default();
        assert!(
            things[1].fields["request"]
                .as_str()
                .unwrap_or_default()
                .contains(sender),
            "{text}"
        );
    }
}
