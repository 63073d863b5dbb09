//! Tools on the persona's mail. In reading order:
//!
//! - `visibility`: whose view of the mail a run has
//! - `send_email`, `search_email`, `read_email`, `read_attachment`, `forward_email`
//!
//! Not here: which recipients a run may write to (`contract::mail_policy`).

pub mod visibility;
pub mod forward_email;
pub mod read_attachment;
pub mod read_email;
pub mod search_email;
pub mod send_email;
