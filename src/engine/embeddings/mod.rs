//! Vectors of letters: made beside the letters, and of questions while a run searches.
//!
//! - `failure`: why there are none
//! - `calls`: one call, with the money that it costs
//! - `questions`: vectors of questions, for the tool that searches mail
//! - `worker`: vectors of letters, newest first
//!
//! A search never needs them: what fails here leaves it to the words, and the log says so once.

mod failure;
mod calls;
mod questions;
mod worker;

pub use calls::{Embedder, EmbeddingOrder};
pub use failure::EmbeddingFailure;
pub use questions::QuestionEmbedder;
pub use worker::EmbeddingWorker;
