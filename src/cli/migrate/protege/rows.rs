//! Rows of `messages` as the letters that they tell of. Columns are known by several names, because the layout of the other
//! database is not documented; `metadata_json` fills in what no column has.

use super::addresses;
use super::personas::SourcePersona;
use crate::domain::{Address, Timestamp, sha256_hex};
use crate::mime::{HistoryLetter, html_to_text};
use crate::store::ForeignRow;
use chrono::NaiveDateTime;
use serde_json::Value;
use std::collections::BTreeMap;

pub const DIRECTION: [&str; 1] = ["direction"];
pub const RAW_PATH: [&str; 1] = ["raw_mime_path"];
const ID: [&str; 1] = ["id"];
pub const THREAD: [&str; 1] = ["thread_id"];
const MESSAGE_ID: [&str; 3] = ["message_id", "rfc_message_id", "internet_message_id"];
const IN_REPLY_TO: [&str; 1] = ["in_reply_to"];
const REFERENCES: [&str; 3] = ["references_json", "references", "references_header"];
const SENDER: [&str; 4] = ["sender", "from_address", "from_email", "from"];
const TO: [&str; 5] = [
    "recipients",
    "recipients_json",
    "to_addresses",
    "to_json",
    "to",
];
const CC: [&str; 3] = ["cc", "cc_json", "cc_addresses"];
const SUBJECT: [&str; 1] = ["subject"];
pub const TEXT: [&str; 4] = ["text_body", "body_text", "text", "body"];
const HTML: [&str; 3] = ["html_body", "body_html", "html"];
pub const AT: [&str; 3] = ["received_at", "sent_at", "created_at"];
const METADATA: [&str; 2] = ["metadata_json", "metadata"];

/// Direction of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowDirection {
    Inbound,
    Outbound,
    Synthetic,
}

/// What a row says, before the letter itself is looked for.
pub struct ProtegeMessage<'r> {
    row: &'r ForeignRow,
    metadata: Value,
    pub direction: RowDirection,
    pub message_id: Option<String>,
    pub at: Option<Timestamp>,
}

/// What is known of a thread from the rows before one.
#[derive(Debug, Default)]
struct ThreadSoFar {
    root: String,
    last: String,
    /// Who wrote to the persona last.
    correspondent: Option<Address>,
}

/// Threads by their id there.
#[derive(Debug, Default)]
pub struct ThreadsSoFar(BTreeMap<String, ThreadSoFar>);

impl<'r> ProtegeMessage<'r> {
    /// Errors: the row has no known direction.
    pub fn read(row: &'r ForeignRow) -> Result<Self, String> {
        let direction = match row.text(&DIRECTION) {
            Some("inbound") => RowDirection::Inbound,
            Some("outbound") => RowDirection::Outbound,
            Some("synthetic") => RowDirection::Synthetic,
            other => return Err(format!("`{}` is no direction", other.unwrap_or_default())),
        };
        let metadata = row
            .text(&METADATA)
            .and_then(|text| serde_json::from_str(text).ok());
        let metadata: Value = metadata.unwrap_or_default();
        let id = row
            .text(&MESSAGE_ID)
            .or_else(|| text_of(&metadata, &["messageId", "message_id"]));
        Ok(Self {
            message_id: id.map(bare).filter(|id| !id.is_empty()),
            at: row.text(&AT).and_then(instant),
            metadata,
            direction,
            row,
        })
    }

    /// Name of the row in a finding.
    pub fn name(&self) -> String {
        self.row.text(&ID).map_or_else(
            || format!("row {}", self.row.rowid),
            |id| format!("row {id}"),
        )
    }

    pub fn raw_path(&self) -> Option<&str> {
        self.row.text(&RAW_PATH)
    }

    pub fn thread(&self) -> Option<&str> {
        self.row.text(&THREAD)
    }

