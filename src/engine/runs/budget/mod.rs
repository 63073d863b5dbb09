//! Budget of a run: its bounds, its counters, the reservation and the cost of its calls.

pub mod counters;
pub mod bounds;
pub mod prices;
pub mod unpriced;
pub mod cost;
pub mod reservation;
pub mod exhausted;
