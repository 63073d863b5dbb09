//! The bytes of a letter: the raw file that its row names, or else a letter composed from the row.

use super::findings::{FindingKind, MigrationFindings};
use super::personas::SourcePersona;
use super::rows::{ProtegeMessage, RowDirection, ThreadsSoFar, bare};
use super::source::{SourceFolder, below};
use crate::domain::{Address, Timestamp};
use crate::mime::{Header, OutgoingAttachment, compose_history};

/// Bytes of a letter, and what places it.
pub struct HistoricLetter {
    pub bytes: Vec<u8>,
    pub at: Option<Timestamp>,
    pub sender: Option<Address>,
}

/// Where letters of a persona are looked for.
pub struct LetterSource<'a> {
    pub folder: &'a SourceFolder,
    pub persona: &'a SourcePersona,
    /// Path of the database.
    pub database: &'a str,
    pub bytes_max: u64,
}

impl LetterSource<'_> {
    /// The letter of a row. Errors: what it lacks.
    pub fn letter(
        &self,
        row: &ProtegeMessage<'_>,
        threads: &mut ThreadsSoFar,
        findings: &mut MigrationFindings,
    ) -> Result<HistoricLetter, String> {
        let raw = row.raw_path().map(|path| self.raw(row, path));
        let found = match raw {
            Some(Ok(bytes)) => self.of_raw(row, bytes),
            other => {
                let composed = self.composed(row, threads, findings)?;
                if let Some(Err(what)) = other {
                    let remedy = "its words were taken from the row; put the file back and say the command in a new workspace to have the letter itself";
                    let place = format!("{}: messages, {}", self.database, row.name());
                    findings.add(FindingKind::Broken, place, what, remedy);
                }
                composed
            }
        };
        let header = Header::read(&found.bytes);
        let id = header.fields().find(|(name, _)| *name == "message-id");
        if let Some((_, id)) = id {
            let id = bare(&String::from_utf8_lossy(id));
            threads.note(row.thread(), row.direction, &id, found.sender.as_ref());
        }
        Ok(found)
    }

    /// The raw file of a row. Errors: it is not there, or it is another letter's.
    fn raw(&self, row: &ProtegeMessage<'_>, path: &str) -> Result<Vec<u8>, String> {
        let bytes = self
            .file(path)?
            .ok_or_else(|| format!("the raw letter `{path}` is not there"))?;
        let id = message_id(&bytes);
        match (&row.message_id, id) {
            (Some(named), Some(read)) if *named != read => {
                Err(format!("the raw letter `{path}` is another letter's"))
            }
            _ => Ok(bytes),
        }
    }

    fn of_raw(&self, row: &ProtegeMessage<'_>, bytes: Vec<u8>) -> HistoricLetter {
        // A letter that came without an id was given one there, by which later letters know it.
        let bytes = match (message_id(&bytes), &row.message_id) {
            (None, Some(id))
                if id
                    .bytes()
                    .all(|b| b.is_ascii_graphic() && b != b'<' && b != b'>') =>
            {
                [format!("Message-ID: <{id}>\r\n").as_bytes(), &bytes].concat()
            }
            _ => bytes,
        };
        let header = Header::read(&bytes);
        let from = header.mailboxes("from");
        HistoricLetter {
            at: row.at.or_else(|| header.date()),
            sender: from.first().and_then(crate::domain::Mailbox::address),
            bytes,
        }
    }

    fn composed(
        &self,
        row: &ProtegeMessage<'_>,
        threads: &ThreadsSoFar,
        findings: &mut MigrationFindings,
    ) -> Result<HistoricLetter, String> {
        let mut letter = row.letter(self.persona, threads, self.database)?;
        for (filename, content_type, path) in row.attachments() {
            match self.file(&path) {
                Ok(Some(bytes)) => letter.attachments.push(OutgoingAttachment {
                    filename,
                    content_type,
                    bytes,
                }),
                missing => {
                    let what = missing.err().unwrap_or_else(|| "is not there".to_owned());
                    let place = format!("{}: messages, {}", self.database, row.name());
                    findings.broken(&place, format!("the attachment `{path}` {what}"));
                }
            }
        }
        let bytes = compose_history(&letter).map_err(|error| error.to_string())?;
        Ok(HistoricLetter {
            bytes,
            at: row.at,
            sender: (row.direction == RowDirection::Inbound).then_some(letter.from.1),
        })
    }

    /// A file that a row names: as it is, below the persona's folders, or beside the database. A path of another machine is looked
    /// for by its end.
    fn file(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        let root = self.folder.path.to_string_lossy();
        let path = path.strip_prefix(&*root).unwrap_or(path);
        let parts: Vec<&str> = path
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        let mut places: Vec<String> = Vec::new();
        let beside = self
            .database
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        let folders = [
            "".to_owned(),
            beside.to_owned(),
            format!("memory/{}", self.persona.folder),
            format!("personas/{}", self.persona.folder),
        ];
        places.extend(folders.iter().map(|folder| below(folder, &parts.join("/"))));
        // A single name is too little to know a file by.
        let ends = (1..parts.len().saturating_sub(1)).filter(|_| path.starts_with('/'));
        places.extend(ends.map(|from| parts[from..].join("/")));
        for place in places.iter().filter(|place| !place.is_empty()) {
            if let Some(bytes) = self.folder.bytes(place, self.bytes_max)? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

fn message_id(bytes: &[u8]) -> Option<String> {
    let header = Header::read(bytes);
    let id = header.fields().find(|(name, _)| *name == "message-id")?.1;
    Some(bare(&String::from_utf8_lossy(id))).filter(|id| !id.is_empty())
}
