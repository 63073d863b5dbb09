//! Mails that wait for a person: what becomes a draft, who sends it and how, what an edit does, and that it is sent once.

mod crashes_and_commands;
mod history;
pub mod scene;
mod waiting;

pub use crashes_and_commands::POINTS;
pub use scene::{drafting, drafts, says, to_carol};
