//! Tools on the persona's mail. In reading order:
//!
//! - `send_email`, `search_email`
//!
//! Not here: which recipients a run may write to (`contract::mail_policy`).

pub mod search_email;
pub mod send_email;
