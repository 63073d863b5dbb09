//! Questions to the owner, as the loop asks them.
//!
//! - `canonical`: what is asked for, in one form, and its digest.
//! - `view`: the text that the owner reads.
//! - `question`: a question, and the bounds on them.
//! - `plan`: what an approved plan covers.
//! - `kept`: a mail that waits while its run does not.
//! - `ask`: a call that waits; `reply`: a final text that waits; `draft`: a call whose mail is kept as a draft.
//! - `edit`: a draft with another text.

pub mod canonical;
pub mod view;
pub mod question;
pub mod plan;
pub mod kept;
pub mod ask;
pub mod reply;
pub mod draft;
pub mod edit;
