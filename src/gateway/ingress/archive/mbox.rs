//! mbox files: separators, quoted `From` lines, and the dates in separators.

use super::{ArchiveEntry, time_in_header};
use crate::domain::Timestamp;
use crate::gateway::ingress::folder::{is_mbox_separator, with_crlf};
use chrono::{FixedOffset, NaiveDate, NaiveTime, TimeZone};
use std::io::{self, BufRead, Read};

/// Maximum bytes of a line that are read at once; separators are shorter.
const PIECE_BYTES_MAX: u64 = 64 * 1024;

/// Iterator over the letters of an mbox.
pub(super) struct MboxLetters<R> {
    reader: R,
    path: String,
    letter_bytes_max: usize,
    /// The separator of the next letter, if it is already read.
    separator: Option<LinePiece>,
    /// The piece read ahead to detect the beginning of a letter.
    ahead: Option<LinePiece>,
    is_at_line_start: bool,
    number: usize,
    read_bytes: u64,
}

/// A line with its line end, or a piece of a line that is too long.
struct LinePiece {
    bytes: Vec<u8>,
    begins_line: bool,
}

impl<R: BufRead> MboxLetters<R> {
    pub fn new(reader: R, path: String, letter_bytes_max: usize) -> Self {
        Self {
            reader,
            path,
            letter_bytes_max,
            separator: None,
            ahead: None,
            is_at_line_start: true,
            number: 0,
            read_bytes: 0,
        }
    }

    fn next_letter(&mut self) -> io::Result<Option<ArchiveEntry>> {
        let Some(separator) = self.begin()? else {
            return Ok(None);
        };
        self.number += 1;
        let mut letter = Gathered {
            bytes: Vec::new(),
            bytes_max: self.letter_bytes_max,
            is_too_large: false,
        };
        let mut is_after_blank = false;
        while let Some(piece) = self.piece()? {
            if is_after_blank && piece.is_separator() && self.letter_follows(&piece)? {
                self.separator = Some(piece);
                break;
            }
            is_after_blank = piece.begins_line && piece.bytes.trim_ascii().is_empty();
            letter.push(&piece);
        }
        let bytes = letter.finish();
        let received_at =
            date_of(&separator.bytes).or_else(|| bytes.as_deref().and_then(time_in_header));
        let archived_bytes = std::mem::take(&mut self.read_bytes);
        Ok(Some(ArchiveEntry {
            place: format!("{} #{}", self.path, self.number),
            bytes,
            received_at,
            archived_bytes,
        }))
    }

    /// Reads the separator of the next letter; text before the first separator is skipped.
    fn begin(&mut self) -> io::Result<Option<LinePiece>> {
        if let Some(separator) = self.separator.take() {
            return Ok(Some(separator));
        }
        while let Some(piece) = self.piece()? {
            if piece.is_separator() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }

    /// Reports whether the next line may begin a letter. Many programs leave `From` unquoted in
    /// texts, but few of those texts continue with a line like `Subject:`, and none has a full date
    /// before another possible beginning of a letter.
    fn letter_follows(&mut self, separator: &LinePiece) -> io::Result<bool> {
        let Some(next) = self.piece()? else {
            return Ok(false);
        };
        let name = next
            .bytes
            .split(|byte| *byte == b':')
            .next()
            .unwrap_or_default();
        let is_field = name.len() < next.bytes.len()
            && !name.is_empty()
            && name.iter().all(u8::is_ascii_graphic);
        // A separator of an mbox inside this mbox, or a letter without a header.
        let is_unheaded = next.bytes.starts_with(b">From ") || next.bytes.trim_ascii().is_empty();
        let is_dated = date_of(&separator.bytes).is_some();
        self.ahead = Some(next);
        Ok(is_field || is_unheaded && is_dated)
    }

    fn piece(&mut self) -> io::Result<Option<LinePiece>> {
        if let Some(piece) = self.ahead.take() {
            return Ok(Some(piece));
        }
        let mut bytes = Vec::new();
        let read = Read::take(&mut self.reader, PIECE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
        self.read_bytes += read as u64;
        let begins_line = std::mem::replace(&mut self.is_at_line_start, bytes.ends_with(b"\n"));
        Ok((read > 0).then_some(LinePiece { bytes, begins_line }))
    }
}

impl<R: BufRead> Iterator for MboxLetters<R> {
    type Item = io::Result<ArchiveEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_letter().transpose()
    }
}

impl LinePiece {
    fn is_separator(&self) -> bool {
        self.begins_line && is_mbox_separator(&self.bytes)
    }
}

/// A letter that is being assembled.
struct Gathered {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_too_large: bool,
}

impl Gathered {
    /// Appends a piece. `>From`, `>>From` and so on lose one `>`, as in mboxrd; mboxo quotes only
    /// `From`, and the two formats cannot be told apart.
    fn push(&mut self, piece: &LinePiece) {
        let quotes = piece.bytes.iter().take_while(|byte| **byte == b'>').count();
        let is_quoted =
            piece.begins_line && quotes > 0 && piece.bytes[quotes..].starts_with(b"From ");
        self.bytes
            .extend_from_slice(&piece.bytes[usize::from(is_quoted)..]);
        if self.bytes.len() > self.bytes_max {
            self.is_too_large = true;
            self.bytes = Vec::new();
        }
    }

