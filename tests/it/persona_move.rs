//! `attache persona move`: a persona goes to another cell with everything, whichever databases the two have, and back.
//! Those with a server need the cluster: `ATTACHE_TEST_POSTGRES`.

mod cells;
mod deaths;
mod every_row;
mod lasting;
mod objects;
mod refusals;

pub use deaths::POINTS;
