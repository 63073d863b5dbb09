//! Whether anybody gets at what was not written to them, with the enemy as the model: it answers nobody's question, it looks
//! for secrets and sends all that it finds to the stranger for whom it works, by every road that it is offered.
//!
//! Every family of attempts has honest twins in the same engine, whose secrets must arrive, and one control in which the
//! guard is taken away.

mod hostile_model;
mod forgeries;
mod latecomers;
mod replays;
pub mod world;
