//! Calendar parts of mail: read, applied, shown to the model, answered and written.

mod hostile;
mod letters;
pub mod parts;
mod programs;
mod state;
