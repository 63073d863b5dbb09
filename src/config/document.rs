//! One JSON file as text, as a value, and as a map from JSON pointers to lines and columns.
//!
//! `serde_json` knows a place only while it fails; the checks of this folder fail much later, so every key and
//! value keeps its place here.

use super::problem::Problem;
use super::snapshot::Shelf;
use super::syntax::{self, line_and_column};
use super::text_file::Unreadable;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// A JSON file that could be read.
pub struct Document {
    /// Path below the workspace, as it is printed.
    pub file: String,
    pub value: Value,
    text: String,
    /// JSON pointer -> byte offsets.
    places: BTreeMap<String, Place>,
    /// Pointers of keys that are written twice.
    repeated: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// Where the key's opening quote stands; the value's start for items of arrays.
    key: usize,
    value: usize,
}

/// Which of the two places of a member a problem points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    Key,
    Value,
}

/// What a file must say at least, for somebody who has to write one.
fn least(file: &str) -> &'static str {
    match file {
        "configs/gateway.json" => "the least is `{ \"mail_domain\": \"example.org\" }`",
        "configs/inference.json" => {
            "the least is a provider and a model: `{ \"provider\": \"anthropic\", \"model\": \"claude-sonnet-4-5\" }`"
        }
        "configs/context.json" => {
            "the least is `{ \"thread\": [\"persona\", \"thread-history\", \"current-input\"], \"responsibility\": [\"persona\", \"current-input\"] }`"
        }
        file if file.ends_with("persona.json") => {
            "the least is `{ \"name\": \"Paul\", \"address\": \"paul\" }`"
        }
        _ => "the least is `{}`",
    }
}

impl Document {
    /// Reads `file`. Errors: the file is missing, too large, not UTF-8 or not JSON.
    pub fn read(shelf: &Shelf<'_>, file: &str) -> Result<Self, Box<Problem>> {
        let text = shelf.read(file).map_err(|error| {
            let hint = error.hint().or_else(|| {
                matches!(error, Unreadable::Missing).then(|| format!("write it: {}", least(file)))
            });
            let problem = Problem::of_file(file, error.to_string());
            Box::new(match hint {
                Some(hint) => problem.hint(hint),
                None => problem,
            })
        })?;
        // Some editors write a byte order mark; JSON has none (RFC 8259 section 8.1 lets readers skip it).
        Self::parse(file, text.strip_prefix('\u{feff}').unwrap_or(&text))
    }

    /// Reads JSON text. Errors: where it stops being JSON.
    pub fn parse(file: &str, text: &str) -> Result<Self, Box<Problem>> {
        let not_json = |error: serde_json::Error| Box::new(syntax::problem(file, text, &error));
        let value: Value = serde_json::from_str(text).map_err(not_json)?;
        let raw: &RawValue = serde_json::from_str(text).map_err(not_json)?;
        let mut walk = Walk { text, places: BTreeMap::new(), repeated: Vec::new() };
        walk.visit("", walk.offset(raw.get()), raw).map_err(not_json)?;
        let Walk { places, repeated, .. } = walk;
        Ok(Self { file: file.to_owned(), value, text: text.to_owned(), places, repeated })
    }

    /// A problem at a JSON pointer. A pointer to nothing points at the nearest parent that exists.
    pub fn blame(&self, pointer: &str, spot: Spot, message: impl Into<String>) -> Problem {
        let mut at = pointer;
        let place = loop {
            match (self.places.get(at), at.rfind('/')) {
                (Some(place), _) => break Some(*place),
                (None, Some(cut)) => at = &at[..cut],
                (None, None) => break None,
            }
        };
        let offset = place.map_or(0, |place| if spot == Spot::Key { place.key } else { place.value });
        let (line, column) = line_and_column(&self.text, offset);
        let mut problem = Problem::of_file(&self.file, message);
        problem.path = dotted(pointer);
        (problem.line, problem.column) = (Some(line), Some(column));
        problem
    }