    /// Reports whether the row has no words and no letter.
    pub fn is_empty(&self) -> bool {
        self.raw_path().is_none()
            && self.row.text(&TEXT).is_none()
            && self.row.text(&HTML).is_none()
    }

    /// Attachments that the row names: file names, types and paths.
    pub fn attachments(&self) -> Vec<(String, String, String)> {
        let listed = self.metadata["attachments"].as_array();
        let named = listed.into_iter().flatten().filter_map(|file| {
            let path = text_of(file, &["path", "filePath", "storagePath"])?;
            let last = path.rsplit('/').next().unwrap_or(path);
            let name = text_of(file, &["filename", "name"]).unwrap_or(last);
            let kind = text_of(file, &["contentType", "content_type", "mimeType"])
                .unwrap_or("application/octet-stream");
            Some((name.to_owned(), kind.to_owned(), path.to_owned()))
        });
        named.collect()
    }

    /// The letter that the row tells of. Errors: what it lacks.
    pub fn letter(
        &self,
        persona: &SourcePersona,
        threads: &ThreadsSoFar,
        database: &str,
    ) -> Result<HistoryLetter, String> {
        let thread = self.thread().and_then(|id| threads.0.get(id));
        let own = (persona.name.clone(), persona.address.clone());
        let mut to = self.people(&TO, "to");
        let from = match self.direction {
            RowDirection::Inbound => {
                let mut senders = self.people(&SENDER, "from").into_iter();
                let from = senders.next().ok_or("names no sender")?;
                if to.is_empty() {
                    to.push(own);
                }
                from
            }
            _ => {
                let correspondent = thread.and_then(|thread| thread.correspondent.clone());
                if to.is_empty() {
                    to.extend(correspondent.map(|address| (String::new(), address)));
                }
                own
            }
        };
        if to.is_empty() {
            return Err("names no recipient".to_owned());
        }
        let to: Vec<Address> = to.into_iter().map(|(_, address)| address).collect();
        let (in_reply_to, references) = self.links(thread, &to);
        self.check_length()?;
        let html = self.row.text(&HTML).map(str::to_owned);
        let text = self.row.text(&TEXT).map(str::to_owned);
        let text = text
            .or_else(|| html.as_deref().map(html_to_text))
            .unwrap_or_default();
        let subject = self
            .row
            .text(&SUBJECT)
            .or_else(|| text_of(&self.metadata, &["subject"]));
        let cc = self.people(&CC, "cc").into_iter();
        Ok(HistoryLetter {
            message_id: self
                .message_id
                .clone()
                .unwrap_or_else(|| self.made_id(persona)),
            date: self.at.ok_or("has no time")?,
            from,
            to,
            cc: cc.map(|(_, address)| address).collect(),
            subject: subject.unwrap_or_default().to_owned(),
            in_reply_to,
            references,
            text,
            html,
            attachments: Vec::new(),
            source: format!(
                "composed from {} of {database}, a database of Protege: the letter itself was not there",
                self.name()
            ),
        })
    }

    /// Errors: a text is cut; it is no letter, and its own length is told.
    fn check_length(&self) -> Result<(), String> {
        for columns in [TEXT.as_slice(), &HTML] {
            if let Some(bytes) = self.row.cut_bytes(columns) {
                let name = columns[0];
                return Err(format!(
                    "`{name}` has {bytes} bytes, more than a letter may have"
                ));
            }
        }
        Ok(())
    }

    fn people(&self, columns: &[&str], key: &str) -> Vec<(String, Address)> {
        let found = self
            .row
            .text(columns)
            .map(addresses::read)
            .unwrap_or_default();
        match found.is_empty() {
            true => addresses::of_json(&self.metadata[key]),
            false => found,
        }
    }

