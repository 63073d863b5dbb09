//! Conversations and threads: their messages as a run reads them and as a tool opens them, what may be written in them, the
//! sessions that agents keep in them.
//!
//! - `place`, `placement`: the thread of a letter
//! - `past_rows`: messages and steps as statements return them
//! - `history`: messages as a run reads them; `opened`: as a tool opens them; `links`: where they lead
//! - `reply_limits`, `correspondence`: what may still be written in a thread and to a person
//! - `sessions`: sessions of agents; `summaries`: rolling summaries; `instructions`: what the owner said for one of them

pub mod place;
pub mod placement;
pub mod past_rows;
pub mod history;
pub mod opened;
pub mod links;
pub mod reply_limits;
pub mod correspondence;
pub mod sessions;
pub mod summaries;
pub mod instructions;
