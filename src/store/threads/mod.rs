//! Conversations and threads: their messages as a run reads them and as a tool opens them, what may be written in them, the
//! sessions that agents keep in them.

pub(in crate::store) mod place;
pub(in crate::store) mod placement;
pub(in crate::store) mod history;
pub(in crate::store) mod opened;
pub(in crate::store) mod reply_limits;
pub(in crate::store) mod correspondence;
pub(in crate::store) mod sessions;
