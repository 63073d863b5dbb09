//! Writes log lines to stderr from a separate thread, so that no log can block the engine: lines
//! that exceed a bounded queue while a reader is slow, or that a full disk or a closed pipe
//! refuses, are dropped and counted.

use std::fs::File;
use std::io::{self, Write};
use std::mem::take;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// Maximum bytes of lines that wait for a slow reader; a line beyond them is dropped. The thread
/// may hold as many bytes again.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// Time that the end of a command waits for its last lines to be written.
const FLUSH: Duration = Duration::from_millis(200);

/// Writer of log lines. Cheap to clone; never blocks and never fails.
#[derive(Clone)]
pub struct LogWriter {
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    /// Signals that lines were queued or that the last line was written.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: Vec<u8>,
    is_writing: bool,
    /// Lines dropped since the start.
    dropped: u64,
    /// Part of `dropped` that the log has reported.
    reported: u64,
}

/// Waits for the last lines on drop, at most `FLUSH`.
pub struct Flush(LogWriter);

impl LogWriter {
    /// Writes to stderr. If the thread does not start, every line is dropped.
    pub fn to_stderr() -> io::Result<(Self, Flush)> {
        // Bypasses the lock of `std::io::stderr`, for which other threads would wait while a write
        // hangs.
        let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let writer = Self {
            queue: Arc::default(),
        };
        let queue = writer.queue.clone();
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || queue.write_to(stderr))?;
        Ok((writer.clone(), Flush(writer)))
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.waiting.len().saturating_add(line.len()) > WAITING_BYTES_MAX {
            state.dropped += 1;
            return;
        }
        state.waiting.extend_from_slice(line);
        drop(state);
        self.changed.notify_all();
    }

    /// Runs until the process ends.
    fn write_to(&self, mut sink: impl Write) {
        let mut is_line_open = false;
        loop {
            let mut state = self.lock();
            state.is_writing = false;
            self.changed.notify_all();
            while state.waiting.is_empty() {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let lines = take(&mut state.waiting);
            state.is_writing = true;
            drop(state);
            let lost = write_lines(&mut sink, &lines, &mut is_line_open);
            let mut state = self.lock();
            state.dropped += lost;
            let pending = if lost == 0 {
                state.dropped - state.reported
            } else {
                0
            };
            state.reported += pending;
            let dropped = state.dropped;
            drop(state);
            if pending > 0 {
                tracing::warn!(
                    dropped,
                    "log lines were dropped: nobody read them, or there was no room for them"
                );
            }
        }
    }
}

/// Writes whole lines; returns the number of lines that were not written completely.
fn write_lines(sink: &mut impl Write, lines: &[u8], is_line_open: &mut bool) -> u64 {
    // The rest of a truncated line is lost: the next line starts on a new line.
    if take(is_line_open) && sink.write_all(b"\n").is_err() {
        *is_line_open = true;
        return line_ends(lines);
    }
    let mut written = 0;
    while let Some(rest) = lines.get(written..).filter(|rest| !rest.is_empty()) {
        match sink.write(rest) {
            Ok(bytes) if bytes > 0 => written += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => {
                *is_line_open = written > 0 && lines.get(written - 1) != Some(&b'\n');
                return line_ends(rest);
            }
        }
    }
    0
}

fn line_ends(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// One line in the making: the formatter writes it whole.
pub struct LogLine<'a>(&'a Queue);

impl Write for LogLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = LogLine<'a>;
    fn make_writer(&'a self) -> LogLine<'a> {
        LogLine(&self.queue)
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let queue = &self.0.queue;
        let still_writes = |state: &mut QueueState| state.is_writing || !state.waiting.is_empty();
        // Written or timed out: the command ends in both cases.
        let _ended = queue
            .changed
            .wait_timeout_while(queue.lock(), FLUSH, still_writes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts `room` bytes and refuses further ones until it is given more room.
    struct Disk {
        room: usize,
        holds: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            self.holds.extend_from_slice(&bytes[..taken]);
            if taken == 0 {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                Ok(taken)
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_lost_to_a_full_disk_are_counted_the_next_begins_anew() {
        let (mut disk, mut is_open) = (
            Disk {
                room: 6,
                holds: Vec::new(),
            },
            false,
        );
        assert_eq!(
            write_lines(&mut disk, b"one\ntwo\nthree\n", &mut is_open),
            2
        );
        assert_eq!(write_lines(&mut disk, b"four\n", &mut is_open), 1);
        disk.room = 100;
        assert_eq!(write_lines(&mut disk, b"five\n", &mut is_open), 0);
        assert_eq!(disk.holds, b"one\ntw\nfive\n");
    }

    #[test]
    fn a_line_that_does_not_fit_the_queue_is_dropped_and_counted() {
        let queue = Queue::default();
        queue.push(&vec![b'x'; WAITING_BYTES_MAX - 1]);
        queue.push(b"no\n");
        queue.push(b"\n");
        let state = queue.lock();
        assert_eq!((state.waiting.len(), state.dropped), (WAITING_BYTES_MAX, 1));
    }
}
