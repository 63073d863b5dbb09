//! Commands of owners by mail, and notes of the engine to senders of letters.
//!
//! - `record`: a command and its outcome as values, and their rows.
//! - `act`: a command is carried out, once.
//! - `by_number`: a decision on a question that a command names.
//! - `answer`: a mail of the engine into a thread, once for each command.
//! - `resets`: where the history of a thread begins for later runs.
//! - `sender_notes`: one note for a run that failed or takes long.

pub mod record;
pub mod by_number;
pub mod act;
pub mod answer;
pub mod resets;
pub mod sender_notes;
