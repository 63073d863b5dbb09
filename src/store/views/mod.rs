//! Read models for people: lists, pages, bundles, exports.
//!
//! - `ids`: rows by a piece of their id. `threads`, `runs`: listings. `overview`, `strips`: threads and runs in short;
//!   `outcome`: what has become of threads. `record`: a run whole.
//! - `bundles`: runs as files, out and in; `bundle_kinds`: what they hold. `export`: a persona's mail. `calls`: calls with the decisions on them.
//! - `feed_lines`: events of the feed with what their rows say. `event_sizes`: with how much there was. `status`: what waits and what failed, as counts.
//!   `backups`: the newest backups.
//!
//! Not here: changes.

pub(in crate::store) mod ids;
pub(in crate::store) mod threads;
pub(in crate::store) mod outcome;
pub(in crate::store) mod overview;
pub(in crate::store) mod strips;
pub(in crate::store) mod runs;
pub(in crate::store) mod record;
mod bundle_kinds;
pub(in crate::store) mod bundles;
pub(in crate::store) mod calls;
pub(in crate::store) mod event_sizes;
pub(in crate::store) mod feed_lines;
pub(in crate::store) mod status;
pub(in crate::store) mod backups;
pub mod export;
