//! Record of a run beside its rows: the inputs of its decisions, the sources of its contexts.

pub mod call_record;
pub mod as_of;
pub mod configs;
