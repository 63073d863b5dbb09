//! The answer of a run as a mail: its destination, the limits of sending, its bytes.

pub mod destination;
pub mod mail;
pub mod original;
pub mod last_text;
pub mod send_limits;
pub mod summary;
