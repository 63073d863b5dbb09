//! Read models for people: lists, pages, bundles, exports.

pub(in crate::store) mod browse;
pub(in crate::store) mod bundles;
pub mod export;
