//! What a model said: calls and frames in its text, and whether the rest is a letter. Pure.
//!
//! - `text_calls`: calls of tools that were written as text
//! - `frames`: what stands round a letter
//! - `letter`: the last text of a run, before it is mailed
//! - `conversation`: the conversation of a run so far

pub mod text_calls;
pub mod frames;
pub mod letter;
pub mod conversation;
