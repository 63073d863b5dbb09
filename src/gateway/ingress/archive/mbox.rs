//! mbox files: separators, quoted `From` lines, and the dates in separators.

use super::{Entry, time_in_header};
use crate::domain::Timestamp;
use crate::gateway::ingress::folder::{is_mbox_separator, with_crlf};
use chrono::{FixedOffset, NaiveDate, NaiveTime, TimeZone};
use std::io::{self, BufRead, Read};

/// Longest piece of a line that is read at once; no separator is longer.
const PIECE_BYTES_MAX: u64 = 64 * 1024;

/// The letters of an mbox, one after the other.
pub(super) struct Letters<R> {
    reader: R,
    path: String,
    letter_bytes_max: usize,
    /// The separator of the next letter, when it was read already.
    separator: Option<Piece>,
    /// What was read to see whether a letter begins.
    ahead: Option<Piece>,
    is_at_line_start: bool,
    number: usize,
    read_bytes: u64,
}

/// A line with its end, or a piece of a line that is too long.
struct Piece {
    bytes: Vec<u8>,
    begins_line: bool,
}

impl<R: BufRead> Letters<R> {
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

    fn next_letter(&mut self) -> io::Result<Option<Entry>> {
        let Some(separator) = self.begin()? else { return Ok(None) };
        self.number += 1;
        let mut letter =
            Gathered { bytes: Vec::new(), bytes_max: self.letter_bytes_max, is_too_large: false };
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
        let received_at = date_of(&separator.bytes).or_else(|| bytes.as_deref().and_then(time_in_header));
        let archived_bytes = std::mem::take(&mut self.read_bytes);
        Ok(Some(Entry {
            place: format!("{} #{}", self.path, self.number),
            bytes,
            received_at,
            archived_bytes,
        }))
    }

    /// The separator of the next letter; what stands before the first one is stepped over.
    fn begin(&mut self) -> io::Result<Option<Piece>> {
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

    /// Whether the next line could begin a letter. Many programs leave `From` unquoted in texts, but few of those texts go
    /// on with something like `Subject:`, and none has a whole date before anything else that may begin a letter.
    fn letter_follows(&mut self, separator: &Piece) -> io::Result<bool> {
        let Some(next) = self.piece()? else { return Ok(false) };
        let name = next.bytes.split(|byte| *byte == b':').next().unwrap_or_default();
        let is_field =
            name.len() < next.bytes.len() && !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
        // A separator of an archive inside the archive, or a letter without a header.
        let is_unheaded = next.bytes.starts_with(b">From ") || next.bytes.trim_ascii().is_empty();
        let is_dated = date_of(&separator.bytes).is_some();
        self.ahead = Some(next);
        Ok(is_field || is_unheaded && is_dated)
    }

    fn piece(&mut self) -> io::Result<Option<Piece>> {
        if let Some(piece) = self.ahead.take() {
            return Ok(Some(piece));
        }
        let mut bytes = Vec::new();
        let read = Read::take(&mut self.reader, PIECE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
        self.read_bytes += read as u64;
        let begins_line = std::mem::replace(&mut self.is_at_line_start, bytes.ends_with(b"\n"));
        Ok((read > 0).then_some(Piece { bytes, begins_line }))
    }
}

impl<R: BufRead> Iterator for Letters<R> {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_letter().transpose()
    }
}

impl Piece {
    fn is_separator(&self) -> bool {
        self.begins_line && is_mbox_separator(&self.bytes)
    }
}

/// A letter while it is put together.
struct Gathered {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_too_large: bool,
}

impl Gathered {
    /// `>From`, `>>From` and so on lose one `>`, as mboxrd has it; mboxo quotes only the first of them, and nobody can
    /// tell the two apart.
    fn push(&mut self, piece: &Piece) {
        let quotes = piece.bytes.iter().take_while(|byte| **byte == b'>').count();
        let is_quoted = piece.begins_line && quotes > 0 && piece.bytes[quotes..].starts_with(b"From ");
        self.bytes.extend_from_slice(&piece.bytes[usize::from(is_quoted)..]);
        if self.bytes.len() > self.bytes_max {
            self.is_too_large = true;
            self.bytes = Vec::new();
        }
    }

