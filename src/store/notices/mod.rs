//! Events for the owner and the mails that tell of them.

pub mod wording;
pub mod emit;
pub mod causes;
pub mod events;
pub mod crowds;
