//! Letter bytes after DATA: dot-unstuffing, the only valid end, and the limits. Pure.
//!
//! The letter ends at CRLF.CRLF and nowhere else (RFC 5321 section 4.1.1.4). A CR or LF that is not
//! part of a CRLF pair, or a NUL, ends the session: bytes that two servers could parse differently
//! are not stored (CVE-2023-51764, -5, -6).

use super::memory::MemoryReservation;

/// Fault of a letter that cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataFault {
    /// Over `letter_bytes_max`.
    TooLarge,
    /// A line over `line_bytes_max`.
    LineTooLong,
    /// The memory for the letters of all connections is used up.
    NoMemory,
    /// A CR without its LF, or an LF without its CR.
    BareNewline,
    Nul,
}

/// End of a letter.
#[derive(Debug, PartialEq, Eq)]
pub enum DataEnd {
    /// At CRLF.CRLF; the bytes after it are commands again.
    Whole(Vec<u8>),
    /// At CRLF.CRLF, but the letter cannot be stored.
    Unfit(DataFault),
    /// The following bytes cannot be trusted, or the peer sends without end: reply and disconnect.
    Broken(DataFault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DataState {
    LineStart,
    Text,
    /// After a CR inside a line.
    Cr,
    /// After a dot that starts a line.
    Dot,
    /// After a dot that starts a line and a CR.
    DotCr,
}

/// Reads one letter from pieces of any size; the result does not depend on the boundaries of the
/// pieces.
pub struct LetterReader {
    letter: Vec<u8>,
    state: DataState,
    line_bytes: usize,
    /// Unstuffed bytes so far, stored or not.
    seen_bytes: usize,
    fault: Option<DataFault>,
    letter_bytes_max: usize,
    line_bytes_max: usize,
    memory: MemoryReservation,
}

/// Factor of the size limit up to which an oversized letter is read, so that the peer gets the 552.
const OVERSIZE_FACTOR_MAX: usize = 4;

impl LetterReader {
    pub fn new(letter_bytes_max: usize, line_bytes_max: usize, memory: MemoryReservation) -> Self {
        Self {
            letter: Vec::new(),
            state: DataState::LineStart, // the CRLF of the DATA line counts (RFC 5321 section 4.1.1.4)
            line_bytes: 0,
            seen_bytes: 0,
            fault: None,
            letter_bytes_max,
            line_bytes_max,
            memory,
        }
    }

    /// Takes the next received bytes; returns the number of them that belong to the letter, and its
    /// end once it is reached.
    pub fn push(&mut self, input: &[u8]) -> (usize, Option<DataEnd>) {
        self.memory.came(input.len());
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            match (self.state, byte) {
                (DataState::LineStart, b'.') => {
                    self.state = DataState::Dot;
                    at += 1;
                }
                (DataState::Dot, b'\r') => {
                    self.state = DataState::DotCr;
                    at += 1;
                }
                (DataState::DotCr, b'\n') => return (at + 1, Some(self.end())),
                (DataState::Cr, b'\n') => {
                    self.keep(b"\r\n");
                    self.line_bytes = 0;
                    self.state = DataState::LineStart;
                    at += 1;
                    if self.is_endless() {
                        return (at, self.broken(DataFault::TooLarge));
                    }
                }
                (DataState::DotCr | DataState::Cr, _) => {
                    return (at, self.broken(DataFault::BareNewline));
                }
                // Any other line, including one whose stuffed dot was dropped (RFC 5321 section
                // 4.5.2).
                (DataState::LineStart | DataState::Dot | DataState::Text, _) => {
                    let rest = &input[at..];
                    let text = rest
                        .iter()
                        .position(|b| matches!(b, 0 | b'\n' | b'\r'))
                        .unwrap_or(rest.len());
                    self.keep(&rest[..text]);
                    self.state = DataState::Text;
                    at += text;
                    if self.is_endless() {
                        return (at, self.broken(DataFault::TooLarge));
                    }
                    match rest.get(text) {
                        Some(b'\r') => {
                            self.state = DataState::Cr;
                            at += 1;
                        }
                        Some(b'\n') => return (at, self.broken(DataFault::BareNewline)),
                        Some(_) => return (at, self.broken(DataFault::Nul)),
                        None => {}
                    }
                }
            }
        }
        (at, None)
    }

    fn is_endless(&self) -> bool {
        self.seen_bytes > self.letter_bytes_max.saturating_mul(OVERSIZE_FACTOR_MAX)
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.seen_bytes = self.seen_bytes.saturating_add(bytes.len());
        self.line_bytes = self.line_bytes.saturating_add(bytes.len());
        self.fault = match (self.fault, self.fault_after(bytes.len())) {
            // Has priority over other faults, so that the reply does not depend on where the bytes
            // were cut.
            (_, Some(DataFault::TooLarge)) => Some(DataFault::TooLarge),
            (first, second) => first.or(second),
        };
        if self.fault.is_some() {
            self.release();
        } else {
            self.letter.extend_from_slice(bytes);
        }
    }

    /// The limit that is exceeded once `more` bytes are kept.
    fn fault_after(&mut self, more: usize) -> Option<DataFault> {
        if self.seen_bytes > self.letter_bytes_max {
            return Some(DataFault::TooLarge);
        }
        if self.line_bytes > self.line_bytes_max.saturating_add(2) {
            return Some(DataFault::LineTooLong); // its CRLF does not count
        }
        let needed = self.letter.len() + more;
        if needed > self.letter.capacity() {
            let Some(reserved) = self.memory.up_to(needed) else {
                return Some(DataFault::NoMemory);
            };
            // Exact, because the default growth would double it.
            self.letter.reserve_exact(reserved - self.letter.len());
        }
        None
    }

    /// Ends the letter and returns it; its memory stays reserved until the reader is dropped, which
    /// is after it was stored.
    fn end(&mut self) -> DataEnd {
        match self.fault {
            Some(fault) => DataEnd::Unfit(fault),
            None => {
                self.memory.whole();
                DataEnd::Whole(std::mem::take(&mut self.letter))
            }
        }
    }

    fn broken(&mut self, fault: DataFault) -> Option<DataEnd> {
        self.fault = Some(fault);
        self.release();
        Some(DataEnd::Broken(fault))
    }

    fn release(&mut self) {
        self.letter = Vec::new();
        self.memory.release();
    }

    /// Resolves when the letter was cut to free memory for others.
    pub async fn cut(&self) {
        self.memory.cut().await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{LetterMemory, MemoryShares};
    use super::*;
    use crate::clock::ManualClock;
    use crate::domain::Timestamp;
    use std::sync::Arc;

    /// Bytes reserved for a letter of a few bytes.
    const STEP_BYTES: usize = 64 * 1024;

    fn memory(bytes: usize) -> Arc<LetterMemory> {
        let shares = MemoryShares {
            bytes,
            network_bytes_max: bytes,
            kept_for_small_bytes: 0,
            relays: Vec::new(),
        };
        LetterMemory::new(shares, Arc::new(ManualClock::at(Timestamp::from_millis(0))))
    }

    fn reader(letter_bytes_max: usize) -> LetterReader {
        LetterReader::new(letter_bytes_max, 20, memory(1 << 20).for_letter_of(None))
    }

    fn read(mut reader: LetterReader, input: &[u8], step: usize) -> (usize, Option<DataEnd>) {
        let mut used = 0;
        for piece in input.chunks(step) {
            match reader.push(piece) {
                (n, None) => used += n,
                (n, end) => return (used + n, end),
            }
        }
        (used, None)
    }

    #[test]
    fn a_letter_ends_at_crlf_dot_crlf_and_is_unstuffed_however_cut() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b".\r\n", b""),
            (b"a\r\n.\r\n", b"a\r\n"),
            (b"..\r\n...b\r\n.c\r\n.\r\n", b".\r\n..b\r\nc\r\n"),
            (b"\r\n\r\n.\r\n", b"\r\n\r\n"),
            (b"a.\r\n .\r\n.\r\n", b"a.\r\n .\r\n"),
            (b". \r\n.\r\n", b" \r\n"),
        ];
        for (connection, letter) in cases {
            for step in 1..=connection.len() {
                let with_next = [connection, b"QUIT\r\n"].concat();
                let (used, end) = read(reader(100), &with_next, step);
                assert_eq!(
                    (used, end),
                    (connection.len(), Some(DataEnd::Whole(letter.to_vec()))),
                    "step {step}"
                );
            }
        }
    }

    #[test]
    fn limits_are_exact_and_give_their_memory_back() {
        let memory = memory(STEP_BYTES);
        let taken = || memory.taken_bytes();
        let end = |connection: &[u8], max| {
            read(
                LetterReader::new(max, 4, memory.for_letter_of(None)),
                connection,
                3,
            )
            .1
        };
        assert_eq!(
            end(b"ab\r\n.\r\n", 4),
            Some(DataEnd::Whole(b"ab\r\n".to_vec()))
        );
        assert_eq!(
            end(b"abc\r\n.\r\n", 4),
            Some(DataEnd::Unfit(DataFault::TooLarge))
        );
        assert_eq!(
            end(b"abcd\r\n.\r\n", 99),
            Some(DataEnd::Whole(b"abcd\r\n".to_vec()))
        );
        assert_eq!(
            end(b"abcde\r\n.\r\n", 99),
            Some(DataEnd::Unfit(DataFault::LineTooLong))
        );
        assert_eq!(
            end(&b"abc\r\n".repeat(5), 4),
            Some(DataEnd::Broken(DataFault::TooLarge))
        );
        assert_eq!(taken(), 0);

        let mut first = LetterReader::new(99, 99, memory.for_letter_of(None));
        assert_eq!(first.push(b"one"), (3, None));
        assert_eq!((first.letter.capacity(), taken()), (STEP_BYTES, STEP_BYTES));
        assert_eq!(
            end(b"two\r\n.\r\n", 99),
            Some(DataEnd::Unfit(DataFault::NoMemory))
        );
        drop(first);
        assert_eq!(taken(), 0);
    }
}
