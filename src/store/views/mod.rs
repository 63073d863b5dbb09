//! Read models for people: lists, pages, bundles, exports.

pub(in crate::store) mod ids;
pub(in crate::store) mod threads;
pub(in crate::store) mod runs;
pub(in crate::store) mod record;
pub(in crate::store) mod bundles;
pub(in crate::store) mod calls;
pub mod export;
