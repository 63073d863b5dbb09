//! Tools on invitations and events. In reading order:
//!
//! - `visibility`: whose events a run may see and change
//! - `answer_invitation`, `invite`, `list_events`
//!
//! Not here: what a letter may change of an event (`calendar`), and who may be written to (`runs`).

pub mod visibility;
pub mod answer_invitation;
pub mod invite;
pub mod list_events;
