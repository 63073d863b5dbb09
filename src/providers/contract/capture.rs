//! Bytes of one call, both ways, for `attache providers test --capture`.
//!
//! Absent on purpose: files and logs. A capture holds everything that the provider sent, keys
//! included, and leaves this module only through [`Capture::kept`], whose caller scrubs it.

use std::sync::{Mutex, PoisonError};

/// Longest answer that is kept, in bytes; more than an adapter accepts.
const KEPT_BYTES_MAX: usize = 17 * 1024 * 1024;

/// Recorder of the bytes of one call.
#[derive(Default)]
pub struct Capture {
    kept: Mutex<CapturedCall>,
}

/// Recorded call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedCall {
    /// Body of the request, or command line of an agent.
    pub sent: String,
    /// Form of the answer; `None`: there was none.
    pub form: Option<Form>,
    pub received: Vec<u8>,
    /// `true`: the answer was longer than the recorder keeps.
    pub is_cut: bool,
    /// `Date` of the answer to a check, as the server wrote it.
    pub date: Option<String>,
}

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Server-sent events.
    ServerSent,
    /// One JSON document a line.
    Lines,
    /// One JSON document.
    Whole,
    /// An error's body, with its HTTP status.
    Refusal(u16),
}

impl Form {
    /// Returns the file extension for such an answer.
    pub fn ending(self) -> String {
        match self {
            Form::ServerSent => "sse".to_owned(),
            Form::Lines => "ndjson".to_owned(),
            Form::Whole => "json".to_owned(),
            Form::Refusal(status) => format!("{status}.txt"),
        }
    }
}

impl Capture {
    /// Starts the record of a call with this body; a retry overwrites it.
    pub fn sent(&self, encoded: &str) {
        self.change(|kept| {
            *kept = CapturedCall {
                sent: encoded.to_owned(),
                ..CapturedCall::default()
            }
        });
    }

    /// Records the form of the answer.
    pub fn answering(&self, form: Form) {
        self.change(|kept| kept.form = Some(form));
    }

    /// Records the clock of the server that answered.
    pub fn dated(&self, date: Option<String>) {
        self.change(|kept| kept.date = date);
    }

    /// Records a piece of the answer, of any size.
    pub fn received(&self, piece: &[u8]) {
        self.change(|kept| {
            let room = KEPT_BYTES_MAX.saturating_sub(kept.received.len());
            kept.is_cut |= piece.len() > room;
            kept.received
                .extend_from_slice(piece.get(..room).unwrap_or(piece));
        });
    }

    /// Returns the record so far.
    pub fn kept(&self) -> CapturedCall {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn change(&self, change: impl FnOnce(&mut CapturedCall)) {
        change(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The record may hold mail and keys.
        f.write_str("Capture")
    }
}
