//! Bytes of rows in an object store, where one is configured (D-132).
//!
//! - `room`: the object store of a workspace, and what its rows name. `puts`: bytes become objects.
//! - `dropped`: objects whose rows went are deleted. `orphans`: objects that no row ever named are. `token`: which of a database
//!   and its copies deletes. `trial`: whether it works.
//!
//! An object is put before the transaction that names it and deleted after the transaction that drops its name, so a crash
//! leaves an object without a row and never a row without its object. Not here: the client itself (`crate::objects`).

pub(in crate::store) mod room;
mod puts;
mod token;
mod dropped;
mod orphans;
mod trial;

pub use orphans::OrphanPass;
pub use room::KeptObject;
