//! Letters: their bytes, messages and threads, what is held or filed, reports of other servers.

pub(in crate::store) mod imports;
pub(in crate::store) mod messages;
pub(in crate::store) mod bulk;
pub(in crate::store) mod batch;
pub(in crate::store) mod arrivals;
pub(in crate::store) mod held;
pub(in crate::store) mod threads;
pub(in crate::store) mod correspondence;
pub(in crate::store) mod search;
pub(in crate::store) mod filed;
pub(in crate::store) mod letters;
pub(in crate::store) mod inbox;
pub(in crate::store) mod reports;
