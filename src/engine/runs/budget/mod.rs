//! Budget of a run, in reading order:
//!
//! - `bounds`: what it may spend; `prices`, `unpriced`: rates of models, and models without one
//! - `counters`: its usage; `run_spending`: bounds, usage and working time together
//! - `cost`: of a call; `reservation`: before a call; `exhausted`: the end of the money

pub mod counters;
pub mod run_spending;
pub mod bounds;
pub mod prices;
pub mod unpriced;
pub mod cost;
pub mod reservation;
pub mod exhausted;
