//! Events of a persona, and what letters and mails do to them.
//!
//! - `record`: changes by a letter or a mail, as values
//! - `write`: the same inside the transaction that stores the letter or the mail
//! - `read`: invitations of a thread, events of a time
//!
//! Not here: which change a letter may make (`calendar`).

pub mod record;
pub mod write;
pub mod read;
