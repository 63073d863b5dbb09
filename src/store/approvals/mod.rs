//! Questions to the owner, and what became of them.
//!
//! - `record`: a question and a decision as values.
//! - `ask`: a run asks, in the commit that parks it.
//! - `decide`: the one way to decide, whoever decides and by whatever door.
//! - `answers`: letters that decide; `mails`: questions and explanations by mail.
//! - `sweep`: questions that nobody answered in time.
//! - `restored`: questions of a restored backup.
//! - `list`: questions as people read them; `drafts`: drafts, and their edits.
//! - `uses`: rules that may decide a limited number of calls.

pub mod record;
pub mod ask;
pub mod decide;
pub mod answers;
pub mod mails;
pub mod sweep;
pub mod restored;
pub mod list;
pub mod drafts;
pub mod uses;
