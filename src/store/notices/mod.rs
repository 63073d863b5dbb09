//! Events for the owner and the mails that tell of them.

pub(in crate::store) mod wording;
pub(in crate::store) mod emit;
pub(in crate::store) mod causes;
pub(in crate::store) mod events;
pub(in crate::store) mod crowds;
