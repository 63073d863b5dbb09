//! Zip archives within bounds: number of files, unpacked bytes, and their ratio to the packed ones.

use crate::extract::document::{DecodeError, DocumentKind, Extracted};
use crate::extract::limits::ExtractLimits;
use std::io::{Cursor, Read};
use zip::ZipArchive;
use zip::result::ZipError;

/// Most names of an archive that are listed.
const LISTED_MAX: usize = 200;
/// Unpacked bytes that may have any ratio.
const SMALL_BYTES: u64 = 1024 * 1024;
/// End of the central directory, with its comment (APPNOTE.TXT 6.3.10, section 4.3.16).
const END_BYTES_MAX: usize = 22 + 65_535;

/// An archive whose directory was read.
pub struct ZipFile<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    limits: &'a ExtractLimits,
    unpacked: u64,
}

impl<'a> ZipFile<'a> {
    pub fn open(bytes: &'a [u8], limits: &'a ExtractLimits) -> Result<Self, DecodeError> {
        // Read before the directory is: a million entries are a million allocations.
        let entries = entry_count(bytes);
        if entries > limits.entries_max {
            let most = limits.entries_max;
            return Err(DecodeError::TooLarge(format!(
                "it holds more than {most} files"
            )));
        }
        Ok(Self {
            archive: ZipArchive::new(Cursor::new(bytes)).map_err(broken)?,
            limits,
            unpacked: 0,
        })
    }

    /// Returns the names of the files, in their order.
    pub fn names(&self) -> Vec<String> {
        let names = self.archive.file_names().filter_map(Result::ok);
        names.map(std::borrow::Cow::into_owned).collect()
    }

    /// Returns a file; `None`: there is none of that name.
    pub fn file(&mut self, name: &str) -> Result<Option<Vec<u8>>, DecodeError> {
        let limits = self.limits;
        let file = match self.archive.by_name(name) {
            Err(ZipError::FileNotFound) => return Ok(None),
            file => file.map_err(broken)?,
        };
        let packed = file.compressed_size().max(1);
        let left = limits.unpacked_bytes_max.saturating_sub(self.unpacked);
        let bytes_max = left.min(packed.saturating_mul(limits.ratio_max).max(SMALL_BYTES));
        let mut bytes = Vec::new();
        let read = file
            .take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes);
        read.map_err(|error| DecodeError::Broken(error.to_string()))?;
        if bytes.len() as u64 > bytes_max {
            let why = format!("`{}` unpacks to more than {bytes_max} bytes", shown(name));
            return Err(DecodeError::TooLarge(why));
        }
        self.unpacked += bytes.len() as u64;
        Ok(Some(bytes))
    }
}

/// Returns the number of entries as the end of the directory has it.
fn entry_count(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(END_BYTES_MAX)..];
    let end = tail.windows(4).rposition(|piece| piece == b"PK\x05\x06");
    let count = end.and_then(|at| tail.get(at + 10..at + 12));
    // 65535 stands for a number that is in the zip64 record.
    count.map_or(0, |count| {
        usize::from(u16::from_le_bytes([count[0], count[1]]))
    })
}

fn broken(error: ZipError) -> DecodeError {
    match error {
        ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) | ZipError::InvalidPassword => {
            DecodeError::Encrypted
        }
        error => DecodeError::Broken(error.to_string()),
    }
}

fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(120).collect()
}

/// Lists what an archive holds, without unpacking anything.
pub fn listed(bytes: &[u8], limits: &ExtractLimits) -> Result<Extracted, DecodeError> {
    let mut read = Extracted::empty(DocumentKind::Archive);
    read.note("it is an archive; archives are not unpacked, ask for the files themselves");
    if !bytes.starts_with(b"PK") {
        return Ok(read);
    }
    let archive = ZipFile::open(bytes, limits)?;
    let names = archive.names();
    let mut lines: Vec<String> = names
        .iter()
        .take(LISTED_MAX)
        .map(|name| shown(name))
        .collect();
    if names.len() > LISTED_MAX {
        lines.push(format!("and {} more", names.len() - LISTED_MAX));
        read.cut = true;
    }
    read.text = Some(lines.join("\n"));
    Ok(read)
}
