//! The bytes of one call as they travel, kept for whoever asked for them: `attache providers test --capture`.
//!
//! Absent on purpose: files and logs. What was kept holds whatever the provider said, keys included, and leaves this
//! place only through [`Capture::kept`], whose caller scrubs it.

use super::decode::Framing;
use std::sync::{Mutex, PoisonError};

/// More than any answer that an adapter accepts.
const KEPT_BYTES_MAX: usize = 17 * 1024 * 1024;

/// What was sent and what came back, in one call.
#[derive(Default)]
pub struct Capture {
    kept: Mutex<Kept>,
}

/// A call as it was seen from this side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// The body, or what an agent was started with.
    pub sent: String,
    /// `None`: nothing came back.
    pub form: Option<Form>,
    pub received: Vec<u8>,
    /// There was more than is kept.
    pub is_cut: bool,
}

/// How an answer is written down.
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
    /// How the name of a file with such an answer ends.
    pub fn ending(self) -> String {
        match self {
            Form::ServerSent => "sse".to_owned(),
            Form::Lines => "ndjson".to_owned(),
            Form::Whole => "json".to_owned(),
            Form::Refusal(status) => format!("{status}.txt"),
        }
    }
}

impl From<Framing> for Form {
    fn from(framing: Framing) -> Self {
        match framing {
            Framing::ServerSent => Form::ServerSent,
            Framing::Lines => Form::Lines,
            Framing::Whole => Form::Whole,
        }
    }
}

impl Capture {
    /// The call begins with this body. A call that is made again begins anew.
    pub fn sent(&self, wire: &str) {
        self.change(|kept| *kept = Kept { sent: wire.to_owned(), ..Kept::default() });
    }

    /// The answer begins.
    pub fn answering(&self, form: Form) {
        self.change(|kept| kept.form = Some(form));
    }

    /// A piece of the answer, of any size.
    pub fn received(&self, piece: &[u8]) {
        self.change(|kept| {
            let room = KEPT_BYTES_MAX.saturating_sub(kept.received.len());
            kept.is_cut |= piece.len() > room;
            kept.received.extend_from_slice(piece.get(..room).unwrap_or(piece));
        });
    }

    /// Everything so far.
    pub fn kept(&self) -> Kept {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Kept)) {
        change(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What was kept may hold mail and keys.
        f.write_str("Capture")
    }
}
