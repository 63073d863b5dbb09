//! Calls of the model: one attempt, one turn with its retries, answers by a schema.

pub mod fallback;
pub mod trim;
pub mod request_size;

pub mod answer_form;
pub mod attempt;
pub mod turn;
pub mod structured;
