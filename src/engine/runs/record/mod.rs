//! Record of a run beside its rows: the inputs of its decisions, the sources of its contexts; and its `outbox`, what it has still
//! to commit.

pub mod call_record;
pub mod as_of;
pub mod configs;
pub mod outbox;
