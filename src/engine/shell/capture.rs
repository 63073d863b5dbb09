//! Output of a command: its beginning and its end are kept, everything is counted.

use super::order::CapturedText;
use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

const PIECE_BYTES: usize = 64 * 1024;

/// An output that is being read.
pub struct OutputCapture {
    kept: Arc<Mutex<KeptOutput>>,
    reader: Option<JoinHandle<()>>,
}

/// Kept part of an output.
struct KeptOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_max: usize,
    tail_max: usize,
    bytes: u64,
}

impl KeptOutput {
    fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        let of_head = piece.len().min(self.head_max - self.head.len());
        self.head.extend_from_slice(&piece[..of_head]);
        let rest = &piece[of_head..];
        let rest = &rest[rest.len().saturating_sub(self.tail_max)..];
        let too_many = (self.tail.len() + rest.len()).saturating_sub(self.tail_max);
        self.tail.drain(..too_many);
        self.tail.extend(rest);
    }

    fn text(&self) -> CapturedText {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let (mut head, mut tail) = (self.head.clone(), Vec::from(self.tail.clone()));
        if kept == self.bytes {
            head.append(&mut tail);
        }
        CapturedText {
            head: String::from_utf8_lossy(&head).into_owned(),
            tail: String::from_utf8_lossy(&tail).into_owned(),
            bytes: self.bytes,
            left_out: self.bytes - kept,
        }
    }
}

impl OutputCapture {
    /// Reads a pipe to its end, and keeps this many bytes of it.
    pub fn of(mut pipe: impl Read + Send + 'static, bytes_max: usize) -> std::io::Result<Self> {
        let tail_max = bytes_max / 4;
        let kept = Arc::new(Mutex::new(KeptOutput {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_max: bytes_max - tail_max,
            tail_max,
            bytes: 0,
        }));
        let to = kept.clone();
        let reader = thread::Builder::new().spawn(move || {
            let mut piece = vec![0; PIECE_BYTES];
            while let Ok(count @ 1..) = pipe.read(&mut piece) {
                lock(&to).add(&piece[..count]);
            }
        })?;
        Ok(Self {
            kept,
            reader: Some(reader),
        })
    }

    /// Reports whether the output has ended.
    pub fn has_ended(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns what was read so far.
    pub fn text(&self) -> CapturedText {
        lock(&self.kept).text()
    }
}

fn lock(kept: &Mutex<KeptOutput>) -> MutexGuard<'_, KeptOutput> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(bytes: &[u8], most: usize) -> CapturedText {
        let mut capture =
            OutputCapture::of(std::io::Cursor::new(bytes.to_vec()), most).expect("a thread");
        capture
            .reader
            .take()
            .expect("a reader")
            .join()
            .expect("read");
        capture.text()
    }

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_end() {
        let whole = captured(b"one line\n", 16);
        assert_eq!(
            (whole.head.as_str(), whole.tail.as_str()),
            ("one line\n", "")
        );
        assert_eq!((whole.bytes, whole.left_out), (9, 0));
        let full = captured(b"0123456789abcdef", 16);
        assert_eq!((full.head.as_str(), full.left_out), ("0123456789abcdef", 0));
        let mut long = vec![b'x'; 1_000_000];
        (long[0], long[999_999]) = (b'a', b'z');
        let cut = captured(&long, 16);
        assert_eq!(
            (cut.head.as_str(), cut.tail.as_str()),
            ("axxxxxxxxxxx", "xxxz")
        );
        assert_eq!((cut.bytes, cut.left_out), (1_000_000, 999_984));
    }
}
