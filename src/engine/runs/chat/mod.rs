//! Questions that are answered where they are asked, and not by mail.
//!
//! - `question`: a question as a message and a queued run; `outcome`: what became of it
//! - `program_message`: a question of a program, with the conversation that it says came before; `program_wait`: waiting for its answer
//! - `answer_stream`: pieces of an answer while a model makes it
//! - `watch`: what a run does, for whoever waits for it

pub mod question;
pub mod outcome;
pub mod answer_stream;
pub mod watch;
pub mod program_message;
pub mod program_wait;
