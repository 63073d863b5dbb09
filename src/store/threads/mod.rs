//! Conversations and threads: their messages as a run reads them and as a tool opens them, what may be written in them, the
//! sessions that agents keep in them.
//!
//! - `place`, `placement`: the thread of a letter
//! - `past_rows`: messages and steps as statements return them
//! - `history`: messages as a run reads them; `opened`: as a tool opens them; `links`: where they lead
//! - `reply_limits`, `correspondence`: what may still be written in a thread and to a person
//! - `sessions`: sessions of agents; `summaries`: rolling summaries; `instructions`: what the owner said for one of them

pub(in crate::store) mod place;
pub(in crate::store) mod placement;
pub(in crate::store) mod past_rows;
pub(in crate::store) mod history;
pub(in crate::store) mod opened;
pub(in crate::store) mod links;
pub(in crate::store) mod reply_limits;
pub(in crate::store) mod correspondence;
pub(in crate::store) mod sessions;
pub(in crate::store) mod summaries;
pub(in crate::store) mod instructions;
