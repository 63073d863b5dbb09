//! One JSON file as text, as a value, and as a map from JSON pointers to lines and columns.
//!
//! `serde_json` reports a position only with an error; the checks of this folder run much later, so
//! the positions of every key and value are kept here.

use super::problem::Problem;
use super::syntax::{self, line_and_column};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// A JSON file that could be read.
#[derive(Default)]
pub struct Document {
    /// Path below the workspace, as it is printed.
    pub file: String,
    pub value: Value,
    text: String,
    /// Byte offsets by JSON pointer.
    places: BTreeMap<String, Position>,
    /// Pointers of keys that occur twice.
    repeated: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Position {
    /// Offset of the key's opening quote; for items of arrays, the start of the value.
    key: usize,
    value: usize,
}

/// Part of a member that a problem points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    Key,
    Value,
}

impl Document {
    /// Parses JSON text. Errors: the position of the syntax error.
    pub fn parse(file: &str, text: &str) -> Result<Self, Box<Problem>> {
        let not_json = |error: serde_json::Error| Box::new(syntax::problem(file, text, &error));
        let value: Value = serde_json::from_str(text).map_err(not_json)?;
        let raw: &RawValue = serde_json::from_str(text).map_err(not_json)?;
        let mut collector = PositionCollector {
            text,
            places: BTreeMap::new(),
            repeated: Vec::new(),
        };
        collector
            .visit("", collector.offset(raw.get()), raw)
            .map_err(not_json)?;
        let PositionCollector {
            places, repeated, ..
        } = collector;
        Ok(Self {
            file: file.to_owned(),
            value,
            text: text.to_owned(),
            places,
            repeated,
        })
    }

    /// Builds a problem with the value at a JSON pointer.
    pub fn problem_at(&self, pointer: &str, message: impl Into<String>) -> Problem {
        self.problem(pointer, Spot::Value, message)
    }

    /// Builds a problem with the key at a JSON pointer.
    pub fn problem_at_key(&self, pointer: &str, message: impl Into<String>) -> Problem {
        self.problem(pointer, Spot::Key, message)
    }

    /// Reports whether a JSON pointer has a non-null value, valid or not.
    pub fn has(&self, pointer: &str) -> bool {
        self.value
            .pointer(pointer)
            .is_some_and(|value| !value.is_null())
    }

    /// Builds a problem at a JSON pointer. A pointer to a missing member points at the nearest
    /// existing parent.
    pub fn problem(&self, pointer: &str, spot: Spot, message: impl Into<String>) -> Problem {
        let mut at = pointer;
        let place = loop {
            match (self.places.get(at), at.rfind('/')) {
                (Some(place), _) => break Some(*place),
                (None, Some(cut)) => at = &at[..cut],
                (None, None) => break None,
            }
        };
        let offset = place.map_or(0, |place| {
            if spot == Spot::Key {
                place.key
            } else {
                place.value
            }
        });
        let (line, column) = line_and_column(&self.text, offset);
        let mut problem = Problem::in_file(&self.file, message);
        problem.path = dotted(pointer);
        (problem.line, problem.column) = (Some(line), Some(column));
        problem
    }

    /// Pointers of every key and item, parents first.
    pub fn pointers(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Problems for keys that occur twice: JSON readers differ in which value they use.
    pub fn repeated(&self) -> impl Iterator<Item = Problem> {
        let repeated = self.repeated.iter();
        repeated.map(|pointer| {
            self.problem(pointer, Spot::Key, "this key is written twice")
                .hint("keep one of the two")
        })
    }
}

/// The pointer of a member or an item below `parent` (RFC 6901 section 3).
pub fn child(parent: &str, key: impl fmt::Display) -> String {
    format!(
        "{parent}/{}",
        key.to_string().replace('~', "~0").replace('/', "~1")
    )
}

/// The last part of a pointer, unescaped.
pub fn last_key(pointer: &str) -> String {
    pointer
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .replace("~1", "/")
        .replace("~0", "~")
}

/// Formats `/listeners/0/address` as `listeners[0].address`.
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

/// Collects positions: every raw value is a slice of the text, so its address gives its offset.
struct PositionCollector<'t> {
    text: &'t str,
    places: BTreeMap<String, Position>,
    repeated: Vec<String>,
}

impl<'t> PositionCollector<'t> {
    fn offset(&self, part: &'t str) -> usize {
        part.as_ptr()
            .addr()
            .saturating_sub(self.text.as_ptr().addr())
    }

    /// Visits a value and its members. Depth is bounded: the text was read as a [`Value`] before,
    /// which refuses more than 128 levels.
    fn visit(&mut self, pointer: &str, key: usize, raw: &'t RawValue) -> serde_json::Result<()> {
        let value = self.offset(raw.get());
        if self
            .places
            .insert(pointer.to_owned(), Position { key, value })
            .is_some()
        {
            self.repeated.push(pointer.to_owned());
        }
        match raw.get().as_bytes().first() {
            Some(b'{') => {
                let Members(members) = serde_json::from_str(raw.get())?;
                for (key, member) in members {
                    let place = key
                        .raw
                        .map_or(self.offset(member.get()), |raw| self.offset(raw) - 1);
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

/// The members of an object in order, including repeated keys.
struct Members<'t>(Vec<(MemberKey<'t>, &'t RawValue)>);

/// A key, with the slice that it was read from when it has no escapes.
struct MemberKey<'t> {
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

impl<'de> serde::Deserialize<'de> for MemberKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(MemberKeyVisitor)
    }
}

struct MemberKeyVisitor;

impl<'de> Visitor<'de> for MemberKeyVisitor {
    type Value = MemberKey<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(MemberKey {
            text: text.to_owned(),
            raw: Some(text),
        })
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(MemberKey {
            text: text.to_owned(),
            raw: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, pointer: &str, spot: Spot) -> (usize, usize, String) {
        let Ok(document) = Document::parse("x.json", text) else {
            panic!("not JSON: {text}")
        };
        let problem = document.problem(pointer, spot, "");
        (
            problem.line.unwrap_or(0),
            problem.column.unwrap_or(0),
            problem.path,
        )
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
            Ok(vec![
                "x.json:2:2: a.b: this key is written twice; keep one of the two".to_owned()
            ])
        );
    }
}
