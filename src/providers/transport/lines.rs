//! Lines of a program's output or of a response: split, bounded, decoded. Pure.

use crate::providers::contract::accumulate::broken;
use crate::providers::contract::traits::ProviderError;

/// Limits of a program's output; a program that exceeds them counts as broken.
#[derive(Debug, Clone, Copy)]
pub struct OutputLimits {
    pub line_bytes_max: usize,
    pub total_bytes_max: usize,
}

impl Default for OutputLimits {
    /// A line may carry a whole file that an agent read.
    fn default() -> Self {
        Self {
            line_bytes_max: 16 * 1024 * 1024,
            total_bytes_max: 256 * 1024 * 1024,
        }
    }
}

/// Splitter of bytes into lines. Only `\n` ends a line: U+2028 stands inside JSON texts.
#[derive(Default)]
pub struct Lines {
    limits: OutputLimits,
    bytes: Vec<u8>,
    /// Position of the next line.
    start: usize,
    /// Position up to which there is no `\n`, so that a long line is not searched again for every
    /// piece.
    searched: usize,
    total: usize,
}

impl Lines {
    pub fn new(limits: OutputLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    pub fn push(&mut self, piece: &[u8]) -> Result<(), ProviderError> {
        self.total = self.total.saturating_add(piece.len());
        if self.total > self.limits.total_bytes_max {
            return Err(broken(format!(
                "more than {} bytes were written",
                self.limits.total_bytes_max
            )));
        }
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Returns the next whole line that is not blank. Errors: class `Protocol`, when it is too long
    /// or not UTF-8.
    pub fn take(&mut self) -> Result<Option<String>, ProviderError> {
        loop {
            let rest = &self.bytes[self.searched..];
            let Some(at) = rest.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.bytes.len();
                return self.bounded(self.bytes.len() - self.start).map(|()| None);
            };
            let end = self.searched + at;
            self.bounded(end - self.start)?;
            let line = text(&self.bytes[self.start..end])?;
            self.start = end + 1;
            self.searched = self.start;
            if !line.trim().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// Returns the bytes after the last `\n`, when the input has ended.
    pub fn rest(&mut self) -> Result<Option<String>, ProviderError> {
        let rest = std::mem::take(&mut self.bytes).split_off(self.start);
        (self.start, self.searched) = (0, 0);
        self.bounded(rest.len())?;
        let line = text(&rest)?;
        Ok((!line.trim().is_empty()).then_some(line))
    }

    fn bounded(&self, len: usize) -> Result<(), ProviderError> {
        let max = self.limits.line_bytes_max;
        if len > max {
            Err(broken(format!("a line has more than {max} bytes")))
        } else {
            Ok(())
        }
    }
}

fn text(line: &[u8]) -> Result<String, ProviderError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8(line.to_vec()).map_err(|_| broken("a line is not UTF-8"))
}

/// Last bytes of a program's standard error.
#[derive(Default)]
pub struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    const BYTES_MAX: usize = 8 * 1024;

    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        let surplus = self.bytes.len().saturating_sub(Self::BYTES_MAX);
        self.bytes.drain(..surplus);
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]], limits: OutputLimits) -> Result<Vec<String>, ProviderError> {
        let (mut lines, mut out) = (Lines::new(limits), Vec::new());
        for piece in pieces {
            lines.push(piece)?;
            while let Some(line) = lines.take()? {
                out.push(line);
            }
        }
        out.extend(lines.rest()?);
        Ok(out)
    }

    #[test]
    fn only_a_newline_ends_a_line_however_the_bytes_come() {
        let bytes = "a\u{2028}b\r\n\n \r\n{\"x\": 1}\r\r\nlast".as_bytes();
        let expected = ["a\u{2028}b", "{\"x\": 1}\r", "last"];
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        for pieces in [vec![bytes], single, bytes.chunks(5).collect()] {
            assert_eq!(
                read(&pieces, OutputLimits::default()).expect("it is sound"),
                expected
            );
        }
    }

    #[test]
    fn long_lines_long_outputs_and_other_bytes_are_errors() {
        let limits = OutputLimits {
            line_bytes_max: 4,
            total_bytes_max: 12,
        };
        assert!(read(&[b"abcd\nabcd"], limits).is_ok());
        assert!(read(&[b"abcde\n"], limits).is_err());
        assert!(read(&[b"abc", b"de"], limits).is_err());
        assert!(read(&[b"ab\nab\nab\nab\nab\n"], limits).is_err());
        assert!(read(&[b"\xff\n"], limits).is_err());
        let mut tail = Tail::default();
        tail.push(&[b'x'; 10_000]);
        tail.push(b"end");
        assert_eq!(
            (tail.text().len(), tail.text().ends_with("xend")),
            (Tail::BYTES_MAX, true)
        );
    }
}
