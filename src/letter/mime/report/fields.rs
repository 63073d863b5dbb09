//! Groups of fields as reports write them: `Name: value` lines, continued by indented ones, divided
//! by blank lines (RFC 3464 section 2.1).

use crate::mime::headers::fields::ids;

/// Groups of one report that are read.
const GROUPS_MAX: usize = 200;

/// The fields of one group, in order, with lower-case names.
pub(super) struct Group(Vec<(String, String)>);

impl Group {
    /// Returns the first field of that (lower-case) name that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }
    /// Returns every field of that (lower-case) name.
    pub(super) fn all(&self, name: &'static str) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
    /// Returns the text after the type of an address or of a diagnostic: `rfc822; a@b.test`,
    /// `smtp; 550 no`.
    pub(super) fn typed(&self, name: &str) -> Option<&str> {
        self.get(name).map(without_type)
    }
    /// Returns the first Message-ID of a field, without its brackets.
    pub(super) fn message_id(&self, name: &str) -> Option<String> {
        ids(self.get(name)?.as_bytes()).into_iter().next()
    }
    /// Returns the address of a typed field, without its brackets.
    pub(super) fn address(&self, name: &str) -> Option<String> {
        self.typed(name).and_then(address)
    }
}

/// Returns the address in a field: without brackets, comments and illegal characters.
pub(super) fn address(text: &str) -> Option<String> {
    let bracketed = text
        .split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(inside, _)| inside);
    let address = bracketed
        .unwrap_or(text)
        .split_whitespace()
        .next()
        .unwrap_or_default();
    let is_fit = address.contains('@')
        && address.len() <= 320
        && !address.contains(|c: char| c.is_control() || c == '<' || c == '>');
    is_fit.then(|| address.to_owned())
}

fn without_type(value: &str) -> &str {
    match value.split_once(';') {
        Some((kind, rest)) if !kind.trim().contains(char::is_whitespace) && kind.len() <= 32 => {
            rest.trim()
        }
        _ => value.trim(),
    }
}

/// Returns the name of a field, lower case, and its value, when the line begins a field.
pub(super) fn named(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.split_once(':')?;
    let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let is_name = (2..=60).contains(&name.len()) && name.bytes().all(legal);
    is_name.then(|| (name.to_ascii_lowercase(), value.trim()))
}

/// Returns all groups of a text; lines that are no fields are ignored.
pub(super) fn groups(text: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut open: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            if !open.is_empty() {
                groups.push(Group(std::mem::take(&mut open)));
            }
            if groups.len() >= GROUPS_MAX {
                break;
            }
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = open.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = named(line) {
            // Each recipient has one `Final-Recipient`; some reporters forget the blank line
            // between recipients.
            if name == "final-recipient" && open.iter().any(|(known, _)| *known == name) {
                let last = std::mem::take(&mut open);
                groups.push(Group(last));
            }
            open.push((name, value.to_owned()));
        }
    }
    groups
}
