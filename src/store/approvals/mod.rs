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

pub(in crate::store) mod record;
pub(in crate::store) mod ask;
pub(in crate::store) mod decide;
pub(in crate::store) mod answers;
pub(in crate::store) mod mails;
pub(in crate::store) mod sweep;
pub(in crate::store) mod restored;
pub(in crate::store) mod list;
pub(in crate::store) mod drafts;
pub(in crate::store) mod uses;