    /// The ids that the letter answers: the row's, or else those of its thread, where its recipients belong to it.
    fn links(&self, thread: Option<&ThreadSoFar>, to: &[Address]) -> (Option<String>, Vec<String>) {
        let parent = self
            .row
            .text(&IN_REPLY_TO)
            .or_else(|| text_of(&self.metadata, &["inReplyTo", "in_reply_to"]));
        let references = self.row.text(&REFERENCES).map(ids).unwrap_or_default();
        if parent.is_some() || !references.is_empty() {
            return (parent.map(bare), references);
        }
        let belongs = |thread: &&ThreadSoFar| match (&thread.correspondent, self.direction) {
            (Some(correspondent), RowDirection::Outbound) => to
                .iter()
                .any(|address| address.key() == correspondent.key()),
            _ => true,
        };
        match thread.filter(belongs) {
            Some(thread) => {
                let mut references = vec![thread.root.clone(), thread.last.clone()];
                references.dedup();
                (Some(thread.last.clone()), references)
            }
            None => (None, Vec::new()),
        }
    }

    /// An id for a letter without one: the same each time.
    fn made_id(&self, persona: &SourcePersona) -> String {
        let (thread, name) = (self.thread().unwrap_or_default(), self.name());
        let digest = sha256_hex(&[thread.as_bytes(), &[0], name.as_bytes()]);
        format!("protege.{}@{}", &digest[..32], persona.address.domain())
    }
}

impl ThreadsSoFar {
    /// Notes a letter of a thread.
    pub fn note(
        &mut self,
        thread: Option<&str>,
        direction: RowDirection,
        id: &str,
        sender: Option<&Address>,
    ) {
        let Some(thread) = thread else {
            return;
        };
        let known = self
            .0
            .entry(thread.to_owned())
            .or_insert_with(|| ThreadSoFar {
                root: id.to_owned(),
                ..ThreadSoFar::default()
            });
        known.last = id.to_owned();
        if direction == RowDirection::Inbound {
            known.correspondent = sender.cloned().or_else(|| known.correspondent.take());
        }
    }
}

/// A Message-ID without its brackets.
pub fn bare(id: &str) -> String {
    id.trim()
        .trim_start_matches('<')
        .trim_end_matches('>')
        .to_owned()
}

fn text_of<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v str> {
    keys.iter()
        .find_map(|key| value[*key].as_str())
        .filter(|text| !text.trim().is_empty())
}

/// Message-IDs of a list in JSON, or of a header field.
fn ids(text: &str) -> Vec<String> {
    let listed: Option<Vec<String>> = serde_json::from_str(text).ok();
    let all = listed.unwrap_or_else(|| {
        text.split([' ', ',', '\t', '\n', '\r'])
            .map(str::to_owned)
            .collect()
    });
    all.iter()
        .map(|id| bare(id))
        .filter(|id| !id.is_empty())
        .collect()
}

/// An instant as RFC 3339, as SQLite writes it (UTC), or in seconds or milliseconds since 1970.
fn instant(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(number) = text.parse::<i64>() {
        // Seconds of the year 5138 are milliseconds of 1973.
        let ms = if number.abs() < 100_000_000_000 {
            number.checked_mul(1000)?
        } else {
            number
        };
        return Some(Timestamp::from_millis(ms));
    }
    let plain = || {
        let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"];
        let read = formats
            .iter()
            .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
        read.map(|time| Timestamp::from(time.and_utc()))
    };
    Timestamp::parse(text).or_else(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_in_every_form() {
        let wanted = Timestamp::parse("2026-03-01T09:00:00Z");
        for text in [
            "2026-03-01T09:00:00.000Z",
            "2026-03-01 09:00:00",
            "1772355600",
            "1772355600000",
        ] {
            assert_eq!(instant(text), wanted, "{text}");
        }
        assert_eq!(instant("yesterday"), None);
    }

    #[test]
    fn ids_are_read_from_json_and_from_a_field() {
        assert_eq!(ids("[\"<a@x>\", \"b@x\"]"), ["a@x", "b@x"]);
        assert_eq!(ids("<a@x>\r\n <b@x>"), ["a@x", "b@x"]);
    }
}