    /// The letter without the blank line that ends every letter of an mbox.
    fn finish(mut self) -> Option<Vec<u8>> {
        if self.is_too_large {
            return None;
        }
        for blank in [&b"\r\n"[..], &b"\n"[..]] {
            if let Some(kept) = self
                .bytes
                .strip_suffix(blank)
                .filter(|kept| kept.ends_with(b"\n"))
            {
                self.bytes.truncate(kept.len());
                break;
            }
        }
        Some(with_crlf(self.bytes))
    }
}

/// The time in a separator, in UTC by RFC 4155: `From bob@guest.example Sat Jan  3 01:05:34 1996`.
/// Some programs write a zone before or after the year.
fn date_of(separator: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(separator).ok()?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let at = words.iter().rposition(|word| time(word).is_some())?;
    let month = month(words.get(at.checked_sub(2)?)?)?;
    let day = words[at - 1].parse().ok()?;
    let year = words[at + 1..]
        .iter()
        .find(|w| w.len() == 4)
        .and_then(|w| w.parse().ok())?;
    let zone = words[at + 1..]
        .iter()
        .find_map(|word| zone(word))
        .unwrap_or(0);
    let local = NaiveDate::from_ymd_opt(year, month, day)?.and_time(time(words[at])?);
    let instant = FixedOffset::east_opt(zone)?
        .from_local_datetime(&local)
        .single()?;
    Some(Timestamp::from_millis(instant.timestamp_millis()))
}

fn time(word: &str) -> Option<NaiveTime> {
    let is_time = word
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b':');
    let read = |format| NaiveTime::parse_from_str(word, format).ok();
    is_time
        .then(|| read("%H:%M:%S").or_else(|| read("%H:%M")))
        .flatten()
}

fn month(word: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let at = MONTHS
        .iter()
        .position(|month| word.eq_ignore_ascii_case(month))?;
    u32::try_from(at + 1).ok()
}

/// Seconds east of Greenwich of a zone such as `+0200`.
fn zone(word: &str) -> Option<i32> {
    let (sign, digits) = match word.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let is_zone = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: i32 = digits.parse().ok().filter(|_| is_zone)?;
    Some(sign * (number / 100 * 3600 + number % 100 * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, max: usize) -> Vec<(Option<String>, Option<String>)> {
        let letters = MboxLetters::new(text.as_bytes(), "a.mbox".to_owned(), max);
        let read = letters.map(|entry| entry.expect("readable"));
        let text = |bytes| String::from_utf8(bytes).expect("text");
        read.map(|entry| {
            (
                entry.bytes.map(text),
                entry.received_at.map(|at| at.to_string()),
            )
        })
        .collect()
    }

    #[test]
    fn letters_end_at_separators_and_quoted_lines_lose_one_mark() {
        let mbox = "From a@b.test Sat Jan  3 01:05:34 1996\nSubject: one\n\nFrom me to you at 12:30\n>From here\n\
            >>From there\n> From no\nnot\n\nFrom c@d.test Fri Feb 22 23:00:00 2008 +0200\r\nSubject: two\r\n\r\n\r\nlast";
        let read = read(mbox, 1000);
        let one =
            "Subject: one\n\nFrom me to you at 12:30\nFrom here\n>From there\n> From no\nnot\n";
        assert_eq!(
            read[0].0.as_deref(),
            Some(one.replace('\n', "\r\n").as_str())
        );
        assert_eq!(read[0].1.as_deref(), Some("1996-01-03T01:05:34.000Z"));
        assert_eq!(read[1].0.as_deref(), Some("Subject: two\r\n\r\n\r\nlast"));
        assert_eq!(read[1].1.as_deref(), Some("2008-02-22T21:00:00.000Z"));
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn a_letter_that_is_too_large_is_stepped_over_the_next_is_read() {
        let large = format!(
            "From a@b.test Sat Jan 3 01:05:34 1996\nSubject: large\n\n{}\n\n",
            "x".repeat(300_000)
        );
        let mbox =
            format!("{large}From a@b.test Sat Jan 3 01:05:35 1996\nSubject: small\n\nok\n\n");
        let read = read(&mbox, 1000);
        assert_eq!(read[0].0, None);
        assert_eq!(read[1].0.as_deref(), Some("Subject: small\r\n\r\nok\r\n"));
    }

    #[test]
    fn the_time_falls_back_on_the_header() {
        let mbox = "From - 12:00\nReceived: from a by b;\n Fri, 20 Nov 2026 08:00:00 +0100\n\
            Date: Thu, 19 Nov 2026 08:00:00 +0000\n\nhi\n";
        assert_eq!(
            read(mbox, 1000)[0].1.as_deref(),
            Some("2026-11-20T07:00:00.000Z")
        );
    }
}
