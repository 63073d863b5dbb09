//! A persona asks its owner before it acts: what waits, who may decide, and that exactly what was shown is done, once.

mod by_mail;
pub mod crashes;
mod decisions;
mod questions;
mod replies;
mod restored;
pub mod scene;