    /// Without the blank line that every letter of an mbox ends in.
    fn finish(mut self) -> Option<Vec<u8>> {
        if self.is_too_large {
            return None;
        }
        for blank in [&b"\r\n"[..], &b"\n"[..]] {
            if let Some(kept) = self.bytes.strip_suffix(blank).filter(|kept| kept.ends_with(b"\n")) {
                self.bytes.truncate(kept.len());
                break;
            }
        }
        Some(with_crlf(self.bytes))
    }
}

/// The time in a separator, by RFC 4155 in UTC: `From bob@guest.example Sat Jan  3 01:05:34 1996`. Some write the zone
/// before or behind the year.
fn date_of(separator: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(separator).ok()?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let at = words.iter().rposition(|word| time(word).is_some())?;
    let month = month(words.get(at.checked_sub(2)?)?)?;
    let day = words[at - 1].parse().ok()?;
    let year = words[at + 1..].iter().find(|w| w.len() == 4).and_then(|w| w.parse().ok())?;
    let zone = words[at + 1..].iter().find_map(|word| zone(word)).unwrap_or(0);
    let local = NaiveDate::from_ymd_opt(year, month, day)?.and_time(time(words[at])?);
    let instant = FixedOffset::east_opt(zone)?.from_local_datetime(&local).single()?;
    Some(Timestamp::from_millis(instant.timestamp_millis()))
}

fn time(word: &str) -> Option<NaiveTime> {
    let is_time = word.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let read = |format| NaiveTime::parse_from_str(word, format).ok();
    is_time.then(|| read("%H:%M:%S").or_else(|| read("%H:%M"))).flatten()
}

fn month(word: &str) -> Option<u32> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let at = MONTHS.iter().position(|month| word.eq_ignore_ascii_case(month))?;
    u32::try_from(at + 1).ok()
}

/// Seconds east of Greenwich of `+0200`.
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
        let letters = Letters::new(text.as_bytes(), "a.mbox".to_owned(), max);
        let read = letters.map(|entry| entry.expect("readable"));
        let text = |bytes| String::from_utf8(bytes).expect("text");
        read.map(|entry| (entry.bytes.map(text), entry.received_at.map(|at| at.to_string()))).collect()
    }

    #[test]
    fn letters_end_at_separators_and_quoted_lines_lose_one_mark() {
        let mbox = "From a@b.test Sat Jan  3 01:05:34 1996\nSubject: one\n\nFrom me to you at 12:30\n>From here\n\
            >>From there\n> From no\nnot\n\nFrom c@d.test Fri Feb 22 23:00:00 2008 +0200\r\nSubject: two\r\n\r\n\r\nlast";
        let read = read(mbox, 1000);
        let one = "Subject: one\n\nFrom me to you at 12:30\nFrom here\n>From there\n> From no\nnot\n";
        assert_eq!(read[0].0.as_deref(), Some(one.replace('\n', "\r\n").as_str()));
        assert_eq!(read[0].1.as_deref(), Some("1996-01-03T01:05:34.000Z"));
        assert_eq!(read[1].0.as_deref(), Some("Subject: two\r\n\r\n\r\nlast"));
        assert_eq!(read[1].1.as_deref(), Some("2008-02-22T21:00:00.000Z"));
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn a_letter_that_is_too_large_is_stepped_over_and_the_next_is_read() {
        let large =
            format!("From a@b.test Sat Jan 3 01:05:34 1996\nSubject: large\n\n{}\n\n", "x".repeat(300_000));
        let mbox = format!("{large}From a@b.test Sat Jan 3 01:05:35 1996\nSubject: small\n\nok\n\n");
        let read = read(&mbox, 1000);
        assert_eq!(read[0].0, None);
        assert_eq!(read[1].0.as_deref(), Some("Subject: small\r\n\r\nok\r\n"));
    }

    #[test]
    fn the_time_falls_back_on_the_header() {
        let mbox = "From - 12:00\nReceived: from a by b;\n Fri, 20 Nov 2026 08:00:00 +0100\n\
            Date: Thu, 19 Nov 2026 08:00:00 +0000\n\nhi\n";
        assert_eq!(read(mbox, 1000)[0].1.as_deref(), Some("2026-11-20T07:00:00.000Z"));
    }
}
