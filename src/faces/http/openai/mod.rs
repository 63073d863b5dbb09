//! Questions of programs that speak OpenAI's API: a persona is a model, and one message is one run in a thread of trigger `chat`.
//!
//! - `models`: what a key may talk to; `titles`: the model that is none
//! - `fields`: members of a request, those that are refused and those that count for nothing; `conversation`: its messages; `files`: files in them
//! - `ask`: a message is stored with its run; `outcome`: what is said of what became of it
//! - `completions`, `responses` (`response_object`): the two forms of a question and its answer; `stream`: answers that show while they are made
//! - `error`: errors in OpenAI's form
//!
//! Absent on purpose: tools of the client, which no run could trust, and choices of the model's settings, which are the persona's.

mod models;
mod titles;
mod fields;
mod conversation;
mod files;
mod ask;
mod outcome;
mod completions;
mod responses;
mod response_object;
mod stream;
mod error;

pub(super) use completions::complete;
pub(super) use models::{list, show};
pub(super) use responses::{respond, response};