    /// Pointers of every key and item, parents first.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Keys that are written twice: JSON readers disagree about which one counts.
    pub fn repeated(&self) -> impl Iterator<Item = Problem> {
        let repeated = self.repeated.iter();
        repeated.map(|pointer| {
            self.blame(pointer, Spot::Key, "this key is written twice").hint("keep one of the two")
        })
    }
}

/// The pointer of a member or an item below `parent` (RFC 6901 section 3).
pub fn child(parent: &str, key: impl fmt::Display) -> String {
    format!("{parent}/{}", key.to_string().replace('~', "~0").replace('/', "~1"))
}

/// The last part of a pointer, unescaped.
pub fn last_key(pointer: &str) -> String {
    pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~")
}

/// `/listeners/0/address` as `listeners[0].address`.
fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
            path.push_str(&format!("[{part}]"));
            continue;
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&last_key(part));
    }
    path
}

/// Finds places: every raw value is a slice of the text, so its address says where it stands.
struct Walk<'t> {
    text: &'t str,
    places: BTreeMap<String, Place>,
    repeated: Vec<String>,
}

impl<'t> Walk<'t> {
    fn offset(&self, part: &'t str) -> usize {
        part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr())
    }

    /// Depth is bounded: the text was read as a [`Value`] before, which refuses more than 128 levels.
    fn visit(&mut self, pointer: &str, key: usize, raw: &'t RawValue) -> serde_json::Result<()> {
        let value = self.offset(raw.get());
        if self.places.insert(pointer.to_owned(), Place { key, value }).is_some() {
            self.repeated.push(pointer.to_owned());
        }
        match raw.get().as_bytes().first() {
            Some(b'{') => {
                let Members(members) = serde_json::from_str(raw.get())?;
                for (key, member) in members {
                    let place = key.raw.map_or(self.offset(member.get()), |raw| self.offset(raw) - 1);
                    self.visit(&child(pointer, &key.text), place, member)?;
                }
            }
            Some(b'[') => {
                let items: Vec<&'t RawValue> = serde_json::from_str(raw.get())?;
                for (index, item) in items.into_iter().enumerate() {
                    self.visit(&child(pointer, index), self.offset(item.get()), item)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The members of an object, in order, repeats included.
struct Members<'t>(Vec<(Key<'t>, &'t RawValue)>);

/// A key, and the slice it was read from when it has no escapes.
struct Key<'t> {
    text: String,
    raw: Option<&'t str>,
}

impl<'de> serde::Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(entry) = map.next_entry()? {
            members.push(entry);
        }
        Ok(Members(members))
    }
}

impl<'de> serde::Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Key<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Key { text: text.to_owned(), raw: Some(text) })
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Key { text: text.to_owned(), raw: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, pointer: &str, spot: Spot) -> (usize, usize, String) {
        let Ok(document) = Document::parse("x.json", text) else { panic!("not JSON: {text}") };
        let problem = document.blame(pointer, spot, "");
        (problem.line.unwrap_or(0), problem.column.unwrap_or(0), problem.path)
    }

    #[test]
    fn every_key_and_value_has_its_place() {
        let text = "{\n  \"a\": [1,\n    {\"b/c\": \"ü\", \"d\": true}]\n}";
        assert_eq!(at(text, "/a", Spot::Key), (2, 3, "a".into()));
        assert_eq!(at(text, "/a", Spot::Value), (2, 8, "a".into()));
        assert_eq!(at(text, "/a/1/b~1c", Spot::Key), (3, 6, "a[1].b/c".into()));
        assert_eq!(at(text, "/a/1/d", Spot::Value), (3, 23, "a[1].d".into()));
        assert_eq!(at(text, "/a/7/none", Spot::Key), (2, 3, "a[7].none".into()));
    }

    #[test]
    fn a_key_that_is_written_twice_is_found() {
        let document =
            Document::parse("x.json", "{\"a\": {\"b\": 1,\n \"b\": 2}}").map_err(|p| p.to_string());
        let repeated = document.map(|d| d.repeated().map(|p| p.to_string()).collect::<Vec<_>>());
        assert_eq!(
            repeated,
            Ok(vec!["x.json:2:2: a.b: this key is written twice; keep one of the two".to_owned()])
        );
    }
}
